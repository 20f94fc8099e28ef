//! Maps bytes of the dump to segments: all data segments of a set by their start, and parity
//! segments by their stripes.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Part number of a segment that no available part contains, but that parity may restore.
pub(super) const ABSENT: u16 = u16::MAX;

/// Something in the segment did not verify: it is useless for its stripe.
pub(super) const DAMAGED: u8 = 1;
/// The checksum of its whole payload matches.
pub(super) const SOUND: u8 = 4;
/// Its stripe cannot restore it.
pub(super) const HOPELESS: u8 = 2;
/// Its stripe restored it.
pub(super) const RESTORED: u8 = 8;

/// Position of a data or parity segment: the facts needed to find it, in 48 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentPlace {
    /// First byte of the dump in it.
    pub(crate) start: u64,
    /// End of its range.
    pub(crate) end: u64,
    /// Offset in its part.
    pub(crate) position: u64,
    /// Number of its stripe.
    pub(crate) stripe: u64,
    /// Length on disk.
    pub(crate) len: u32,
    /// Index of its part among those of the set; [`ABSENT`] for none.
    pub(crate) part: u16,
    /// Position in the stripe.
    pub(crate) shard: u16,
    /// Number of data segments in the stripe.
    pub(crate) data: u16,
    /// Number of parity segments in the stripe.
    pub(crate) parity: u16,
}

/// Number of a data segment in a [`SegmentMap`].
pub(crate) type SegmentNumber = u32;

/// All segments of a set.
#[derive(Debug, Default)]
pub(crate) struct SegmentMap {
    /// Data segments by `start`; of those with the same start, the longest is last.
    data: Vec<SegmentPlace>,
    /// For each of them, the greatest `end` of all up to it: bounds the search backwards.
    reach: Vec<u64>,
    /// Verification state of each of them.
    state: Vec<AtomicU8>,
    /// Parity segments by stripe and shard.
    parity: Vec<SegmentPlace>,
    /// Data segments in stripes with parity, by stripe and shard.
    striped: Vec<SegmentNumber>,
}

impl SegmentMap {
    /// Makes the map of these segments.
    pub(crate) fn new(mut data: Vec<SegmentPlace>, mut parity: Vec<SegmentPlace>) -> Self {
        data.sort_unstable_by_key(|s| (s.start, s.end, s.part != ABSENT, s.part, s.position));
        parity.sort_unstable_by_key(|s| (s.stripe, s.shard, s.part, s.position));
        let reach = data.iter().scan(0, |reach: &mut u64, s| {
            *reach = s.end.max(*reach);
            Some(*reach)
        });
        let reach = reach.collect();
        let state = data.iter().map(|_| AtomicU8::new(0)).collect();
        let has_parity = |s: &SegmentPlace| parity.binary_search_by_key(&s.stripe, |p| p.stripe).is_ok();
        let mut striped: Vec<SegmentNumber> = (0..).zip(&data).filter(|(_, s)| has_parity(s)).map(|(n, _)| n).collect();
        striped.sort_unstable_by_key(|n| (data[*n as usize].stripe, data[*n as usize].shard));
        SegmentMap { data, reach, state, parity, striped }
    }

    /// Returns the data and the parity segments.
    pub(crate) fn into_places(self) -> (Vec<SegmentPlace>, Vec<SegmentPlace>) {
        (self.data, self.parity)
    }

    /// Returns the data segments by start.
    pub(crate) fn data(&self) -> &[SegmentPlace] {
        &self.data
    }

    /// Returns the parity segments by stripe and shard.
    pub(crate) fn parity(&self) -> &[SegmentPlace] {
        &self.parity
    }

    /// Returns a data segment.
    pub(crate) fn get(&self, number: SegmentNumber) -> SegmentPlace {
        self.data[number as usize]
    }

    /// Adds flags to the state of a segment.
    pub(crate) fn mark(&self, number: SegmentNumber, flags: u8) {
        self.state[number as usize].fetch_or(flags, Relaxed);
    }

    /// Returns true if all of `flags` are set.
    pub(crate) fn is(&self, number: SegmentNumber, flags: u8) -> bool {
        self.state[number as usize].load(Relaxed) & flags == flags
    }

