//! Finds the longest matches of LZ4 blocks: for every position, how far a match that begins there can reach.
//!
//! All offsets of LZ4 cost the same, so only the longest match at a position counts. Most positions lie in a match that
//! began earlier and reach no further than it does. What remains is a list of [`MatchReach`]es, starts and ends both
//! rising: none lies within another. The next one either contains the byte at which the last one ends, or begins after
//! it. So one search per reach is enough, *backwards*: of all earlier places that agree with the four (or six) bytes up
//! to and including that byte, the one that agrees with most bytes before them.
//!
//! Data are known as a whole. Positions are sorted once by a hash of four bytes, with bits of the bytes before beside
//! each position, as [`zstd`](crate::zstd) does with the bytes that follow; and chained by a hash of six.
#![allow(clippy::cast_possible_truncation, reason = "positions and lengths of a segment fit in 32 bits")]

use crate::matching::{common, eight_bytes, four_bytes};

use super::emit::MIN_MATCH;

/// Longest distance of a match.
pub(super) const WINDOW: usize = 65_535;
/// Bytes in front of the data, so that words can be compared backwards.
const FRONT: usize = 8;
/// Zeros after the data, so that every position can be hashed and compared by whole words.
const BEHIND: usize = 16;
/// Bytes that are hashed for the chains.
const LONG: usize = 6;
/// Greatest numbers of candidates by four and by six bytes.
const DEPTHS: [usize; 2] = [1024, 1024];
/// Bits of both hashes; fewer in short data.
const HASH_BITS: u32 = 16;
/// Multiplier of the hashes: 2^64 divided by the golden ratio.
const HASH: u64 = 0x9e37_79b9_7f4a_7c15;
/// Marks the first position of a bucket.
const FIRST: u32 = 1 << 31;
/// Marks a bucket of a single position, which needs no place.
const SINGLE: u32 = u32::MAX;

/// A longest match: data from `start` to `end` repeat those `distance` bytes earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MatchReach {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) distance: u32,
}

/// Positions within [`ReachFinder::data`].
#[derive(Debug, Default)]
pub(super) struct ReachFinder {
    /// [`FRONT`] bytes, the data, [`BEHIND`] zeros.
    data: Vec<u8>,
    /// Positions by the hash of their four bytes: with [`FIRST`], and between as much as fits of the bytes before.
    entries: Vec<u32>,
    /// For each position the end of its candidates in `entries`, or 0 if there are none.
    ends: Vec<u32>,
    /// For each position the last one before it with the same hash of six bytes, or 0.
    chain: Vec<u32>,
    /// Scratch: by hash, number of positions, then where the next one goes; last position.
    buckets: Vec<u32>,
    position_bits: u32,
    reaches: Vec<MatchReach>,
}

/// A candidate: where the match begins, and its distance.
type CandidateMatch = Option<(usize, usize)>;

