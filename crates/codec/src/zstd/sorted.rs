//! Positions of a block sorted by a hash of their next bytes, so that those that begin alike are neighbours.
//!
//! Each bucket is a run of one array, in the order of positions, so a search walks backwards through neighbours. Bits of
//! the bytes that follow are kept beside each position, so that most candidates are refused without a look at the data.

use super::finder::OffsetMatch;
use crate::matching::{common, eight_bytes, four_bytes, prefetch};

/// Marks the first position of a bucket.
const FIRST: u32 = 1 << 31;
/// Marks a bucket of a single position, which needs no place.
const SINGLE: u32 = u32::MAX;
/// Multiplier of the hashes: 2^64 divided by the golden ratio.
pub(super) const HASH: u64 = 0x9e37_79b9_7f4a_7c15;
/// Places between a look-up and the one whose memory is fetched meanwhile.
const AHEAD: usize = 8;

/// Sizes for a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashedBits {
    pub(super) position: u32,
    pub(super) hash: u32,
}

/// Positions sorted by a hash of their next `width` bytes.
#[derive(Debug, Default)]
pub(super) struct SortedPositions {
    width: usize,
    /// The positions that are sorted, rising; unused if all are.
    places: Vec<u32>,
    all: bool,
    /// Positions with [`FIRST`], and in the bits between as much as fits of the bytes after the first `width`.
    entries: Vec<u32>,
    /// For each place the end of its candidates in `entries`, or 0 if there are none.
    ends: Vec<u32>,
    /// Index of the first place that the search has not passed.
    next: usize,
    position_bits: u32,
}

/// Candidates of one position: the end of them, and the last, which the processor fetches ahead of its use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CandidateRange {
    end: u32,
    last: u32,
}

/// Position and limits of a search.
#[derive(Clone, Copy)]
pub(super) struct SearchLimits {
    pub(super) at: usize,
    /// Greatest length.
    pub(super) limit: usize,
    /// Length that another search finds.
    pub(super) enough: usize,
    /// Greatest number of candidates.
    pub(super) depth: usize,
    /// Greatest offset.
    pub(super) reach: usize,
}

/// Returns the bits that are kept of the bytes after the first `width` of a position.
#[inline(always)]
fn beside(data: &[u8], at: usize, width: usize, position_bits: u32) -> u32 {
    four_bytes(data, at + width) << position_bits & !FIRST
}

/// Returns a hash of the `width` bytes at a position.
#[inline(always)]
fn hash(data: &[u8], at: usize, width: usize) -> u64 {
    if width == 4 {
        return u64::from(four_bytes(data, at)).wrapping_mul(HASH);
    }
    let mut hash = eight_bytes(data, at).wrapping_mul(HASH);
    for word in 1..width / 8 {
        hash = (hash ^ hash >> 32 ^ eight_bytes(data, at + 8 * word)).wrapping_mul(HASH);
    }
    hash
}

/// Gives a list a length; its values are those of before, or 0. It takes no more memory than it needs: the memory of an
/// encoder is promised.
fn resize(list: &mut Vec<u32>, len: usize) {
    list.reserve_exact(len.saturating_sub(list.len()));
    list.resize(len, 0);
}

impl SortedPositions {
    /// Takes all of the first `count` positions.
    pub(super) fn take_all(&mut self, count: usize) {
        self.all = true;
        self.places.clear();
        resize(&mut self.ends, count);
    }

    /// Sorts the positions taken. Those of the first `count` with more than `depth` others in their bucket go to `finer`: a
    /// search among fewer sees all of them.
    pub(super) fn sort(
        &mut self,
        data: &[u8],
        width: usize,
        bits: HashedBits,
        buckets: &mut Vec<u32>,
        finer: Option<(usize, usize, &mut SortedPositions)>,
    ) {
        (self.width, self.position_bits, self.next) = (width, bits.position, 0);
        buckets.clear();
        buckets.resize(1 << bits.hash, 0);
        let places = std::mem::take(&mut self.places);
        let some = places.iter().copied();
        let all = 0..self.ends.len() as u32;
        // Compiled for each of the usual widths, which is faster.
        match (self.all, width) {
            (true, 4) => self.sort_by(data, 4, all, bits.hash, buckets, finer),
            (true, 8) => self.sort_by(data, 8, all, bits.hash, buckets, finer),
            (true, _) => self.sort_by(data, width, all, bits.hash, buckets, finer),
            (false, _) => self.sort_by(data, width, some, bits.hash, buckets, finer),
        }
        self.places = places;
    }

