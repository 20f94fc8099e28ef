//! Stripes: groups of segments that protect each other, and their erasure code.

use std::sync::Arc;

use packfs_blocks::Buffers;
use reed_solomon_simd::ReedSolomonEncoder;

use super::segment::SealedSegment;
use crate::format::{Record, RecordKind, SegmentKind, sum};
use crate::part::{RecordBytes, SegmentHead, seal, sealed_len};

/// Number of bytes of each shard coded together. The code works on each 64 bytes independently, so
/// the shards may be sliced: the slices being processed then stay in the cache.
const SLICE_LEN: usize = 64 << 10;

/// Assigns segments to stripes.
#[derive(Debug)]
pub(super) struct StripeAssigner {
    /// Number of parity segments in a stripe, if there are enough parts.
    wanted: u16,
    next: u64,
    open: Option<OpenStripe>,
    /// Number of stripes with fewer parity segments than wanted.
    weak: u64,
}

#[derive(Debug)]
struct OpenStripe {
    number: u64,
    data: u16,
    parity: u16,
    sealed: Vec<Arc<SealedSegment>>,
}

/// A stripe with all its data segments.
#[derive(Debug)]
pub(super) struct FullStripe {
    number: u64,
    parity: u16,
    sealed: Vec<Arc<SealedSegment>>,
}

impl StripeAssigner {
    /// Makes stripes from number `next` on.
    pub(super) fn new(wanted: u16, next: u64) -> Self {
        StripeAssigner { wanted, next, open: None, weak: 0 }
    }

    /// Returns the position of the next data segment. If a new stripe must be begun for it, `width`
    /// is asked for its number of segments, given the maximum number of parity segments.
    pub(super) fn place(&mut self, width: impl FnOnce(u16) -> (u16, u16)) -> SegmentHead {
        let (number, shard, data, parity) = match &self.open {
            Some(open) => (open.number, open.sealed.len(), open.data, open.parity),
            None if self.wanted == 0 => (self.number(), 0, 1, 0),
            None => {
                let (data, parity) = width(self.wanted);
                self.weak += u64::from(parity < self.wanted);
                let number = self.number();
                self.open = Some(OpenStripe { number, data, parity, sealed: Vec::new() });
                (number, 0, data, parity)
            }
        };
        let shard = u16::try_from(shard).expect("a stripe is at most as wide as there are parts");
        SegmentHead { kind: SegmentKind::Data, stripe: number, shard, data, parity, start: 0, end: 0 }
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        // Parts found by a resumed run may contain any number.
        self.next = number.wrapping_add(1);
        number
    }

    /// Records the segment for the last position; returns the stripe if it is now complete and has parity.
    pub(super) fn add(&mut self, sealed: &Arc<SealedSegment>) -> Option<FullStripe> {
        let open = self.open.as_mut()?;
        open.sealed.push(Arc::clone(sealed));
        if open.sealed.len() < usize::from(open.data) {
            return None;
        }
        let open = self.open.take()?;
        // With one part left, there is none for parity.
        (open.parity > 0).then_some(FullStripe { number: open.number, parity: open.parity, sealed: open.sealed })
    }

    /// Returns the number of stripes begun with fewer parity segments than wanted.
    pub(super) fn weak(&self) -> u64 {
        self.weak
    }

