//! Files in, hashed blocks out, in order: the first half of every writer's data path.
//!
//! Workers open, read, look for holes and hash; the conductor pulls the results with [`Feed::next`] in the
//! order in which it handed the files in. Small files travel many to a job, large ones in segments that
//! several workers read at once.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::pipeline::{Pool, Ticket, Window};
use packfs_blocks::stages::{Stage, Stages};
use packfs_blocks::{Buffer, Buffers, Digest};

use super::cut::{Cut, Cutter, SEGMENT_LEN, Segment};
use super::stream::{Scattered, Stream};
use crate::Result;
use crate::source::Contents;

/// Most bytes and most files that travel in one batch.
pub(crate) const BATCH_LEN: usize = 256 << 10;
pub(crate) const BATCH_FILES: usize = 64;

/// A finished job's blocks. Files are named by the number they were handed in with.
#[derive(Debug)]
pub(crate) enum Fed {
    /// Whole files shorter than a block, one behind the other.
    Small {
        /// Their bytes.
        bytes: Buffer,
        /// Each file's part of `bytes`, or why it could not be read.
        files: Vec<(u32, Result<Part>)>,
    },
    /// The next blocks of a file; `last` when it ends with them.
    Blocks {
        /// The file.
        file: u32,
        /// Its next pieces, or why they could not be read.
        cuts: Result<Vec<Cut>>,
        /// True if the file is complete.
        last: bool,
    },
}

/// A small file's bytes within a batch, and their digest.
pub(crate) type Part = (Range<usize>, Digest);

/// How a format wants its files cut.
#[derive(Debug, Clone)]
pub(crate) struct Cutting {
    /// Bytes of a block.
    pub(crate) block_len: usize,
    /// Buffers for blocks.
    pub(crate) buffers: Buffers,
    /// Turn blocks of zeros into holes.
    pub(crate) sparse: bool,
    /// Bytes read ahead at most.
    pub(crate) budget: usize,
}

/// Reads ahead of a writer, within a budget of bytes.
///
/// The conductor hands in a file, then pulls with [`next`](Self::next) until there is room for another one;
/// after the last it pulls with [`rest`](Self::rest).
#[derive(Debug)]
pub(crate) struct Feed<'p, 'env, S> {
    pub(super) pool: &'p Pool<'env, S>,
    pub(super) cutter: Cutter<'env>,
    batch_buffers: Buffers,
    window: Window<Fed>,
    batch: Vec<Small>,
    batch_len: usize,
    streamed: Option<Streamed>,
    reading: Option<Reading>,
}

/// Small files of a stream: their bytes, and each file's part of them.
type Streamed = (Buffer, Vec<(u32, Range<usize>)>);

#[derive(Debug)]
struct Small {
    file: u32,
    from: Arc<dyn Contents>,
    key: u64,
    len: usize,
}

/// A large file, segments of which are still to be handed to workers.
#[derive(Debug)]
struct Reading {
    file: u32,
    from: Arc<dyn Contents>,
    key: u64,
    size: u64,
    segments: std::vec::IntoIter<Segment>,
}

impl<'p, 'env, S> Feed<'p, 'env, S> {
    /// A feed that reads on `pool` and adds the time its steps take to `stages`.
    pub(crate) fn new(pool: &'p Pool<'env, S>, cutting: Cutting, stages: &'env Stages) -> Self {
        let Cutting { block_len, buffers, sparse, budget } = cutting;
        Feed {
            pool,
            cutter: Cutter { block_len, sparse, buffers, stages },
            batch_buffers: Buffers::new(BATCH_LEN.max(block_len)),
            window: Window::new(budget),
            batch: Vec::new(),
            batch_len: 0,
            streamed: None,
            reading: None,
        }
    }

    /// Hands in a file of `size` bytes (not 0). All that [`next`](Self::next) had to give must have been taken.
    pub(crate) fn file(&mut self, file: u32, from: &Arc<dyn Contents>, key: u64, size: u64) {
        debug_assert!(self.reading.is_none(), "the file before is still being read");
        if let Some(len) = self.small(size) {
            if self.batch_len + len > BATCH_LEN.max(self.cutter.block_len) || self.batch.len() == BATCH_FILES {
                self.send_batch();
            }
            self.batch_len += len;
            self.batch.push(Small { file, from: from.clone(), key, len });
            return;
        }
        self.send_batch();
        let (cutter, from) = (self.cutter.clone(), from.clone());
        if size <= SEGMENT_LEN {
            let job = move |_: &mut S| Fed::Blocks { file, cuts: cutter.whole(&*from, key, size), last: true };
            return self.push(self.pool.submit(job), usize::try_from(size).unwrap_or(usize::MAX));
        }
        match from.open(key).and_then(|mut open| cutter.segments(&mut *open, size)) {
            Ok(segments) => self.reading = Some(Reading { file, from, key, size, segments: segments.into_iter() }),
            Err(e) => self.push(Ticket::ready(Fed::Blocks { file, cuts: Err(e), last: true }), 0),
        }
    }

