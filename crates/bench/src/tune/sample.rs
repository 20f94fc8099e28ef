//! Parts of a source: the same tree with fewer files, and pieces of large files as files of their own.
//!
//! A unit is a piece of a large file, aligned so that it is cut into the same blocks as in the whole file, or a run of
//! neighbouring small files, which share fragments as they would in the image. Units are sorted by how well a small
//! part of each compresses, and divided into strata of equal length. A random place in each stratum selects a unit, so
//! that a few units represent all kinds of data in the source.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use packfs_codec::Choice;
use packfs_image::source::{Contents, FileReader};
use packfs_image::tree::{ConflictPolicy, FileData, Ino, InodeAttributes, Kind, ROOT};
use packfs_image::{Error, Result, Tree};

use crate::rng::SeededRng;

/// Minimum size of files that are searched for holes: smaller ones are many, and each would have to be opened.
const MIN_LEN_WITH_HOLES: u64 = 1 << 20;

/// One unit: neighbouring small files, or a piece of a large one.
pub(super) type SampleUnit = Vec<SampledRange>;

/// A file, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampledRange {
    ino: Ino,
    offset: u64,
    len: u64,
}

/// Returns the bytes of file data outside holes, and the number of inodes.
pub fn measure(tree: &Tree) -> (u64, u64) {
    let mut bytes = 0;
    let mut inodes = 0;
    let walked = tree.walk(|ino, _| {
        inodes += 1;
        if let Kind::File { size, data: FileData::Source { from, key } } = tree.inode(ino).kind {
            bytes += match size {
                small if small < MIN_LEN_WITH_HOLES => small,
                // Builds leave out files that cannot be read.
                large => {
                    data_ranges(&**from, key, large).map_or(0, |all| all.iter().map(|(start, end)| end - start).sum())
                }
            };
        }
        Ok(())
    });
    debug_assert!(walked.is_ok(), "the visitor never fails");
    (bytes, inodes)
}

/// Returns a copy of everything. Once `stop` is set, its files can no longer be opened.
pub(super) fn whole(tree: &Tree, stop: &Arc<AtomicBool>) -> Result<Tree> {
    let mut copy = CopiedTree::new(tree, stop);
    let mut copied = vec![None; tree.len()];
    let mut dirs = vec![(ROOT, ROOT)];
    while let Some((from, to)) = dirs.pop() {
        for (name, ino) in tree.entries(from) {
            // A hard link: a further name of an inode that was copied.
            if let Some(target) = copied[ino.0 as usize] {
                copy.to.link(to, name, target, ConflictPolicy::Refuse)?;
                continue;
            }
            let made = copy.add(to, name, SampledRange { ino, offset: 0, len: tree.file_len(ino) })?;
            if tree.is_dir(ino) {
                dirs.push((ino, made));
            } else {
                copied[ino.0 as usize] = Some(made);
            }
        }
    }
    copy.finish()
}

/// Returns a tree with about `bytes` of the file data in these units.
pub(super) fn part(tree: &Tree, units: &[SampleUnit], bytes: u64, seed: u64, stop: &Arc<AtomicBool>) -> Result<Tree> {
    let mut copy = CopiedTree::new(tree, stop);
    let mut pieces_by_file = BTreeMap::new();
    for piece in pick_units(units, bytes, seed).into_iter().flatten() {
        pieces_by_file.entry(piece.ino).or_insert_with(Vec::new).push(*piece);
    }
    let mut found = Vec::new();
    tree.walk(|ino, path| {
        if let Some(pieces) = pieces_by_file.get(&ino) {
            found.push((path.to_vec(), pieces));
        }
        Ok(())
    })?;
    for (path, pieces) in found {
        let Some((dir, name)) = copy.to.parent_of(&path, InodeAttributes::IMPLICIT_DIR)? else { continue };
        for piece in pieces {
            copy.add(dir, &piece_name(name, piece.offset), *piece)?;
        }
    }
    copy.finish()
}

