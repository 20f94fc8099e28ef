//! Parts of a source: the same tree with fewer files, and pieces of large files as files of their own.
//!
//! A unit is a piece of a large file, aligned so that it is cut into the blocks it is cut into anyway, or a run of
//! neighbouring small files, which share fragments as they would. Units are put in the order of how well a bit of each
//! compresses, and the row is cut into strata of equal length: of each, the unit at a random place is taken, so that a
//! few units stand for all kinds of data there are.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use packfs_codec::Choice;
use packfs_image::source::{Contents, FileReader};
use packfs_image::tree::{ConflictPolicy, FileData, Ino, InodeAttributes, Kind, ROOT};
use packfs_image::{Error, Result, Tree};

use crate::rng::Rng;

/// Smaller files are not asked for their holes, because that requires opening each of them.
const HOLES_FROM: u64 = 1 << 20;

/// One unit: neighbouring small files, or a piece of a large one.
pub(super) type SampleUnit = Vec<SampledRange>;

/// A file, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampledRange {
    ino: Ino,
    offset: u64,
    len: u64,
}

/// Bytes of file data that are not in holes, and how many inodes there are.
pub fn measure(tree: &Tree) -> (u64, u64) {
    let mut bytes = 0;
    let mut inodes = 0;
    let walked = tree.walk(|ino, _| {
        inodes += 1;
        if let Kind::File { size, data: FileData::Source { from, key } } = tree.inode(ino).kind {
            bytes += match size {
                small if small < HOLES_FROM => small,
                // What cannot be read is left out when it is built.
                large => ranges(&**from, key, large).map_or(0, |all| all.iter().map(|(start, end)| end - start).sum()),
            };
        }
        Ok(())
    });
    debug_assert!(walked.is_ok(), "the visitor never fails");
    (bytes, inodes)
}

/// A copy of everything, which stops being readable when `stop` is set.
pub(super) fn whole(tree: &Tree, stop: &Arc<AtomicBool>) -> Result<Tree> {
    let mut copy = CopiedTree::new(tree, stop);
    let mut names = vec![None; tree.len()];
    let mut dirs = vec![(ROOT, ROOT)];
    while let Some((from, to)) = dirs.pop() {
        for (name, ino) in tree.entries(from) {
            // A hard link: a further name of an inode that was copied.
            if let Some(known) = names[ino.0 as usize] {
                copy.to.link(to, name, known, ConflictPolicy::Refuse)?;
                continue;
            }
            let made = copy.add(to, name, SampledRange { ino, offset: 0, len: tree.file_len(ino) })?;
            if tree.is_dir(ino) {
                dirs.push((ino, made));
            } else {
                names[ino.0 as usize] = Some(made);
            }
        }
    }
    copy.done()
}

/// About `bytes` of the file data in these units.
pub(super) fn part(tree: &Tree, units: &[SampleUnit], bytes: u64, seed: u64, stop: &Arc<AtomicBool>) -> Result<Tree> {
    let mut copy = CopiedTree::new(tree, stop);
    let mut paths = BTreeMap::new();
    for piece in pick(units, bytes, seed).into_iter().flatten() {
        paths.entry(piece.ino).or_insert_with(Vec::new).push(*piece);
    }
    let mut found = Vec::new();
    tree.walk(|ino, path| {
        if let Some(pieces) = paths.get(&ino) {
            found.push((path.to_vec(), pieces));
        }
        Ok(())
    })?;
    for (path, pieces) in found {
        let Some((dir, name)) = copy.to.parent_of(&path, InodeAttributes::IMPLICIT_DIR)? else { continue };
        for piece in pieces {
            copy.add(dir, &distinct(name, piece.offset), *piece)?;
        }
    }
    copy.done()
}

/// A name for a piece: the file's, with the offset in front if it is not the first.
fn distinct(name: &[u8], offset: u64) -> Vec<u8> {
    if offset == 0 {
        return name.to_vec();
    }
    let mut out = format!("{offset}~").into_bytes();
    // The end says what kind of file it is.
    // Names have at most 255 bytes.
    let room = 255 - out.len();
    out.extend_from_slice(&name[name.len().saturating_sub(room)..]);
    out
}

