//! On-disk structures of a part: little-endian, packed. Layout only; no logic beyond sizes and checksums.
//!
//! Source: docs/formats/dump.md.

use xxhash_rust::xxh3::xxh3_64;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic number of a part.
pub const MAGIC: [u8; 8] = *b"PKFSDUMP";
/// Magic number of a segment.
pub const SEGMENT_MAGIC: [u8; 4] = *b"PKSG";
/// Magic number of a footer.
pub const FOOTER_MAGIC: [u8; 8] = *b"PKFSDEND";
/// The version described here.
pub const VERSION: u16 = 1;
/// Alignment of every structure of a part, as direct I/O requires.
pub const ALIGN: usize = 4096;
/// Unit in which zeros inside a chunk are left out.
pub const PAGE: usize = 4096;
/// Most parts of a set: all their entries fit a footer.
pub const PARTS_MAX: usize = 128;
/// Smallest and largest chunk in bytes; a power of two.
pub const CHUNK: std::ops::RangeInclusive<u32> = 4096..=1 << 24;
/// Maximum length of a segment on disk.
pub const SEGMENT_MAX: u32 = 1 << 26;
/// An unknown size.
pub const UNKNOWN: u64 = u64::MAX;

/// Computes the 64-bit XXH3 with seed 0, the only checksum of the format.
pub fn sum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The first 4096 bytes of a part.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: U16,
    /// Number of this part, from 0.
    pub part: U16,
    /// Number of parts of the set when it was begun.
    pub parts: U16,
    /// Number of parts that may be lost.
    pub parity: U16,
    /// Id of the set: the same random bytes in all its parts.
    pub set: [u8; 16],
    /// Length of the input in bytes; [`UNKNOWN`] for a stream.
    pub size: U64,
    /// Offset of the footer; 0 if it is not stored here.
    pub footer: U64,
    /// Fingerprint of the input when the set was begun; 0 for a stream.
    pub input: U64,
    /// Maximum decoded length of a chunk.
    pub chunk: U32,
    /// Maximum length of a segment.
    pub segment: U32,
    /// Codec of all compressed chunks with its settings, as on the command line; padded with NUL.
    pub codec: [u8; 64],
    /// 0.
    pub reserved: [u8; 3960],
    /// [`sum`] of the preceding bytes.
    pub sum: U64,
}

/// Type of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum SegmentKind {
    /// Chunks of the dump.
    Data = 1,
    /// Parity of the data segments of a stripe.
    Parity = 2,
    /// No data: everything before it was on disk when it was written.
    Checkpoint = 3,
    /// The [`IndexEntry`]s of all preceding segments.
    Index = 4,
}

/// Header of a segment. After it are `records` [`Record`]s, `payload` bytes, and zeros up to [`ALIGN`].
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SegmentHeader {
    /// [`SEGMENT_MAGIC`].
    pub magic: [u8; 4],
    /// A [`SegmentKind`].
    pub kind: U16,
    /// Position among the segments of its stripe: data segments first, then parity segments.
    pub shard: U16,
    /// As in the superblock.
    pub set: [u8; 16],
    /// Number of its stripe; without parity every segment is a stripe of its own.
    pub stripe: U64,
    /// Number of data segments in the stripe.
    pub data: U16,
    /// Number of parity segments in the stripe.
    pub parity: U16,
    /// Number of records after the header.
    pub records: U32,
    /// First byte of the dump in this segment.
    pub start: U64,
    /// End of the range of the dump in this segment.
    pub end: U64,
    /// Number of bytes after the records.
    pub payload: U32,
    /// 0.
    pub reserved: U32,
    /// [`sum`] of the payload.
    pub payload_sum: U64,
    /// [`sum`] of the header, with 0 in this field, and the records.
    pub sum: U64,
}

/// Type of a [`Record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum RecordKind {
    /// An uncompressed chunk.
    Raw = 0,
    /// A compressed chunk.
    Coded = 1,
    /// Bytes that repeat the eight of `sum`. It has no payload and may be longer than a chunk.
    Fill = 2,
    /// Bytes equal to those of the dump at the eight-byte offset in the payload, which is less than `offset`.
    Same = 3,
    /// In a parity segment: a data segment of its stripe, in the order of the shards.
    Shard = 4,
}

/// Flag of a chunk without its pages of zeros. Its payload begins with one bit for each [`PAGE`],
/// from the lowest of the first byte on, which is 1 if the page is stored; the stored pages follow.
pub const SQUEEZED: u16 = 1;

/// A stretch of the dump. Those of a data segment are contiguous from its `start` to its `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Record {
    /// Offset in the dump.
    pub offset: U64,
    /// Length in the dump.
    pub len: U64,
    /// Length of the payload; of a shard: length of the segment, a multiple of [`ALIGN`].
    pub stored: U32,
    /// A [`RecordKind`].
    pub kind: U16,
    /// [`SQUEEZED`] or 0.
    pub flags: U16,
    /// [`sum`] of the bytes of the dump; of a fill: the repeated bytes; of a shard: [`sum`] of the segment.
    pub sum: U64,
}

/// Index entry of a segment of this part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IndexEntry {
    /// Offset in the part.
    pub position: U64,
    /// Length, a multiple of [`ALIGN`].
    pub len: U32,
    /// As in its header.
    pub kind: U16,
    /// As in its header.
    pub shard: U16,
    /// As in its header.
    pub start: U64,
    /// As in its header.
    pub end: U64,
    /// As in its header.
    pub stripe: U64,
    /// As in its header.
    pub data: U16,
    /// As in its header.
    pub parity: U16,
    /// 0.
    pub reserved: U32,
}

/// Final state of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum PartState {
    /// Complete.
    Complete = 1,
    /// Failed; the first `len` bytes are good.
    Retired = 2,
}

/// Entry of a part in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PartEntry {
    /// A [`PartState`]; 0 after the last part.
    pub state: U16,
    /// 0.
    pub reserved: [u8; 6],
    /// Number of its data and parity segments.
    pub segments: U64,
    /// Number of bytes before its index.
    pub len: U64,
}

/// The last 4096 bytes of a part, with the manifest: a description of all parts.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Footer {
    /// [`FOOTER_MAGIC`].
    pub magic: [u8; 8],
    /// As in the superblock.
    pub set: [u8; 16],
    /// Number of this part.
    pub part: U16,
    /// 1 if the set contains the whole input; 0 if writing ended early.
    pub complete: U16,
    /// 0.
    pub reserved: U32,
    /// Length of the dump in bytes.
    pub size: U64,
    /// Offset of the first index segment.
    pub index: U64,
    /// Number of consecutive index segments.
    pub indexes: U64,
    /// The manifest.
    pub parts: [PartEntry; PARTS_MAX],
    /// 0.
    pub reserved2: [u8; 960],
    /// [`sum`] of the preceding bytes.
    pub sum: U64,
}

const _: () = assert!(size_of::<Superblock>() == ALIGN);
const _: () = assert!(size_of::<SegmentHeader>() == 80);
const _: () = assert!(size_of::<Record>() == 32);
const _: () = assert!(size_of::<IndexEntry>() == 48);
const _: () = assert!(size_of::<PartEntry>() == 24);
const _: () = assert!(size_of::<Footer>() == ALIGN);
