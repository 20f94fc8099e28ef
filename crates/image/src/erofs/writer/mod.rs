//! Building EROFS images: data as it comes, then one zone of metadata, then the superblock.

mod data;
mod fit;
mod index;
mod keep;
mod metadata;
mod pack;
mod stream;

use std::path::Path;

use packfs_blocks::Progress;
use packfs_codec::{Choice, Codec};
use serde::Serialize;

use super::kernel::Kernel;
use crate::source::Store;
use crate::{Error, OnError, Plan, Result};

bitflags::bitflags! {
    /// What an image may make use of.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Features: u32 {
        /// Ends of files, and files smaller than a cluster, are packed together.
        const FRAGMENTS = 0x1;
        /// All files are packed together.
        const ALL_FRAGMENTS = 0x2;
        /// Parts of files that are found elsewhere are shared.
        const DEDUPE = 0x4;
        /// The last cluster of a file lies behind its inode.
        const ZTAILPACKING = 0x8;
        /// Encoded extents, addresses of 48 bits.
        const BITS_48 = 0x10;
        /// Indexes of 8 bytes an entry, never packs.
        const FULL_INDEX = 0x20;
        /// Uncompressed files in chunks.
        const CHUNKS = 0x40;
        /// No plain tails behind inodes.
        const NO_INLINE = 0x80;
        /// Every inode extended.
        const EXTENDED_INODES = 0x100;
    }
}

/// How an image is built. [`Options::default`] is what the command line does without options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Codec, level and options.
    pub codec: Choice,
    /// Bytes of the largest physical cluster: a multiple of the block up to 1 MiB.
    pub cluster_size: u32,
    /// Bytes a block: a power of two from 512 to 4096.
    pub block_size: u32,
    /// What to make use of.
    pub features: Features,
    /// The oldest Linux that is to read the image.
    pub target_kernel: Kernel,
    /// Share equal files and large parts of files.
    pub dedup: bool,
    /// Turn blocks of zeros into holes.
    pub sparse: bool,
    /// Decode and compare each cluster as soon as it is encoded.
    pub verify: bool,
    /// Xattr names that begin so are written short: prefixes with their class, such as `user.mime.`.
    pub xattr_prefixes: Vec<Box<[u8]>>,
    /// UUID; without, one made of the image's contents.
    pub uuid: Option<[u8; 16]>,
    /// Label, at most 15 bytes.
    pub label: String,
    /// Bytes left free before the image (the file's start belongs to somebody else).
    pub offset: u64,
    /// The image's own time, in seconds since 1970; without, the newest time in the tree.
    pub time: Option<u32>,
    /// Replace an existing target.
    pub force: bool,
    /// What a file means that cannot be read or changes meanwhile.
    pub on_error: OnError,
    /// Compression threads; 0 does everything on the calling thread.
    pub threads: usize,
    /// Bytes that data in flight may take.
    pub memory: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            codec: Choice::new(Codec::Lz4hc),
            cluster_size: 64 << 10,
            block_size: 4096,
            features: Features::FRAGMENTS,
            target_kernel: Kernel::DEFAULT,
            dedup: true,
            sparse: true,
            verify: true,
            xattr_prefixes: Vec::new(),
            uuid: None,
            label: String::new(),
            offset: 0,
            time: None,
            force: false,
            on_error: OnError::Stop,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory: 64 << 20,
        }
    }
}

/// What was counted while data was put down. All in bytes but the `..._clusters`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Physical clusters written.
    pub clusters: u64,
    /// Of these, stored as they were because they do not shrink.
    pub raw_clusters: u64,
    /// File bytes that went to a codec.
    pub packed_bytes: u64,
    /// File bytes in the packed inode.
    pub fragment_bytes: u64,
    /// File bytes found to be there already.
    pub duplicate_bytes: u64,
    /// File bytes in holes.
    pub hole_bytes: u64,
}

/// What was built.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Length of the image.
    pub image_bytes: u64,
    /// Lengths of all files together, each hard-linked file once.
    pub file_bytes: u64,
    /// Bytes of file data in the image.
    pub data_bytes: u64,
    /// Bytes of everything else in the image.
    pub metadata_bytes: u64,
    /// Inodes.
    pub inodes: u32,
    /// Of these, regular files.
    pub files: u32,
    /// Of these, directories.
    pub directories: u32,
    /// The oldest Linux that reads the image.
    pub kernel: String,
    /// UUID of the image.
    pub uuid: String,
    /// What became of the data.
    pub data: Counts,
    /// Files left out because they could not be read, and why.
    pub left_out: Vec<(String, String)>,
}

/// Builds an image at `target` from what `fill` says; sources that can be read only once hand their data
/// to the store `fill` is given. The target appears whole, or not at all.
pub fn build(
    target: &Path,
    options: &Options,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<Summary> {
    let _ = (target, options, progress, fill);
    Err(Error::Unsupported("EROFS is not built yet".into()))
}
