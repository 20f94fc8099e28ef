//! SquashFS 4.0: see docs/formats/squashfs.md.

mod compressor;
pub mod format;
mod writer;

pub use writer::{Counts, Fragments, Options, Plan, Summary, build};
