//! Finds earlier positions that begin like the present one, in blocks that are known as a whole.
//!
//! A streaming encoder adds position by position to trees or chains, and a search follows links all over memory. A block
//! is here from the start, so its positions are sorted once by a hash of their next four bytes, and once by one of their
//! next eight ([`SortedPositions`]). The first array finds matches of four to seven bytes, the second all longer ones;
//! positions that the parser leaves out cost nothing. A small table has the last position with the same three bytes.
//!
//! In large blocks more positions begin alike than a search compares. Those are sorted again by a hash of twice as many
//! bytes, and again, so that there is a short list of candidates for each length.

use super::sorted::{CandidateRange, HASH, HashedBits, SearchLimits, SortedPositions};
use crate::matching::four_bytes;

/// Zeros after the data, so that every position can be hashed and compared by whole words.
const PADDING: usize = 16;
/// Shortest rest of the data that is looked at.
pub(super) const ROOM: usize = 8;
/// Bits of the hashes of three and of four bytes; fewer in short blocks.
const THREE_BITS: u32 = 16;
const FOUR_BITS: u32 = 16;
/// The same in large blocks.
const LARGE_THREE_BITS: u32 = 17;
const LARGE_FOUR_BITS: u32 = 20;
/// Bytes by which positions are sorted; only by the first two in small blocks.
const WIDTHS: [usize; 5] = [4, 8, 16, 32, 64];
/// Fewest bits of a position.
const POSITION_BITS: u32 = 10;

/// A match; its offset counts back from the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetMatch {
    pub(super) len: u32,
    pub(super) offset: u32,
}

/// Candidates of a position by three bytes and in each order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CandidateGlance {
    /// One more than the last position with the same hash of three bytes, or 0.
    three: u32,
    orders: [Option<CandidateRange>; WIDTHS.len()],
}

#[derive(Debug)]
pub(super) struct SortedMatchFinder {
    /// The input, and [`PADDING`].
    data: Vec<u8>,
    len: usize,
    /// Greatest offset.
    reach: usize,
    nice: usize,
    /// True if blocks are large: an order has those positions only that are too many in the one before.
    large: bool,
    /// Greatest number of candidates in the first order, and in each of the others.
    depths: [usize; 2],
    sorted: [SortedPositions; WIDTHS.len()],
    /// Scratch for sorting.
    buckets: Vec<u32>,
    three: Vec<u32>,
    three_bits: u32,
    /// Position up to which `three` is filled.
    noted: usize,
}

impl SortedMatchFinder {
    /// Makes a finder of matches up to `nice` bytes.
    pub(super) fn new(nice: usize, depths: [usize; 2], large: bool) -> Self {
        let three_bits = if large { LARGE_THREE_BITS } else { THREE_BITS };
        SortedMatchFinder {
            data: Vec::new(),
            len: 0,
            reach: 0,
            nice,
            large,
            depths,
            sorted: Default::default(),
            buckets: Vec::new(),
            three: vec![0; 1 << three_bits],
            three_bits,
            noted: 0,
        }
    }

    /// Begins another input, with offsets up to `window`.
    pub(super) fn start(&mut self, src: &[u8], window: usize) {
        self.data.clear();
        self.data.reserve_exact(src.len() + PADDING);
        self.data.extend_from_slice(src);
        self.data.resize(src.len() + PADDING, 0);
        (self.len, self.reach) = (src.len(), window);
        self.sort();
        self.rewind();
    }

    fn sort(&mut self) {
        let bits = self.len.next_power_of_two().ilog2().max(POSITION_BITS);
        let four = if self.large { LARGE_FOUR_BITS } else { FOUR_BITS };
        let count = (self.len + 1).saturating_sub(ROOM);
        let mut rest = &mut self.sorted[..];
        rest[0].take_all(count);
        for (index, width) in WIDTHS.into_iter().enumerate().take(if self.large { WIDTHS.len() } else { 2 }) {
            let hash = if index == 0 { bits.min(four) } else { bits - 1 };
            let [sorted, finer @ ..] = rest else { return };
            let crowded = match (finer.first_mut(), WIDTHS.get(index + 1)) {
                (Some(finer), Some(next)) if self.large => {
                    Some((self.depths[index.min(1)], (self.len + 1).saturating_sub(*next), finer))
                }
                (Some(finer), _) => {
                    finer.take_all(count);
                    None
                }
                _ => None,
            };
            sorted.sort(&self.data, width, HashedBits { position: bits, hash }, &mut self.buckets, crowded);
            rest = finer;
        }
    }

