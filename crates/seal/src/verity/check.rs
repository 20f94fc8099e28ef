//! Compares data with its tree, from the root down, as the kernel does when it reads.

use std::fmt;

use packfs_blocks::ReadAt;

use super::{HashArea, Superblock};
use crate::error::{Error, Result};
use crate::hashing::BlockHasher;
use crate::tree::{BlockSource, HashEffort, RootHash, TreeShape, hash_blocks};

/// A block that the kernel refuses to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerityFinding {
    /// The digest of the highest block is not the root hash: nothing can be read.
    RootHash,
    /// A block of digests differs from its digest: what lies below it cannot be read.
    HashBlock {
        /// Byte offset in the file of the hash area.
        offset: u64,
    },
    /// A block of data differs from its digest.
    DataBlock {
        /// Index of the block.
        block: u64,
        /// Byte offset in the image.
        offset: u64,
    },
}

impl fmt::Display for VerityFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerityFinding::RootHash => f.write_str("the root hash is not that of the hash tree"),
            VerityFinding::HashBlock { offset } => write!(f, "the hash block at byte {offset} does not match its hash"),
            VerityFinding::DataBlock { block, offset } => {
                write!(f, "data block {block} at byte {offset} does not match its hash")
            }
        }
    }
}

/// Compares the tree with its root hash, then all data with the tree, and reports each block that differs.
///
/// A tree whose root hash is wrong is not read any further: no block of it can be trusted.
///
/// # Errors
/// [`Error::Io`] if image or hash area end too early or cannot be read; [`Error::Interrupted`].
pub fn verify(
    data: &dyn ReadAt,
    hash_file: &dyn ReadAt,
    area: &HashArea,
    root_hash: &RootHash,
    effort: &HashEffort,
    report: &mut dyn FnMut(VerityFinding),
) -> Result<()> {
    let Superblock { algorithm, data_block_size, .. } = area.superblock;
    // Block counts come from the superblock; offsets below are computed without checks.
    if area.end().is_none() {
        return Err(Error::BadSuperblock("its tree would end beyond every file"));
    }
    let hasher = BlockHasher::new(algorithm, &area.superblock.salt);
    let mut tree = StoredTree { file: hash_file, area, shape: area.shape(), block: Vec::new(), held: None };
    if !tree.check_levels(&hasher, root_hash, report)? {
        report(VerityFinding::RootHash);
        return Ok(());
    }
    // decode() refused a product that overflows.
    let len = area.superblock.data_len().unwrap_or(u64::MAX);
    let source = BlockSource { data, len, block_size: data_block_size, hasher: &hasher };
    let mut block = 0;
    hash_blocks(source, effort, &mut |digests| {
        // Blocks below a damaged hash block are compared with it all the same: its sound digests still tell where the
        // data differs.
        for digest in digests.chunks_exact(algorithm.digest_len()) {
            if tree.digest_of_data(block, root_hash)? != digest {
                report(VerityFinding::DataBlock { block, offset: block * u64::from(data_block_size) });
            }
            block += 1;
        }
        Ok(())
    })
}

/// A tree in a file, of which one block is held.
struct StoredTree<'t> {
    file: &'t dyn ReadAt,
    area: &'t HashArea,
    shape: TreeShape,
    block: Vec<u8>,
    /// Byte offset of the block that is held.
    held: Option<u64>,
}

impl StoredTree<'_> {
    /// Compares all blocks of the tree with the digests in the blocks above. Returns false if the root hash is another one;
    /// then nothing else is read.
    fn check_levels(
        &mut self,
        hasher: &BlockHasher,
        root_hash: &RootHash,
        report: &mut dyn FnMut(VerityFinding),
    ) -> Result<bool> {
        let top = self.shape.levels.len();
        // From the top: if the root hash is wrong, the levels below may be anything, and reading them is a waste.
        for height in (0..top).rev() {
            for index in 0..self.shape.levels[height].blocks {
                let offset = self.offset_of(height, index);
                let mut block = vec![0; self.area.superblock.hash_block_size as usize];
                self.file.read_exact_at(&mut block, offset).map_err(Error::io("cannot read the hash tree"))?;
                let mut digest = Vec::new();
                hasher.append_digest(&block, &mut digest);
                if height + 1 == top {
                    if digest != root_hash.as_bytes() {
                        return Ok(false);
                    }
                } else if self.stored_digest(height + 1, index)? != digest {
                    report(VerityFinding::HashBlock { offset });
                }
            }
        }
        Ok(true)
    }

    /// Returns the digest that the tree has for a block of data.
    fn digest_of_data<'s>(&'s mut self, block: u64, root_hash: &'s RootHash) -> Result<&'s [u8]> {
        // A single block of data has no tree: its digest is the root hash itself.
        if self.shape.levels.is_empty() { Ok(root_hash.as_bytes()) } else { self.stored_digest(0, block) }
    }

    /// Returns the digest number `index` that a level stores.
    fn stored_digest(&mut self, height: usize, index: u64) -> Result<&[u8]> {
        let Superblock { algorithm, hash_block_size, .. } = self.area.superblock;
        let digests_per_block = u64::from(hash_block_size) / algorithm.digest_len() as u64;
        let offset = self.offset_of(height, index / digests_per_block);
        // Digests are asked for in order, so one held block saves nearly all reads.
        if self.held != Some(offset) {
            // A read that fails leaves half a block, which must not count as held.
            self.held = None;
            self.block.resize(hash_block_size as usize, 0);
            self.file.read_exact_at(&mut self.block, offset).map_err(Error::io("cannot read the hash tree"))?;
            self.held = Some(offset);
        }
        // Smaller than the number of digests in a block.
        let start = usize::try_from(index % digests_per_block).unwrap_or_default() * algorithm.digest_len();
        Ok(&self.block[start..start + algorithm.digest_len()])
    }

    fn offset_of(&self, height: usize, index: u64) -> u64 {
        // No overflow: `verify` computed the end of the tree with checks.
        let block = self.shape.levels[height].first_block + index;
        self.area.tree_offset + block * u64::from(self.area.superblock.hash_block_size)
    }
}