    /// Returns true if a stripe still lacks data segments.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

impl FullStripe {
    /// Computes the parity segments. Their payload is as long as the longest data segment.
    pub(super) fn code(&self, set: &[u8; 16], buffers: &Buffers) -> Vec<SealedSegment> {
        let longest = self.sealed.iter().map(|sealed| sealed.bytes.len()).max().unwrap_or(0);
        let mut payloads = vec![vec![0; longest]; usize::from(self.parity)];
        let len = SLICE_LEN.min(longest);
        let encoder = ReedSolomonEncoder::new(self.sealed.len(), payloads.len(), len);
        let mut encoder = encoder.expect("fewer shards than a set may have parts, of even length");
        let mut padded = vec![0; len];
        // At least 1, as step_by panics at 0.
        for from in (0..longest).step_by(len.max(1)) {
            let to = longest.min(from + len);
            encoder.reset(self.sealed.len(), payloads.len(), to - from).expect("as above");
            for sealed in &self.sealed {
                let have = sealed.bytes.get(from..to.min(sealed.bytes.len())).unwrap_or_default();
                padded[..have.len()].copy_from_slice(have);
                padded[have.len()..].fill(0);
                encoder.add_original_shard(&padded[..to - from]).expect("as many as were announced");
            }
            let coded = encoder.encode().expect("all shards are there");
            for (payload, shard) in payloads.iter_mut().zip(coded.recovery_iter()) {
                payload[from..to].copy_from_slice(shard);
            }
        }
        payloads.iter().zip(0..).map(|(payload, n)| self.seal(set, n, payload, buffers)).collect()
    }

    fn seal(&self, set: &[u8; 16], n: u16, payload: &[u8], buffers: &Buffers) -> SealedSegment {
        let count = u16::try_from(self.sealed.len()).expect("a stripe is at most as wide as there are parts");
        let heads = || self.sealed.iter().map(|sealed| &sealed.head);
        let head = SegmentHead {
            kind: SegmentKind::Parity,
            stripe: self.number,
            shard: count + n,
            data: count,
            parity: self.parity,
            start: heads().map(|head| head.start).min().unwrap_or(0),
            end: heads().map(|head| head.end).max().unwrap_or(0),
        };
        let records: Vec<_> = self.sealed.iter().map(|sealed| record(sealed)).collect();
        // The payload belongs to no single record, so the first one carries it.
        let pieces = records.iter().enumerate().map(|(n, record)| {
            let body = if n == 0 { payload } else { &[] };
            RecordBytes { record: *record, front: &[], body }
        });
        let mut bytes = buffers.take(sealed_len(records.len(), payload.len()));
        seal(set, &head, pieces, &mut bytes);
        SealedSegment { head, bytes }
    }
}

fn record(sealed: &SealedSegment) -> Record {
    Record {
        offset: sealed.head.start.into(),
        len: (sealed.head.end - sealed.head.start).into(),
        stored: u32::try_from(sealed.bytes.len()).expect("a segment is at most 64 MiB").into(),
        kind: (RecordKind::Shard as u16).into(),
        flags: 0.into(),
        sum: sum(&sealed.bytes).into(),
    }
}

/// Chooses the number of data and parity segments of the next stripe, given the speed of each
/// remaining part (in any unit; 0 if unknown). Wider stripes need less room for parity; but each
/// part takes only one segment of a stripe, so a slow part that lags (`behind`) delays stripes as
/// wide as all parts.
pub(super) fn width(speeds: &[f64], wanted: u16, behind: bool) -> (u16, u16) {
    let live = u16::try_from(speeds.len()).unwrap_or(u16::MAX).max(1);
    let parity = wanted.min(live - 1);
    let widest = live - parity;
    if !behind || parity == 0 || speeds.iter().any(|speed| *speed <= 0.0) {
        return (widest, parity);
    }
    let best = (1..=widest).rev().map(|data| (data, f64::from(data) * rate(speeds, data + parity)));
    // A wider stripe is preferred unless a narrower one is clearly faster.
    let best = best.reduce(|wide, narrow| if narrow.1 > wide.1 * 1.02 { narrow } else { wide });
    (best.map_or(1, |(data, _)| data), parity)
}

/// Returns the number of stripes of `width` segments per second: as many as all parts together can
/// write, where no part writes more than one segment of a stripe.
fn rate(speeds: &[f64], width: u16) -> f64 {
    let mut sorted = speeds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut sum = sorted.iter().sum::<f64>();
    let mut left = f64::from(width);
    // Parts that are faster than the stripes arrive write one segment of each.
    while let Some(fastest) = sorted.pop() {
        let rate = sum / left;
        if fastest <= rate || left <= 1.0 {
            return rate;
        }
        (sum, left) = (sum - fastest, left - 1.0);
    }
    0.0
}

#[cfg(test)]
mod tests;
