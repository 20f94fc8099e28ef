//! Files in, hashed blocks out, in order: the first half of every writer's data path.
//!
//! Workers open, read, detect holes and hash. The conductor fetches the results with [`BlockFeed::next`]
//! in the order in which it submitted the files. Many small files share a job; large ones are read
//! in segments by several workers at once.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::pipeline::{JobTicket, Pool, Window};
use packfs_blocks::stages::{Stage, Stages};
use packfs_blocks::{Buffer, Buffers, Digest};

use super::cut::{FileBlock, FileCutter, FileSegment, SEGMENT_LEN};
use super::stream::{ScatteredReader, StreamedFile};
use super::sums::FileDigests;
use super::unread::{UNREAD_MIN, UnreadFile};
use crate::source::Contents;
use crate::{Error, Result};

/// Maximum number of bytes and of files in one batch. A job costs as much as reading a few KiB, so files share one;
/// more would leave less for other workers at the end, and take more memory. Not measured.
pub(crate) const BATCH_LEN: usize = 256 << 10;
pub(crate) const BATCH_FILES: usize = 64;

/// Blocks of a finished job. Files are identified by the number they were submitted with.
#[derive(Debug)]
pub(crate) enum FedBlocks {
    /// Whole files shorter than a block, concatenated.
    Small {
        /// Their bytes.
        bytes: Buffer,
        /// Range of each file in `bytes`, or the error of reading it.
        files: Vec<(u32, Result<BatchPart>)>,
    },
    /// The next blocks of a file.
    Blocks {
        /// The file.
        file: u32,
        /// Its next pieces, or the error of reading them.
        cuts: Result<Vec<FileBlock>>,
        /// True if the file is complete.
        last: bool,
    },
    /// A file whose bytes the writer has copied.
    Unread {
        /// The file.
        file: u32,
        /// Its layout, or the error of looking for it.
        unread: Result<UnreadFile>,
    },
}

/// Range of a small file within a batch, and its digest.
pub(crate) type BatchPart = (Range<usize>, Digest);

/// Options for cutting files, chosen by a format.
#[derive(Debug, Clone)]
pub(crate) struct CutOptions {
    /// Block size in bytes.
    pub(crate) block_len: usize,
    /// Buffers for blocks.
    pub(crate) buffers: Buffers,
    /// True to turn blocks of zeros into holes.
    pub(crate) sparse: bool,
    /// True if a file that is one hole needs no block list, however long it is.
    pub(crate) whole_holes_are_free: bool,
    /// Maximum number of bytes to read ahead.
    pub(crate) budget: usize,
    /// Block size of an image that gets files of [`UNREAD_MIN`] bytes or more unread.
    pub(crate) unread: Option<usize>,
    /// Receives the SHA-256 of each file that one job reads, if the format stores them.
    pub(crate) sums: Option<FileDigests>,
}

/// Reads ahead of a writer, within a budget of bytes.
///
/// The conductor submits a file, then calls [`next`](Self::next) until there is room for another
/// one; after the last file it calls [`rest`](Self::rest).
#[derive(Debug)]
pub(crate) struct BlockFeed<'p, 'env, S> {
    pub(super) pool: &'p Pool<'env, S>,
    pub(super) cutter: FileCutter<'env>,
    unread: Option<usize>,
    batch_buffers: Buffers,
    window: Window<FedBlocks>,
    batch: SmallBatch,
    streamed: Option<StreamedBatch>,
    reading: Option<LargeFileRead>,
}

/// Small files of a stream: their bytes, and the range of each file in them.
type StreamedBatch = (Buffer, Vec<(u32, Range<usize>)>);

/// Small files that one job reads.
#[derive(Debug, Default)]
struct SmallBatch {
    files: Vec<SmallFile>,
    /// Their sources: mostly one, which every thread would count the users of if each file had it.
    sources: Vec<Arc<dyn Contents>>,
    /// Number of bytes of all files.
    len: usize,
}

#[derive(Debug)]
struct SmallFile {
    file: u32,
    /// Number of its source in the batch.
    source: u32,
    key: u64,
    len: usize,
}

impl SmallBatch {
    fn push(&mut self, file: u32, from: &Arc<dyn Contents>, key: u64, len: usize) {
        if !self.sources.last().is_some_and(|last| Arc::ptr_eq(last, from)) {
            self.sources.push(Arc::clone(from));
        }
        let source = u32::try_from(self.sources.len() - 1).expect("no more sources than files");
        self.files.push(SmallFile { file, source, key, len });
        self.len += len;
    }
}

