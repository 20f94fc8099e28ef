//! Parses a segment's header and records from untrusted bytes.

use std::ops::Range;

use zerocopy::{FromBytes, IntoBytes};

use super::flaw::StructureFlaw;
use super::seal::SegmentHead;
use crate::format::{
    ALIGN, IndexEntry, PARTS_MAX, Record, RecordKind, SEGMENT_MAGIC, SEGMENT_MAX, SQUEEZED, SegmentHeader, SegmentKind,
};

/// Name of the structure in errors.
const STRUCTURE: &str = "segment";
const HEADER_LEN: usize = size_of::<SegmentHeader>();

/// Number of bytes to read of a segment, by a header that is not verified yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentLengths {
    /// Length of header and records, which [`ParsedSegment::parse`] needs. At most [`SEGMENT_MAX`].
    pub head: usize,
    /// Length of the whole segment, a multiple of [`ALIGN`]. At most [`SEGMENT_MAX`].
    pub whole: usize,
}

impl SegmentLengths {
    /// Checks the first bytes of a possible segment of the set; `None` if it is not one.
    pub fn peek(bytes: &[u8], set: &[u8; 16]) -> Option<Self> {
        let (header, _) = SegmentHeader::ref_from_prefix(bytes).ok()?;
        if header.magic != SEGMENT_MAGIC || header.set != *set {
            return None;
        }
        // In 64 bits, as records and payload together may exceed 32.
        let head = HEADER_LEN as u64 + u64::from(header.records.get()) * size_of::<Record>() as u64;
        let whole = (head + u64::from(header.payload.get())).next_multiple_of(ALIGN as u64);
        if whole > u64::from(SEGMENT_MAX) {
            return None;
        }
        Some(SegmentLengths { head: usize::try_from(head).ok()?, whole: usize::try_from(whole).ok()? })
    }
}

/// A segment with consistent header and records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedSegment {
    /// Type and position.
    pub head: SegmentHead,
    /// Length of header and records.
    pub head_len: u32,
    /// Length of the payload, which begins after header and records.
    pub payload: u32,
    /// [`sum`](crate::format::sum) of the payload.
    pub payload_sum: u64,
    /// In a data segment: its stretches of the dump, without gaps from `head.start` to `head.end`.
    pub stretches: Vec<DumpStretch>,
    /// In a parity segment: the data segments of its stripe.
    pub shards: Vec<StripeShard>,
}

/// A stretch of the dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpStretch {
    /// Its range of the dump: never empty, and no longer than a chunk unless it is a fill.
    pub range: Range<u64>,
    /// [`sum`](crate::format::sum) of its bytes; 0 for a fill, which needs none.
    pub sum: u64,
    /// Its storage.
    pub what: StretchStorage,
}

/// Storage of a stretch. Ranges are in the segment's payload and checked to be within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StretchStorage {
    /// A chunk, for [`ChunkDecoder`](super::ChunkDecoder).
    Stored {
        /// Range of the payload.
        payload: Range<u32>,
        /// True if it is compressed.
        coded: bool,
        /// True if its pages of zeros are left out.
        squeezed: bool,
    },
    /// These bytes, repeated.
    Fill([u8; 8]),
    /// The bytes of an earlier stretch; the payload contains its offset, see [`DumpStretch::target`].
    Same {
        /// Range of the eight-byte offset in the payload.
        payload: Range<u32>,
    },
}

impl DumpStretch {
    /// For a [`StretchStorage::Same`], returns the offset of the same bytes in the dump. It is checked to be
    /// wholly before the stretch.
    pub fn target(&self, payload: &[u8]) -> Result<u64, StructureFlaw> {
        let StretchStorage::Same { payload: place } = &self.what else {
            return Err(StructureFlaw::new(STRUCTURE, "not a reference"));
        };
        let bytes = payload.get(place.start as usize..place.end as usize).and_then(|bytes| bytes.try_into().ok());
        let target =
            u64::from_le_bytes(bytes.ok_or_else(|| StructureFlaw::new(STRUCTURE, "the payload is too short"))?);
        let end = target.checked_add(self.range.end - self.range.start);
        if end.is_none_or(|end| end > self.range.start) {
            let start = self.range.start;
            let why = "which is not before it";
            return Err(StructureFlaw::new(
                STRUCTURE,
                format!("byte {start} of the dump refers to byte {target}, {why}"),
            ));
        }
        Ok(target)
    }
}

