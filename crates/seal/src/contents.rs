//! The file system in an image: what it needs of the device on which it is mounted.

use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_image::{AnyImage, OpenOptions};

/// Cache for decoded data in bytes. Only the superblock is read, so the least that is useful will do.
const CACHE_BYTES: u64 = 1 << 20;

/// Properties of the file system at the beginning of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageContents {
    /// Number of bytes that the file system takes, by its superblock.
    pub len: u64,
    /// Largest logical block size in bytes of a device on which Linux mounts it.
    pub device_block_max: u32,
}

impl ImageContents {
    /// Reads the superblock; `None` if the image is neither SquashFS nor EROFS.
    pub fn of(image: &Arc<dyn ReadAt>) -> Option<Self> {
        /// SquashFS takes the blocks of any device up to the page size.
        // That of most machines; those with larger pages take smaller blocks, too.
        const PAGE_SIZE: u32 = 4096;
        let options = OpenOptions::default().set(|all| all.cache_bytes = CACHE_BYTES);
        Some(match AnyImage::open(Arc::clone(image), options).ok()? {
            AnyImage::Squashfs(reader) => {
                ImageContents { len: reader.superblock().bytes_used, device_block_max: PAGE_SIZE }
            }
            AnyImage::Erofs(reader) => {
                let superblock = reader.superblock();
                // Both values come from an untrusted superblock; a saturated length is longer than any sealed range.
                let len = superblock.blocks.saturating_mul(superblock.block_size.into());
                ImageContents { len, device_block_max: superblock.block_size }
            }
        })
    }

    /// Returns the byte offset at which a tree begins that was appended to the image, with blocks of `block_size` bytes;
    /// `None` if no superblock is there.
    pub fn appended_tree(&self, image: &dyn ReadAt, block_size: u32) -> Option<u64> {
        // `seal` aligns trees to whole blocks, so there is one place to look.
        let offset = self.len.checked_next_multiple_of(block_size.into())?;
        let mut head = [0; crate::verity::SUPERBLOCK_LEN];
        image.read_exact_at(&mut head, offset).ok()?;
        crate::verity::Superblock::is_superblock(&head).then_some(offset)
    }
}
