//! File data: decides on the conductor, piece by piece and in order, what is a duplicate, what goes into
//! the packed inode and what is compressed; writes what the workers return.
//!
//! A piece is a small file or a few megabytes of a larger one. It is the unit of compression and of
//! duplicates: a file is a list of pieces, which may lie anywhere, and equal pieces are one. Ends of files
//! that workers leave over are known only when these are done; they are collected in a stream of their own,
//! and written so many jobs later, so that the image does not depend on how fast anybody is.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use packfs_blocks::pipeline::{Ticket, Window};
use packfs_blocks::{Buffer, Buffers, Digest, Progress};
use packfs_codec::Decoder;

use super::Counts;
use super::chunk::{Chunk, Chunks};
use super::index::{Cluster, Form, Part};
use super::keep::{Keep, Kept};
use super::pack::{Ending, Packed, Piece, Short, Worker};
use super::stream::Stream;
use crate::build::{BATCH_FILES, BATCH_LEN, Cut, Failed, Fed, Part as Read, Tools, Writer};
use crate::{Error, OnError, Result};

mod done;
mod open;
mod pieces;
mod raw;
mod reuse;
mod write;

pub(crate) use self::done::{Body, DataDone, Stored};
use self::open::{File, Open, Part as FilePart, SoFar, Way, What};

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
    /// Holes stay holes.
    pub(crate) sparse: bool,
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

/// Takes pieces from a [`Feed`](crate::build::Feed) and puts them down.
pub(crate) struct Data<'p, 'env> {
    tools: Tools<'p, 'env, Worker>,
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
    /// Numbers of pieces by content and whether the file goes on behind them.
    pieces: HashMap<(Digest, bool), u32>,
    /// Pieces of zeros by length and whether the file goes on behind them.
    zeros: HashMap<(u64, bool), u32>,
    small: Stream,
    ends: Stream,
    known_ends: HashMap<Digest, u64>,
    /// Clusters by what they are in the image.
    known_clusters: HashMap<Short, u32>,
    /// Where pieces that are not compressed lie.
    raw_pieces: HashMap<Digest, u64>,
    /// The same of files' last pieces of which a part follows the inode.
    raw_ends: HashMap<Digest, (u64, Kept)>,
    open: Option<Open>,
    files: Vec<File>,
    failed: Failed,
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
    /// Puts data into the image that begins at byte `base` of the output, from byte `pos` of the image on; `budget`
    /// bounds the bytes in flight.
    pub(crate) fn new(
        tools: Tools<'p, 'env, Worker>,
        rules: Rules,
        buffers: Buffers,
        (base, pos): (u64, u64),
        budget: usize,
        keep: Keep,
        decoder: Option<Box<dyn Decoder>>,
    ) -> Self {
        Data {
            tools,
            base,
            rules,
            small: Stream::new(buffers.clone(), rules.piece),
            ends: Stream::new(buffers.clone(), rules.piece),
            regions: Buffers::new(BATCH_LEN.max(rules.piece) + BATCH_FILES * rules.block()),
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
            raw_pieces: HashMap::new(),
            raw_ends: HashMap::new(),
            open: None,
            files: Vec::new(),
            failed: Vec::new(),
            content: blake3::Hasher::new(),
            counts: Counts::default(),
        }
    }

    fn fail(&mut self, file: u32, error: Error) -> Result<()> {
        // Pieces of a file that failed go on coming in; it is reported once. What was written of it is cleared.
        self.open = None;
        if self.rules.on_error == OnError::Stop {
            return Err(error);
        }
        if self.failed.last().is_none_or(|(last, _)| *last != file) {
            self.failed.push((file, error));
        }
        Ok(())
    }

    fn save(&self, len: u64) {
        Progress::add(&self.tools.progress.done, len);
        Progress::add(&self.tools.progress.saved, len);
    }

    /// Whole files that are shorter than a piece.
    fn batch(&mut self, bytes: Buffer, files: Vec<(u32, Result<Read>)>) -> Result<()> {
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
        if self.failed.last().is_some_and(|(failed, _)| *failed == file) {
            return Ok(());
        }
        let File { size, ref what } = self.files[file as usize];
        let mut open = match (self.open.take(), what) {
            (Some(open), _) => open,
            (None, What::Missing(way)) => Open { file, at: 0, so_far: SoFar::new(*way, self.small.len()) },
            (None, _) => return Ok(()),
        };
        debug_assert_eq!(open.file, file, "files come one after the other");
        let cut = if open.so_far.ends_with_hole() { cut.behind_hole() } else { cut };
        match cut {
            Cut::Hole(len) => self.hole(&mut open, len)?,
            Cut::Block(bytes, digest) => {
                self.content.update(digest.as_bytes());
                open.at += bytes.len() as u64;
                let last = open.at == size;
                match &mut open.so_far {
                    SoFar::Raw(raw) => self.raw_block(raw, bytes, digest, last)?,
                    SoFar::Compressed(parts) => parts.push(FilePart::Piece(self.block(bytes, digest, last)?)),
                    SoFar::Fragment { len, .. } => {
                        *len += bytes.len() as u64;
                        self.put_small(&bytes)?;
                    }
                }
            }
        }
        self.open = Some(open);
        Ok(())
    }

    fn hole(&mut self, open: &mut Open, hole: u64) -> Result<()> {
        open.at += hole;
        if let SoFar::Fragment { len, .. } = &mut open.so_far {
            *len += hole;
            return self.put_zeros(hole);
        }
        self.counts.hole_bytes += hole;
        self.save(hole);
        open.so_far.push_hole(hole);
        Ok(())
    }

    fn end(&mut self, file: u32) -> Result<()> {
        let Some(Open { so_far, .. }) = self.open.take() else { return Ok(()) };
        let what = match so_far {
            SoFar::Raw(raw) if !raw.has_data() => What::Hole,
            SoFar::Raw(raw) => What::Raw { stretches: raw.stretches.into(), tail: raw.tail },
            SoFar::Compressed(parts) if matches!(parts[..], [FilePart::Hole(_)]) => What::Hole,
            SoFar::Compressed(parts) if self.rules.form.encoded => What::Compressed(parts.into()),
            SoFar::Compressed(parts) => What::Compressed(self.fill_holes(parts)?.into()),
            SoFar::Fragment { offset, len } => What::Fragment { offset, len },
        };
        self.files[file as usize].what = what;
        Ok(())
    }
}

impl Writer for Data<'_, '_> {
    type Done = DataDone;

    fn add_file(&mut self, size: u64, data_len: &dyn Fn() -> u64) -> Result<u32> {
        let file = u32::try_from(self.files.len()).map_err(|_| Error::TooMany { what: "files", max: 1 << 32 })?;
        self.files.push(File { size, what: What::Missing(Way::of(&self.rules, size, data_len)) });
        Ok(file)
    }

    fn take(&mut self, fed: Fed) -> Result<()> {
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

    fn finish(self) -> Result<(DataDone, Failed)> {
        self.settle_all()
    }
}
