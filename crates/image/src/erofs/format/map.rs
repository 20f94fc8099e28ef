//! On-disk structures of the map of a compressed file: its header, full indexes, encoded extents.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Header of the map of a compressed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MapHeader {
    /// Offset in the packed inode. Upper half (`h_idata_size`): length of an inline cluster. With
    /// encoded extents (`h_extents_lo`): low 32 bits of their number.
    pub h_fragmentoff: U32,
    /// [`Advise`](super::Advise).
    pub h_advise: U16,
    /// Low four bits: algorithm of first heads; high: of second heads. With encoded extents
    /// (`h_extents_hi`): further bits of their number.
    pub h_algorithmtype: u8,
    /// Low four bits: log2 of the number of blocks in a logical cluster; bit 7: the whole file is a fragment.
    pub h_clusterbits: u8,
}

/// Bit of [`MapHeader::cluster_bits`]: the whole file is a fragment, and the header is its offset
/// with this bit set.
pub const WHOLE_FRAGMENT: u8 = 0x80;

/// Bytes between the map header and a full index.
pub const FULL_INDEX_GAP: usize = 8;

/// Entry of a full index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FullIndex {
    /// Bits 0 and 1: see [`cluster_type`]; other flags are defined there.
    pub di_advise: U16,
    /// Offset of the extent's start in the logical cluster.
    pub di_clusterofs: U16,
    /// Heads (`blkaddr`): block of the physical cluster. Other entries (`delta`): distance to the
    /// head (low half) and to the next head.
    pub di_u: U32,
}

/// Types of logical clusters.
pub mod cluster_type {
    /// An uncompressed extent begins here.
    pub const PLAIN: u16 = 0;
    /// A compressed extent begins here.
    pub const HEAD1: u16 = 1;
    /// No extent begins here.
    pub const NONHEAD: u16 = 2;
    /// An extent of the second algorithm begins here.
    pub const HEAD2: u16 = 3;
    /// Mask of the type.
    pub const MASK: u16 = 3;
    /// Bit of a full index's entry: a hole (Linux 7.2).
    pub const HOLE: u16 = 1 << 14;
    /// Bit of a full index's entry: the extent is only the first part of its cluster's decoded data.
    pub const PARTIAL: u16 = 1 << 15;
    /// Bit of the distance back to the head: the rest is the number of blocks in the physical cluster.
    pub const BLOCK_COUNT: u16 = 1 << 11;
}

/// An encoded extent, of which only the first 4, 8, 16 or 32 bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct EncodedExtent {
    /// See [`encoded_extent`].
    pub plen: U32,
    /// Offset in the image, low 32 bits.
    pub pstart_lo: U32,
    /// High bits.
    pub pstart_hi: U32,
    /// Offset in the file, low 32 bits.
    pub lstart_lo: U32,
    /// High bits.
    pub lstart_hi: U32,
    /// 0.
    pub reserved: [u8; 12],
}

/// Parts of an encoded extent's length field.
pub mod encoded_extent {
    /// Mask of the length in bytes.
    pub const LEN_MASK: u32 = (1 << 21) - 1;
    /// The extent is only the first part of its decoded data.
    pub const PARTIAL: u32 = 1 << 27;
    /// Position of the format: 0 for uncompressed, otherwise the algorithm plus 1.
    pub const FORMAT_SHIFT: u32 = 28;
}
