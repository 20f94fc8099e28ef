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
use packfs_blocks::{Buffer, Buffers, Digest};

use crate::source::{Contents, FileReader};
use crate::{Error, Result};

/// Most bytes and most files that travel in one batch.
const BATCH_LEN: usize = 256 << 10;
const BATCH_FILES: usize = 64;
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

/// What takes the blocks.
pub(crate) type Take<'a> = dyn FnMut(Fed) -> Result<()> + 'a;

/// Reads ahead of a writer, within a budget of bytes.
#[derive(Debug)]
pub(crate) struct Feed<'p, 'env, S> {
    pool: &'p Pool<'env, S>,
    cutter: Cutter,
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
    /// become holes.
    pub(crate) fn new(
        pool: &'p Pool<'env, S>,
        block_len: usize,
        buffers: Buffers,
        sparse: bool,
        budget: usize,
    ) -> Self {
        Feed {
            pool,
            cutter: Cutter { block_len, sparse, buffers },
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
            from.fill(&mut bytes[start..start + len])?;
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
            from.fill(&mut bytes)?;
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
        while let Some(fed) = self.window.pop() {
            take(fed)?;
        }
        Ok(())
    }

    fn push(&mut self, ticket: Ticket<Fed>, bytes: usize, take: &mut Take<'_>) -> Result<()> {
        // Even what holds no bytes takes its place, so that a million holes do not pile up.
        self.window.push(ticket, bytes.max(1024));
        while self.window.is_full() {
            self.window.pop().map_or(Ok(()), &mut *take)?;
        }
        Ok(())
    }

    fn send_batch(&mut self, take: &mut Take<'_>) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let (batch, len) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.batch_len));
        let mut bytes = self.batch_buffers.take(len);
        let ticket = self.pool.submit(move |_: &mut S| {
            let mut start = 0;
            let files = batch
                .into_iter()
                .map(|small| {
                    let range = start..start + small.len;
                    start = range.end;
                    let part = &mut bytes[range.clone()];
                    let read = read_whole(&*small.from, small.key, part).map(|()| (range, Digest::of(part)));
                    (small.file, read)
                })
                .collect();
            Fed::Small { bytes, files }
        });
        self.push(ticket, BATCH_LEN, take)
    }

    fn send_streamed(&mut self, take: &mut Take<'_>) -> Result<()> {
        let Some((bytes, files)) = self.streamed.take() else { return Ok(()) };
        let ticket = self.pool.submit(move |_: &mut S| {
            let hashed = files.into_iter().map(|(file, range)| {
                let digest = Digest::of(&bytes[range.clone()]);
                (file, Ok((range, digest)))
            });
            Fed::Small { files: hashed.collect(), bytes }
        });
        self.push(ticket, BATCH_LEN, take)
    }
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
struct Cutter {
    block_len: usize,
    sparse: bool,
    buffers: Buffers,
}

impl Cutter {
    fn whole(&self, from: &dyn Contents, key: u64, size: u64) -> Result<Vec<Cut>> {
        let mut open = from.open(key)?;
        let mut cuts = Vec::new();
        for segment in self.segments(&mut *open, size)? {
            self.read(&mut *open, segment, &mut cuts)?;
        }
        open.finish()?;
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
            open.read_exact_at(&mut bytes, at)?;
            cuts.push(self.cut(bytes));
            at += len as u64;
        }
        Ok(())
    }

    fn cut(&self, bytes: Buffer) -> Cut {
        if self.sparse && bytes.len() >= HOLE_MIN && is_zero(&bytes) {
            return Cut::Hole(bytes.len() as u64);
        }
        let digest = Digest::of(&bytes);
        Cut::Block(bytes, digest)
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
#[allow(clippy::cast_possible_truncation, reason = "test data")]
mod tests {
    use super::*;
    use packfs_blocks::pipeline;
    use std::path::PathBuf;

    /// Files in memory with a stated data map.
    struct Memory(Vec<(Vec<u8>, Vec<(u64, u64)>)>);
    struct MemoryFile<'a>(&'a (Vec<u8>, Vec<(u64, u64)>));

    impl Contents for Memory {
        fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
            let file = usize::try_from(key).ok().and_then(|key| self.0.get(key));
            let file = file.ok_or_else(|| Error::Usage("no such file".into()))?;
            Ok(Box::new(MemoryFile(file)))
        }

        fn path(&self, key: u64) -> PathBuf {
            key.to_string().into()
        }
    }

    impl FileReader for MemoryFile<'_> {
        fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
            let at = usize::try_from(offset).unwrap();
            buf.copy_from_slice(&self.0.0[at..at + buf.len()]);
            Ok(())
        }

        fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
            let next = self.0.1.iter().find(|(_, end)| *end > offset);
            Ok(next.map(|(start, end)| (*start.max(&offset), *end)))
        }

        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// Puts the files together again from what the feed hands out.
    fn collect(files: &[(Vec<u8>, Vec<(u64, u64)>)], block_len: usize, threads: usize, stream: bool) -> Vec<Vec<u8>> {
        let mut got = vec![Vec::new(); files.len()];
        let mut order = Vec::new();
        let contents: Arc<dyn Contents> = Arc::new(Memory(files.to_vec()));
        pipeline::scope(
            threads,
            || (),
            |pool| {
                let mut feed = Feed::new(pool, block_len, Buffers::new(block_len), true, 1 << 16);
                let mut take = |fed: Fed| {
                    match fed {
                        Fed::Small { bytes, files } => {
                            for (file, read) in files {
                                let (range, digest) = read?;
                                assert_eq!(digest, Digest::of(&bytes[range.clone()]));
                                got[file as usize].extend_from_slice(&bytes[range]);
                                order.push(file);
                            }
                        }
                        Fed::Blocks { file, cuts, last } => {
                            for cut in cuts? {
                                match cut {
                                    Cut::Hole(len) => {
                                        let end = got[file as usize].len() + usize::try_from(len).unwrap();
                                        got[file as usize].resize(end, 0);
                                    }
                                    Cut::Block(bytes, digest) => {
                                        assert_eq!(digest, Digest::of(&bytes));
                                        assert_eq!(got[file as usize].len() % block_len, 0, "only the last is short");
                                        got[file as usize].extend_from_slice(&bytes);
                                    }
                                }
                            }
                            if last {
                                order.push(file);
                            }
                        }
                    }
                    Ok(())
                };
                for (n, (bytes, data)) in files.iter().enumerate() {
                    let (n, size) = (u32::try_from(n).unwrap(), bytes.len() as u64);
                    if stream {
                        let sent: Vec<u8> = data
                            .iter()
                            .flat_map(|(a, b)| &bytes[usize::try_from(*a).unwrap()..usize::try_from(*b).unwrap()])
                            .copied()
                            .collect();
                        let ranges: Vec<_> = data.iter().map(|(a, b)| (*a, b - a)).collect();
                        feed.stream(n, &mut &sent[..], size, &ranges, &mut take).unwrap();
                    } else {
                        feed.file(n, &contents, u64::from(n), size, &mut take).unwrap();
                    }
                }
                feed.finish(&mut take).unwrap();
            },
        );
        assert!(order.is_sorted(), "files come in order");
        got
    }

    #[test]
    fn every_file_comes_back_whole_and_in_order() {
        let sizes = [1usize, 4095, 4096, 4097, 12_288, 100_000, 2 << 20, (3 << 20) + 5, 10, 300_000];
        let mut files: Vec<_> = sizes
            .iter()
            .map(|len| {
                let bytes: Vec<u8> = (0..*len).map(|n| (n * 7 % 251 + 1) as u8).collect();
                (bytes, vec![(0, *len as u64)])
            })
            .collect();
        // Holes: at the start, in the middle off the block grid, at the end, everywhere.
        for data in [vec![(8192u64, 9000u64)], vec![(0, 5000), (2_500_000, 2_500_001)], vec![]] {
            let mut bytes = vec![0u8; 3_000_000];
            for (start, end) in &data {
                bytes[usize::try_from(*start).unwrap()..usize::try_from(*end).unwrap()].fill(9);
            }
            files.push((bytes, data));
        }
        let want: Vec<_> = files.iter().map(|(bytes, _)| bytes.clone()).collect();
        for (block_len, threads) in [(4096, 0), (4096, 2), (1 << 17, 2), (1 << 20, 1)] {
            for stream in [false, true] {
                assert_eq!(collect(&files, block_len, threads, stream), want, "{block_len} {threads} {stream}");
            }
        }
    }

    #[test]
    fn segments_follow_the_block_grid() {
        let cutter = Cutter { block_len: 4096, sparse: true, buffers: Buffers::new(4096) };
        let file = (vec![0; 20_000], vec![(5000, 5001), (16_384, 16_400)]);
        let seen: Vec<_> = cutter
            .segments(&mut MemoryFile(&file), 20_000)
            .unwrap()
            .iter()
            .map(|s| (s.offset, s.len, s.hole))
            .collect();
        assert_eq!(seen, [(0, 4096, true), (4096, 4096, false), (8192, 8192, true), (16_384, 3616, false)]);
    }
}