/// The data in units of about `unit` bytes, those first that shrink most. Of very much data it is a sample.
pub(super) fn units(tree: &Tree, unit: u64, seed: u64) -> Result<Vec<SampleUnit>> {
    let all = cut(tree, unit)?;
    let mut known = Vec::with_capacity(UNITS_MAX.min(all.len()));
    let mut encoder = "zstd:1".parse::<Choice>()?.encoder(PROBE_LEN)?;
    // `pick` takes bytes: here as many as this number of average units have.
    let bytes = all.iter().map(len).sum::<u64>() / (all.len() as u64).max(1) * UNITS_MAX as u64;
    let taken = if all.len() <= UNITS_MAX { all.iter().collect() } else { pick(&all, bytes, seed) };
    for unit in taken {
        // The build reports files that cannot be read.
        let raw = probe(tree, unit).unwrap_or_default();
        // None: it does not shrink.
        let packed = encoder.encode(&raw, &mut vec![0; raw.len()])?.unwrap_or(raw.len());
        known.push((1000 * packed / raw.len().max(1), unit.clone()));
    }
    // Stable: units alike stay in the order of the tree.
    known.sort_by_key(|(packed, _)| *packed);
    Ok(known.into_iter().map(|(_, unit)| unit).collect())
}

/// Most units to look at.
const UNITS_MAX: usize = 4096;
/// Bytes of each to compress, and of how many of its files.
const PROBE_LEN: usize = 64 << 10;
const PROBE_FILES: usize = 8;

/// A bit of a unit.
fn probe(tree: &Tree, unit: &SampleUnit) -> Result<Vec<u8>> {
    let files = unit.len().min(PROBE_FILES);
    let mut raw = Vec::new();
    for at in 0..files {
        let SampledRange { ino, offset, len } = unit[at * unit.len() / files];
        let Kind::File { data: FileData::Source { from, key }, .. } = &tree.inode(ino).kind else { continue };
        let start = raw.len();
        let most = PROBE_LEN / files;
        let most = usize::try_from(len).unwrap_or(usize::MAX).min(most);
        raw.resize(start + most, 0);
        from.open(*key)?.read_exact_at(&mut raw[start..], offset + (len - most as u64) / 2)?;
    }
    Ok(raw)
}

fn len(unit: &SampleUnit) -> u64 {
    unit.iter().map(|piece| piece.len).sum()
}

/// All data in units, in the order of the tree.
fn cut(tree: &Tree, unit: u64) -> Result<Vec<SampleUnit>> {
    let mut units: Vec<SampleUnit> = Vec::new();
    let mut run: (u64, SampleUnit) = (0, Vec::new());
    tree.walk(|ino, _| {
        let Kind::File { size, data: FileData::Source { from, key } } = tree.inode(ino).kind else { return Ok(()) };
        if size < unit {
            run.0 += size;
            run.1.push(SampledRange { ino, offset: 0, len: size });
            if run.0 >= unit {
                units.push(std::mem::take(&mut run).1);
            }
            return Ok(());
        }
        // The build reports files that cannot be read.
        for (start, end) in ranges(&**from, key, size).unwrap_or_default() {
            let starts = (start / unit * unit..end).step_by(usize::try_from(unit).unwrap_or(usize::MAX));
            units.extend(starts.map(|offset| vec![SampledRange { ino, offset, len: unit.min(size - offset) }]));
        }
        Ok(())
    })?;
    units.extend((!run.1.is_empty()).then_some(run.1));
    // Ranges of data that meet in one unit.
    units.dedup();
    Ok(units)
}

/// Ranges of a file that are not holes.
fn ranges(from: &dyn Contents, key: u64, size: u64) -> Result<Vec<(u64, u64)>> {
    let mut file = from.open(key)?;
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < size
        && let Some((start, end)) = file.next_data(at)?
    {
        // A file may have grown since it was listed.
        let start = start.clamp(at, size);
        let end = end.min(size);
        if start < end {
            ranges.push((start, end));
        }
        // Advances even if a source returns an empty range.
        at = end.max(at + 1);
    }
    Ok(ranges)
}

/// Of each of as many strata as are wanted, the unit at a random place.
fn pick(units: &[SampleUnit], bytes: u64, seed: u64) -> Vec<&SampleUnit> {
    let total: u64 = units.iter().map(len).sum();
    let mean = (total / (units.len() as u64).max(1)).max(1);
    let strata = (bytes.div_ceil(mean)).max(1);
    let mut rng = Rng::of(seed, strata);
    let mut places = (0..strata).map(|stratum| {
        // Bytes times strata may exceed 64 bits.
        let at = |number: u64| u128::from(total) * u128::from(number) / u128::from(strata);
        let start = at(stratum);
        let end = at(stratum + 1);
        start + u128::from(rng.next()) * (end - start) / (1 << 64)
    });
    let mut picked = Vec::new();
    let mut end = 0;
    let mut place = places.next();
    for unit in units {
        end += u128::from(len(unit));
        let mut here = false;
        // Several places may be in one long unit, which is taken once.
        while place.is_some_and(|place| place < end) {
            (here, place) = (true, places.next());
        }
        if here {
            picked.push(unit);
        }
    }
    picked
}

