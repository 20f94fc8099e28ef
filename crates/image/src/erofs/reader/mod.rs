//! Reads EROFS images of any writer.

use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::ReadAt;

/// How to read an image.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Most bytes of decoded data to keep, metadata included.
    pub cache_bytes: u64,
    /// What to call the image in messages.
    pub name: PathBuf,
    /// The further devices an image of several names, in its order; may be left out if all lie in one file.
    pub devices: Vec<Arc<dyn ReadAt>>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { cache_bytes: 32 << 20, name: PathBuf::from("image"), devices: Vec::new() }
    }
}

/// An opened EROFS image.
#[derive(Debug)]
pub struct Reader {}

/// The superblock, checked.
#[derive(Debug, Clone)]
pub struct Superblock {}
