//! Files from a stream: only the conductor can read them, so it cuts them itself and leaves the hashing to workers.

use std::io::Read;

use packfs_blocks::pipeline::JobTicket;
use packfs_blocks::stages::Stage;

use super::cut::FileBlock;
use super::feed::{BlockFeed, FedBlocks};
use crate::{Error, Result};

/// A file that is being read from a stream; see [`BlockFeed::stream`].
pub(crate) struct StreamedFile<'f, 'p, 'env, S> {
    pub(super) feed: &'f mut BlockFeed<'p, 'env, S>,
    pub(super) file: u32,
    pub(super) from: ScatteredReader<'f>,
    pub(super) size: u64,
}

impl<S> StreamedFile<'_, '_, '_, S> {
    /// Returns the next finished job if the read-ahead is full; `None` when the whole file is read.
    pub(crate) fn next(&mut self) -> Result<Option<FedBlocks>> {
        loop {
            if self.feed.is_full() {
                return Ok(self.feed.oldest());
            }
            if self.from.at == self.size {
                return Ok(None);
            }
            self.read_on()?;
        }
    }

    /// Reads and submits the next block or hole.
    fn read_on(&mut self) -> Result<()> {
        let feed = &mut *self.feed;
        let file = self.file;
        let left = self.size - self.from.at;
        let cutter = feed.cutter.clone();
        let block_len = cutter.block_len as u64;
        // Whole blocks only: the rest of a hole is read as zeros, with the data after it.
        let hole = self.from.hole_ahead(self.size) / block_len * block_len;
        if cutter.sparse && hole > 0 {
            self.from.at += hole;
            feed.push(
                JobTicket::ready(FedBlocks::Blocks { file, cuts: Ok(vec![FileBlock::Hole(hole)]), last: left == hole }),
                0,
            );
            return Ok(());
        }
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(cutter.block_len);
        let mut bytes = cutter.buffers.take(len);
        cutter.stages.time(Stage::Stream, || self.from.fill(&mut bytes))?;
        let last = left == len as u64;
        let job = move |_: &mut S| FedBlocks::Blocks { file, cuts: Ok(vec![cutter.cut(bytes)]), last };
        feed.push(feed.pool.submit(job), len);
        Ok(())
    }
}

/// Reads a stream that contains only a file's data ranges as if it contained the zeros between them.
pub(super) struct ScatteredReader<'a> {
    pub(super) from: &'a mut dyn Read,
    /// Ranges of data still to come, as (offset, length).
    pub(super) data: &'a [(u64, u64)],
    /// Bytes of the file read so far.
    pub(super) at: u64,
}

impl ScatteredReader<'_> {
    /// Returns the range of data at or after the current offset as (start, end), dropping earlier ones.
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

    /// Fills `buf` with the file's next bytes.
    pub(super) fn fill(&mut self, mut buf: &mut [u8]) -> Result<()> {
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