impl ReachFinder {
    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let words = [&self.entries, &self.ends, &self.chain, &self.buckets];
        let words = words.iter().map(|words| 4 * words.capacity()).sum::<usize>();
        self.data.capacity() + words + self.reaches.capacity() * size_of::<MatchReach>()
    }

    /// Returns the reaches that were found last.
    pub(super) fn reaches(&self) -> &[MatchReach] {
        &self.reaches
    }

    /// Returns the reaches of the positions from `from` on, none beyond `limit`.
    pub(super) fn find(&mut self, data: &[u8], from: usize, limit: usize) -> &[MatchReach] {
        self.reaches.clear();
        if limit >= from + MIN_MATCH {
            self.load(data);
            self.sort();
            self.link();
            self.search(FRONT + from, FRONT + limit);
        }
        &self.reaches
    }

    fn load(&mut self, data: &[u8]) {
        self.data.clear();
        self.data.reserve_exact(FRONT + data.len() + BEHIND);
        // The first byte continues no run.
        self.data.resize(FRONT, !data[0]);
        self.data.extend_from_slice(data);
        self.data.resize(FRONT + data.len() + BEHIND, 0);
    }

    /// Number of positions with four bytes.
    fn count(&self) -> usize {
        (self.data.len() + 1 - BEHIND - MIN_MATCH).max(FRONT)
    }

    fn hash_bits(&self) -> u32 {
        (self.position_bits + 2).min(HASH_BITS)
    }

    /// Sorts positions by the hash of their four bytes.
    fn sort(&mut self) {
        let count = self.count();
        self.position_bits = usize::BITS - count.leading_zeros();
        let hash_bits = self.hash_bits();
        let data = &self.data[..];
        self.buckets.clear();
        self.buckets.resize(1 << hash_bits, 0);
        resize(&mut self.ends, count);
        for (end, around) in self.ends[FRONT..].iter_mut().zip(surroundings(data)) {
            let hash = u64::from((around >> 16) as u32).wrapping_mul(HASH) >> (u64::BITS - hash_bits);
            self.buckets[hash as usize] += 1;
            *end = hash as u32;
        }
        let mut total = 0;
        for bucket in &mut self.buckets {
            let count = std::mem::replace(bucket, SINGLE);
            if count > 1 {
                *bucket = total | FIRST;
                total += count;
            }
        }
        resize(&mut self.entries, total as usize + 1);
        for ((at, end), around) in self.ends.iter_mut().enumerate().skip(FRONT).zip(surroundings(data)) {
            let bucket = &mut self.buckets[*end as usize];
            if *bucket == SINGLE {
                *end = 0;
                continue;
            }
            let first = *bucket & FIRST;
            let place = *bucket & !FIRST;
            *end = if first == 0 { place } else { 0 };
            // Positions within a run are left out. They would fill their bucket, and matches there are found
            // without it, by `inside_run`.
            if !same::<MIN_MATCH>(around >> 8) {
                *bucket = place + 1;
                let before = (around as u16).swap_bytes();
                self.entries[place as usize] = first | beside(before, self.position_bits) | at as u32;
            }
        }
    }

    /// Chains positions by the hash of their six bytes.
    fn link(&mut self) {
        let count = self.count();
        let hash_bits = self.hash_bits();
        let data = &self.data[..];
        self.buckets.fill(0);
        resize(&mut self.chain, count);
        for ((at, earlier), around) in self.chain.iter_mut().enumerate().skip(FRONT).zip(surroundings(data)) {
            let hash = (around & !0xffff).wrapping_mul(HASH) >> (u64::BITS - hash_bits);
            let last = &mut self.buckets[hash as usize];
            *earlier = *last;
            if !same::<LONG>(around >> 8) {
                *last = at as u32;
            }
        }
    }

    fn search(&mut self, from: usize, limit: usize) {
        // The last match, and the position whose four bytes are looked for.
        let mut start = from;
        let mut end = from;
        let mut at = from;
        while at + MIN_MATCH <= limit {
            let found = if at + 3 == end && end > start {
                self.by_six(start, end).or_else(|| self.by_four(at))
            } else {
                self.anywhere(at)
            };
            let Some((begin, distance)) = found else {
                at += 1;
                continue;
            };
            let len = common(&self.data, at, at - distance, MIN_MATCH, limit - at);
            (start, end) = (begin, at + len);
            at = end - 3;
            // The new reach contains such a one.
            self.reaches.pop_if(|last| last.start as usize + FRONT >= start);
            let start = (start - FRONT) as u32;
            let end = (end - FRONT) as u32;
            self.reaches.push(MatchReach { start, end, distance: distance as u32 });
        }
    }

    /// Finds the match that contains the six bytes up to `last` and begins first, not before `floor`.
    fn by_six(&self, floor: usize, last: usize) -> CandidateMatch {
        let data = &self.data[..];
        let mut at = last + 1 - LONG;
        if at < floor {
            return None;
        }
        let mut best: CandidateMatch = None;
        if inside_run::<LONG>(data, at) {
            // Other places in the same run agree with less. Of earlier runs, only their starts are in the chain.
            let begin = last + 1 - backwards(data, last + 1, 1, (last + 1 - floor).min(last - FRONT));
            best = Some((begin, 1));
            if begin <= floor {
                return best;
            }
            at = begin - 1;
        }
        let mut place = self.chain[at] as usize;
        for _ in 0..DEPTHS[1] {
            let distance = at.wrapping_sub(place);
            let begin = best.map_or(last, |(begin, _)| begin);
            if place == 0 || distance > WINDOW || begin < FRONT + distance + 1 {
                break;
            }
            let next = self.chain[place] as usize;
            // Anything better agrees at both ends, so two bytes reject most places.
            if data[last] == data[last - distance] && (best.is_none() || data[begin - 1] == data[begin - 1 - distance])
            {
                let most = (last + 1 - floor).min(last + 1 - distance - FRONT);
                let len = backwards(data, last + 1, distance, most);
                if len >= LONG && last + 1 - len < begin {
                    let begin = last + 1 - len;
                    best = Some((begin, distance));
                    if begin <= floor {
                        break;
                    }
                    // A better match contains the byte in front of this one, too. If the six bytes from there on are
                    // rarer, their chain leads faster to it, unless it leaves out places in runs.
                    let rarer = self.chain[begin - 1] as usize;
                    if begin - 1 - rarer > at - next && !inside_run::<{ LONG - 1 }>(data, begin) {
                        (at, place) = (begin - 1, rarer);
                        continue;
                    }
                }
            }
            place = next;
        }
        best
    }

    /// Finds the match that contains the four bytes from `at` on and, if possible, the one before.
    fn by_four(&self, at: usize) -> CandidateMatch {
        let data = &self.data[..];
        if inside_run::<MIN_MATCH>(data, at) {
            if data[at - 2] == data[at] {
                return Some((at - 1, 1));
            }
            let agrees = |distance| (data[at + 3] == data[at + 3 - distance]).then_some((at - 1, distance));
            return self.candidates::<false>(at - 1, agrees).or(Some((at, 1)));
        }
        let mut best = None;
        let agrees = |distance| {
            best = best.or(Some((at, distance)));
            (at > FRONT + distance && data[at - 1] == data[at - 1 - distance]).then_some((at - 1, distance))
        };
        let longer = self.candidates::<true>(at, agrees);
        longer.or(best)
    }

    /// Finds a match of four bytes.
    fn anywhere(&self, at: usize) -> CandidateMatch {
        if inside_run::<MIN_MATCH>(&self.data, at) {
            return Some((at, 1));
        }
        self.candidates::<false>(at, |distance| Some((at, distance)))
    }

    /// Returns the first answer for a distance at which four bytes agree. With `BEFORE`, after one without answer the
    /// byte before must agree, too.
    #[inline(always)]
    fn candidates<const BEFORE: bool>(
        &self,
        at: usize,
        mut agrees: impl FnMut(usize) -> CandidateMatch,
    ) -> CandidateMatch {
        let data = &self.data[..];
        let end = self.ends[at] as usize;
        let before = u16::from_be_bytes([data[at - 2], data[at - 1]]);
        let ours = beside(before, self.position_bits);
        let bytes = four_bytes(data, at);
        let mut mask = 0;
        for entry in self.entries[end.saturating_sub(DEPTHS[0])..end].iter().rev() {
            if (entry ^ ours) & mask == 0 {
                let place = (entry & ((1 << self.position_bits) - 1)) as usize;
                let distance = at - place;
                if distance > WINDOW {
                    return None;
                }
                if four_bytes(data, place) == bytes {
                    let answer = agrees(distance);
                    if answer.is_some() {
                        return answer;
                    }
                    mask = if BEFORE { 0xff << self.position_bits & !FIRST } else { 0 };
                }
            }
            if entry & FIRST != 0 {
                return None;
            }
        }
        None
    }
}

