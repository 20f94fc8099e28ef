//! Writes file data: decides on the conductor, piece by piece and in order, what is a duplicate,
//! what goes into the packed inode and what is compressed; writes the results of the workers.
//!
//! A piece is a small file or a few megabytes of a larger one. It is the unit of compression and of
//! dedup: a file is a list of pieces, which may lie anywhere, and equal pieces are stored once.
//! [`Data`] conducts; each of its parts has one responsibility:
//!
//! | part | responsibility |
//! |---|---|
//! | [`files`], [`open`] | the file that is arriving, and the position of each file |
//! | [`sharing`], [`reuse`] | stored data that is equal, as a whole and in part |
//! | [`packed`] | the packed inode: small files and tails of files |
//! | [`jobs`] | pieces in flight, and when the result of each is taken |
//! | [`zone`] | the position of the next block, and of each cluster |
//! | [`done`], [`stored`] | finished pieces, and the data that inodes carry |
//!
//! Tails of files that workers leave over are known only when the workers are done. They are
//! collected in a separate stream and written a fixed number of jobs later, so that the image does
//! not depend on the speed of any worker.

use packfs_blocks::units::Size;
use packfs_blocks::{Buffer, Buffers, Progress};

use self::done::{Bodies, Pieces};
use self::files::{Files, How};
use self::jobs::Jobs;
use self::open::{File, Open, Other, Part, SoFar, Way, What};
use self::packed::PackedInode;
use self::reuse::Stretches;
use self::sharing::Sharing;
use self::tally::Tally;
use self::zone::Zone;
use super::index::Form;
use super::keep::Keep;
use super::lanes::Lanes;
use super::pack::{Ending, Worker};
use super::refer;
use crate::build::{Cut, Failed, Fed, Ledger, Part as Read, Place, Tools, Writer};
use crate::erofs::raw_sharing::PAGE_LEN;
use crate::source::Run;
use crate::tree::{Handling, Recipe};
use crate::{Error, OnError, Result};

mod done;
mod files;
mod jobs;
mod late;
mod open;
mod packed;
mod pieces;
mod raw;
mod results;
mod reuse;
mod sharing;
mod stored;
mod tally;
mod unread;
mod zone;

pub(crate) use self::done::DataDone;
pub(crate) use self::late::Late;
pub(crate) use self::stored::{Body, Stored, View};

/// Options for writing file data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Length of the longest file in bytes.
    pub(crate) longest_file: u64,
    /// Uncompressed files begin at multiples of this many bytes.
    pub(crate) align: u64,
    /// Number of the device for the data of files; 0 is the image.
    pub(crate) device: u16,
    pub(crate) form: Form,
    /// Maximum length of a piece in bytes.
    pub(crate) piece: usize,
    /// Maximum length of files that go to the packed inode, if tails of files do.
    pub(crate) fragment_max: usize,
    /// Treatment of the tails of files.
    pub(crate) ending: Ending,
    /// True if all files go to the packed inode.
    pub(crate) all_fragments: bool,
    /// True if nothing is compressed.
    pub(crate) raw: bool,
    /// True if all uncompressed files are chunk-based.
    pub(crate) chunks: bool,
    /// True if uncompressed files may be chunk-based, so that their pieces may lie anywhere.
    pub(crate) scattered: bool,
    /// True if holes stay holes.
    pub(crate) sparse: bool,
    /// True if directories follow in the packed inode.
    pub(crate) more_packed: bool,
    /// True if tails of uncompressed files follow their inodes.
    pub(crate) inline_tails: bool,
    pub(crate) dedup: bool,
    /// Average length of the chunks that find parts of files already stored.
    pub(crate) chunk: Option<usize>,
    pub(crate) on_error: OnError,
}

impl Rules {
    fn block(&self) -> usize {
        1 << self.form.block_bits
    }

    /// Returns the rules for a file: its data goes to the packed inode only if it is packed like that.
    fn of(self, how: How) -> Rules {
        let ending = if how.alone && self.ending == Ending::Fragment { Ending::Cluster } else { self.ending };
        Rules { ending, all_fragments: self.all_fragments && !how.alone, ..self }
    }
}

/// Receives pieces from a [`Feed`](crate::build::Feed) and writes them.
pub(crate) struct Data<'p, 'env> {
    rules: Rules,
    lanes: &'env Lanes,
    /// True if more of the packed inode comes before or after that of these files.
    is_cut: bool,
    files: Files,
    sharing: Sharing,
    stretches: Stretches,
    packed: PackedInode,
    jobs: Jobs<'p, 'env>,
    zone: Zone<'p, 'env>,
    pieces: Pieces,
    /// Data stored after inodes.
    keep: Keep,
    /// Buffers for pieces.
    buffers: Buffers,
    /// Buffers for batches of small uncompressed files.
    regions: Buffers,
    content: blake3::Hasher,
    /// Positions of files on additional devices: other files arrive at any time.
    referred: blake3::Hasher,
    referred_bytes: u64,
    tally: Tally<'env>,
    progress: &'env Progress,
}

