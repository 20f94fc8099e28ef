//! Any bytes as a SquashFS image.

use std::sync::Arc;

use packfs_image::squashfs::{ReadOptions, SquashfsReader};

/// Opens it and does everything a reader can do with it.
pub fn look(bytes: &[u8]) {
    let options = ReadOptions::default().set(|all| all.cache_bytes = 1 << 20);
    if let Ok(image) = SquashfsReader::open(Arc::new(bytes.to_vec()), options) {
        crate::image::look(&image);
    }
}