    /// Hands in a file of `size` bytes (not 0) that comes through a stream: `data` lists the ranges
    /// (offset, length) whose bytes come, in order. The stream must be pulled until it gives `None`.
    pub(crate) fn stream<'f>(
        &'f mut self,
        file: u32,
        from: &'f mut dyn Read,
        size: u64,
        data: &'f [(u64, u64)],
    ) -> Result<Stream<'f, 'p, 'env, S>> {
        let mut from = Scattered { from, data, at: 0 };
        match self.small(size) {
            Some(len) => self.gather(file, &mut from, len)?,
            None => self.send_streamed(),
        }
        Ok(Stream { feed: self, file, from, size })
    }

    /// The next finished job once the read-ahead is full; `None` when there is room for another file.
    pub(crate) fn next(&mut self) -> Option<Fed> {
        while !self.is_full() {
            if !self.read_on() {
                return None;
            }
        }
        self.oldest()
    }

    /// The next finished job after the last file; `None` when nothing is left.
    pub(crate) fn rest(&mut self) -> Option<Fed> {
        self.send_batch();
        self.send_streamed();
        self.next().or_else(|| self.oldest())
    }

    pub(super) fn is_full(&self) -> bool {
        self.window.is_full()
    }

    pub(super) fn oldest(&mut self) -> Option<Fed> {
        self.cutter.stages.time(Stage::Wait, || self.window.pop())
    }

    pub(super) fn push(&mut self, ticket: Ticket<Fed>, bytes: usize) {
        // Even what holds no bytes takes its place, so that a million holes do not pile up.
        self.window.push(ticket, bytes.max(1024));
    }

    /// The length of a file that is shorter than a block.
    fn small(&self, size: u64) -> Option<usize> {
        usize::try_from(size).ok().filter(|len| *len < self.cutter.block_len)
    }

    /// Hands in the next segment of the large file being read; false if there is none.
    fn read_on(&mut self) -> bool {
        let Some(reading) = &mut self.reading else { return false };
        let Some(segment) = reading.segments.next() else {
            self.reading = None;
            return false;
        };
        let (file, key, last) = (reading.file, reading.key, segment.end() == reading.size);
        if segment.hole {
            self.push(Ticket::ready(Fed::Blocks { file, cuts: Ok(vec![Cut::Hole(segment.len)]), last }), 0);
            return true;
        }
        let (cutter, from) = (self.cutter.clone(), reading.from.clone());
        let job = move |_: &mut S| Fed::Blocks { file, cuts: cutter.segment(&*from, key, segment), last };
        self.push(self.pool.submit(job), usize::try_from(segment.len).unwrap_or(usize::MAX));
        true
    }

    /// Reads a small file from a stream into the batch.
    fn gather(&mut self, file: u32, from: &mut Scattered<'_>, len: usize) -> Result<()> {
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
        if self.batch.is_empty() {
            return;
        }
        let (batch, len) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.batch_len));
        let (mut bytes, stages) = (self.batch_buffers.take(len), self.cutter.stages);
        let ticket = self.pool.submit(move |_: &mut S| {
            let read = stages.time(Stage::Read, || read_batch(&batch, &mut bytes));
            hash_batch(bytes, read, stages)
        });
        self.push_batch(ticket, len);
    }

    fn send_streamed(&mut self) {
        let Some((bytes, files)) = self.streamed.take() else { return };
        let (stages, len) = (self.cutter.stages, files.last().map_or(0, |(_, range)| range.end));
        let read = files.into_iter().map(|(file, range)| (file, Ok(range))).collect();
        let ticket = self.pool.submit(move |_: &mut S| hash_batch(bytes, read, stages));
        self.push_batch(ticket, len);
    }

    /// Batches of very small files take the place of larger ones: few are enough to keep all workers busy.
    fn push_batch(&mut self, ticket: Ticket<Fed>, len: usize) {
        self.push(ticket, len.max(BATCH_LEN));
    }
}

/// Files, and where their bytes are.
type Ranges = Vec<(u32, Result<Range<usize>>)>;

fn read_batch(batch: &[Small], bytes: &mut [u8]) -> Ranges {
    let mut start = 0;
    let read = batch.iter().map(|small| {
        let range = start..start + small.len;
        start = range.end;
        (small.file, read_whole(&*small.from, small.key, &mut bytes[range.clone()]).map(|()| range))
    });
    read.collect()
}

fn hash_batch(bytes: Buffer, read: Ranges, stages: &Stages) -> Fed {
    let hash = |range: Range<usize>| {
        let digest = Digest::of(&bytes[range.clone()]);
        (range, digest)
    };
    let files = stages.time(Stage::Hash, || read.into_iter().map(|(file, range)| (file, range.map(hash))).collect());
    Fed::Small { bytes, files }
}

fn read_whole(from: &dyn Contents, key: u64, bytes: &mut [u8]) -> Result<()> {
    let mut open = from.open(key)?;
    open.read_exact_at(bytes, 0)?;
    open.finish()
}

#[cfg(test)]
mod tests;