/// A data segment of a stripe, as recorded in a parity segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StripeShard {
    /// First byte of the dump in it.
    pub start: u64,
    /// End of its range.
    pub end: u64,
    /// Length of the segment, a multiple of [`ALIGN`].
    pub len: u32,
    /// [`sum`](crate::format::sum) of the segment, header to padding.
    pub sum: u64,
}

impl ParsedSegment {
    /// Checks header and records: `bytes` has at least the length in [`SegmentLengths::head`]. `chunk`
    /// comes from the superblock.
    pub fn parse(bytes: &[u8], set: &[u8; 16], chunk: u32) -> Result<Self, StructureFlaw> {
        let lengths = SegmentLengths::peek(bytes, set).ok_or_else(|| flaw("not a segment of this set"))?;
        let bytes = bytes.get(..lengths.head).ok_or_else(|| flaw("it is cut off"))?;
        let (mut header, records) =
            SegmentHeader::read_from_prefix(bytes).map_err(|_| flaw("shorter than its header"))?;
        // The sum counts as zero in itself.
        let expected = std::mem::take(&mut header.sum).get();
        if sum_of_head(&header, records) != expected {
            return Err(flaw("the checksum of its header does not match"));
        }
        let records = <[Record]>::ref_from_bytes(records).map_err(|_| flaw("a record is cut off"))?;
        let segment = ParsedSegment {
            head: head(&header)?,
            head_len: u32::try_from(lengths.head).map_err(|_| flaw("it is too long"))?,
            payload: header.payload.get(),
            payload_sum: header.payload_sum.get(),
            stretches: Vec::new(),
            shards: Vec::new(),
        };
        match segment.head.kind {
            SegmentKind::Data => segment.with_stretches(records, chunk),
            SegmentKind::Parity => segment.with_shards(records),
            SegmentKind::Checkpoint if records.is_empty() && segment.payload == 0 => Ok(segment),
            SegmentKind::Index
                if records.is_empty() && (segment.payload as usize).is_multiple_of(size_of::<IndexEntry>()) =>
            {
                Ok(segment)
            }
            kind => Err(flaw(format!("{} records in one of kind {kind:?}", records.len()))),
        }
    }

    /// Returns the length of the whole segment on disk.
    pub fn len(&self) -> u64 {
        (u64::from(self.head_len) + u64::from(self.payload)).next_multiple_of(ALIGN as u64)
    }

    /// Always false: a segment has at least a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    fn with_stretches(mut self, records: &[Record], chunk: u32) -> Result<Self, StructureFlaw> {
        let mut at = self.head.start;
        let mut used = 0u32;
        self.stretches.reserve_exact(records.len());
        for record in records {
            let stretch = stretch(record, used, chunk)?;
            // Readers find a stretch by bisection, so order and gaps matter even where nothing is missing.
            if stretch.range.start != at {
                return Err(flaw(format!("a gap in the dump at byte {at}")));
            }
            at = stretch.range.end;
            used = used.checked_add(record.stored.get()).ok_or_else(|| flaw("its payload is too long"))?;
            self.stretches.push(stretch);
        }
        if at != self.head.end || used != self.payload {
            let end = self.head.end;
            let payload = self.payload;
            return Err(flaw(format!("records to byte {at} of {end} of the dump and {used} of {payload} of payload")));
        }
        Ok(self)
    }

    fn with_shards(mut self, records: &[Record]) -> Result<Self, StructureFlaw> {
        for record in records {
            let start = record.offset.get();
            let len = record.stored.get();
            let end = start.checked_add(record.len.get()).ok_or_else(|| flaw("a shard beyond all bytes"))?;
            let aligned = len > 0 && len <= SEGMENT_MAX && (len as usize).is_multiple_of(ALIGN);
            if record.kind.get() != RecordKind::Shard as u16 || !aligned {
                return Err(flaw(format!("a shard of kind {} with {len} bytes", record.kind)));
            }
            self.shards.push(StripeShard { start, end, len, sum: record.sum.get() });
        }
        let longest = self.shards.iter().map(|shard| shard.len).max();
        // Parity is computed over shards that are padded to the longest.
        if records.len() != usize::from(self.head.data) || longest != Some(self.payload) {
            return Err(flaw(format!("parity of {} segments over {}", self.head.data, records.len())));
        }
        Ok(self)
    }
}

