//! File data: decides on the conductor, piece by piece and in order, what is a duplicate, what goes into
//! the packed inode and what is compressed; writes what the workers return.
//!
//! A piece is a small file or a few megabytes of a larger one. It is the unit of compression and of
//! duplicates: a file is a list of pieces, which may lie anywhere, and equal pieces are one. Ends of files
//! that workers leave over are known only when these are done; they are collected in a stream of their own,
//! and written so many jobs later, so that the image does not depend on how fast anybody is.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use packfs_blocks::pipeline::{Pool, Ticket, Window};
use packfs_blocks::{Buffer, Buffers, Digest, Output, Progress};
use packfs_codec::Decoder;

use super::Counts;
use super::chunk::{Chunk, Chunks};
use super::index::{Cluster, Form, Part};
use super::keep::{Keep, Kept};
use super::pack::{Ending, Packed, Piece, Short, Worker};
use super::stream::Stream;
use crate::feed::{self, Cut, Fed};
use crate::{Error, OnError, Result};

mod done;
mod pieces;
mod raw;
mod reuse;
mod write;

pub(crate) use self::done::{Body, DataDone, Stored};

/// Jobs after which a piece of file ends is written: enough for it to be ready, few enough not to pile up.
const LATE: u64 = 8;
/// Jobs whose pieces are being cut into chunks at a time.
const CHUNKING: usize = 3;
/// Clusters are shared if at least one in so many bytes of a piece is saved by it.
const SHARED_PART: u64 = 64;

/// How file data is put down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) form: Form,
    /// Bytes of a piece.
    pub(crate) piece: usize,
    /// Files up to this length go to the packed inode, if ends of files do.
    pub(crate) fragment_max: usize,
    /// What becomes of the ends of files.
    pub(crate) ending: Ending,
    /// All files go to the packed inode.
    pub(crate) all_fragments: bool,
    /// Nothing is compressed.
    pub(crate) raw: bool,
    /// Uncompressed files are in chunks, all of them.
    pub(crate) chunks: bool,
    /// Uncompressed files may be in chunks, so that their pieces may lie anywhere.
    pub(crate) scattered: bool,
    /// Ends of uncompressed files lie behind their inodes.
    pub(crate) inline_tails: bool,
    pub(crate) dedup: bool,
    /// Average length of the chunks by which parts of files are found that are down already.
    pub(crate) chunk: Option<usize>,
    pub(crate) on_error: OnError,
}

impl Rules {
    fn block(&self) -> usize {
        1 << self.form.block_bits
    }
}

/// Where a part of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The piece with this number.
    Piece(u32),
    /// So many bytes from this offset of the stream of small files on.
    Small { offset: u64, len: u64 },
    /// So many bytes of zeros.
    Hole(u64),
    /// Uncompressed, from this byte on.
    Raw(u64),
}

/// What a piece became.
#[derive(Debug, Clone, Copy)]
struct Done {
    part: Part,
    end: PieceEnd,
}

#[derive(Debug, Clone, Copy)]
enum PieceEnd {
    Nothing,
    /// In the stream of ends.
    Fragment {
        offset: u64,
        len: u64,
    },
    Inline {
        kept: Kept,
        len: u64,
        raw: bool,
    },
    /// Blocks in a row, and what follows them behind the inode.
    Plain(Kept),
}

/// A file as far as it is known before all is down.
#[derive(Debug, Clone, Default)]
struct File {
    size: u64,
    places: Box<[Place]>,
    tail: Kept,
    /// So much of it is holes that it is not compressed.
    sparse: bool,
}