/// A tree in the making, whose files are pieces of another's.
struct CopiedTree<'t> {
    from: &'t Tree,
    to: Tree,
    pieces: Vec<PieceSource>,
    files: Vec<Ino>,
    stop: Arc<AtomicBool>,
}

impl<'t> CopiedTree<'t> {
    fn new(from: &'t Tree, stop: &Arc<AtomicBool>) -> Self {
        let mut to = Tree::new(from.meta(ROOT));
        copy_xattrs(from, &mut to, ROOT, ROOT);
        CopiedTree { from, to, pieces: Vec::new(), files: Vec::new(), stop: Arc::clone(stop) }
    }

    /// Adds what an inode is, and of a file the piece.
    fn add(&mut self, dir: Ino, name: &[u8], piece: SampledRange) -> Result<Ino> {
        let mut source = None;
        let kind = match self.from.inode(piece.ino).kind {
            Kind::File { size, data } => {
                if let FileData::Source { from, key } = data {
                    let SampledRange { offset, len, .. } = piece;
                    source = Some(PieceSource { from: Arc::clone(from), key, offset, len, whole: len == size });
                }
                // Empty until `done`, because only then the source has all pieces.
                Kind::File { size: piece.len, data: FileData::Empty }
            }
            other => other.into_owned(),
        };
        let ino = self.to.add(dir, name, self.from.meta(piece.ino), kind, ConflictPolicy::Refuse)?;
        copy_xattrs(self.from, &mut self.to, piece.ino, ino);
        if let Some(source) = source {
            self.pieces.push(source);
            self.files.push(ino);
        }
        Ok(ino)
    }

    fn done(mut self) -> Result<Tree> {
        let contents: Arc<dyn Contents> = Arc::new(SampledPieces { pieces: self.pieces, stop: self.stop });
        for (key, ino) in (0..).zip(self.files) {
            self.to.set_data(ino, FileData::Source { from: Arc::clone(&contents), key })?;
        }
        Ok(self.to)
    }
}

/// Numbers of sets of extended attributes are a tree's own.
fn copy_xattrs(from: &Tree, to: &mut Tree, old: Ino, new: Ino) {
    let set = from.xattrs.get(from.meta(old).xattrs).clone();
    let xattrs = to.xattrs.intern(set);
    to.set_xattrs(new, xattrs);
}

/// Source of a piece.
#[derive(Debug)]
struct PieceSource {
    from: Arc<dyn Contents>,
    key: u64,
    offset: u64,
    len: u64,
    whole: bool,
}

/// Pieces of files, as files.
#[derive(Debug)]
struct SampledPieces {
    pieces: Vec<PieceSource>,
    stop: Arc<AtomicBool>,
}

impl SampledPieces {
    fn piece(&self, key: u64) -> Result<&PieceSource> {
        let piece = usize::try_from(key).ok().and_then(|key| self.pieces.get(key));
        piece.ok_or_else(|| Error::Misuse(format!("there is no piece {key}")))
    }
}

impl Contents for SampledPieces {
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
        // Builds open each file, so they end soon.
        if self.stop.load(Relaxed) {
            return Err(Error::Cancelled);
        }
        let piece = self.piece(key)?;
        Ok(Box::new(PieceReader { piece, file: piece.from.open(piece.key)? }))
    }

    fn path(&self, key: u64) -> PathBuf {
        self.piece(key).map_or_else(|_| PathBuf::new(), |piece| piece.from.path(piece.key))
    }
}

struct PieceReader<'p> {
    piece: &'p PieceSource,
    file: Box<dyn FileReader + 'p>,
}

impl FileReader for PieceReader<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buf, self.piece.offset + offset)
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let PieceSource { offset: base, len, .. } = *self.piece;
        let inside = |(start, end): (u64, u64)| {
            let start = start.saturating_sub(base).max(offset);
            let end = end.saturating_sub(base).min(len);
            (start < end).then_some((start, end))
        };
        Ok(self.file.next_data(base + offset)?.and_then(inside))
    }

    fn finish(&mut self) -> Result<()> {
        // A piece cannot tell whether the rest of its file has changed.
        if self.piece.whole { self.file.finish() } else { Ok(()) }
    }
}
