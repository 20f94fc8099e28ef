//! Seals segments: makes consecutive bytes of header, records and payload.

use zerocopy::IntoBytes;

use crate::format::{ALIGN, Record, SEGMENT_MAGIC, SegmentHeader, SegmentKind, sum};

/// Contents of a segment's header besides lengths and sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHead {
    /// Type of the segment.
    pub kind: SegmentKind,
    /// Number of its stripe.
    pub stripe: u64,
    /// Position among the segments of its stripe.
    pub shard: u16,
    /// Number of data segments in the stripe.
    pub data: u16,
    /// Number of parity segments in the stripe.
    pub parity: u16,
    /// First byte of the dump.
    pub start: u64,
    /// End of the range of the dump.
    pub end: u64,
}

/// A record with its own bytes of the payload.
#[derive(Debug, Clone, Copy)]
pub struct RecordBytes<'a> {
    /// The record; `stored` is the length of `front` and `body` together, except for shards.
    pub record: Record,
    /// First part of its payload.
    pub front: &'a [u8],
    /// The rest of its payload.
    pub body: &'a [u8],
}

/// Returns the length of a segment with `records` records and `payload` bytes of payload: a multiple of [`ALIGN`].
pub fn sealed_len(records: usize, payload: usize) -> usize {
    (size_of::<SegmentHeader>() + records * size_of::<Record>() + payload).next_multiple_of(ALIGN)
}

/// Assembles a segment from the pieces in `out`, which has the length given by [`sealed_len`].
///
/// # Panics
/// If `out` has another length, or more than 4 GiB.
pub fn seal<'a>(
    set: &[u8; 16],
    head: &SegmentHead,
    pieces: impl Iterator<Item = RecordBytes<'a>> + Clone,
    out: &mut [u8],
) {
    let mut records = 0;
    let mut payload = 0;
    for piece in pieces.clone() {
        records += 1;
        payload += piece.front.len() + piece.body.len();
    }
    assert_eq!(out.len(), sealed_len(records, payload), "room for the segment");
    let head_len = size_of::<SegmentHeader>() + records * size_of::<Record>();
    let (front, mut rest) = out.split_at_mut(head_len);
    let slots = front[size_of::<SegmentHeader>()..].chunks_exact_mut(size_of::<Record>());
    for (piece, slot) in pieces.zip(slots) {
        slot.copy_from_slice(piece.record.as_bytes());
        for bytes in [piece.front, piece.body] {
            let (place, remaining) = rest.split_at_mut(bytes.len());
            place.copy_from_slice(bytes);
            rest = remaining;
        }
    }
    rest.fill(0);
    put_header(set, head, records, payload, out);
}

/// As [`seal`], for a segment without records.
///
/// # Panics
/// As [`seal`].
pub fn seal_payload(set: &[u8; 16], head: &SegmentHead, payload: &[u8], out: &mut [u8]) {
    assert_eq!(out.len(), sealed_len(0, payload.len()), "room for the segment");
    let (place, rest) = out[size_of::<SegmentHeader>()..].split_at_mut(payload.len());
    place.copy_from_slice(payload);
    rest.fill(0);
    put_header(set, head, 0, payload.len(), out);
}

/// Writes the header before existing records and payload.
fn put_header(set: &[u8; 16], head: &SegmentHead, records: usize, payload: usize, out: &mut [u8]) {
    let head_len = size_of::<SegmentHeader>() + records * size_of::<Record>();
    let count = |n: usize| u32::try_from(n).expect("a segment is short");
    let mut header = SegmentHeader {
        magic: SEGMENT_MAGIC,
        kind: (head.kind as u16).into(),
        shard: head.shard.into(),
        set: *set,
        stripe: head.stripe.into(),
        data: head.data.into(),
        parity: head.parity.into(),
        records: count(records).into(),
        start: head.start.into(),
        end: head.end.into(),
        payload: count(payload).into(),
        reserved: 0.into(),
        payload_sum: sum(&out[head_len..head_len + payload]).into(),
        sum: 0.into(),
    };
    let place = 0..size_of::<SegmentHeader>();
    // Written twice: the sum covers the header with 0 in its own place.
    out[place.clone()].copy_from_slice(header.as_bytes());
    header.sum = sum(&out[..head_len]).into();
    out[place].copy_from_slice(header.as_bytes());
}
