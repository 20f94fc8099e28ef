//! The number of blocks on each level of a tree, and their order in the hash area.

use crate::hashing::HashAlgorithm;

/// Levels of a tree over blocks of data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeShape {
    /// Levels from the lowest, which has the digests of the data, to the one with a single block. There is none over a
    /// single block of data: its digest is the root.
    pub(crate) levels: Vec<TreeLevel>,
    /// Number of blocks of all levels.
    pub(crate) blocks: u64,
}

/// One level of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeLevel {
    /// Index of its first block, counted in blocks from the start of the tree.
    pub(crate) first_block: u64,
    /// Number of its blocks.
    pub(crate) blocks: u64,
}

impl TreeShape {
    /// Returns the shape of a tree over `data_blocks` blocks, with hash blocks of `block_size` bytes. The highest level
    /// comes first in the hash area.
    pub(crate) fn new(data_blocks: u64, block_size: u32, algorithm: HashAlgorithm) -> Self {
        // 512 / 64 = 8 is the least, so each level is smaller than the one below and the loop ends.
        let digests_per_block = u64::from(block_size) / algorithm.digest_len() as u64;
        let mut counts = Vec::new();
        let mut below = data_blocks;
        while below > 1 {
            below = below.div_ceil(digests_per_block);
            counts.push(below);
        }
        let blocks = counts.iter().sum();
        // Levels are listed from the lowest, which lies last in the area: places are given out from the end.
        let mut end = blocks;
        let place = |count: u64| {
            end -= count;
            TreeLevel { first_block: end, blocks: count }
        };
        TreeShape { levels: counts.into_iter().map(place).collect(), blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_hold_the_digests_of_the_level_below_and_the_highest_is_first() {
        let shape = |data_blocks, algorithm| {
            let shape = TreeShape::new(data_blocks, 4096, algorithm);
            (shape.blocks, shape.levels.iter().map(|level| (level.first_block, level.blocks)).collect::<Vec<_>>())
        };
        for (data_blocks, blocks, levels) in [
            (1, 0, vec![]),
            (2, 1, vec![(0, 1)]),
            (128, 1, vec![(0, 1)]),
            (129, 3, vec![(1, 2), (0, 1)]),
            (128 * 128 + 1, 132, vec![(3, 129), (1, 2), (0, 1)]),
        ] {
            assert_eq!(shape(data_blocks, HashAlgorithm::Sha256), (blocks, levels), "{data_blocks}");
        }
        assert_eq!(shape(129, HashAlgorithm::Sha512), (4, vec![(1, 3), (0, 1)]));
        // As many blocks as there can be do not overflow.
        assert_eq!(TreeShape::new(u64::MAX, 512, HashAlgorithm::Sha512).levels.len(), 22);
    }
}