/// Returns the name of a piece: that of the file, after the offset if it is not the first piece.
fn piece_name(name: &[u8], offset: u64) -> Vec<u8> {
    if offset == 0 {
        return name.to_vec();
    }
    let mut out = format!("{offset}~").into_bytes();
    // Names have at most 255 bytes. Of a long one, the end is kept: its extension tells the kind of the file.
    let room = 255 - out.len();
    out.extend_from_slice(&name[name.len().saturating_sub(room)..]);
    out
}

/// Returns the data in units of about `unit_len` bytes, those that shrink most first. Of a very large source, the units
/// are a sample.
pub(super) fn sorted_units(tree: &Tree, unit_len: u64, seed: u64) -> Result<Vec<SampleUnit>> {
    let all = cut_units(tree, unit_len)?;
    let mut probed = Vec::with_capacity(MAX_UNITS.min(all.len()));
    let mut encoder = "zstd:1".parse::<Choice>()?.encoder(PROBE_LEN)?;
    // `pick_units` takes a number of bytes: that of as many average units.
    let bytes = all.iter().map(total_len).sum::<u64>() / (all.len() as u64).max(1) * MAX_UNITS as u64;
    let taken = if all.len() <= MAX_UNITS { all.iter().collect() } else { pick_units(&all, bytes, seed) };
    for unit in taken {
        // The build reports files that cannot be read.
        let raw = read_probe(tree, unit).unwrap_or_default();
        // `None` if it does not shrink.
        let packed = encoder.encode(&raw, &mut vec![0; raw.len()])?.unwrap_or(raw.len());
        probed.push((1000 * packed / raw.len().max(1), unit.clone()));
    }
    // A stable sort: units that shrink alike stay in the order of the tree.
    probed.sort_by_key(|(per_mille, _)| *per_mille);
    Ok(probed.into_iter().map(|(_, unit)| unit).collect())
}

/// Maximum number of units that are probed.
const MAX_UNITS: usize = 4096;
/// Bytes of each unit that are compressed.
const PROBE_LEN: usize = 64 << 10;
/// Maximum number of files of a unit that these bytes come from.
const MAX_PROBED_FILES: usize = 8;

/// Reads a small part of a unit.
fn read_probe(tree: &Tree, unit: &SampleUnit) -> Result<Vec<u8>> {
    let file_count = unit.len().min(MAX_PROBED_FILES);
    let mut raw = Vec::new();
    for number in 0..file_count {
        let SampledRange { ino, offset, len } = unit[number * unit.len() / file_count];
        let Kind::File { data: FileData::Source { from, key }, .. } = &tree.inode(ino).kind else { continue };
        let start = raw.len();
        let probe_len = usize::try_from(len).unwrap_or(usize::MAX).min(PROBE_LEN / file_count);
        raw.resize(start + probe_len, 0);
        from.open(*key)?.read_exact_at(&mut raw[start..], offset + (len - probe_len as u64) / 2)?;
    }
    Ok(raw)
}

fn total_len(unit: &SampleUnit) -> u64 {
    unit.iter().map(|piece| piece.len).sum()
}

/// Cuts all data into units, in the order of the tree.
fn cut_units(tree: &Tree, unit_len: u64) -> Result<Vec<SampleUnit>> {
    let mut units: Vec<SampleUnit> = Vec::new();
    // Small files that do not fill a unit so far.
    let mut small_files = SampleUnit::new();
    let mut small_files_len = 0;
    tree.walk(|ino, _| {
        let Kind::File { size, data: FileData::Source { from, key } } = tree.inode(ino).kind else { return Ok(()) };
        if size < unit_len {
            small_files.push(SampledRange { ino, offset: 0, len: size });
            small_files_len += size;
            if small_files_len >= unit_len {
                units.push(std::mem::take(&mut small_files));
                small_files_len = 0;
            }
            return Ok(());
        }
        // The build reports files that cannot be read.
        for (start, end) in data_ranges(&**from, key, size).unwrap_or_default() {
            let first = start / unit_len * unit_len;
            let offsets = (first..end).step_by(usize::try_from(unit_len).unwrap_or(usize::MAX));
            units.extend(offsets.map(|offset| vec![SampledRange { ino, offset, len: unit_len.min(size - offset) }]));
        }
        Ok(())
    })?;
    if !small_files.is_empty() {
        units.push(small_files);
    }
    // Several ranges of data may lie in one unit.
    units.dedup();
    Ok(units)
}

