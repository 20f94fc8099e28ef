//! SquashFS 4.0: see docs/formats/squashfs.md.

mod compressor;
pub mod format;
mod limits;
mod reader;
mod writer;

pub use reader::{CompressorOptions, ReadOptions, Reader, Superblock};
pub use writer::{Counts, Details, Fragments, Options, build, build_to};

#[cfg(test)]
mod tests;
