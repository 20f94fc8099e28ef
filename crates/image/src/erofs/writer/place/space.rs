//! Room in the metadata zone.

use std::ops::Range;

use crate::erofs::format::INODE_SLOT;

/// Number of gaps remembered for later inodes. More would fill more gaps, and take inodes away from their neighbours,
/// with which they are read; the search would also take longer. Not measured.
const GAPS: usize = 16;

/// Allocates room in the zone. Addresses count from the zone's start, which is the start of a block.
#[derive(Debug)]
pub(crate) struct MetadataSpace {
    block: u64,
    end: u64,
    gaps: Vec<Range<u64>>,
}

impl MetadataSpace {
    pub(crate) fn new(block: u64) -> MetadataSpace {
        // An inode at 0 would have number 0, which many programs treat as invalid.
        MetadataSpace { block, end: INODE_SLOT, gaps: Vec::new() }
    }

    /// A space that has no inodes.
    pub(crate) fn empty(block: u64) -> MetadataSpace {
        MetadataSpace { block, end: 0, gaps: Vec::new() }
    }

    /// Allocates room for an inode and the data that follows it, `len` bytes of which the last
    /// `together` must be in one block.
    pub(crate) fn place(&mut self, len: u64, together: u64) -> u64 {
        for at in 0..self.gaps.len() {
            let gap = self.gaps[at].clone();
            let start = self.fit(gap.start, len, together);
            if start + len <= gap.end {
                self.gaps.remove(at);
                self.leave(gap.start..start);
                self.leave((start + len).next_multiple_of(INODE_SLOT)..gap.end);
                return start;
            }
        }
        let start = self.fit(self.end, len, together);
        let end = std::mem::replace(&mut self.end, (start + len).next_multiple_of(INODE_SLOT));
        self.leave(end..start);
        start
    }

    /// Allocates `len` bytes from the start of a block on; the rest of the last block is free.
    pub(crate) fn blocks(&mut self, len: u64) -> u64 {
        let start = self.end.next_multiple_of(self.block);
        self.leave(self.end..start);
        self.end = (start + len).next_multiple_of(INODE_SLOT);
        start
    }

    /// Returns the length of the zone.
    pub(crate) fn len(&self) -> u64 {
        self.end.next_multiple_of(self.block)
    }

    /// Returns the first position from `at` on whose last `together` bytes are in one block, but
    /// not at its start: if blocks are smaller than pages, Linux does not find a cluster there. It
    /// exists, as these are never more than [`tail_max`] or all of `len`.
    fn fit(&self, at: u64, len: u64, together: u64) -> u64 {
        let offset = |start: u64| (start + len - together) % self.block;
        let mut start = at;
        if together > self.block - offset(start) {
            start += (self.block - offset(start)).next_multiple_of(INODE_SLOT);
        }
        if (1..len).contains(&together) && offset(start) == 0 {
            start += INODE_SLOT;
        }
        assert!(offset(start) + together <= self.block);
        start
    }

    fn leave(&mut self, gap: Range<u64>) {
        if gap.is_empty() {
            return;
        }
        if self.gaps.len() == GAPS {
            // The oldest gap is the farthest from what is placed now.
            self.gaps.remove(0);
        }
        self.gaps.push(gap);
    }
}
