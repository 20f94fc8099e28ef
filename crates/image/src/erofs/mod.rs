//! EROFS: see docs/formats/erofs.md.

pub mod format;
mod kernel;
mod reader;
mod writer;

pub use kernel::{Feature, Kernel};
pub use reader::{ReadOptions, Reader, Superblock};
pub use writer::{Counts, Features, Options, Summary, build};

#[cfg(test)]
mod tests;
