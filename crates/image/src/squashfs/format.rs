//! On-disk structures of SquashFS 4.0: little-endian, packed. Layout only, no logic.
//!
//! Source: the kernel's `Documentation/filesystems/squashfs.rst` and docs/formats/squashfs.md. Fields have the
//! kernel's names (`fs/squashfs/squashfs_fs.h`).

use zerocopy::little_endian::{I16, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `hsqs` read as a little-endian number.
pub const MAGIC: u32 = 0x7371_7368;
/// `sqsh`: a big-endian image of an old version.
pub const MAGIC_SWAPPED: u32 = 0x6873_7173;
/// An image streamed to a pipe, its superblock at the end; not mountable before it is fixed.
pub const MAGIC_STREAMED: u32 = 0x5351_5348;
/// The only version that is written or read.
pub const VERSION: (u16, u16) = (4, 0);
/// Table pointer of a missing table.
pub const NO_TABLE: u64 = u64::MAX;
/// Fragment index of a file without a fragment.
pub const NO_FRAGMENT: u32 = u32::MAX;
/// Xattr index of an inode without xattrs.
pub const NO_XATTR: u32 = u32::MAX;
/// Payload of a full metadata block.
pub const METADATA_LEN: usize = 8192;
/// Bit of a metadata block's header: stored uncompressed.
pub const METADATA_RAW: u16 = 0x8000;
/// Bit of a data block's size word: stored uncompressed.
pub const DATA_RAW: u32 = 1 << 24;
/// Smallest and largest data block.
pub const BLOCK_SIZES: std::ops::RangeInclusive<u32> = 4096..=1 << 20;
/// Maximum number of entries under one directory header.
pub const DIR_RUN_MAX: usize = 256;
/// Bytes that a directory's size field counts beyond its listing, for `.` and `..`.
pub const DIR_SIZE_EXTRA: u64 = 3;
/// Longest file name the kernel accepts.
pub const NAME_MAX: usize = 255;
/// Longest symlink target the kernel accepts (its page size).
pub const SYMLINK_MAX: usize = 4096;
/// Maximum number of different owners and groups together.
pub const IDS_MAX: usize = 65535;

bitflags::bitflags! {
    /// Flags of the superblock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SuperblockFlags: u16 {
        /// Inode table stored uncompressed.
        const RAW_INODES = 0x0001;
        /// Data blocks stored uncompressed.
        const RAW_DATA = 0x0002;
        /// Fragment blocks stored uncompressed.
        const RAW_FRAGMENTS = 0x0008;
        /// No tail packing.
        const NO_FRAGMENTS = 0x0010;
        /// Tails of all files packed.
        const ALWAYS_FRAGMENTS = 0x0020;
        /// Duplicates were shared.
        const DUPLICATES = 0x0040;
        /// An export table is present.
        const EXPORTABLE = 0x0080;
        /// Xattrs stored uncompressed.
        const RAW_XATTRS = 0x0100;
        /// No xattrs are present.
        const NO_XATTRS = 0x0200;
        /// A compressor options block follows the superblock.
        const COMPRESSOR_OPTIONS = 0x0400;
        /// Id table stored uncompressed.
        const RAW_IDS = 0x0800;
    }
}

/// Superblock, at byte 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub s_magic: U32,
    /// Number of inodes.
    pub inodes: U32,
    /// Time at which the image was made, in seconds since 1970.
    pub mkfs_time: U32,
    /// Data block size.
    pub block_size: U32,

    /// Number of fragment blocks.
    pub fragments: U32,
    /// Compressor id.
    pub compression: U16,
    /// log2 of `block_size`.
    pub block_log: U16,
    /// [`SuperblockFlags`].
    pub flags: U16,
    /// Number of entries in the id table.
    pub no_ids: U16,
    /// 4.
    pub s_major: U16,
    /// 0.
    pub s_minor: U16,

    /// Reference of the root directory's inode.
    pub root_inode: U64,
    /// Length of the image without padding.
    pub bytes_used: U64,

    /// Start of the id table's index.
    pub id_table_start: U64,
    /// Start of the xattr table's header, or [`NO_TABLE`].
    pub xattr_id_table_start: U64,

    /// Start of the inode table.
    pub inode_table_start: U64,
    /// Start of the directory table.
    pub directory_table_start: U64,

    /// Start of the fragment table's index.
    pub fragment_table_start: U64,
    /// Start of the export table's index, or [`NO_TABLE`].
    pub lookup_table_start: U64,
}

/// Inode types. Directory entries contain the basic one (1 to 7) even if the inode is extended.
pub mod inode_type {
    /// Directory.
    pub const DIR: u16 = 1;
    /// Regular file.
    pub const FILE: u16 = 2;
    /// Symbolic link.
    pub const SYMLINK: u16 = 3;
    /// Block device.
    pub const BLOCK: u16 = 4;
    /// Character device.
    pub const CHAR: u16 = 5;
    /// Named pipe.
    pub const FIFO: u16 = 6;
    /// Socket.
    pub const SOCKET: u16 = 7;
    /// Difference between a basic type and its extended type.
    pub const EXTENDED: u16 = 7;
}

/// Common header of all inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct InodeHeader {
    /// See [`inode_type`].
    pub inode_type: U16,
    /// Permission bits only.
    pub mode: U16,
    /// Index into the id table.
    pub uid: U16,
    /// Index into the id table.
    pub guid: U16,
    /// Seconds since 1970, unsigned.
    pub mtime: U32,
    /// 1 to the number of inodes.
    pub inode_number: U32,
}

