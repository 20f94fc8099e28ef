//! Files in, hashed blocks out, in order: the first half of every writer's data path.
//!
//! Workers open, read, look for holes and hash; the conductor gets the results in the order in which it
//! handed the files in. Small files travel many to a job, large ones in segments that several workers
//! read at once. A stream is cut on the conductor, which is the only one that can read it, and hashed on
//! the workers all the same.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::hash::is_zero;
use packfs_blocks::pipeline::{Pool, Ticket, Window};
use packfs_blocks::stages::{Stage, Stages};
use packfs_blocks::{Buffer, Buffers, Digest};

use crate::source::{Contents, FileReader};
use crate::{Error, Result};

/// Most bytes and most files that travel in one batch.
pub(crate) const BATCH_LEN: usize = 256 << 10;
pub(crate) const BATCH_FILES: usize = 64;
/// Bytes of a large file that one job reads.
const SEGMENT_LEN: u64 = 1 << 20;
/// Shorter runs of zeros at the end of a file are data: a hole would cost more than it saves.
const HOLE_MIN: usize = 4096;

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
        /// Whether the file is complete.
        last: bool,
    },
}

/// A small file's bytes within a batch, and their digest.
pub(crate) type Part = (Range<usize>, Digest);

/// One piece of a file.
#[derive(Debug)]
pub(crate) enum Cut {
    /// So many bytes of zeros: whole blocks, but for the end of the file.
    Hole(u64),
    /// A block; only the last of a file may be short.
    Block(Buffer, Digest),
}

impl Cut {
    /// The cut as it is behind a hole, which goes on over a short end of zeros: those who see the holes of a file
    /// cannot tell it from them, so those who do not must not make something else of it.
    pub(crate) fn behind_hole(self) -> Cut {
        match self {
            Cut::Block(bytes, _) if bytes.len() < HOLE_MIN && is_zero(&bytes) => Cut::Hole(bytes.len() as u64),
            other => other,
        }
    }
}

/// What takes the blocks.
pub(crate) type Take<'a> = dyn FnMut(Fed) -> Result<()> + 'a;

/// Reads ahead of a writer, within a budget of bytes.
#[derive(Debug)]
pub(crate) struct Feed<'p, 'env, S> {
    pool: &'p Pool<'env, S>,
    cutter: Cutter<'env>,
    batch_buffers: Buffers,
    window: Window<Fed>,
    batch: Vec<Small>,
    batch_len: usize,
    streamed: Option<Streamed>,
}

/// Small files of a stream: their bytes, and which part is whose.
type Streamed = (Buffer, Vec<(u32, Range<usize>)>);

#[derive(Debug)]
struct Small {
    file: u32,
    from: Arc<dyn Contents>,
    key: u64,
    len: usize,
}

impl<'p, 'env, S> Feed<'p, 'env, S> {
    /// A feed of blocks of `block_len` bytes, in buffers from `buffers`; `sparse` says whether zero blocks
    /// become holes. What is done takes note of its time in `stages`.
    pub(crate) fn new(
        pool: &'p Pool<'env, S>,
        block_len: usize,
        buffers: Buffers,
        sparse: bool,
        budget: usize,
        stages: &'env Stages,
    ) -> Self {
        Feed {
            pool,
            cutter: Cutter { block_len, sparse, buffers, stages },
            batch_buffers: Buffers::new(BATCH_LEN.max(block_len)),
            window: Window::new(budget),
            batch: Vec::new(),
            batch_len: 0,
            streamed: None,
        }
    }

    /// Hands in a file of `size` bytes (not 0).
    pub(crate) fn file(
        &mut self,
        file: u32,
        from: &Arc<dyn Contents>,
        key: u64,
        size: u64,
        take: &mut Take<'_>,
    ) -> Result<()> {
        let small = usize::try_from(size).ok().filter(|len| *len < self.cutter.block_len);
        if let Some(len) = small {
            if self.batch_len + len > BATCH_LEN.max(self.cutter.block_len) || self.batch.len() == BATCH_FILES {
                self.send_batch(take)?;
            }
            self.batch_len += len;
            self.batch.push(Small { file, from: from.clone(), key, len });
            return Ok(());
        }
        self.send_batch(take)?;
        let (cutter, from) = (self.cutter.clone(), from.clone());
        if size <= SEGMENT_LEN {
            let job = move |_: &mut S| Fed::Blocks { file, cuts: cutter.whole(&*from, key, size), last: true };
            return self.push(self.pool.submit(job), usize::try_from(size).unwrap_or(usize::MAX), take);
        }
        let segments = match from.open(key).and_then(|mut open| cutter.segments(&mut *open, size)) {
            Ok(segments) => segments,
            Err(e) => {
                let failed = Ticket::ready(Fed::Blocks { file, cuts: Err(e), last: true });
                return self.push(failed, 0, take);
            }
        };
        for segment in segments {
            let last = segment.end() == size;
            if segment.hole {
                let cuts = Ok(vec![Cut::Hole(segment.len)]);
                self.push(Ticket::ready(Fed::Blocks { file, cuts, last }), 0, take)?;
            } else {
                let (cutter, from) = (cutter.clone(), from.clone());
                let job = move |_: &mut S| Fed::Blocks { file, cuts: cutter.segment(&*from, key, segment), last };
                let len = usize::try_from(segment.len).unwrap_or(usize::MAX);
                self.push(self.pool.submit(job), len, take)?;
            }
        }
        Ok(())
    }