/// A large file with segments still to be submitted.
#[derive(Debug)]
struct LargeFileRead {
    file: u32,
    from: Arc<dyn Contents>,
    key: u64,
    size: u64,
    segments: std::vec::IntoIter<FileSegment>,
}

impl<'p, 'env, S> BlockFeed<'p, 'env, S> {
    /// Makes a feed that reads on `pool` and adds the time of its steps to `stages`.
    pub(crate) fn new(pool: &'p Pool<'env, S>, cutting: CutOptions, stages: &'env Stages) -> Self {
        let CutOptions { block_len, buffers, sparse, budget, unread, sums, .. } = cutting;
        BlockFeed {
            pool,
            cutter: FileCutter { block_len, sparse, buffers, stages, sums },
            unread,
            batch_buffers: Buffers::new(BATCH_LEN.max(block_len)),
            window: Window::new(budget),
            batch: SmallBatch::default(),
            streamed: None,
            reading: None,
        }
    }

    /// Submits a file of `size` bytes (not 0). Everything that [`next`](Self::next) offered must have been taken.
    pub(crate) fn file(&mut self, file: u32, from: &Arc<dyn Contents>, key: u64, size: u64) {
        debug_assert!(self.reading.is_none(), "the previous file is still being read");
        if let Some(block) = self.unread.filter(|_| size >= UNREAD_MIN) {
            // Files are handed on in the order in which they came, so a batch that is open goes first.
            self.send_batch();
            let cutter = self.cutter.clone();
            let from = from.clone();
            let look = move |_: &mut S| {
                let look = || UnreadFile::look(&cutter, &from, key, size, block);
                FedBlocks::Unread { file, unread: cutter.stages.time(Stage::Read, look) }
            };
            return self.push(self.pool.submit(look), block);
        }
        if let Some(len) = self.small(size) {
            if self.batch.len + len > BATCH_LEN.max(self.cutter.block_len) || self.batch.files.len() == BATCH_FILES {
                self.send_batch();
            }
            return self.batch.push(file, from, key, len);
        }
        self.send_batch();
        let cutter = self.cutter.clone();
        let from = from.clone();
        if size <= SEGMENT_LEN {
            let job =
                move |_: &mut S| FedBlocks::Blocks { file, cuts: cutter.whole(file, &*from, key, size), last: true };
            return self.push(self.pool.submit(job), usize::try_from(size).unwrap_or(usize::MAX));
        }
        match from.open(key).and_then(|mut open| cutter.segments(&mut *open, size)) {
            Ok(segments) => {
                self.reading = Some(LargeFileRead { file, from, key, size, segments: segments.into_iter() })
            }
            // As a result in its turn, so that errors come in the order of files.
            Err(e) => self.push(JobTicket::ready(FedBlocks::Blocks { file, cuts: Err(e), last: true }), 0),
        }
    }

    /// Fails if files were to stay unread: those of a stream can only be read.
    pub(crate) fn check_stream(&self) -> Result<()> {
        match self.unread {
            None => Ok(()),
            Some(_) => {
                let why = "the files of this source lie in a stream, which can only be read: unpack it first";
                Err(Error::switch("reflink", why))
            }
        }
    }