/// Body of type 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Dir {
    /// Metadata block of the listing, relative to the directory table.
    pub start_block: U32,
    /// Link count.
    pub nlink: U32,
    /// Listing length + 3.
    pub file_size: U16,
    /// Offset of the listing in its metadata block.
    pub offset: U16,
    /// Inode number of the parent.
    pub parent_inode: U32,
}

/// Body of type 8; `i_count` [`DirIndex`] follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtDir {
    /// Link count.
    pub nlink: U32,
    /// Listing length + 3.
    pub file_size: U32,
    /// Metadata block of the listing, relative to the directory table.
    pub start_block: U32,
    /// Inode number of the parent.
    pub parent_inode: U32,
    /// Number of index entries.
    pub i_count: U16,
    /// Offset of the listing in its metadata block.
    pub offset: U16,
    /// Xattr index or [`NO_XATTR`].
    pub xattr: U32,
}

/// One entry of a directory index; `size + 1` bytes of name follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DirIndex {
    /// Offset of a directory header within the listing.
    pub index: U32,
    /// Metadata block of that header, relative to the directory table.
    pub start_block: U32,
    /// Length of the name that follows, minus 1.
    pub size: U32,
}

/// Body of type 2; one u32 size word for each full block follows, and one for the tail if it has no fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct File {
    /// Byte of the first data block in the image.
    pub start_block: U32,
    /// Fragment index or [`NO_FRAGMENT`].
    pub fragment: U32,
    /// Offset of the tail in the decoded fragment.
    pub offset: U32,
    /// File length.
    pub file_size: U32,
}

/// Body of type 9; size words follow as for [`File`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtFile {
    /// Byte of the first data block in the image.
    pub start_block: U64,
    /// File length.
    pub file_size: U64,
    /// Bytes of holes, for `st_blocks`.
    pub sparse: U64,
    /// Link count.
    pub nlink: U32,
    /// Fragment index or [`NO_FRAGMENT`].
    pub fragment: U32,
    /// Offset of the tail in the decoded fragment.
    pub offset: U32,
    /// Xattr index or [`NO_XATTR`].
    pub xattr: U32,
}

/// Body of types 3 and 10; the target follows, and for type 10 a u32 xattr index after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Symlink {
    /// Link count.
    pub nlink: U32,
    /// Length of the target.
    pub symlink_size: U32,
}

/// Body of types 4, 5 (a u32 xattr index follows for 11, 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Device {
    /// Link count.
    pub nlink: U32,
    /// `(minor & 0xff) | major << 8 | (minor & !0xff) << 12`.
    pub rdev: U32,
}

/// Body of types 6, 7 (a u32 xattr index follows for 13, 14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ipc {
    /// Link count.
    pub nlink: U32,
}

/// Header of up to [`DIR_RUN_MAX`] directory entries whose inodes share a metadata block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DirHeader {
    /// Number of entries that follow, minus 1.
    pub count: U32,
    /// Metadata block of their inodes, relative to the inode table.
    pub start_block: U32,
    /// Inode number to which the differences are added.
    pub inode_number: U32,
}

/// A directory entry; `size + 1` bytes of name follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DirEntry {
    /// Offset of the inode in its metadata block.
    pub offset: U16,
    /// Inode number minus the header's.
    pub inode_number: I16,
    /// Basic inode type.
    pub r#type: U16,
    /// Length of the name that follows, minus 1.
    pub size: U16,
}

/// A fragment block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Fragment {
    /// Byte of the block in the image.
    pub start_block: U64,
    /// Size word, as for data blocks.
    pub size: U32,
    /// 0.
    pub unused: U32,
}

/// Header of the xattr table; its metadata block index follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct XattrTable {
    /// Byte of the first metadata block of names and values.
    pub xattr_table_start: U64,
    /// Number of sets.
    pub xattr_ids: U32,
    /// 0.
    pub unused: U32,
}

/// One set of xattrs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct XattrSetEntry {
    /// Reference of the first pair, relative to `xattr_table_start`.
    pub xattr: U64,
    /// Number of pairs.
    pub count: U32,
    /// Bytes of the set.
    pub size: U32,
}

/// One name; `size` bytes follow, then an [`XattrValue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct XattrKey {
    /// See [`xattr_type`].
    pub r#type: U16,
    /// Length of the name without its prefix.
    pub size: U16,
}

/// One value; `vsize` bytes follow (for out-of-line values 8: a u64 reference).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct XattrValue {
    /// Length of the value.
    pub vsize: U32,
}

/// Prefixes of xattr names.
pub mod xattr_type {
    /// `user.`
    pub const USER: u16 = 0;
    /// `trusted.`
    pub const TRUSTED: u16 = 1;
    /// `security.`
    pub const SECURITY: u16 = 2;
    /// The value is stored elsewhere.
    pub const OUT_OF_LINE: u16 = 0x100;
}

const _: () = {
    assert!(size_of::<Superblock>() == 96);
    assert!(size_of::<InodeHeader>() == 16);
    assert!(size_of::<Dir>() == 16);
    assert!(size_of::<ExtDir>() == 24);
    assert!(size_of::<DirIndex>() == 12);
    assert!(size_of::<File>() == 16);
    assert!(size_of::<ExtFile>() == 40);
    assert!(size_of::<Symlink>() == 8);
    assert!(size_of::<Device>() == 8);
    assert!(size_of::<Ipc>() == 4);
    assert!(size_of::<DirHeader>() == 12);
    assert!(size_of::<DirEntry>() == 8);
    assert!(size_of::<Fragment>() == 16);
    assert!(size_of::<XattrTable>() == 16);
    assert!(size_of::<XattrSetEntry>() == 16);
    assert!(size_of::<XattrKey>() == 4);
    assert!(size_of::<XattrValue>() == 4);
};