    /// Hands in a file of `size` bytes (not 0) that comes through a stream: `data` lists the ranges
    /// (offset, length) whose bytes come, in order.
    pub(crate) fn stream(
        &mut self,
        file: u32,
        from: &mut dyn Read,
        size: u64,
        data: &[(u64, u64)],
        take: &mut Take<'_>,
    ) -> Result<()> {
        let block_len = self.cutter.block_len;
        let mut from = Scattered { from, data, at: 0 };
        if let Some(len) = usize::try_from(size).ok().filter(|len| *len < block_len) {
            let used = self.streamed.as_ref().and_then(|(_, files)| files.last()).map_or(0, |(_, range)| range.end);
            if used + len > BATCH_LEN.max(block_len) {
                self.send_streamed(take)?;
            }
            let stock = &self.batch_buffers;
            let (bytes, files) =
                self.streamed.get_or_insert_with(|| (stock.take(BATCH_LEN.max(block_len)), Vec::new()));
            let start = files.last().map_or(0, |(_, range)| range.end);
            self.cutter.stages.time(Stage::Stream, || from.fill(&mut bytes[start..start + len]))?;
            files.push((file, start..start + len));
            return if files.len() == BATCH_FILES { self.send_streamed(take) } else { Ok(()) };
        }
        self.send_streamed(take)?;
        let mut left = size;
        while left > 0 {
            let hole = from.hole_ahead(size) / block_len as u64 * block_len as u64;
            if self.cutter.sparse && hole > 0 {
                from.at += hole;
                left -= hole;
                let cuts = Ok(vec![Cut::Hole(hole)]);
                self.push(Ticket::ready(Fed::Blocks { file, cuts, last: left == 0 }), 0, take)?;
                continue;
            }
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(block_len);
            let mut bytes = self.cutter.buffers.take(len);
            self.cutter.stages.time(Stage::Stream, || from.fill(&mut bytes))?;
            left -= len as u64;
            let (cutter, last) = (self.cutter.clone(), left == 0);
            let job = move |_: &mut S| Fed::Blocks { file, cuts: Ok(vec![cutter.cut(bytes)]), last };
            self.push(self.pool.submit(job), len, take)?;
        }
        Ok(())
    }

    /// Hands out all that is still under way.
    pub(crate) fn finish(&mut self, take: &mut Take<'_>) -> Result<()> {
        self.send_batch(take)?;
        self.send_streamed(take)?;
        while let Some(fed) = self.oldest() {
            take(fed)?;
        }
        Ok(())
    }

    fn oldest(&mut self) -> Option<Fed> {
        self.cutter.stages.time(Stage::Wait, || self.window.pop())
    }

    fn push(&mut self, ticket: Ticket<Fed>, bytes: usize, take: &mut Take<'_>) -> Result<()> {
        // Even what holds no bytes takes its place, so that a million holes do not pile up.
        self.window.push(ticket, bytes.max(1024));
        while self.window.is_full() {
            self.oldest().map_or(Ok(()), &mut *take)?;
        }
        Ok(())
    }

    fn send_batch(&mut self, take: &mut Take<'_>) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let (batch, len) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.batch_len));
        let (mut bytes, stages) = (self.batch_buffers.take(len), self.cutter.stages);
        let ticket = self.pool.submit(move |_: &mut S| {
            let read = stages.time(Stage::Read, || read_batch(&batch, &mut bytes));
            hash_batch(bytes, read, stages)
        });
        self.push(ticket, BATCH_LEN, take)
    }