/// Changes the length of a vector whose contents no longer matter, and takes no more memory than that.
pub(super) fn resize(vector: &mut Vec<u32>, len: usize) {
    vector.reserve_exact(len.saturating_sub(vector.len()));
    vector.resize(len, 0);
}

/// For each position, the two bytes before it and the six from there on.
#[inline(always)]
fn surroundings(data: &[u8]) -> impl Iterator<Item = u64> {
    data[FRONT - 2..].windows(8).map(|bytes| eight_bytes(bytes, 0))
}

/// Returns true if the first `BYTES` bytes and the one after them are all the same.
#[inline(always)]
fn same<const BYTES: usize>(bytes: u64) -> bool {
    (bytes ^ bytes >> 8) << (u64::BITS - 8 * BYTES as u32) == 0
}

/// Returns true if the `BYTES` bytes at `at` and the one before are all the same.
#[inline(always)]
fn inside_run<const BYTES: usize>(data: &[u8], at: usize) -> bool {
    same::<BYTES>(eight_bytes(data, at - 1))
}

/// Returns the bits that are kept of the two bytes before a position, the nearer one in the lower bits.
#[inline(always)]
fn beside(before: u16, position_bits: u32) -> u32 {
    u32::from(before) << position_bits & !FIRST
}

/// Returns how many bytes before `end` agree with those `distance` bytes earlier, at most `most`.
#[inline(always)]
fn backwards(data: &[u8], end: usize, distance: usize, most: usize) -> usize {
    let mut len = 0;
    while len < most {
        let at = end - len - 8;
        let differ = eight_bytes(data, at) ^ eight_bytes(data, at - distance);
        if differ != 0 {
            return most.min(len + (differ.leading_zeros() / 8) as usize);
        }
        len += 8;
    }
    most
}