    /// Sorts `places`, which are those taken.
    #[inline(always)]
    fn sort_by(
        &mut self,
        data: &[u8],
        width: usize,
        places: impl Iterator<Item = u32> + Clone,
        hash_bits: u32,
        buckets: &mut [u32],
        finer: Option<(usize, usize, &mut SortedPositions)>,
    ) {
        for (at, end) in places.clone().zip(&mut self.ends) {
            let bucket = (hash(data, at as usize, width) >> (u64::BITS - hash_bits)) as usize;
            buckets[bucket] += 1;
            *end = bucket as u32;
        }
        if let Some((depth, count, finer)) = finer {
            let crowded =
                places.clone().zip(&self.ends).filter(|(_, bucket)| buckets[**bucket as usize] as usize > depth);
            finer.take(crowded.map(|(at, _)| at).take_while(|at| (*at as usize) < count), self.ends.len());
        }
        let mut total = 0;
        for bucket in &mut *buckets {
            let count = std::mem::replace(bucket, SINGLE);
            if count > 1 {
                *bucket = total | FIRST;
                total += count;
            }
        }
        // One place even if there is nothing: a position without candidates fetches it.
        resize(&mut self.entries, total as usize + 1);
        for (at, end) in places.zip(&mut self.ends) {
            let bucket = &mut buckets[*end as usize];
            if *bucket == SINGLE {
                *end = 0;
                continue;
            }
            let first = *bucket & FIRST;
            let place = *bucket & !FIRST;
            *bucket = place + 1;
            // The candidates of a position are the entries of its bucket before its own.
            *end = if first == 0 { place } else { 0 };
            self.entries[place as usize] = first | beside(data, at as usize, width, self.position_bits) | at;
        }
    }

    /// Takes some positions, at most `most`, which rise.
    fn take(&mut self, places: impl Iterator<Item = u32>, most: usize) {
        self.all = false;
        self.places.clear();
        self.places.reserve_exact(most);
        self.places.extend(places);
        resize(&mut self.ends, self.places.len());
    }

    /// Begins the same input again.
    pub(super) fn rewind(&mut self) {
        self.next = 0;
    }

    /// Returns the candidates of a position where some are sorted, positions rising, or nothing if it is not one of them.
    #[inline(always)]
    pub(super) fn candidates(&mut self, at: usize) -> Option<CandidateRange> {
        let index = self.index(at)?;
        Some(self.candidates_of::<true>(index))
    }

    /// Returns the candidates of the position with an index, which is itself where all are sorted. With `FETCH`, the
    /// processor fetches those of a later one.
    #[inline(always)]
    pub(super) fn candidates_of<const FETCH: bool>(&self, index: usize) -> CandidateRange {
        if FETCH && let Some(end) = self.ends.get(index + AHEAD) {
            prefetch(&self.entries, end.saturating_sub(1) as usize);
        }
        let end = self.ends[index];
        CandidateRange { end, last: self.entries[end.saturating_sub(1) as usize] }
    }

    /// Returns the index of a position.
    #[inline(always)]
    fn index(&mut self, at: usize) -> Option<usize> {
        while self.places.get(self.next).is_some_and(|place| (*place as usize) < at) {
            self.next += 1;
        }
        self.places.get(self.next).is_some_and(|place| *place as usize == at).then_some(self.next)
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        4 * (self.places.capacity() + self.entries.capacity() + self.ends.capacity())
    }

    /// Adds matches longer than `longest`, their lengths rising. Stops at the first one
    /// of at least `enough` bytes, which another search finds.
    #[inline(always)]
    pub(super) fn search(
        &self,
        data: &[u8],
        search: &SearchLimits,
        candidates: CandidateRange,
        longest: usize,
        found: &mut Vec<OffsetMatch>,
    ) {
        match self.width {
            4 => self.search_by(4, data, search, candidates, longest, found),
            8 => self.search_by(8, data, search, candidates, longest, found),
            width => self.search_by(width, data, search, candidates, longest, found),
        }
    }

    /// Does the same; `width` is that of this order.
    #[inline(always)]
    fn search_by(
        &self,
        width: usize,
        data: &[u8],
        search: &SearchLimits,
        candidates: CandidateRange,
        longest: usize,
        found: &mut Vec<OffsetMatch>,
    ) {
        let SearchLimits { at, limit, enough, depth, reach } = *search;
        let end = candidates.end as usize;
        if end == 0 || longest >= enough.min(limit) {
            return;
        }
        let mut longest = longest.max(width - 1);
        let position = (1_u32 << self.position_bits) - 1;
        let all = !FIRST & !position;
        let ours = beside(data, at, width, self.position_bits);
        let mut entry = candidates.last;
        let mut earlier = self.entries[end.saturating_sub(depth)..end - 1].iter().rev();
        loop {
            // The byte after `longest` must agree, or more bytes than are kept beside.
            let mask = match longest + 1 - width {
                0 => 0,
                1 => 0xff << self.position_bits & all,
                _ => all,
            };
            let other = (entry & position) as usize;
            if (entry ^ ours) & mask == 0 && four_bytes(data, other + longest - 3) == four_bytes(data, at + longest - 3)
            {
                let offset = at - other;
                // Earlier ones are even farther away.
                if offset > reach {
                    return;
                }
                let len = common(data, at, other, 0, limit);
                if len > longest {
                    if len >= enough {
                        return;
                    }
                    longest = len;
                    found.push(OffsetMatch { len: len as u32, offset: offset as u32 });
                    if len == limit {
                        return;
                    }
                }
            }
            match earlier.next() {
                Some(next) if entry & FIRST == 0 => entry = *next,
                _ => return,
            }
        }
    }
}