    /// Begins the same input again.
    pub(super) fn rewind(&mut self) {
        self.three.fill(0);
        self.noted = 0;
        self.sorted.iter_mut().for_each(SortedPositions::rewind);
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let sorted = self.sorted.iter().map(SortedPositions::allocated).sum::<usize>();
        self.data.capacity() + sorted + 4 * (self.three.capacity() + self.buckets.capacity())
    }

    /// Returns the input and the zeros after it.
    #[inline(always)]
    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns the length of the input.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Looks up the candidates of a position, positions rising. Done a position ahead of the search, this hides the time
    /// that memory takes.
    #[inline(always)]
    pub(super) fn glance<const LARGE: bool>(&mut self, at: usize) -> CandidateGlance {
        if at + ROOM > self.len {
            return CandidateGlance::default();
        }
        // Only positions before this one: it must not find itself.
        while self.noted < at {
            let slot = self.slot(self.noted);
            self.three[slot] = self.noted as u32 + 1;
            self.noted += 1;
        }
        let mut glance = CandidateGlance { three: self.three[self.slot(at)], ..CandidateGlance::default() };
        if !LARGE {
            // All positions are in both orders.
            glance.orders[0] = Some(self.sorted[0].candidates_of::<false>(at));
            glance.orders[1] = Some(self.sorted[1].candidates_of::<false>(at));
            return glance;
        }
        glance.orders[0] = Some(self.sorted[0].candidates_of::<true>(at));
        for (candidates, sorted) in glance.orders.iter_mut().zip(&mut self.sorted).skip(1) {
            *candidates = sorted.candidates(at);
            if candidates.is_none() {
                break;
            }
        }
        glance
    }

    /// Returns the place of a position's three bytes in the table of them.
    #[inline(always)]
    fn slot(&self, at: usize) -> usize {
        (u64::from(four_bytes(&self.data, at) << 8).wrapping_mul(HASH) >> (u64::BITS - self.three_bits)) as usize
    }

    /// Finds matches longer than `longest`, their lengths rising.
    pub(super) fn find<const LARGE: bool>(
        &self,
        at: usize,
        glance: CandidateGlance,
        longest: usize,
        found: &mut Vec<OffsetMatch>,
    ) {
        found.clear();
        let limit = self.nice.min(self.len - at);
        if limit < ROOM {
            return;
        }
        let mut longest = longest;
        if longest < 3 {
            if let Some(offset) = self.offset_of_three(at, glance.three as usize) {
                found.push(OffsetMatch { len: 3, offset });
            }
            longest = 3;
        }
        if LARGE {
            self.find_by_all(at, limit, &glance, longest, found);
        } else {
            self.find_by_two(at, limit, &glance, longest, found);
        }
    }

    /// Finds matches where two orders have all positions.
    #[inline(always)]
    fn find_by_two(
        &self,
        at: usize,
        limit: usize,
        glance: &CandidateGlance,
        longest: usize,
        found: &mut Vec<OffsetMatch>,
    ) {
        let [Some(four), Some(eight), ..] = glance.orders else { return };
        let search = SearchLimits { at, limit, enough: WIDTHS[1], depth: self.depths[0], reach: self.reach };
        self.sorted[0].search(&self.data, &search, four, longest, found);
        let longest = found.last().map_or(longest, |last| longest.max(last.len as usize));
        let search = SearchLimits { enough: usize::MAX, depth: self.depths[1], ..search };
        self.sorted[1].search(&self.data, &search, eight, longest, found);
    }

    /// Finds matches where an order has the positions that are too many in the one before.
    #[inline(always)]
    fn find_by_all(
        &self,
        at: usize,
        limit: usize,
        glance: &CandidateGlance,
        longest: usize,
        found: &mut Vec<OffsetMatch>,
    ) {
        for (index, (sorted, candidates)) in self.sorted.iter().zip(glance.orders).enumerate() {
            let Some(candidates) = candidates else { return };
            let is_finer = glance.orders.get(index + 1).is_some_and(Option::is_some);
            let enough = if is_finer { WIDTHS[index + 1] } else { usize::MAX };
            let search = SearchLimits { at, limit, enough, depth: self.depths[index.min(1)], reach: self.reach };
            let longest = found.last().map_or(longest, |last| longest.max(last.len as usize));
            sorted.search(&self.data, &search, candidates, longest, found);
        }
    }

    /// Returns the offset of the position before `place` if just three bytes agree: four are found at least as near by
    /// the other searches.
    #[inline(always)]
    fn offset_of_three(&self, at: usize, place: usize) -> Option<u32> {
        let offset = at + 1 - place;
        if place == 0 || offset > self.reach {
            return None;
        }
        let differ = four_bytes(&self.data, place - 1) ^ four_bytes(&self.data, at);
        (differ.trailing_zeros() / 8 == 3).then_some(offset as u32)
    }
}