/// Takes pieces from a [`Feed`](crate::feed::Feed) and puts them down.
pub(crate) struct Data<'p, 'env> {
    pool: &'p Pool<'env, Worker>,
    output: &'env Output,
    progress: &'env Progress,
    /// Byte of the output file at which the image begins.
    base: u64,
    rules: Rules,
    /// For pieces.
    buffers: Buffers,
    /// For batches of small files that are not compressed.
    regions: Buffers,
    /// Where the next cluster goes, counted from the image's start.
    pos: u64,
    window: Window<Result<Work>>,
    /// Pieces that are being cut into chunks.
    chunking: VecDeque<Chunking>,
    chunks: Chunks,
    /// For reading clusters back.
    decoder: Option<Box<dyn Decoder>>,
    packed: Vec<u8>,
    unpacked: Vec<u8>,
    /// Pieces up to this have been handed to workers.
    planned: u32,
    /// Where the last jobs handed to workers began, oldest first.
    recent: VecDeque<u32>,
    /// Jobs taken out of the window.
    taken: u64,
    /// Pieces of the stream of ends, each to be written after so many jobs.
    late: VecDeque<(u64, Ticket<Result<Packed>>)>,
    clusters: Vec<Cluster>,
    done: Vec<Option<Done>>,
    keep: Keep,
    /// Whole files that came in one go.
    known: HashMap<Digest, u32>,
    /// Pieces by content and whether the file goes on behind them.
    pieces: HashMap<(Digest, bool), Place>,
    zeros: HashMap<(u64, bool), Place>,
    small: Stream,
    ends: Stream,
    known_ends: HashMap<Digest, u64>,
    /// Clusters by what they are in the image.
    known_clusters: HashMap<Short, u32>,
    raw_ends: HashMap<Digest, (u64, Kept)>,
    open: Vec<Place>,
    open_tail: Kept,
    /// Bytes of the open file that have come.
    at: u64,
    files: Vec<File>,
    failed: Vec<(u32, Error)>,
    content: blake3::Hasher,
    counts: Counts,
}

/// Pieces of some bytes, and their chunks.
type Chunking = (Arc<Buffer>, Vec<Piece>, Ticket<Vec<Vec<Chunk>>>);

/// What comes to be written next.
#[derive(Debug)]
enum Work {
    Packed(Packed),
    /// So many bytes were written by the worker.
    Written(u64),
}

