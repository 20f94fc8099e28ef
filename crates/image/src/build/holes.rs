//! A limit on holes, which cost the source nothing but take some room in the image.

use packfs_blocks::units::Size;

use super::cut::FileBlock;
use super::feed::FedBlocks;
use crate::{Error, Result};

/// Maximum number of blocks of holes in all files. Each takes an entry in the block lists, in
/// memory and in the image, although an archive of a few hundred bytes can contain exbibytes of
/// holes. With blocks of 4 KiB, holes may have 512 GiB; their entries then take 512 MiB of a SquashFS image.
const MAX: u64 = 1 << 27;

/// Counts the blocks that are holes.
#[derive(Debug)]
pub(super) struct HoleCounter {
    block_len: u64,
    /// True if a file that is one hole needs no block list.
    whole_is_free: bool,
    blocks: u64,
    /// Blocks of the current file that do not count as long as it has no data.
    pending: u64,
    has_data: bool,
}

impl HoleCounter {
    pub(super) fn new(block_len: usize, whole_is_free: bool) -> Self {
        HoleCounter { block_len: block_len as u64, whole_is_free, blocks: 0, pending: 0, has_data: false }
    }

    /// Adds the holes in `fed`; fails if there are too many.
    pub(super) fn count(&mut self, fed: &FedBlocks) -> Result<()> {
        let last = match fed {
            FedBlocks::Blocks { cuts: Ok(cuts), last, .. } => {
                cuts.iter().for_each(|cut| self.add(if let FileBlock::Hole(len) = cut { Some(*len) } else { None }));
                *last
            }
            FedBlocks::Unread { unread: Ok(unread), .. } => {
                unread.segments.iter().for_each(|segment| self.add(segment.hole.then_some(segment.len)));
                true
            }
            _ => return Ok(()),
        };
        if self.has_data || !self.whole_is_free {
            self.blocks = self.blocks.saturating_add(std::mem::take(&mut self.pending));
        }
        if last {
            (self.pending, self.has_data) = (0, false);
        }
        if self.blocks <= MAX {
            return Ok(());
        }
        let block = self.block_len;
        let most = MAX.saturating_mul(self.block_len) >> 30;
        let why =
            format!("the files have more than {most} GiB of holes, which is too much in blocks of {}", Size(block));
        Err(Error::Unsupported(why))
    }

    /// Adds a hole of some bytes, or data.
    fn add(&mut self, hole: Option<u64>) {
        match hole {
            Some(len) => self.pending = self.pending.saturating_add(len / self.block_len),
            None => self.has_data = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use packfs_blocks::{Buffers, Digest};

    use super::*;

    #[test]
    fn holes_of_all_files_are_counted_together() {
        let hole = |len, last| FedBlocks::Blocks { file: 0, cuts: Ok(vec![FileBlock::Hole(len)]), last };
        let data = |last| {
            let digest = Digest::of(&[1]);
            let cuts = Ok(vec![FileBlock::Block(Buffers::new(4096).take(4096), digest)]);
            FedBlocks::Blocks { file: 0, cuts, last }
        };
        let half = MAX / 2 * 4096;
        let mut holes = HoleCounter::new(4096, false);
        assert!(holes.count(&hole(half, true)).is_ok() && holes.count(&hole(half, true)).is_ok());
        let error = holes.count(&hole(4096, true)).unwrap_err().to_string();
        assert!(error.contains("512 GiB of holes"), "{error}");
        assert!(HoleCounter::new(1 << 20, false).count(&hole(u64::MAX, true)).is_err());
        // If files that are one hole are free, holes count from the first data on.
        let mut holes = HoleCounter::new(4096, true);
        assert!(holes.count(&hole(u64::MAX, true)).is_ok() && holes.count(&hole(3 * half, false)).is_ok());
        assert!(holes.count(&data(true)).is_err());
    }
}
