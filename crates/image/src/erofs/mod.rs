//! EROFS: on-disk structures, reader and writer. docs/formats/erofs.md describes the format.

pub mod composefs;
#[allow(unreachable_pub, reason = "raw structs are public to this crate only")]
mod format;
mod hash;
mod kernel;
mod limits;
mod page_end;
mod raw_sharing;
mod reader;
mod writer;

pub use format::{Compat, Incompat, LZ4_BLOCKS_MAX, Layout};
pub use kernel::{Feature, Kernel};
pub(crate) use limits::check;
pub use reader::{AdditionalDevice, ErofsCompression, ErofsReader, InodeFacts, ReadOptions, Superblock};
pub use writer::{
    ErofsCounts, ErofsDetails, ErofsOptions, Features, INODE_DIGEST, Metabox, OPTIONS, build, build_to, uuid_text,
};
pub(crate) use writer::{piece_len, resolve};

#[cfg(test)]
mod tests;