impl<'p, 'env> Data<'p, 'env> {
    /// Makes a writer; `budget` bounds the bytes in flight.
    pub(crate) fn new(
        tools: Tools<'p, 'env, Worker>,
        rules: Rules,
        lanes: &'env Lanes,
        buffers: Buffers,
        place: Place,
        budget: usize,
        ledger: Ledger,
    ) -> Self {
        let tools = Tools { output: tools.blob.unwrap_or(tools.output), ..tools };
        let Tools { output, progress, .. } = tools;
        Data {
            rules,
            lanes,
            is_cut: place.is_cut || rules.more_packed,
            files: Files::new(rules.on_error),
            sharing: Sharing::new(rules.dedup),
            stretches: Stretches::new(rules.block(), rules.form.encoded),
            packed: PackedInode::new(&buffers, rules.piece),
            jobs: Jobs::new(tools, budget),
            zone: Zone::new(tools, (place.base, place.pos), budget / 4, ledger),
            pieces: Pieces::default(),
            keep: Keep::new(output.scratch()),
            buffers,
            regions: raw::regions(&rules),
            content: blake3::Hasher::new(),
            referred: blake3::Hasher::new(),
            referred_bytes: 0,
            tally: Tally::new(progress),
            progress,
        }
    }

    /// Receives whole files that are shorter than a piece.
    fn batch(&mut self, bytes: Buffer, files: Vec<(u32, Result<Read>)>) -> Result<()> {
        let (mut fresh, mut again, mut stored) = (Vec::with_capacity(files.len()), Vec::new(), Vec::new());
        self.sharing.touch_files(files.iter().filter_map(|(_, read)| Some(&read.as_ref().ok()?.1)));
        for (file, read) in files {
            let (range, digest) = match read {
                Ok(part) => part,
                Err(e) => {
                    self.files.fail(file, e)?;
                    continue;
                }
            };
            self.content.update(digest.as_bytes());
            if self.files.is_stored(file) {
                stored.push((file, (range, digest)));
                continue;
            }
            match self.sharing.file(self.files.how(file).keyed(digest), file) {
                Some(same) => {
                    again.push((file, same));
                    self.tally.saves(range.len());
                }
                None => fresh.push((file, (range, digest))),
            }
        }
        self.stored_batch(&bytes, stored)?;
        if self.rules.raw {
            self.raw_batch(bytes, &fresh)?
        } else {
            self.pack_batch(bytes, fresh)?
        }
        // Only now: the files they equal may be in the same batch.
        again.into_iter().for_each(|(file, same)| self.files.put_same(file, same));
        Ok(())
    }

    /// Receives the next piece or hole of a larger file.
    fn cut(&mut self, file: u32, cut: Cut) -> Result<()> {
        let Some(mut open) = self.files.take_open(file, &self.rules, self.packed.small.len()) else { return Ok(()) };
        match if open.so_far.ends_with_hole() { cut.behind_hole() } else { cut } {
            Cut::Hole(len) => {
                open.at += len;
                self.hole(&mut open.so_far, len)?;
            }
            Cut::Block(bytes, digest) => {
                self.content.update(digest.as_bytes());
                open.at += bytes.len() as u64;
                let last = open.at == self.files.size(file);
                match &mut open.so_far {
                    SoFar::Raw(blocks) => self.raw_piece(blocks, bytes, digest, last)?,
                    SoFar::Sparse(blocks) => self.sparse_piece(blocks, bytes)?,
                    SoFar::Compressed(parts) => parts.push(self.piece(file, bytes, digest, last)?),
                    SoFar::Fragment(_) => self.put_small(&bytes).map(|_| ())?,
                }
            }
        }
        self.files.put_open(open);
        Ok(())
    }

    fn hole(&mut self, so_far: &mut SoFar, len: u64) -> Result<()> {
        match so_far {
            SoFar::Raw(blocks) | SoFar::Sparse(blocks) => blocks.push_hole(len),
            SoFar::Compressed(parts) => parts.push_hole(len),
            SoFar::Fragment(_) => return self.put_zeros(len),
        }
        self.tally.hole(len);
        Ok(())
    }

    /// Completes the open file.
    fn end(&mut self) -> Result<()> {
        let Some(Open { file, so_far, .. }) = self.files.take_whole() else { return Ok(()) };
        let what = match so_far {
            SoFar::Raw(blocks) | SoFar::Sparse(blocks) => blocks.finish(),
            SoFar::Fragment(offset) => What::Fragment(offset),
            SoFar::Compressed(parts) => match parts.finish() {
                None => What::Hole,
                Some(parts) if self.rules.form.encoded => What::compressed(parts),
                Some(parts) => What::compressed(self.fill_holes(file, parts)?),
            },
        };
        self.files.put(file, what);
        Ok(())
    }

