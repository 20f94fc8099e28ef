//! Sealing a segment: header, records and payload in one row of bytes.

use zerocopy::IntoBytes;

use crate::format::{ALIGN, Record, SEGMENT_MAGIC, SegmentHeader, SegmentKind, sum};

/// What the header of a segment says besides lengths and sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What it is.
    pub kind: SegmentKind,
    /// Number of its stripe.
    pub stripe: u64,
    /// Place among the segments of its stripe.
    pub shard: u16,
    /// Data segments of the stripe.
    pub data: u16,
    /// Parity segments of the stripe.
    pub parity: u16,
    /// First byte of the dump.
    pub start: u64,
    /// Byte of the dump after the last.
    pub end: u64,
}

/// A record with the bytes of the payload that are its own.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// The record; `stored` is the length of `front` and `body` together, except for shards.
    pub record: Record,
    /// First part of its payload.
    pub front: &'a [u8],
    /// The rest.
    pub body: &'a [u8],
}

/// Bytes of a segment with so many records and so much payload: a multiple of [`ALIGN`].
pub fn sealed_len(records: usize, payload: usize) -> usize {
    (size_of::<SegmentHeader>() + records * size_of::<Record>() + payload).next_multiple_of(ALIGN)
}

/// Puts a segment of the pieces together in `out`, which is as long as [`sealed_len`] says.
///
/// # Panics
/// If `out` has another length, or more than 4 GiB.
pub fn seal<'a>(set: &[u8; 16], head: &Head, pieces: impl Iterator<Item = Piece<'a>> + Clone, out: &mut [u8]) {
    let (mut records, mut payload) = (0, 0);
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
            let (place, behind) = rest.split_at_mut(bytes.len());
            place.copy_from_slice(bytes);
            rest = behind;
        }
    }
    rest.fill(0);
    put_header(set, head, records, payload, out);
}

/// As [`seal`], of a segment without records.
///
/// # Panics
/// As [`seal`].
pub fn seal_payload(set: &[u8; 16], head: &Head, payload: &[u8], out: &mut [u8]) {
    assert_eq!(out.len(), sealed_len(0, payload.len()), "room for the segment");
    let (place, rest) = out[size_of::<SegmentHeader>()..].split_at_mut(payload.len());
    place.copy_from_slice(payload);
    rest.fill(0);
    put_header(set, head, 0, payload.len(), out);
}

/// Puts the header before records and payload that are there already.
fn put_header(set: &[u8; 16], head: &Head, records: usize, payload: usize, out: &mut [u8]) {
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
    out[place.clone()].copy_from_slice(header.as_bytes());
    header.sum = sum(&out[..head_len]).into();
    out[place].copy_from_slice(header.as_bytes());
}