fn flaw(why: impl Into<String>) -> StructureFlaw {
    StructureFlaw::new(STRUCTURE, why)
}

/// Computes the sum over the header, with 0 in place of its own sum, and the records.
fn sum_of_head(header: &SegmentHeader, records: &[u8]) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(header.as_bytes());
    hasher.update(records);
    hasher.digest()
}

fn head(header: &SegmentHeader) -> Result<SegmentHead, StructureFlaw> {
    let kind = match header.kind.get() {
        1 => SegmentKind::Data,
        2 => SegmentKind::Parity,
        3 => SegmentKind::Checkpoint,
        4 => SegmentKind::Index,
        kind => return Err(flaw(format!("of unknown kind {kind}"))),
    };
    let shard = header.shard.get();
    let data = header.data.get();
    let parity = header.parity.get();
    let place_is_sound = match kind {
        SegmentKind::Data => shard < data,
        SegmentKind::Parity => shard >= data && u32::from(shard) < u32::from(data) + u32::from(parity),
        SegmentKind::Checkpoint | SegmentKind::Index => true,
    };
    if !place_is_sound || usize::from(data) + usize::from(parity) > PARTS_MAX {
        return Err(flaw(format!("number {shard} of a stripe of {data} and {parity} segments")));
    }
    let start = header.start.get();
    let end = header.end.get();
    if start > end {
        return Err(flaw(format!("bytes {start} to {end} of the dump")));
    }
    Ok(SegmentHead { kind, stripe: header.stripe.get(), shard, data, parity, start, end })
}

fn stretch(record: &Record, payload_at: u32, chunk: u32) -> Result<DumpStretch, StructureFlaw> {
    let start = record.offset.get();
    let len = record.len.get();
    let stored = record.stored.get();
    let end = start.checked_add(len).ok_or_else(|| flaw("a chunk beyond all bytes"))?;
    let payload_end = payload_at.checked_add(stored).ok_or_else(|| flaw("its payload is too long"))?;
    let payload = payload_at..payload_end;
    let squeezed = record.flags.get() & SQUEEZED != 0;
    let kind = record.kind.get();
    // Only a fill may be longer than a chunk: it needs no buffer.
    let short = len <= u64::from(chunk) && len > 0;
    let known_flags = record.flags.get() & !SQUEEZED == 0;
    let (what, sum) = match kind {
        0 if short && known_flags && stored > 0 && (squeezed || u64::from(stored) == len) => {
            (StretchStorage::Stored { payload, coded: false, squeezed }, record.sum.get())
        }
        1 if short && known_flags && stored > 0 => {
            (StretchStorage::Stored { payload, coded: true, squeezed }, record.sum.get())
        }
        2 if len > 0 && stored == 0 && record.flags.get() == 0 => {
            (StretchStorage::Fill(record.sum.get().to_le_bytes()), 0)
        }
        3 if short && stored == 8 && record.flags.get() == 0 => (StretchStorage::Same { payload }, record.sum.get()),
        _ => return Err(flaw(format!("a record of kind {kind}: {stored} bytes for {len} at byte {start}"))),
    };
    Ok(DumpStretch { range: start..end, sum, what })
}
