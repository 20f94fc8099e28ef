//! On-disk structures of a part: little-endian, packed. Only layout; no logic beyond sizes and checksums.
//!
//! Source: docs/formats/dump.md.

use xxhash_rust::xxh3::xxh3_64;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a part begins with.
pub const MAGIC: [u8; 8] = *b"PKFSDUMP";
/// What a segment begins with.
pub const SEGMENT_MAGIC: [u8; 4] = *b"PKSG";
/// What a footer begins with.
pub const FOOTER_MAGIC: [u8; 8] = *b"PKFSDEND";
/// The version described here.
pub const VERSION: u16 = 1;
/// Every structure of a part begins at a multiple of this, which direct I/O asks for.
pub const ALIGN: usize = 4096;
/// Unit in which zeros inside a chunk are left out.
pub const PAGE: usize = 4096;
/// Most parts of a set: all their entries fit a footer.
pub const PARTS_MAX: usize = 128;
/// Least and most bytes of a chunk; a power of two.
pub const CHUNK: std::ops::RangeInclusive<u32> = 4096..=1 << 24;
/// Most bytes of a segment on disk.
pub const SEGMENT_MAX: u32 = 1 << 26;
/// A size that is not known (yet).
pub const UNKNOWN: u64 = u64::MAX;

/// XXH3 of 64 bits with seed 0, the one checksum of the format.
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
    /// Parts of the set when it was begun, this one included.
    pub parts: U16,
    /// So many of the parts may be lost.
    pub parity: U16,
    /// Names the set: the same random bytes in all its parts.
    pub set: [u8; 16],
    /// Bytes of the input; [`UNKNOWN`] for a stream.
    pub size: U64,
    /// Byte of the footer; 0 where it is not said here.
    pub footer: U64,
    /// A digest of what the input was known by when the set was begun; 0 for a stream.
    pub input: U64,
    /// Most bytes a chunk decodes to.
    pub chunk: U32,
    /// Most bytes of a segment.
    pub segment: U32,
    /// The codec of all coded chunks with its settings, as on the command line; padded with NUL.
    pub codec: [u8; 64],
    /// 0.
    pub reserved: [u8; 3960],
    /// [`sum`] of the bytes before it.
    pub sum: U64,
}

/// What a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum SegmentKind {
    /// Chunks of the dump.
    Data = 1,
    /// Parity over the data segments of a stripe.
    Parity = 2,
    /// Nothing: all before it had reached the disk when it was written.
    Checkpoint = 3,
    /// The [`IndexEntry`]s of all segments before it.
    Index = 4,
}

/// What a segment begins with. Behind it are `records` [`Record`]s, `payload` bytes, and zeros up to [`ALIGN`].
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SegmentHeader {
    /// [`SEGMENT_MAGIC`].
    pub magic: [u8; 4],
    /// A [`SegmentKind`].
    pub kind: U16,
    /// Its place among the segments of its stripe: data segments first, then those of parity.
    pub shard: U16,
    /// As in the superblock.
    pub set: [u8; 16],
    /// Number of its stripe; without parity every segment is one of its own.
    pub stripe: U64,
    /// Data segments of the stripe.
    pub data: U16,
    /// Parity segments of the stripe.
    pub parity: U16,
    /// Records behind the header.
    pub records: U32,
    /// First byte of the dump that is in here.
    pub start: U64,
    /// The byte of the dump after the last that is in here.
    pub end: U64,
    /// Bytes behind the records.
    pub payload: U32,
    /// 0.
    pub reserved: U32,
    /// [`sum`] of the payload.
    pub payload_sum: U64,
    /// [`sum`] of the header, with 0 in this place, and the records.
    pub sum: U64,
}

/// What a [`Record`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum RecordKind {
    /// A chunk as it is.
    Raw = 0,
    /// A chunk, coded.
    Coded = 1,
    /// Bytes that repeat the eight of `sum`, from the first on. Takes no payload; may be longer than a chunk.
    Fill = 2,
    /// Bytes that are those of the dump from the eight-byte number in the payload on, which is less than `offset`.
    Same = 3,
    /// Of a parity segment: a data segment of its stripe, in the order of the shards.
    Shard = 4,
}

/// Flag of a chunk: it lacks pages of zeros. Its payload begins with one bit for each [`PAGE`] of it, from the
/// lowest of the first byte on, which is 1 where the page is there; what follows holds only these.
pub const SQUEEZED: u16 = 1;

/// One stretch of the dump. Those of a data segment follow each other from its `start` to its `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Record {
    /// First byte of the dump.
    pub offset: U64,
    /// Bytes of the dump.
    pub len: U64,
    /// Bytes of the payload; of a shard: bytes of the segment, a multiple of [`ALIGN`].
    pub stored: U32,
    /// A [`RecordKind`].
    pub kind: U16,
    /// [`SQUEEZED`] or 0.
    pub flags: U16,
    /// [`sum`] of the bytes of the dump; of a fill: what repeats; of a shard: [`sum`] of the segment.
    pub sum: U64,
}

/// A segment of this part, as its index has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IndexEntry {
    /// Byte of the part.
    pub position: U64,
    /// Bytes, a multiple of [`ALIGN`].
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

/// What became of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum PartState {
    /// Whole.
    Complete = 1,
    /// It failed; `len` bytes of it are good.
    Retired = 2,
}

/// A part, as the manifest has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PartEntry {
    /// A [`PartState`]; 0 behind the last part.
    pub state: U16,
    /// 0.
    pub reserved: [u8; 6],
    /// Its data and parity segments.
    pub segments: U64,
    /// Bytes before its index.
    pub len: U64,
}

/// The last 4096 bytes of a part, with the manifest: what there is of all parts.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Footer {
    /// [`FOOTER_MAGIC`].
    pub magic: [u8; 8],
    /// As in the superblock.
    pub set: [u8; 16],
    /// Number of this part.
    pub part: U16,
    /// 1 if all of the input is in the set; 0 if it ended early.
    pub complete: U16,
    /// 0.
    pub reserved: U32,
    /// Bytes of the dump.
    pub size: U64,
    /// Byte of the first index segment.
    pub index: U64,
    /// Index segments, one behind the other.
    pub indexes: U64,
    /// The manifest.
    pub parts: [PartEntry; PARTS_MAX],
    /// 0.
    pub reserved2: [u8; 960],
    /// [`sum`] of the bytes before it.
    pub sum: U64,
}

const _: () = assert!(size_of::<Superblock>() == ALIGN);
const _: () = assert!(size_of::<SegmentHeader>() == 80);
const _: () = assert!(size_of::<Record>() == 32);
const _: () = assert!(size_of::<IndexEntry>() == 48);
const _: () = assert!(size_of::<PartEntry>() == 24);
const _: () = assert!(size_of::<Footer>() == ALIGN);