/// Returns the ranges of a file outside holes, as start and end.
fn data_ranges(from: &dyn Contents, key: u64, size: u64) -> Result<Vec<(u64, u64)>> {
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

/// Returns the unit at a random place in each stratum; the number of strata follows from `bytes`.
fn pick_units(units: &[SampleUnit], bytes: u64, seed: u64) -> Vec<&SampleUnit> {
    let total: u64 = units.iter().map(total_len).sum();
    let mean = (total / (units.len() as u64).max(1)).max(1);
    let strata = (bytes.div_ceil(mean)).max(1);
    let mut rng = SeededRng::for_item(seed, strata);
    let mut places = (0..strata).map(|stratum| {
        // Bytes times strata may exceed 64 bits.
        let start_of = |stratum: u64| u128::from(total) * u128::from(stratum) / u128::from(strata);
        let start = start_of(stratum);
        let end = start_of(stratum + 1);
        start + u128::from(rng.next_u64()) * (end - start) / (1 << 64)
    });
    let mut picked = Vec::new();
    let mut end = 0;
    let mut place = places.next();
    for unit in units {
        end += u128::from(total_len(unit));
        let mut is_picked = false;
        // Several places may be in one long unit, which is taken once.
        while place.is_some_and(|place| place < end) {
            is_picked = true;
            place = places.next();
        }
        if is_picked {
            picked.push(unit);
        }
    }
    picked
}

/// A tree under construction whose files are pieces of those of another tree.
struct CopiedTree<'t> {
    from: &'t Tree,
    to: Tree,
    pieces: Vec<PieceSource>,
    /// Inode of each piece.
    files: Vec<Ino>,
    stop: Arc<AtomicBool>,
}

impl<'t> CopiedTree<'t> {
    fn new(from: &'t Tree, stop: &Arc<AtomicBool>) -> Self {
        let mut to = Tree::new(from.meta(ROOT));
        copy_xattrs(from, &mut to, ROOT, ROOT);
        CopiedTree { from, to, pieces: Vec::new(), files: Vec::new(), stop: Arc::clone(stop) }
    }

    /// Adds a copy of an inode; of a file, only the piece.
    fn add(&mut self, dir: Ino, name: &[u8], piece: SampledRange) -> Result<Ino> {
        let mut source = None;
        let kind = match self.from.inode(piece.ino).kind {
            Kind::File { size, data } => {
                if let FileData::Source { from, key } = data {
                    let SampledRange { offset, len, .. } = piece;
                    source = Some(PieceSource { from: Arc::clone(from), key, offset, len, is_whole: len == size });
                }
                // Empty until `finish`, because only then the source has all pieces.
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

    /// Gives the files their contents.
    fn finish(mut self) -> Result<Tree> {
        let contents: Arc<dyn Contents> = Arc::new(SampledPieces { pieces: self.pieces, stop: self.stop });
        for (key, ino) in (0..).zip(self.files) {
            self.to.set_data(ino, FileData::Source { from: Arc::clone(&contents), key })?;
        }
        Ok(self.to)
    }
}

/// Copies extended attributes. Each tree numbers the sets of them by itself.
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
    /// True if the piece is the whole file.
    is_whole: bool,
}

/// Pieces of files, which are read like files.
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
        // Builds open every file, so they fail soon after `stop` is set.
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
        if self.piece.is_whole { self.file.finish() } else { Ok(()) }
    }
}
