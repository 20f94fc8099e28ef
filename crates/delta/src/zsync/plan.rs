//! `UpdatePlan`: where each block of the new file comes from.

use std::ops::Range;

use packfs_blocks::io::Storage;
use packfs_blocks::{Progress, ReadAt};

use crate::PatchEffort;
use crate::error::{Error, Result};

/// Longest gap between missing blocks that is fetched with them. A request and its answer have 600 bytes of headers, and
/// take one of 16 connections for a round trip: at 10 Mbit/s and 50 ms, 4 KiB pass the line in that share of it. Faster
/// lines would gain from longer gaps, but who updates by ranges pays for bytes. Computed, not measured.
const GAP_MAX: u64 = 4 << 10;
/// Longest range of one request, so that connections share what is missing. A connection that is cut goes on within it.
const RANGE_MAX: u64 = 1 << 20;
/// Bytes copied at a time. Not measured.
const COPY_LEN: u64 = 1 << 20;

/// The sources of all blocks of a new file, 8 bytes for each.
#[derive(Debug, Clone)]
pub struct UpdatePlan {
    len: u64,
    block_size: u64,
    sources: Vec<BlockSource>,
}

/// The source of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockSource(u64);

impl BlockSource {
    /// The block has to be fetched.
    const MISSING: BlockSource = BlockSource(u64::MAX);
    /// The block is in its place in the new file.
    const KEPT: BlockSource = BlockSource(u64::MAX - 1);

    /// Returns the offset in the old file.
    fn offset(self) -> Option<u64> {
        (self != BlockSource::MISSING && self != BlockSource::KEPT).then_some(self.0)
    }
}

/// A range of the old file that is copied.
struct CopiedRange {
    old_offset: u64,
    new_offset: u64,
    len: u64,
}

impl UpdatePlan {
    pub(super) fn new(len: u64, block_size: u32, blocks: usize) -> Self {
        UpdatePlan { len, block_size: block_size.into(), sources: vec![BlockSource::MISSING; blocks] }
    }

    /// Notes that a block is in its place.
    pub(super) fn keep(&mut self, block: usize) {
        self.sources[block] = BlockSource::KEPT;
    }

    /// Notes where the old file has a block, unless a source is known.
    pub(super) fn copy(&mut self, block: usize, old_offset: u64) {
        if self.is_missing(block) {
            self.sources[block] = BlockSource(old_offset);
        }
    }

    pub(super) fn is_missing(&self, block: usize) -> bool {
        self.sources[block] == BlockSource::MISSING
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.sources.len()
    }

    /// Returns the number of blocks that are copied from the old file.
    pub fn copied_blocks(&self) -> usize {
        self.sources.iter().filter(|source| source.offset().is_some()).count()
    }

    /// Returns the number of blocks that are in their places already.
    pub fn kept_blocks(&self) -> usize {
        self.sources.iter().filter(|source| **source == BlockSource::KEPT).count()
    }

    /// Returns the ranges of the new file to fetch, in order: missing blocks, with short gaps between them, in pieces of at
    /// most 1 MiB or one block.
    pub fn missing_ranges(&self) -> Vec<Range<u64>> {
        let piece_max = RANGE_MAX.max(self.block_size);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (block, _) in self.sources.iter().enumerate().filter(|(_, source)| **source == BlockSource::MISSING) {
            let bytes = self.bytes_of(block);
            match ranges.last_mut() {
                Some(last) if bytes.start <= last.end + GAP_MAX && bytes.end - last.start <= piece_max => {
                    last.end = bytes.end;
                }
                _ => ranges.push(bytes),
            }
        }
        ranges
    }

    /// Returns the number of bytes to fetch.
    pub fn missing_bytes(&self) -> u64 {
        self.missing_ranges().iter().map(|range| range.end - range.start).sum()
    }

    /// Copies the blocks that the old file has to their places in the new one. Counts bytes as done.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Write`]; [`Error::Interrupted`].
    pub fn copy_blocks(&self, old: &dyn ReadAt, target: &dyn Storage, effort: &PatchEffort) -> Result<()> {
        let mut bytes = Vec::new();
        for CopiedRange { old_offset, new_offset, len } in self.copied_ranges() {
            let mut done = 0;
            while done < len {
                effort.check()?;
                let piece_len = COPY_LEN.min(len - done);
                bytes.clear();
                // What the old file does not have any more are the zeros that fill up its last block.
                bytes.resize(usize::try_from(piece_len).unwrap_or_default(), 0);
                let left = old.len().saturating_sub(old_offset + done).min(piece_len);
                let stored = &mut bytes[..usize::try_from(left).unwrap_or_default()];
                old.read_exact_at(stored, old_offset + done).map_err(Error::io("cannot read the old file"))?;
                target.write_all_at(&bytes, new_offset + done).map_err(Error::write("the new file"))?;
                Progress::add(&effort.progress.done, piece_len);
                done += piece_len;
            }
        }
        Ok(())
    }

    /// Returns the ranges to copy; blocks that follow each other in both files are one.
    fn copied_ranges(&self) -> impl Iterator<Item = CopiedRange> {
        let mut block = 0;
        std::iter::from_fn(move || {
            while block < self.sources.len() {
                let Some(old_offset) = self.sources[block].offset() else {
                    block += 1;
                    continue;
                };
                let first = block;
                let continues = |block: usize| {
                    let distance = (block - first) as u64 * self.block_size;
                    self.sources.get(block).is_some_and(|source| source.offset() == Some(old_offset + distance))
                };
                while continues(block) {
                    block += 1;
                }
                let new_offset = self.bytes_of(first).start;
                return Some(CopiedRange { old_offset, new_offset, len: self.bytes_of(block - 1).end - new_offset });
            }
            None
        })
    }

    /// Returns the bytes of a block in the new file.
    pub(super) fn bytes_of(&self, block: usize) -> Range<u64> {
        let start = block as u64 * self.block_size;
        start..self.len.min(start + self.block_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_blocks_are_fetched_with_short_gaps_in_ranges_that_connections_share() {
        const BLOCKS: usize = 4000;
        let mut plan = UpdatePlan::new(BLOCKS as u64 * 2048 - 100, 2048, BLOCKS);
        let missing = |block: usize| matches!(block, 1 | 3 | 6 | 10 | 1000..2000 | 3999);
        (0..BLOCKS).filter(|block| !missing(*block)).for_each(|block| plan.copy(block, block as u64 * 2048 + 5));
        let ranges = plan.missing_ranges();
        assert_eq!(ranges[..2], [2048..7 * 2048, 10 * 2048..11 * 2048], "gaps of one, two and three blocks");
        assert_eq!(ranges[2..].iter().map(|range| range.end - range.start).sum::<u64>(), 1000 * 2048 + 2048 - 100);
        assert!(ranges.iter().all(|range| range.end - range.start <= RANGE_MAX) && ranges.len() == 5);
        assert_eq!(plan.copied_blocks() + 1005, plan.blocks());
        let copied: Vec<_> = plan.copied_ranges().map(|range| range.new_offset / 2048).collect();
        assert_eq!(copied, [0, 2, 4, 7, 11, 2000]);
    }
}
