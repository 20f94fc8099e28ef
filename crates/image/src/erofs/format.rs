//! On-disk structures of EROFS: little-endian, packed. Layout only, no logic.
//!
//! Source: the kernel's `fs/erofs/erofs_fs.h` (MIT since Linux 6.19) and docs/formats/erofs.md.
//! Fields have the kernel's names; a field with several meanings has the name of the kernel's union
//! (`rb`, `u1`, `i_u`, `i_nb`, `di_u`).

mod features;
mod map;
mod records;

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use self::features::{Advise, Compat, Incompat};
pub use self::map::{
    EncodedExtent, FULL_INDEX_GAP, FullIndex, MapHeader, WHOLE_FRAGMENT, cluster_type, encoded_extent,
};
pub use self::records::{DeflateRecord, Lz4Record, LzmaRecord, ZstdRecord};

/// Magic number at the start of a superblock.
pub const MAGIC: u32 = 0xe0f5_e1e2;
/// Offset of the superblock in the image.
pub const SUPERBLOCK_OFFSET: u64 = 1024;
/// Unit in bytes of the extra space after the fixed superblock.
pub const SUPERBLOCK_SLOT: u64 = 16;
/// Smallest and largest block, as log2. The kernel's largest block is its page, and pages have at most 64 KiB.
pub const BLOCK_BITS: std::ops::RangeInclusive<u8> = 9..=16;
/// Inodes begin at multiples of this many bytes; nids count these slots.
pub const INODE_SLOT: u64 = 32;
/// Longest file name.
pub const NAME_MAX: usize = 255;
/// Maximum size of a physical cluster in bytes.
pub const CLUSTER_MAX: u64 = 1 << 20;
/// Maximum number of blocks in a physical cluster that an index counts; encoded extents count bytes.
pub const CLUSTER_BLOCKS_MAX: u32 = cluster_type::BLOCK_COUNT as u32 - 1;
/// Maximum number of blocks in an LZ4 physical cluster for Linux to mount the image: one mebibyte
/// in pages of 4 KiB, however long a block is.
pub const LZ4_BLOCKS_MAX: u32 = 256;
/// Maximum number of bytes that one extent of a compressed file decodes to.
pub const EXTENT_MAX: u64 = 12 << 20;
/// Bit of a nid: the inode is in the metabox.
pub const NID_METABOX: u64 = 1 << 63;
/// Block address of a hole.
pub const NO_BLOCK: u32 = u32::MAX;

/// Superblock, at byte 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: U32,
    /// CRC32C from here to the end of the block, this field as 0, if [`Compat::CHECKSUM`].
    pub checksum: U32,
    /// [`Compat`].
    pub feature_compat: U32,
    /// log2 of the block size.
    pub blkszbits: u8,
    /// Number of 16-byte slots by which the superblock is longer than this struct.
    pub sb_extslots: u8,
    /// `rootnid_2b`: root nid. `blocks_hi`: bits 32 to 47 of `blocks_lo` if [`Superblock::rootnid_8b`] is in use.
    pub rb: U16,
    /// Number of inodes.
    pub inos: U64,
    /// Time of compact inodes, or the base of their times, in seconds since 1970.
    pub epoch: I64,
    /// Nanoseconds of compact inodes.
    pub fixed_nsec: U32,
    /// Number of blocks, the low 32 bits.
    pub blocks_lo: U32,
    /// First block of the metadata area, from which nids count.
    pub meta_blkaddr: U32,
    /// Block from which ids of shared xattrs count.
    pub xattr_blkaddr: U32,
    /// UUID.
    pub uuid: [u8; 16],
    /// Label, ended by NUL.
    pub volume_name: [u8; 16],
    /// [`Incompat`].
    pub feature_incompat: U32,
    /// `available_compr_algs` with [`Incompat::BIG_CLUSTERS`]: a bit for each algorithm that has a
    /// record. Otherwise `lz4_max_distance`: the largest distance of an LZ4 match.
    pub u1: U16,
    /// Number of additional devices.
    pub extra_devices: U16,
    /// Position of their slots, in units of 128 bytes.
    pub devt_slotoff: U16,
    /// log2 of the number of blocks in a directory block, 0.
    pub dirblkbits: u8,
    /// Number of long xattr prefixes.
    pub xattr_prefix_count: u8,
    /// Their position, in units of 4 bytes.
    pub xattr_prefix_start: U32,
    /// Nid of the packed inode, or 0.
    pub packed_nid: U64,
    /// If not 0, the name filters of xattrs are of an unknown kind.
    pub xattr_filter_reserved: u8,
    /// Number of the long prefix that marks page-cache digests.
    pub ishare_xattr_prefix_id: u8,
    /// 0.
    pub reserved: [u8; 2],
    /// Time of the build, in seconds after `epoch` ([`Incompat::BITS_48`]).
    pub build_time: U32,
    /// Root nid, if not 0 ([`Incompat::BITS_48`]).
    pub rootnid_8b: U64,
    /// 0.
    pub reserved2: [u8; 8],
}

