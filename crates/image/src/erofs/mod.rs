//! EROFS: see docs/formats/erofs.md.

pub mod format;
mod hash;
mod kernel;
mod limits;
mod page_end;
mod reader;
mod writer;

pub use kernel::{Feature, Kernel};
pub use reader::{Compression, Device, ReadOptions, Reader, Superblock};
pub use writer::{Counts, Details, Features, Options, build, build_to};

#[cfg(test)]
mod tests;
