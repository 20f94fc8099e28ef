//! The place of a tree: where its superblock and its blocks are.

use super::{SUPERBLOCK_LEN, Superblock};
use crate::error::{Error, Result};
use crate::tree::TreeShape;
use packfs_blocks::ReadAt;

/// Parameters of a tree, and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashArea {
    /// Parameters: read from the superblock, or known to the caller if there is none.
    pub superblock: Superblock,
    /// Byte offset of the first hash block, which is the highest, in the file or device of the hash area.
    pub tree_offset: u64,
}

impl HashArea {
    /// Returns the area whose superblock begins at `offset`.
    pub(crate) fn after_superblock(superblock: Superblock, offset: u64) -> Result<Self> {
        let block_size = u64::from(superblock.hash_block_size);
        // The superblock takes a whole hash block, as veritysetup counts the offset of the tree in hash blocks.
        let end = offset.checked_add(SUPERBLOCK_LEN as u64).and_then(|end| end.checked_next_multiple_of(block_size));
        let tree_offset = end.ok_or(Error::BadSuperblock("its tree would begin beyond every file"))?;
        Ok(HashArea { superblock, tree_offset })
    }

    /// Reads the superblock at `offset`.
    ///
    /// # Errors
    /// [`Error::Io`] if the file ends before; [`Error::BadSuperblock`] if there is none, or one that is wrong.
    pub fn read(file: &dyn ReadAt, offset: u64) -> Result<Self> {
        let mut bytes = [0; SUPERBLOCK_LEN];
        file.read_exact_at(&mut bytes, offset).map_err(Error::io("cannot read the verity superblock"))?;
        HashArea::after_superblock(Superblock::decode(&bytes)?, offset)
    }

    /// Returns the byte offset at which the tree ends; `None` if no file could be as long.
    pub fn end(&self) -> Option<u64> {
        let len = self.shape().blocks.checked_mul(self.superblock.hash_block_size.into())?;
        self.tree_offset.checked_add(len)
    }

    pub(crate) fn shape(&self) -> TreeShape {
        let Superblock { data_blocks, hash_block_size, algorithm, .. } = self.superblock;
        TreeShape::new(data_blocks, hash_block_size, algorithm)
    }
}
