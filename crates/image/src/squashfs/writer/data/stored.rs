//! Positions of written data: the place of each block, and the blocks and the tail of each file.

use std::num::NonZeroU32;
use std::ops::Range;

use packfs_blocks::dedup::BlockNumber;

use crate::squashfs::format::{BLOCK_SIZES, DATA_RAW};

/// Position of a block in the image, and its size word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockPlace {
    pub(crate) start: u64,
    pub(crate) word: u32,
}

impl BlockPlace {
    pub(crate) fn len(self) -> u64 {
        u64::from(self.word & !DATA_RAW)
    }
}

/// The tail of a file in a fragment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailPlace {
    pub(crate) fragment: u32,
    /// Offset in it, plus 1. As 0 is free to stand for a file without a tail, `Option` adds nothing to a record of
    /// which there may be millions.
    next: NonZeroU32,
}

impl TailPlace {
    /// Returns the place at an offset of a fragment; `None` if no block is that long.
    pub(crate) fn new(fragment: u32, offset: u32) -> Option<Self> {
        let offset = Some(offset).filter(|offset| offset < BLOCK_SIZES.end())?;
        let next = NonZeroU32::MIN.checked_add(offset)?;
        Some(TailPlace { fragment, next })
    }

    /// Returns the offset in the fragment.
    pub(crate) fn offset(self) -> u32 {
        self.next.get() - 1
    }
}

/// A file whose data is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct WrittenFile {
    pub(crate) size: u64,
    /// Sequence number of its first block; meaningless without blocks.
    pub(crate) first: BlockNumber,
    /// Total number of blocks, including holes.
    pub(crate) blocks: u32,
    pub(crate) tail: Option<TailPlace>,
    /// Few files have any, and an image may have millions of files.
    pub(in crate::squashfs::writer) holes: Option<Box<FileHoles>>,
}

/// The holes of a file.
#[derive(Debug, Clone, Default)]
pub(in crate::squashfs::writer) struct FileHoles {
    /// Ranges of block numbers within the file.
    pub(in crate::squashfs::writer) ranges: Vec<Range<u32>>,
    pub(in crate::squashfs::writer) bytes: u64,
}

const _: () = assert!(size_of::<WrittenFile>() <= 32);

impl WrittenFile {
    /// An empty file.
    pub(crate) const EMPTY: WrittenFile = WrittenFile { size: 0, first: 0, blocks: 0, tail: None, holes: None };

    /// Returns the holes, as ranges of block numbers within the file.
    pub(crate) fn holes(&self) -> &[Range<u32>] {
        self.holes.as_deref().map_or(&[], |holes| &holes.ranges)
    }

    /// Returns the number of bytes in holes.
    pub(crate) fn sparse(&self) -> u64 {
        self.holes.as_deref().map_or(0, |holes| holes.bytes)
    }

    /// Returns the sequence numbers of the blocks that are not holes.
    pub(crate) fn run(&self) -> Range<usize> {
        let holes: u32 = self.holes().iter().map(|hole| hole.end - hole.start).sum();
        let first = self.first as usize;
        first..first + (self.blocks - holes) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_within_the_longest_block() {
        for (offset, is_place) in [(0, true), ((1 << 20) - 1, true), (1 << 20, false), (u32::MAX, false)] {
            let place = TailPlace::new(7, offset).map(|place| (place.fragment, place.offset()));
            assert_eq!(place, is_place.then_some((7, offset)), "{offset}");
        }
    }
}
