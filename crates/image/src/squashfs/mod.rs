//! SquashFS 4.0.
pub mod format;
mod reader;

pub use reader::{CompressorOptions, ReadOptions, Reader, Superblock};