/// Extension of the superblock if it has at least one extra slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SuperblockExtension {
    /// Nid of the metabox.
    pub metabox_nid: U64,
    /// 0.
    pub reserved3: [u8; 8],
}

/// An additional device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DeviceSlot {
    /// Any name, padded with NUL.
    pub tag: [u8; 64],
    /// Number of its blocks, the low 32 bits.
    pub blocks_lo: U32,
    /// Its first block in the address space of all devices.
    pub uniaddr_lo: U32,
    /// Bits 32 to 47 of `blocks_lo`.
    pub blocks_hi: U16,
    /// Bits 32 to 47 of `uniaddr_lo`.
    pub uniaddr_hi: U16,
    /// 0.
    pub reserved: [u8; 52],
}

/// Algorithms of compressed clusters, as numbered in indexes and records.
pub mod algorithm {
    /// LZ4 blocks.
    pub const LZ4: u8 = 0;
    /// MicroLZMA.
    pub const LZMA: u8 = 1;
    /// Raw DEFLATE.
    pub const DEFLATE: u8 = 2;
    /// zstd frames.
    pub const ZSTD: u8 = 3;
    /// Number of algorithms.
    pub const COUNT: u8 = 4;
}

/// Data layout of an inode: bits 1 to 3 of its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Layout {
    /// Consecutive blocks.
    Plain = 0,
    /// Compressed, with an index of 8 bytes per entry or encoded extents.
    CompressedFull = 1,
    /// As plain, but the last partial block follows the inode.
    Inline = 2,
    /// Compressed, with a compact index.
    CompressedCompact = 3,
    /// Chunk-based.
    Chunks = 4,
}

/// Bits of an inode's format.
pub mod inode_format {
    /// An extended inode.
    pub const EXTENDED: u16 = 1;
    /// Position of the layout bits.
    pub const LAYOUT_SHIFT: u16 = 1;
    /// Mask of the layout bits, after shifting.
    pub const LAYOUT_MASK: u16 = 7;
    /// One link (not a directory), or no `.` entry (directory). The link count of a compact inode
    /// then holds the high part of a block address.
    pub const ONE_LINK_OR_NO_DOT: u16 = 0x10;
    /// All defined bits.
    pub const ALL: u16 = 0x1f;
}

/// An inode of 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CompactInode {
    /// See [`inode_format`].
    pub i_format: U16,
    /// 0 without xattrs; otherwise 1 plus the number of 4-byte words after the 12 bytes of the xattr header.
    pub i_xattr_icount: U16,
    /// Type and permissions, as in Linux.
    pub i_mode: U16,
    /// `nlink`: link count. `blocks_hi`, `startblk_hi`: bits 32 to 47 of `i_u`.
    pub i_nb: U16,
    /// Length.
    pub i_size: U32,
    /// Seconds after the epoch ([`Incompat::BITS_48`]), otherwise 0.
    pub i_mtime: U32,
    /// `startblk_lo`: first block. `blocks_lo`: number of compressed blocks. `rdev`: device number.
    /// `c.format`: chunk format.
    pub i_u: U32,
    /// Inode number.
    pub i_ino: U32,
    /// Owner.
    pub i_uid: U16,
    /// Group.
    pub i_gid: U16,
    /// 0.
    pub i_reserved: U32,
}

/// An inode of 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtendedInode {
    /// See [`inode_format`].
    pub i_format: U16,
    /// As in [`CompactInode`].
    pub i_xattr_icount: U16,
    /// Type and permissions, as in Linux.
    pub i_mode: U16,
    /// `blocks_hi`, `startblk_hi`: bits 32 to 47 of `i_u`.
    pub i_nb: U16,
    /// Length.
    pub i_size: U64,
    /// As in [`CompactInode`].
    pub i_u: U32,
    /// Inode number.
    pub i_ino: U32,
    /// Owner.
    pub i_uid: U32,
    /// Group.
    pub i_gid: U32,
    /// Seconds since 1970.
    pub i_mtime: I64,
    /// Nanoseconds of the time.
    pub i_mtime_nsec: U32,
    /// Link count.
    pub i_nlink: U32,
    /// 0.
    pub i_reserved2: [u8; 16],
}

