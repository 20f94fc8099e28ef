//! The data of an inode: the fields that locate it, and what of it follows the inode.

use super::index::FileIndex;
use crate::erofs::format::{Incompat, Layout, chunk_format};
use crate::erofs::writer::options::ErofsOptions;
use crate::erofs::writer::stored::data::StoredData;
use crate::erofs::writer::stored::file::{DataView, StoredFile};
use crate::erofs::writer::stored::tails::KeptTail;

/// Format features and algorithms that inodes use.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UsedFeatures {
    pub(crate) features: Incompat,
    /// A bit each.
    pub(crate) algorithms: u16,
}

impl std::ops::BitOrAssign for UsedFeatures {
    fn bitor_assign(&mut self, other: UsedFeatures) {
        self.features |= other.features;
        self.algorithms |= other.algorithms;
    }
}

/// Form of the addresses of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkEntry {
    /// 4 bytes.
    Block,
    /// 8 bytes with the number of a device.
    Index,
    /// The same, with addresses of 48 bits.
    Index48,
}

impl ChunkEntry {
    pub(crate) fn len(self) -> usize {
        match self {
            ChunkEntry::Block => 4,
            ChunkEntry::Index | ChunkEntry::Index48 => 8,
        }
    }

    /// Returns the bits that the chunk format has for this form.
    pub(crate) fn format(self) -> u32 {
        u32::from(match self {
            ChunkEntry::Block => 0,
            ChunkEntry::Index => chunk_format::INDEXES,
            ChunkEntry::Index48 => chunk_format::INDEXES | chunk_format::BITS_48,
        })
    }

    /// Appends the address of a chunk on a device; a hole has all bits set.
    pub(crate) fn put(self, device: u16, block: Option<u64>, out: &mut Vec<u8>) {
        if self != ChunkEntry::Block {
            let high = match block {
                None if self == ChunkEntry::Index48 => u16::MAX,
                None => 0,
                Some(block) => high(block),
            };
            out.extend_from_slice(&high.to_le_bytes());
            out.extend_from_slice(&block.map_or(0, |_| device).to_le_bytes());
        }
        out.extend_from_slice(&low(address(block)).to_le_bytes());
    }
}

/// Data fields of an inode, and the data that follows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InodePayload<'a> {
    pub(crate) size: u64,
    /// First block, number of blocks, device number or chunk format.
    pub(crate) data: u64,
    pub(crate) follows: FollowingData<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FollowingData<'a> {
    Nothing,
    /// The data's tail, in one block.
    Tail(&'a [u8]),
    /// The data's tail, kept elsewhere.
    Kept(KeptTail),
    /// Addresses of chunks.
    Chunks(u16, &'a [Option<u64>]),
    /// Number of chunks that are holes.
    Holes(u32),
    Index(FileIndex<'a>),
}

impl<'a> InodePayload<'a> {
    pub(crate) fn empty(data: u64) -> Self {
        InodePayload { size: 0, data, follows: FollowingData::Nothing }
    }

    pub(crate) fn of(data: &'a StoredData, stored: &'a StoredFile, options: &ErofsOptions) -> Self {
        let (first, follows) = match stored.view() {
            DataView::Plain { start: None, tail, .. } if tail.len() == 0 && stored.size > 0 => {
                hole(stored.size, options)
            }
            DataView::Plain { device, start, tail } => {
                let start = address(start.map(|start| start + data.device_start(device)));
                (start, if tail.len() == 0 { FollowingData::Nothing } else { FollowingData::Kept(tail) })
            }
            DataView::Chunks { device, bits, blocks } => (u64::from(bits), FollowingData::Chunks(device, blocks)),
            DataView::Compressed { parts, tail } => {
                let index = data.index(stored.size, parts, tail);
                // Linux shows the number in `st_blocks` and checks it nowhere, so a larger one may become the
                // largest.
                (index.blocks().min(u32::MAX.into()), FollowingData::Index(index))
            }
        };
        InodePayload { size: stored.size, data: first, follows }
    }

    /// Returns the layout to declare, with an index `at` bytes after a multiple of 32.
    pub(crate) fn layout(&self, at: usize) -> Layout {
        match self.follows {
            FollowingData::Nothing => Layout::Plain,
            FollowingData::Tail(_) | FollowingData::Kept(_) => Layout::Inline,
            FollowingData::Chunks(..) | FollowingData::Holes(_) => Layout::Chunks,
            FollowingData::Index(index) => index.layout(at),
        }
    }

    pub(crate) fn uses(&self) -> UsedFeatures {
        let features = match self.follows {
            FollowingData::Nothing | FollowingData::Tail(_) | FollowingData::Kept(_) => Incompat::empty(),
            FollowingData::Chunks(..) | FollowingData::Holes(_) => Incompat::CHUNKED_FILES,
            // What has to be together does not depend on where the index begins.
            FollowingData::Index(index) if index.room(0).together > 0 => {
                Incompat::ZERO_PADDING | Incompat::TAIL_PACKING
            }
            FollowingData::Index(_) => Incompat::ZERO_PADDING,
        };
        let algorithms = if let FollowingData::Index(index) = self.follows { index.algorithms().bits() } else { 0 };
        UsedFeatures { features, algorithms }
    }
}

/// Returns the chunks of a file that is a hole: only recent kernels support unallocated blocks, and
/// not in all inodes.
pub(crate) fn hole<'a>(size: u64, options: &ErofsOptions) -> (u64, FollowingData<'a>) {
    /// Chunks up to this size are read on any machine; larger ones keep the list short.
    const CHUNK_BITS: u32 = 30;
    const COUNT_BITS: u32 = 16;
    /// Largest difference to the block size that the format can store.
    const DIFFERENCE: u32 = 31;
    let size_bits = u64::BITS - (size - 1).leading_zeros();
    let block_bits = options.block_size.ilog2();
    let bits = size_bits.min(CHUNK_BITS.max(size_bits.saturating_sub(COUNT_BITS)));
    let bits = bits.clamp(block_bits, block_bits + DIFFERENCE);
    let count = u32::try_from(size.div_ceil(1 << bits)).expect("few enough for large chunks");
    (u64::from(bits - block_bits), FollowingData::Holes(count))
}

/// Returns the address of a block, or that of no block, which has all 48 bits set. Of it, narrow fields take the lower 32.
pub(crate) fn address(block: Option<u64>) -> u64 {
    block.unwrap_or((1 << 48) - 1)
}

pub(crate) fn low(address: u64) -> u32 {
    u32::try_from(address & u64::from(u32::MAX)).expect("32 bits")
}

/// Returns bits 32 to 47 of an address; they are 0 unless the image has addresses of 48 bits.
pub(crate) fn high(address: u64) -> u16 {
    u16::try_from(address >> 32).expect("checked when the data had its length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_no_block_has_all_bits_of_an_address() {
        for (block, parts) in [
            (None, (u16::MAX, u32::MAX)),
            (Some(0), (0, 0)),
            (Some(0xffff_ffff), (0, u32::MAX)),
            (Some(1 << 32), (1, 0)),
        ] {
            assert_eq!((high(address(block)), low(address(block))), parts, "{block:?}");
        }
    }
}
