//! Compression records: settings of each algorithm, after the superblock.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Compression record of LZ4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Lz4Record {
    /// Largest distance of a match.
    pub max_distance: U16,
    /// Number of blocks in the largest cluster.
    pub max_pclusterblks: U16,
    /// 0.
    pub reserved: [u8; 10],
}

/// Compression record of MicroLZMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LzmaRecord {
    /// Dictionary size in bytes that a decoder needs.
    pub dict_size: U32,
    /// 0.
    pub format: U16,
    /// 0.
    pub reserved: [u8; 8],
}

/// Compression record of DEFLATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DeflateRecord {
    /// log2 of the window.
    pub windowbits: u8,
    /// 0.
    pub reserved: [u8; 5],
}

/// Compression record of zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ZstdRecord {
    /// 0.
    pub format: u8,
    /// log2 of the window, minus 10.
    pub windowlog: u8,
    /// 0.
    pub reserved: [u8; 4],
}