    /// Sends the rest of both streams of the packed inode, and takes all results. The stream of
    /// tails is complete only when everything else is written.
    fn settle_streams(&mut self) -> Result<()> {
        // Each piece has to begin with a page of the packed inode.
        let padding =
            |len: u64| vec![0; usize::try_from(len.next_multiple_of(PAGE_LEN) - len).expect("less than a page")];
        let has_tails = self.rules.ending == Ending::Fragment && !self.rules.all_fragments;
        if has_tails || self.is_cut {
            // The stream of tails or that of the next shard follows.
            self.put_small(&padding(self.packed.small.len()))?;
        }
        if let Some(piece) = self.packed.small.take() {
            self.send_small(piece, Ending::Cluster)?;
        }
        while self.plan()? {}
        while self.next()? {}
        if self.is_cut {
            self.put_end(&padding(self.packed.ends.len()))?;
        }
        if let Some(piece) = self.packed.ends.take() {
            self.send_end(piece, Ending::Cluster)?;
        }
        self.settle()
    }
}

impl Writer for Data<'_, '_> {
    type Done = DataDone;

    fn add_file(&mut self, size: u64, how: (Handling, Recipe), data_len: &dyn Fn() -> u64) -> Result<u32> {
        let (handling, recipe) = how;
        // Trees are checked before their data arrives, streams are not.
        if size > self.rules.longest_file {
            let size = Size(size);
            let longest = Size(self.rules.longest_file);
            let why = format!(
                "a file of {size}: without compression and holes, a file of an EROFS image has at most {longest}"
            );
            return Err(Error::Unsupported(why));
        }
        let lane = self.lanes.of(recipe);
        // What is in the packed inode is packed as the image is.
        let alone = !self.rules.raw && (lane > 0 || handling.contains(Handling::NO_FRAGMENT));
        let how = How { lane, alone };
        let way = if handling.contains(Handling::STORE) {
            Way::stored(&self.rules)
        } else {
            Way::of(&self.rules.of(how), size, data_len)
        };
        self.files.add(size, way, how)
    }

    fn refer(&mut self, size: u64, device: u16, runs: &[Run]) -> Result<Option<u32>> {
        let Some(chunks) = refer::chunks(size, runs, self.rules.form.block_bits) else { return Ok(None) };
        let held: u64 = runs.iter().map(|run| run.len).sum();
        for number in runs.iter().flat_map(|run| [run.offset, run.len, run.at]).chain([size, device.into()]) {
            self.referred.update(&number.to_le_bytes());
        }
        self.referred_bytes += held;
        Progress::add(&self.progress.done, size);
        let file = self.files.add(size, Way::Raw, How::default())?;
        self.files.put(file, if held > 0 { Other::Elsewhere(device, chunks).into() } else { What::Hole });
        Ok(Some(file))
    }

    fn take(&mut self, fed: Fed) -> Result<()> {
        match fed {
            Fed::Small { bytes, files } => self.batch(bytes, files),
            Fed::Blocks { file, cuts, last } => match cuts {
                Ok(cuts) => {
                    cuts.into_iter().try_for_each(|cut| self.cut(file, cut))?;
                    if last { self.end() } else { Ok(()) }
                }
                Err(e) => self.files.fail(file, e),
            },
            Fed::Unread { file, unread } => match unread {
                Ok(unread) => self.unread(file, &unread),
                Err(e) => self.files.fail(file, e),
            },
        }
    }

    fn finish(mut self) -> Result<(DataDone, Failed)> {
        self.settle_streams()?;
        let Data { rules, files, sharing, stretches, packed, zone, pieces, keep, content, tally, .. } = self;
        let content = match self.referred.count() {
            0 => content.finalize(),
            _ => blake3::hash(&[content.finalize(), self.referred.finalize()].map(|hash| *hash.as_bytes()).concat()),
        };
        // Both used memory for every file, which the next steps need.
        drop((sharing, stretches));
        let counts = tally.counts(zone.counts());
        let ((clusters, pos, ledger), (files, failed)) = (zone.finish()?, files.finish());
        let mut bodies = Bodies { rules, pieces: &pieces, clusters, ends: packed.small.len() };
        let files = files.into_iter().map(|file| bodies.stored(file)).collect();
        let packed_pieces = packed.pieces().map(|seq| pieces.done(seq).part).collect();
        let what = What::compressed(packed.pieces().map(Part::Piece).collect());
        let packed = Some(File { size: packed.len(), what }).filter(|packed| packed.size > 0);
        let done = DataDone {
            end: pos.div_ceil(rules.block() as u64),
            files,
            packed: packed.map(|packed| bodies.stored(packed)),
            clusters: bodies.clusters,
            form: rules.form,
            packed_pieces,
            keep,
            content,
            shares_clusters: counts.shared_clusters > 0,
            counts,
            referred_bytes: self.referred_bytes,
            device: rules.device,
            blob_bytes: 0,
            ledger,
            sums: Vec::new(),
        };
        Ok((done, failed))
    }
}