    /// Submits a file of `size` bytes (not 0) from a stream. `data` lists the ranges (offset,
    /// length) that the stream contains, in order. The result must be read until it gives `None`.
    pub(crate) fn stream<'f>(
        &'f mut self,
        file: u32,
        from: &'f mut dyn Read,
        size: u64,
        data: &'f [(u64, u64)],
    ) -> Result<StreamedFile<'f, 'p, 'env, S>> {
        let mut from = ScatteredReader { from, data, at: 0 };
        match self.small(size) {
            Some(len) => self.gather(file, &mut from, len)?,
            None => self.send_streamed(),
        }
        Ok(StreamedFile { feed: self, file, from, size })
    }

    /// Returns the next finished job if the read-ahead is full; `None` if there is room for another file.
    pub(crate) fn next(&mut self) -> Option<FedBlocks> {
        while !self.is_full() {
            if !self.read_on() {
                return None;
            }
        }
        self.oldest()
    }

    /// Returns the next finished job after the last file; `None` if nothing is left.
    pub(crate) fn rest(&mut self) -> Option<FedBlocks> {
        self.send_batch();
        self.send_streamed();
        self.next().or_else(|| self.oldest())
    }

    pub(super) fn is_full(&self) -> bool {
        self.window.is_full()
    }

    pub(super) fn oldest(&mut self) -> Option<FedBlocks> {
        self.cutter.stages.time(Stage::Wait, || self.window.pop())
    }

    pub(super) fn push(&mut self, ticket: JobTicket<FedBlocks>, bytes: usize) {
        // Jobs without bytes count too, so that a million holes do not pile up.
        self.window.push(ticket, bytes.max(1024));
    }

    /// Returns the length of a file if it is shorter than a block.
    fn small(&self, size: u64) -> Option<usize> {
        usize::try_from(size).ok().filter(|len| *len < self.cutter.block_len)
    }

    /// Submits the next segment of the large file being read; returns false if there is none.
    fn read_on(&mut self) -> bool {
        let Some(reading) = &mut self.reading else { return false };
        let Some(segment) = reading.segments.next() else {
            self.reading = None;
            return false;
        };
        let file = reading.file;
        let key = reading.key;
        let last = segment.end() == reading.size;
        if segment.hole {
            self.push(
                JobTicket::ready(FedBlocks::Blocks { file, cuts: Ok(vec![FileBlock::Hole(segment.len)]), last }),
                0,
            );
            return true;
        }
        let cutter = self.cutter.clone();
        let from = reading.from.clone();
        let job = move |_: &mut S| FedBlocks::Blocks { file, cuts: cutter.segment(&*from, key, segment), last };
        self.push(self.pool.submit(job), usize::try_from(segment.len).unwrap_or(usize::MAX));
        true
    }

    /// Adds a small file from a stream to the batch.
    fn gather(&mut self, file: u32, from: &mut ScatteredReader<'_>, len: usize) -> Result<()> {
        let most = BATCH_LEN.max(self.cutter.block_len);
        let used = self.streamed.as_ref().and_then(|(_, files)| files.last()).map_or(0, |(_, range)| range.end);
        if used + len > most {
            self.send_streamed();
        }
        let (bytes, files) = self.streamed.get_or_insert_with(|| (self.batch_buffers.take(most), Vec::new()));
        let start = files.last().map_or(0, |(_, range)| range.end);
        self.cutter.stages.time(Stage::Stream, || from.fill(&mut bytes[start..start + len]))?;
        files.push((file, start..start + len));
        if files.len() == BATCH_FILES {
            self.send_streamed();
        }
        Ok(())
    }

    fn send_batch(&mut self) {
        if self.batch.files.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        let len = batch.len;
        let mut bytes = self.batch_buffers.take(len);
        let stages = self.cutter.stages;
        let sums = self.cutter.sums.clone();
        let ticket = self.pool.submit(move |_: &mut S| {
            let read = stages.time(Stage::Read, || read_batch(&batch, &mut bytes));
            hash_batch(bytes, read, sums.as_ref(), stages)
        });
        self.push_batch(ticket, len);
    }

    fn send_streamed(&mut self) {
        let Some((bytes, files)) = self.streamed.take() else { return };
        let stages = self.cutter.stages;
        let len = files.last().map_or(0, |(_, range)| range.end);
        let read = files.into_iter().map(|(file, range)| (file, Ok(range))).collect();
        let sums = self.cutter.sums.clone();
        let ticket = self.pool.submit(move |_: &mut S| hash_batch(bytes, read, sums.as_ref(), stages));
        self.push_batch(ticket, len);
    }

    /// Submits a batch of very small files as if it were larger: a few batches keep all workers busy.
    fn push_batch(&mut self, ticket: JobTicket<FedBlocks>, len: usize) {
        self.push(ticket, len.max(BATCH_LEN));
    }
}

/// Files with the ranges of their bytes.
type FileRanges = Vec<(u32, Result<Range<usize>>)>;

fn read_batch(batch: &SmallBatch, bytes: &mut [u8]) -> FileRanges {
    let mut start = 0;
    let read = batch.files.iter().map(|small| {
        let range = start..start + small.len;
        start = range.end;
        (
            small.file,
            read_whole(&*batch.sources[small.source as usize], small.key, &mut bytes[range.clone()]).map(|()| range),
        )
    });
    read.collect()
}

fn hash_batch(bytes: Buffer, read: FileRanges, sums: Option<&FileDigests>, stages: &Stages) -> FedBlocks {
    let hash = |file: u32, range: Range<usize>| {
        let part = &bytes[range.clone()];
        if let Some(sums) = sums {
            sums.whole(file, part);
        }
        let digest = Digest::of(part);
        (range, digest)
    };
    let hash_all = |(file, read): (u32, Result<Range<usize>>)| (file, read.map(|range| hash(file, range)));
    let files = stages.time(Stage::Hash, || read.into_iter().map(hash_all).collect());
    FedBlocks::Small { bytes, files }
}

fn read_whole(from: &dyn Contents, key: u64, bytes: &mut [u8]) -> Result<()> {
    let mut open = from.open(key)?;
    open.read_exact_at(bytes, 0)?;
    open.finish()
}

#[cfg(test)]
mod tests;