    fn send_streamed(&mut self, take: &mut Take<'_>) -> Result<()> {
        let Some((bytes, files)) = self.streamed.take() else { return Ok(()) };
        let stages = self.cutter.stages;
        let read = files.into_iter().map(|(file, range)| (file, Ok(range))).collect();
        let ticket = self.pool.submit(move |_: &mut S| hash_batch(bytes, read, stages));
        self.push(ticket, BATCH_LEN, take)
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

/// A run of blocks of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    offset: u64,
    len: u64,
    hole: bool,
}

impl Segment {
    fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Cuts files into blocks; what workers and conductor share.
#[derive(Debug, Clone)]
struct Cutter<'env> {
    block_len: usize,
    sparse: bool,
    buffers: Buffers,
    stages: &'env Stages,
}

impl Cutter<'_> {
    fn whole(&self, from: &dyn Contents, key: u64, size: u64) -> Result<Vec<Cut>> {
        let (mut open, segments) = self.stages.time(Stage::Read, || {
            let mut open = from.open(key)?;
            let segments = self.segments(&mut *open, size)?;
            Ok::<_, Error>((open, segments))
        })?;
        let mut cuts = Vec::new();
        for segment in segments {
            self.read(&mut *open, segment, &mut cuts)?;
        }
        self.stages.time(Stage::Read, || open.finish())?;
        Ok(cuts)
    }

    fn segment(&self, from: &dyn Contents, key: u64, segment: Segment) -> Result<Vec<Cut>> {
        let (mut open, mut cuts) = (from.open(key)?, Vec::new());
        self.read(&mut *open, segment, &mut cuts)?;
        open.finish()?;
        Ok(cuts)
    }

    fn read(&self, open: &mut (dyn FileReader + '_), segment: Segment, cuts: &mut Vec<Cut>) -> Result<()> {
        if segment.hole {
            cuts.push(Cut::Hole(segment.len));
            return Ok(());
        }
        let mut at = segment.offset;
        while at < segment.end() {
            let len = usize::try_from(segment.end() - at).unwrap_or(usize::MAX).min(self.block_len);
            let mut bytes = self.buffers.take(len);
            self.stages.time(Stage::Read, || open.read_exact_at(&mut bytes, at))?;
            cuts.push(self.cut(bytes));
            at += len as u64;
        }
        Ok(())
    }

    fn cut(&self, bytes: Buffer) -> Cut {
        let digest = self.stages.time(Stage::Hash, || {
            let hole = self.sparse && bytes.len() >= HOLE_MIN && is_zero(&bytes);
            (!hole).then(|| Digest::of(&bytes))
        });
        match digest {
            Some(digest) => Cut::Block(bytes, digest),
            None => Cut::Hole(bytes.len() as u64),
        }
    }

    /// Cuts a file at block boundaries into runs of blocks that are all hole and runs that are not, the
    /// latter of at most about [`SEGMENT_LEN`].
    fn segments(&self, open: &mut (dyn FileReader + '_), size: u64) -> Result<Vec<Segment>> {
        let block = self.block_len as u64;
        let most = SEGMENT_LEN.max(block) / block * block;
        let (mut segments, mut at) = (Vec::new(), 0);
        while at < size {
            let data = if self.sparse { open.next_data(at)? } else { Some((at, size)) };
            // Holes that do not cover a whole block are read as the zeros they are.
            let (start, end) = data.map_or((size, size), |(start, end)| {
                (start.max(at) / block * block, end.div_ceil(block).saturating_mul(block).min(size))
            });
            if start > at {
                segments.push(Segment { offset: at, len: start.min(size) - at, hole: true });
                at = start.min(size);
            }
            while at < end {
                let len = most.min(end - at);
                segments.push(Segment { offset: at, len, hole: false });
                at += len;
            }
        }
        Ok(segments)
    }
}

/// A stream that carries only a file's data ranges, read as if it carried the zeros between them.
struct Scattered<'a> {
    from: &'a mut dyn Read,
    data: &'a [(u64, u64)],
    at: u64,
}

impl Scattered<'_> {
    /// Ranges wholly behind are forgotten; the next one, if any.
    fn range(&mut self) -> Option<(u64, u64)> {
        while let Some((start, len)) = self.data.first().copied() {
            let end = start.saturating_add(len);
            if end > self.at {
                return Some((start, end));
            }
            self.data = &self.data[1..];
        }
        None
    }

    fn hole_ahead(&mut self, size: u64) -> u64 {
        let at = self.at;
        self.range().map_or(size, |(start, _)| start).saturating_sub(at)
    }

    fn fill(&mut self, mut buf: &mut [u8]) -> Result<()> {
        while !buf.is_empty() {
            let at = self.at;
            let (start, end) = self.range().unwrap_or((u64::MAX, u64::MAX));
            let (hole, len) = if start > at { (true, start - at) } else { (false, end - at) };
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(buf.len());
            let (part, rest) = buf.split_at_mut(len);
            if hole {
                part.fill(0);
            } else {
                self.from.read_exact(part).map_err(Error::io("cannot read the stream", "-"))?;
            }
            self.at += len as u64;
            buf = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
