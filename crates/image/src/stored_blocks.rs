//! Enumeration of the blocks that an image stores in encoded form, for programs that move stored bytes from one image to
//! another, such as patches. It says how each block is decoded, and decodes none.

use std::collections::HashSet;

use packfs_codec::Codec;

use crate::image::Nid;
use crate::sink::Walk;
use crate::{AnyImage, Result};

/// A block of encoded bytes, or of plain ones that need not be aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredBlock {
    /// Offset in the image.
    pub position: u64,
    /// Length in the image in bytes.
    pub len: u64,
    /// How the stored bytes are decoded.
    pub coding: BlockCoding,
    /// Number of bytes that they decode to.
    pub decoded_len: DecodedLen,
    /// Where the bytes that follow the decoded ones can be read, if they belong to the same file. Encoders that fill
    /// blocks of a given length look at them.
    pub continuation: Option<FilePosition>,
}

/// Way in which a block is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockCoding {
    /// As it is.
    Plain,
    /// One stream of a codec that takes the whole block (data and fragments of SquashFS).
    Block(Codec),
    /// The same, of at most 8 KiB of metadata (SquashFS).
    Metadata(Codec),
    /// One stream of a codec at the end of the block, after zeros (EROFS).
    Cluster(Codec),
}

/// Number of bytes that a block decodes to, as far as metadata says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodedLen {
    /// This number.
    Exactly(u64),
    /// At most this number.
    AtMost(u64),
    /// At least this number: files use only the beginning of the block.
    AtLeast(u64),
}

/// A position in a file of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePosition {
    /// The inode; in EROFS it may be that of the packed inode or the metabox.
    pub nid: Nid,
    /// Offset in bytes.
    pub offset: u64,
}

impl AnyImage {
    /// Lists all blocks that the image stores in encoded form, by position and without overlaps. What lies between them,
    /// such as superblock, tables and inodes of EROFS, is stored as it is. Blocks on additional devices are left out.
    ///
    /// Reads metadata, and no data. Takes about 100 bytes of memory for each block.
    ///
    /// # Errors
    /// Damaged metadata.
    pub fn stored_blocks(&self) -> Result<Vec<StoredBlock>> {
        let mut blocks = Vec::new();
        let mut add = |block: StoredBlock| blocks.push(block);
        match self {
            AnyImage::Squashfs(reader) => reader.table_blocks(&mut add)?,
            AnyImage::Erofs(reader) => reader.special_blocks(&mut add)?,
        }
        let mut seen = HashSet::new();
        let mut walk = Walk::new(self.image(), &[])?;
        while let Some(visit) = walk.step()? {
            if seen.insert(visit.nid) {
                match self {
                    AnyImage::Squashfs(reader) => reader.file_blocks(visit.nid, &visit.stat, &mut add)?,
                    AnyImage::Erofs(reader) => reader.inode_blocks(visit.nid, &mut add)?,
                }
            }
        }
        let image_len = match self {
            AnyImage::Squashfs(reader) => reader.image_len(),
            AnyImage::Erofs(reader) => reader.image_len(),
        };
        Ok(without_overlaps(blocks, image_len))
    }
}

/// Sorts blocks, and leaves out those that overlap earlier ones or end after the image. Of one block that several files
/// share, the one that says most about its length remains.
fn without_overlaps(mut blocks: Vec<StoredBlock>, image_len: u64) -> Vec<StoredBlock> {
    let knowledge = |block: &StoredBlock| match block.decoded_len {
        DecodedLen::Exactly(len) => (0, u64::MAX - len),
        DecodedLen::AtLeast(len) => (1, u64::MAX - len),
        DecodedLen::AtMost(len) => (2, len),
    };
    blocks.sort_by_key(|block| (block.position, block.len, knowledge(block)));
    let mut end = 0;
    blocks.retain(|block| {
        let block_end = block.position.saturating_add(block.len);
        let is_kept = block.position >= end && block_end <= image_len && block.len > 0;
        if is_kept {
            end = block_end;
        }
        is_kept
    });
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_overlapping_blocks_the_first_and_best_known_remains() {
        let block = |position, len, decoded_len| StoredBlock {
            position,
            len,
            coding: BlockCoding::Plain,
            decoded_len,
            continuation: None,
        };
        let blocks = vec![
            block(30, 10, DecodedLen::Exactly(5)),
            block(10, 10, DecodedLen::AtLeast(50)),
            block(10, 10, DecodedLen::Exactly(40)),
            block(15, 10, DecodedLen::Exactly(5)),
            block(38, 4, DecodedLen::Exactly(5)),
            block(95, 10, DecodedLen::Exactly(5)),
        ];
        let kept = without_overlaps(blocks, 100);
        assert_eq!(kept, [block(10, 10, DecodedLen::Exactly(40)), block(30, 10, DecodedLen::Exactly(5))]);
    }
}