/// Format of a chunk-based file.
pub mod chunk_format {
    /// log2 of the number of blocks in a chunk.
    pub const BITS_MASK: u16 = 0x1f;
    /// Entries are [`ChunkIndex`](super::ChunkIndex), not block addresses of 4 bytes.
    pub const INDEXES: u16 = 0x20;
    /// Block addresses have 48 bits.
    pub const BITS_48: u16 = 0x40;
    /// All defined bits.
    pub const ALL: u16 = 0x7f;
}

/// Position of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ChunkIndex {
    /// Bits 32 to 47 of the block.
    pub startblk_hi: U16,
    /// Device, 0 for the common address space of all devices.
    pub device_id: U16,
    /// Its first block.
    pub startblk_lo: U32,
}

/// File types in directory entries.
pub mod file_type {
    /// Regular file.
    pub const FILE: u8 = 1;
    /// Directory.
    pub const DIR: u8 = 2;
    /// Character device.
    pub const CHAR: u8 = 3;
    /// Block device.
    pub const BLOCK: u8 = 4;
    /// Named pipe.
    pub const FIFO: u8 = 5;
    /// Socket.
    pub const SOCKET: u8 = 6;
    /// Symbolic link.
    pub const SYMLINK: u8 = 7;
}

/// A directory entry; names follow the entries of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Dirent {
    /// Nid of its inode.
    pub nid: U64,
    /// Offset of its name in the block.
    pub nameoff: U16,
    /// See [`file_type`].
    pub file_type: u8,
    /// 0.
    pub reserved: u8,
}

/// Prefixes of xattr names, as numbered in entries.
pub mod xattr_prefix {
    /// `user.`
    pub const USER: u8 = 1;
    /// `system.posix_acl_access`, the whole name.
    pub const ACL_ACCESS: u8 = 2;
    /// `system.posix_acl_default`, the whole name.
    pub const ACL_DEFAULT: u8 = 3;
    /// `trusted.`
    pub const TRUSTED: u8 = 4;
    /// `security.`
    pub const SECURITY: u8 = 6;
    /// Flag: the low bits are the number of a long prefix.
    pub const LONG: u8 = 0x80;
}

/// Seed of the hash for xattr name filters, to which the prefix's number is added.
pub const XATTR_FILTER_SEED: u32 = 0x25bb_e08f;

/// Beginning of the value of an attribute with the digest of a file; the digest follows.
pub const INODE_DIGEST_ALGORITHM: &[u8] = b"sha256:";

/// Header of the xattrs of an inode; ids of shared ones follow, then [`XattrEntry`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct XattrHeader {
    /// Name filter: a set bit means that no name with that hash is present.
    pub h_name_filter: U32,
    /// Number of shared xattrs.
    pub h_shared_count: u8,
    /// 0.
    pub h_reserved2: [u8; 7],
}

impl XattrHeader {
    /// Makes the header of `shared_count` shared xattrs.
    pub fn new(name_filter: u32, shared_count: u8) -> XattrHeader {
        XattrHeader { h_name_filter: name_filter.into(), h_shared_count: shared_count, h_reserved2: [0; 7] }
    }
}

/// An xattr; name without prefix and value follow, padded to 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct XattrEntry {
    /// Length of the name after its prefix.
    pub e_name_len: u8,
    /// See [`xattr_prefix`].
    pub e_name_index: u8,
    /// Length of the value.
    pub e_value_size: U16,
}

const _: () = {
    assert!(size_of::<Superblock>() == 128);
    assert!(size_of::<SuperblockExtension>() == 16);
    assert!(size_of::<DeviceSlot>() == 128);
    assert!(size_of::<Lz4Record>() == 14);
    assert!(size_of::<LzmaRecord>() == 14);
    assert!(size_of::<DeflateRecord>() == 6);
    assert!(size_of::<ZstdRecord>() == 6);
    assert!(size_of::<CompactInode>() == 32);
    assert!(size_of::<ExtendedInode>() == 64);
    assert!(size_of::<ChunkIndex>() == 8);
    assert!(size_of::<Dirent>() == 12);
    assert!(size_of::<XattrHeader>() == 12);
    assert!(size_of::<XattrEntry>() == 4);
    assert!(size_of::<MapHeader>() == 8);
    assert!(size_of::<FullIndex>() == 8);
    assert!(size_of::<EncodedExtent>() == 32);
};
