//! How the map of a compressed file is laid out: its header, full indexes, encoded extents.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What the map of a compressed file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MapHeader {
    /// Offset in the packed inode. Upper half (`h_idata_size`): length of an inline cluster. With encoded extents
    /// (`h_extents_lo`): low 32 bits of their count.
    pub h_fragmentoff: U32,
    /// [`Advise`](super::Advise).
    pub h_advise: U16,
    /// Low four bits: algorithm of first heads; high: of second ones. With encoded extents (`h_extents_hi`) bits of
    /// their count.
    pub h_algorithmtype: u8,
    /// Low four bits: log2 of blocks a logical cluster; bit 7: the whole file is a fragment.
    pub h_clusterbits: u8,
}

/// Bit of [`MapHeader::cluster_bits`]: the file is a fragment, and the header is its offset with this bit set.
pub const WHOLE_FRAGMENT: u8 = 0x80;

/// Bytes between the map header and a full index.
pub const FULL_INDEX_GAP: usize = 8;

/// Entry of a full index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FullIndex {
    /// Bits 0 and 1: see [`cluster_type`]; further bits there.
    pub di_advise: U16,
    /// Where the extent begins in the logical cluster.
    pub di_clusterofs: U16,
    /// Heads (`blkaddr`): block of the physical cluster. Others (`delta`): distance to the head (low half) and to the
    /// next head.
    pub di_u: U32,
}

/// Types of logical clusters.
pub mod cluster_type {
    /// An extent that is stored as it is begins here.
    pub const PLAIN: u16 = 0;
    /// A compressed extent begins here.
    pub const HEAD1: u16 = 1;
    /// No extent begins here.
    pub const NONHEAD: u16 = 2;
    /// An extent of the second algorithm begins here.
    pub const HEAD2: u16 = 3;
    /// Bits of the type.
    pub const MASK: u16 = 3;
    /// Bit of a full index's entry: a hole (Linux 7.2).
    pub const HOLE: u16 = 1 << 14;
    /// Bit of a full index's entry: the extent is but the first part of what its cluster decodes to.
    pub const PARTIAL: u16 = 1 << 15;
    /// Bit of the distance back to the head: the rest is the count of blocks of the physical cluster.
    pub const BLOCK_COUNT: u16 = 1 << 11;
}

/// An encoded extent, of which the first 4, 8, 16 or 32 bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct EncodedExtent {
    /// See [`encoded_extent`].
    pub plen: U32,
    /// Byte in the image, low 32 bits.
    pub pstart_lo: U32,
    /// High bits.
    pub pstart_hi: U32,
    /// Byte in the file, low 32 bits.
    pub lstart_lo: U32,
    /// High bits.
    pub lstart_hi: U32,
    /// 0.
    pub reserved: [u8; 12],
}

/// Parts of an encoded extent's length.
pub mod encoded_extent {
    /// Bits of the length in bytes.
    pub const LEN_MASK: u32 = (1 << 21) - 1;
    /// The extent is but the first part of what its bytes decode to.
    pub const PARTIAL: u32 = 1 << 27;
    /// Where the format is: 0 stored as it is, else the algorithm and 1.
    pub const FORMAT_SHIFT: u32 = 28;
}