impl<'p, 'env> Data<'p, 'env> {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        pool: &'p Pool<'env, Worker>,
        output: &'env Output,
        progress: &'env Progress,
        rules: Rules,
        buffers: Buffers,
        (base, pos): (u64, u64),
        budget: usize,
        keep: Keep,
        decoder: Option<Box<dyn Decoder>>,
    ) -> Self {
        Data {
            pool,
            output,
            progress,
            base,
            rules,
            small: Stream::new(buffers.clone(), rules.piece),
            ends: Stream::new(buffers.clone(), rules.piece),
            regions: Buffers::new(feed::BATCH_LEN.max(rules.piece) + feed::BATCH_FILES * rules.block()),
            buffers,
            pos,
            window: Window::new(budget),
            chunking: VecDeque::new(),
            chunks: Chunks::default(),
            decoder,
            packed: Vec::new(),
            unpacked: Vec::new(),
            planned: 0,
            recent: VecDeque::new(),
            taken: 0,
            late: VecDeque::new(),
            clusters: Vec::new(),
            done: Vec::new(),
            keep,
            known: HashMap::new(),
            pieces: HashMap::new(),
            zeros: HashMap::new(),
            known_ends: HashMap::new(),
            known_clusters: HashMap::new(),
            raw_ends: HashMap::new(),
            open: Vec::new(),
            open_tail: Kept::NONE,
            at: 0,
            files: Vec::new(),
            failed: Vec::new(),
            content: blake3::Hasher::new(),
            counts: Counts::default(),
        }
    }

    /// A number for one more file; `sparse` if almost all of it is holes.
    pub(crate) fn add_file(&mut self, size: u64, sparse: bool) -> Result<u32> {
        let file = u32::try_from(self.files.len()).map_err(|_| Error::Usage("more than 2^32 files".into()))?;
        self.files.push(File { size, sparse, ..File::default() });
        Ok(file)
    }

    /// Takes what a feed hands out.
    pub(crate) fn take(&mut self, fed: Fed) -> Result<()> {
        match fed {
            Fed::Small { bytes, files } => self.batch(bytes, files),
            Fed::Blocks { file, cuts, last } => match cuts {
                Ok(cuts) => {
                    cuts.into_iter().try_for_each(|cut| self.cut(file, cut))?;
                    if last { self.end(file) } else { Ok(()) }
                }
                Err(e) => self.fail(file, e),
            },
        }
    }

    fn fail(&mut self, file: u32, error: Error) -> Result<()> {
        // Pieces of a file that failed go on coming in; it is reported once. What was written of it stays
        // behind unreferenced.
        (self.open, self.open_tail, self.at) = (Vec::new(), Kept::NONE, 0);
        if self.rules.on_error == OnError::Stop {
            return Err(error);
        }
        if self.failed.last().is_none_or(|(last, _)| *last != file) {
            self.failed.push((file, error));
        }
        Ok(())
    }

    fn save(&self, len: u64) {
        Progress::add(&self.progress.done, len);
        Progress::add(&self.progress.saved, len);
    }

    /// Whole files that are shorter than a piece.
    fn batch(&mut self, bytes: Buffer, files: Vec<(u32, Result<feed::Part>)>) -> Result<()> {
        let (mut fresh, mut again) = (Vec::new(), Vec::new());
        for (file, read) in files {
            let (range, digest) = match read {
                Ok(part) => part,
                Err(e) => {
                    self.fail(file, e)?;
                    continue;
                }
            };
            self.content.update(digest.as_bytes());
            if let Some(same) = self.known.get(&digest).filter(|_| self.rules.dedup) {
                again.push((file, *same));
                self.counts.duplicate_bytes += range.len() as u64;
                self.save(range.len() as u64);
                continue;
            }
            self.known.insert(digest, file);
            fresh.push((file, range));
        }
        if self.rules.raw {
            self.raw_batch(bytes, &fresh)?
        } else {
            self.pack_batch(bytes, fresh)?
        }
        // Only now: what they are equal to may be of the same batch.
        for (file, same) in again {
            self.files[file as usize] = self.files[same as usize].clone();
        }
        Ok(())
    }

    fn cut(&mut self, file: u32, cut: Cut) -> Result<()> {
        let len = match &cut {
            Cut::Hole(len) => *len,
            Cut::Block(bytes, digest) => {
                self.content.update(digest.as_bytes());
                bytes.len() as u64
            }
        };
        self.at += len;
        let File { size, sparse, .. } = self.files[file as usize];
        let last = self.at == size;
        match cut {
            Cut::Hole(_) if self.rules.all_fragments => self.zeros_small(len),
            Cut::Hole(_) => {
                self.counts.hole_bytes += len;
                self.save(len);
                self.open.push(Place::Hole(len));
                Ok(())
            }
            Cut::Block(bytes, digest) if self.rules.raw || sparse => self.raw_block(bytes, digest, last, sparse),
            Cut::Block(bytes, _) if self.rules.all_fragments => {
                let place = self.put_small(&bytes)?;
                self.join_small(place);
                Ok(())
            }
            Cut::Block(bytes, digest) => {
                let place = self.block(bytes, digest, last)?;
                self.open.push(place);
                Ok(())
            }
        }
    }

    fn end(&mut self, file: u32) -> Result<()> {
        let (open, tail) = (std::mem::take(&mut self.open), std::mem::take(&mut self.open_tail));
        self.at = 0;
        if self.failed.last().is_some_and(|(failed, _)| *failed == file) {
            return Ok(());
        }
        let all_holes = open.iter().all(|place| matches!(place, Place::Hole(_)));
        let says_holes = self.rules.raw || self.rules.form.encoded || self.files[file as usize].sparse || all_holes;
        let places = if says_holes { open } else { self.fill_holes(open)? };
        let file = &mut self.files[file as usize];
        (file.places, file.tail) = (places.into(), tail);
        Ok(())
    }
}
