//! SquashFS 4.0: on-disk structures, reader and writer. docs/formats/squashfs.md describes the format.

mod compressor;
#[allow(unreachable_pub, reason = "raw structs are public to this crate only")]
mod format;
mod limits;
mod reader;
mod stream;
mod writer;

pub use format::SuperblockFlags;
pub(crate) use limits::check;
pub use reader::{BodyFacts, CompressorOptions, IndexEntry, InodeFacts, ReadOptions, SquashfsReader, Superblock};
pub use stream::complete;
pub(crate) use writer::resolve;
pub use writer::{Fragments, OPTIONS, SquashfsCounts, SquashfsDetails, SquashfsOptions, build, build_to};

#[cfg(test)]
mod tests;
