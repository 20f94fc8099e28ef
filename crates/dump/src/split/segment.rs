//! Packs chunks in order into segments: gathered until a segment is full, then sealed.

use std::fmt;

use packfs_blocks::{Buffer, Buffers};

use super::chunk::PackedChunk;
use super::plan::MemoryPlan;
use crate::format::{Record, RecordKind, SQUEEZED};
use crate::part::{RecordBytes, SegmentHead, seal, sealed_len};

/// A segment ready to be written.
pub(super) struct SealedSegment {
    pub(super) head: SegmentHead,
    pub(super) bytes: Buffer,
}

impl fmt::Debug for SealedSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSegment").field("head", &self.head).field("len", &self.bytes.len()).finish()
    }
}

/// The segment being filled.
#[derive(Debug)]
pub(super) struct SegmentBuilder {
    items: Vec<(Record, Vec<u8>, Option<Buffer>)>,
    payload: usize,
    chunks: usize,
    start: u64,
    end: u64,
    most: usize,
    held: usize,
}

impl SegmentBuilder {
    pub(super) fn new(plan: &MemoryPlan) -> Self {
        SegmentBuilder {
            items: Vec::new(),
            payload: 0,
            chunks: 0,
            start: 0,
            end: 0,
            most: plan.data_segment,
            held: plan.held,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns true if the next stretch, which begins at `offset`, must go to another segment.
    pub(super) fn must_seal_before(&self, offset: u64, packed: &PackedChunk) -> bool {
        if self.items.is_empty() {
            return false;
        }
        let stored = match packed {
            PackedChunk::Fill(_) => 0,
            PackedChunk::Same { .. } => 8,
            PackedChunk::Stored { map, body, .. } => map.len() + body.len(),
        };
        offset != self.end
            || self.chunks >= self.held
            || sealed_len(self.items.len() + 1, self.payload + stored) > self.most
    }

    /// Adds a stretch of `len` bytes of the dump.
    pub(super) fn add(&mut self, offset: u64, len: u64, packed: PackedChunk) {
        if self.items.is_empty() {
            self.start = offset;
        }
        self.end = offset + len;
        let (kind, flags, sum, front, body) = match packed {
            PackedChunk::Fill(pattern) => {
                let pattern = u64::from_le_bytes(pattern);
                if self.grow_fill(offset, len, pattern) {
                    return;
                }
                (RecordKind::Fill, 0, pattern, Vec::new(), None)
            }
            PackedChunk::Same { target, sum } => (RecordKind::Same, 0, sum, target.to_le_bytes().to_vec(), None),
            PackedChunk::Stored { coded, map, body, sum } => {
                let kind = if coded { RecordKind::Coded } else { RecordKind::Raw };
                self.chunks += 1;
                (kind, if map.is_empty() { 0 } else { SQUEEZED }, sum, map, Some(body))
            }
        };
        let stored = front.len() + body.as_ref().map_or(0, |body| body.len());
        self.payload += stored;
        let record = Record {
            offset: offset.into(),
            len: len.into(),
            stored: u32::try_from(stored).expect("a chunk is at most 16 MiB").into(),
            kind: (kind as u16).into(),
            flags: flags.into(),
            sum: sum.into(),
        };
        self.items.push((record, front, body));
    }

    /// Extends the last stretch, if it repeats the same bytes in phase.
    fn grow_fill(&mut self, offset: u64, len: u64, pattern: u64) -> bool {
        let Some((last, ..)) = self.items.last_mut() else { return false };
        // A pattern has eight bytes: out of step, the stretch would not repeat it from its own beginning.
        let in_step = (offset - last.offset.get()).is_multiple_of(8);
        let is_same = last.kind.get() == RecordKind::Fill as u16 && last.sum.get() == pattern;
        if in_step && is_same {
            last.len += len;
        }
        in_step && is_same
    }

    /// Seals the gathered stretches, even if there are none, and starts anew. `head` contains type
    /// and position in the stripe; the range is filled in.
    pub(super) fn seal(&mut self, set: &[u8; 16], head: SegmentHead, buffers: &Buffers) -> SealedSegment {
        // An empty segment only fills up a stripe; it lies where the dump has got to.
        let start = if self.items.is_empty() { self.end } else { self.start };
        let head = SegmentHead { start, end: self.end, ..head };
        let mut bytes = buffers.take(sealed_len(self.items.len(), self.payload));
        let pieces = self.items.iter().map(|(record, front, body)| RecordBytes {
            record: *record,
            front,
            body: body.as_deref().unwrap_or_default(),
        });
        seal(set, &head, pieces, &mut bytes);
        self.items.clear();
        (self.payload, self.chunks) = (0, 0);
        SealedSegment { head, bytes }
    }
}