    /// Returns the data segments that contain byte `at`: those in a part first, then those that are
    /// only in their stripe.
    pub(crate) fn at(&self, at: u64) -> impl Iterator<Item = SegmentNumber> + '_ {
        let present = self.covering(at).filter(|n| self.get(*n).part != ABSENT);
        present.chain(self.covering(at).filter(|n| self.get(*n).part == ABSENT))
    }

    fn covering(&self, at: u64) -> impl Iterator<Item = SegmentNumber> + '_ {
        let begun = self.data.partition_point(|s| s.start <= at);
        let reached = self.reach[..begun].iter().rev().take_while(move |reach| **reach > at).count();
        // Segments are counted in u32 from where they are collected on.
        let numbers = (begun - reached..begun).rev().filter_map(|n| SegmentNumber::try_from(n).ok());
        numbers.filter(move |n| self.get(*n).end > at)
    }

    /// Returns the first start of a segment after `at`.
    pub(crate) fn next_start(&self, at: u64) -> Option<u64> {
        self.data.get(self.data.partition_point(|s| s.start <= at)).map(|s| s.start)
    }

    /// Returns the ranges of `0..size` that no segment contains.
    pub(crate) fn gaps(&self, size: u64) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = 0;
        for segment in &self.data {
            if segment.start >= size {
                break;
            }
            if segment.start > at {
                gaps.push(at..segment.start);
            }
            at = at.max(segment.end);
        }
        if at < size {
            gaps.push(at..size);
        }
        gaps
    }

    /// Returns the data segments of a stripe, by shard. Several may claim to be the same shard.
    pub(crate) fn stripe(&self, stripe: u64) -> &[SegmentNumber] {
        let of = |n: &SegmentNumber| self.get(*n).stripe;
        let from = self.striped.partition_point(|n| of(n) < stripe);
        let len = self.striped[from..].partition_point(|n| of(n) == stripe);
        &self.striped[from..from + len]
    }

    /// Returns the parity segments of a stripe, by shard.
    pub(crate) fn parity_of(&self, stripe: u64) -> &[SegmentPlace] {
        let from = self.parity.partition_point(|s| s.stripe < stripe);
        let len = self.parity[from..].partition_point(|s| s.stripe == stripe);
        &self.parity[from..from + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(start: u64, end: u64, part: u16) -> SegmentPlace {
        SegmentPlace { start, end, position: 4096, stripe: start, len: 4096, part, shard: 0, data: 1, parity: 0 }
    }

    fn starts(map: &SegmentMap, at: u64) -> Vec<(u64, u16)> {
        map.at(at).map(|n| (map.get(n).start, map.get(n).part)).collect()
    }

    #[test]
    fn exactly_the_segments_that_contain_a_byte_are_found() {
        let map = SegmentMap::new(
            vec![
                segment(10, 20, 1),
                segment(0, 100, 2),
                segment(0, 10, 0),
                segment(15, 18, ABSENT),
                segment(15, 30, 1),
            ],
            vec![],
        );
        let cases: [(u64, &[(u64, u16)]); 8] = [
            (0, &[(0, 2), (0, 0)]),
            (9, &[(0, 2), (0, 0)]),
            (10, &[(10, 1), (0, 2)]),
            (16, &[(15, 1), (10, 1), (0, 2), (15, ABSENT)]),
            (18, &[(15, 1), (10, 1), (0, 2)]),
            (29, &[(15, 1), (0, 2)]),
            (99, &[(0, 2)]),
            (100, &[]),
        ];
        for (at, found) in cases {
            assert_eq!(starts(&map, at), found, "{at}");
        }
        assert_eq!([0, 9, 10, 14, 15].map(|at| map.next_start(at)), [Some(10), Some(10), Some(15), Some(15), None]);
        assert_eq!(starts(&SegmentMap::default(), 0), []);
    }

    #[test]
    fn gaps_are_the_ranges_without_a_segment() {
        let map = SegmentMap::new(
            vec![segment(10, 20, 1), segment(12, 15, 2), segment(20, 30, 0), segment(40, 50, 0)],
            vec![],
        );
        assert_eq!(map.gaps(60), [0..10, 30..40, 50..60]);
        assert_eq!(map.gaps(45), [0..10, 30..40]);
        assert_eq!(map.gaps(35), [0..10, 30..35]);
        assert_eq!(map.gaps(0), []);
    }

    #[test]
    fn only_segments_with_parity_are_in_stripes() {
        let shard = |stripe, shard| SegmentPlace { stripe, shard, ..segment(stripe * 10 + u64::from(shard), 99, 0) };
        let data = vec![shard(2, 1), shard(2, 0), shard(1, 0), shard(2, 0)];
        let map = SegmentMap::new(data, vec![shard(2, 3), shard(2, 2)]);
        let shards = |stripe| map.stripe(stripe).iter().map(|n| map.get(*n).shard).collect::<Vec<_>>();
        assert_eq!((shards(2), shards(1), shards(3)), (vec![0, 0, 1], vec![], vec![]));
        assert_eq!(map.parity_of(2).iter().map(|s| s.shard).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(map.parity_of(1), []);
    }
}
