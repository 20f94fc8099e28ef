//! Options of EROFS images.

use std::path::PathBuf;

use packfs_codec::Choice;

use crate::build;
use crate::erofs::kernel::Kernel;

/// Default length of pieces, and of chunks, of uncompressed files in bytes.
const RAW_PIECE: u32 = 128 << 10;
/// Maximum of [`Options::chunk_size`]: workers hold chunks in memory.
pub const CHUNK_MAX: u32 = 16 << 20;

/// Maximum of [`Options::data_align`].
pub const ALIGN_MAX: u32 = 16 << 20;

/// Usual name of [`Options::inode_digest`]; Linux does not show attributes without a class.
pub const INODE_DIGEST: &str = "erofs.fingerprint.v1";

bitflags::bitflags! {
    /// Optional features of an image.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Features: u32 {
        /// Fragments: tails of files, and files smaller than a cluster, are packed together.
        const FRAGMENTS = 0x1;
        /// All files are packed together.
        const ALL_FRAGMENTS = 0x2;
        /// Parts of files that occur elsewhere are shared.
        const DEDUPE = 0x4;
        /// Tail packing: the last cluster of a file follows its inode.
        const ZTAILPACKING = 0x8;
        /// Encoded extents, 48-bit addresses.
        const BITS_48 = 0x10;
        /// Full indexes of 8 bytes per entry, never compact ones.
        const FULL_INDEX = 0x20;
        /// Uncompressed files are chunk-based.
        const CHUNKS = 0x40;
        /// Uncompressed tails do not follow inodes.
        const NO_INLINE = 0x80;
        /// Every inode is extended.
        const EXTENDED_INODES = 0x100;
        /// Clusters begin and end at any byte ([`Features::BITS_48`]).
        const UNALIGNED = 0x200;
        /// Directories are compressed, in the packed inode.
        const COMPRESSED_DIRS = 0x400;
        /// Inodes are compressed, in the metabox ([`Features::BITS_48`]).
        const METABOX = 0x800;
        /// Directories have no entry `.` ([`Features::BITS_48`]).
        const DOT_OMITTED = 0x1000;
        /// The superblock has no checksum.
        const NO_CHECKSUM = 0x2000;
        /// No inode is extended.
        const COMPACT_INODES = 0x4000;
        /// Addresses of chunks have 8 bytes.
        const CHUNK_INDEXES = 0x8000;
    }
}

/// Options of a build. [`Options::default`] is the default of the command line without [`Features::DEDUPE`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Options that every format has.
    pub build: build::Options,
    /// Maximum size of a physical cluster in bytes: a multiple of the block up to 1 MiB.
    pub cluster_size: u32,
    /// Block size in bytes: a power of two from 512 to 4096.
    pub block_size: u32,
    /// Features to use.
    pub features: Features,
    /// The oldest Linux that must be able to read the image.
    pub target_kernel: Kernel,
    /// Prefixes of xattr names to store in short form, including their class, such as `user.mime.`.
    pub xattr_prefixes: Vec<Box<[u8]>>,
    /// Name of an attribute with the SHA-256 of each file that is not empty, by which Linux shares page cache between images;
    /// [`INODE_DIGEST`] is the usual one.
    pub inode_digest: Option<Box<[u8]>>,
    /// Share attributes that more inodes than this have. By default more than 2, and all long ones.
    pub xattr_share: Option<u32>,
    /// Length of chunks of images without compression in bytes: a power of two from the block to [`CHUNK_MAX`].
    pub chunk_size: u32,
    /// Maximum size in bytes of the physical clusters of the packed inode; by default [`Options::cluster_size`].
    pub fragment_cluster: Option<u32>,
    /// Maximum number of bytes that one cluster decodes to, at least a block; by default as many as fit.
    pub extent_max: Option<u32>,
    /// The data of each file begins at a multiple of this many bytes: a multiple of the block, which is the default, up to
    /// [`ALIGN_MAX`]. Only images without compression have others.
    pub data_align: Option<u32>,
    /// Compression of [`Features::METABOX`].
    pub metabox: Metabox,
    /// Maximum number of sources that become [devices](crate::Tree::devices): the image refers to their data instead of
    /// holding a copy. With 0, all data is copied.
    pub refer: u16,
    /// A file for the data of files, which becomes the only [device](crate::source::Device) of the image. It appears before the
    /// image does.
    pub blob: Option<PathBuf>,
    /// Have files of 64 KiB or more copied without reading them; only for images without compression. File systems that can
    /// share blocks with the source do so. Equal files are then stored twice, and only holes of the source stay holes.
    pub reflink: bool,
    /// UUID; by default derived from the image's contents, of which it takes only the length of files that are not read.
    pub uuid: Option<[u8; 16]>,
    /// Label, at most 15 bytes.
    pub label: String,
}

/// Compression of the metabox.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Metabox {
    /// Maximum size of a physical cluster in bytes, as [`Options::cluster_size`].
    pub cluster_size: u32,
    /// Codec; by default that of the image.
    pub codec: Option<Choice>,
}

impl Default for Metabox {
    fn default() -> Self {
        // An inode needs all of its cluster.
        Metabox { cluster_size: 4096, codec: None }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            // Higher levels take up to three times as long for less than a hundredth of the size.
            build: build::Options::new("lz4hc:9".parse().expect("a choice of the table")),
            cluster_size: 64 << 10,
            block_size: 4096,
            features: Features::FRAGMENTS,
            target_kernel: Kernel::DEFAULT,
            xattr_prefixes: Vec::new(),
            inode_digest: None,
            xattr_share: None,
            chunk_size: RAW_PIECE,
            fragment_cluster: None,
            extent_max: None,
            data_align: None,
            metabox: Metabox::default(),
            refer: 0,
            blob: None,
            reflink: false,
            uuid: None,
            label: String::new(),
        }
    }
}
