//! Finds earlier positions that begin like the present one, in blocks that are known as a whole.
//!
//! A streaming encoder adds position by position to trees or chains, and a search follows links all over memory. A block
//! is here from the start, so its positions are sorted once: by a hash of their next four bytes, and by one of their next
//! eight. Each bucket is a run of one array, in the order of positions, so a search walks backwards through neighbours.
//! Bits of the bytes that follow are kept beside each position, so that most candidates are refused without a look at
//! the data. The first array finds matches of four to seven bytes, the second all longer ones; positions that the
//! parser leaves out cost nothing. A small table has the last position with the same three bytes.

use crate::matching::{common, eight_bytes, four_bytes};

/// Zeros behind the data, so that every position can be hashed and compared by whole words.
const PADDING: usize = 16;
/// Shortest rest of the data that is looked at.
pub(super) const ROOM: usize = 8;
/// Marks the first position of a bucket.
const FIRST: u32 = 1 << 31;
/// Marks a bucket of a single position, which needs no place.
const SINGLE: u32 = u32::MAX;
/// Bits of the hashes of three and of four bytes; fewer in short blocks.
const THREE_BITS: u32 = 16;
const FOUR_BITS: u32 = 16;
/// Multiplier of the hashes: 2^64 divided by the golden ratio.
const HASH: u64 = 0x9e37_79b9_7f4a_7c15;
/// Fewest bits of a position.
const POSITION_BITS: u32 = 10;

/// A match; its offset counts back from the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) len: u32,
    pub(super) offset: u32,
}

/// Positions sorted by a hash of their next `WIDTH` bytes.
#[derive(Debug, Default)]
struct Sorted<const WIDTH: usize> {
    /// Positions with [`FIRST`], and in the bits between as much as fits of the bytes behind the first `WIDTH`.
    entries: Vec<u32>,
    /// For each position the end of its candidates in `entries`, or 0 if there are none.
    ends: Vec<u32>,
    /// Scratch: number of positions by hash, then where the next one goes.
    buckets: Vec<u32>,
    position_bits: u32,
}

/// Candidates of one position: the end of them, and the last, which the processor fetches ahead of its use.
#[derive(Debug, Clone, Copy, Default)]
struct Candidates {
    end: u32,
    last: u32,
}

/// Returns the bits that are kept of the bytes behind the first `WIDTH` of a position.
#[inline(always)]
fn beside<const WIDTH: usize>(data: &[u8], at: usize, position_bits: u32) -> u32 {
    four_bytes(data, at + WIDTH) << position_bits & !FIRST
}

impl<const WIDTH: usize> Sorted<WIDTH> {
    /// Sorts the first `count` positions of `data`.
    fn sort(&mut self, data: &[u8], count: usize, position_bits: u32, hash_bits: u32) {
        self.position_bits = position_bits;
        self.buckets.clear();
        self.buckets.resize(1 << hash_bits, 0);
        self.ends.resize(count, 0);
        for (at, end) in self.ends.iter_mut().enumerate() {
            let bytes = if WIDTH == 4 { u64::from(four_bytes(data, at)) } else { eight_bytes(data, at) };
            let bucket = (bytes.wrapping_mul(HASH) >> (u64::BITS - hash_bits)) as usize;
            self.buckets[bucket] += 1;
            *end = bucket as u32;
        }
        let mut total = 0;
        for bucket in &mut self.buckets {
            let count = std::mem::replace(bucket, SINGLE);
            if count > 1 {
                *bucket = total | FIRST;
                total += count;
            }
        }
        // One place even if there is nothing: a position without candidates fetches it.
        self.entries.resize(total as usize + 1, 0);
        for (at, end) in self.ends.iter_mut().enumerate() {
            let bucket = &mut self.buckets[*end as usize];
            if *bucket == SINGLE {
                *end = 0;
                continue;
            }
            let (first, place) = (*bucket & FIRST, *bucket & !FIRST);
            *bucket = place + 1;
            *end = if first == 0 { place } else { 0 };
            self.entries[place as usize] = first | beside::<WIDTH>(data, at, position_bits) | at as u32;
        }
    }

    /// Returns the candidates of a position.
    #[inline(always)]
    fn candidates(&self, at: usize) -> Candidates {
        let end = self.ends[at];
        Candidates { end, last: self.entries[end.saturating_sub(1) as usize] }
    }

    /// Adds matches longer than `longest`, their lengths rising. Stops at the first one
    /// of at least `enough` bytes, which another search finds.
    #[inline(always)]
    fn search(&self, data: &[u8], search: &Search, candidates: Candidates, longest: usize, found: &mut Vec<Match>) {
        let Search { at, limit, enough, depth, reach } = *search;
        let end = candidates.end as usize;
        if end == 0 || longest >= enough.min(limit) {
            return;
        }
        let mut longest = longest.max(WIDTH - 1);
        let position = (1_u32 << self.position_bits) - 1;
        let all = !FIRST & !position;
        let ours = beside::<WIDTH>(data, at, self.position_bits);
        let mut entry = candidates.last;
        let mut earlier = self.entries[end.saturating_sub(depth)..end - 1].iter().rev();
        loop {
            // The byte behind `longest` must agree, or more bytes than are kept beside.
            let mask = match longest + 1 - WIDTH {
                0 => 0,
                1 => 0xff << self.position_bits & all,
                _ => all,
            };
            let other = (entry & position) as usize;
            if (entry ^ ours) & mask == 0 && four_bytes(data, other + longest - 3) == four_bytes(data, at + longest - 3)
            {
                let offset = at - other;
                if offset > reach {
                    return;
                }
                let len = common(data, at, other, 0, limit);
                if len > longest {
                    if len >= enough {
                        return;
                    }
                    longest = len;
                    found.push(Match { len: len as u32, offset: offset as u32 });
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

/// Position and limits of a search.
#[derive(Clone, Copy)]
struct Search {
    at: usize,
    /// Greatest length.
    limit: usize,
    /// Length that another search finds.
    enough: usize,
    /// Greatest number of candidates.
    depth: usize,
    /// Greatest offset.
    reach: usize,
}

/// Candidates of a position by three, four and eight bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Glance {
    /// One more than the last position with the same hash of three bytes, or 0.
    three: u32,
    four: Candidates,
    eight: Candidates,
}

#[derive(Debug)]
pub(super) struct Finder {
    /// The input, and [`PADDING`].
    data: Vec<u8>,
    len: usize,
    /// Greatest offset.
    reach: usize,
    nice: usize,
    /// Greatest number of candidates by four and by eight bytes.
    depths: [usize; 2],
    three: Vec<u32>,
    /// Position up to which `three` is filled.
    noted: usize,
    four: Sorted<4>,
    eight: Sorted<8>,
}

#[inline(always)]
fn slot(bytes: u32) -> usize {
    (u64::from(bytes << 8).wrapping_mul(HASH) >> (u64::BITS - THREE_BITS)) as usize
}

impl Finder {
    /// Makes a finder of matches up to `nice` bytes.
    pub(super) fn new(nice: usize, depths: [usize; 2]) -> Self {
        Finder {
            data: Vec::new(),
            len: 0,
            reach: 0,
            nice,
            depths,
            three: vec![0; 1 << THREE_BITS],
            noted: 0,
            four: Sorted::default(),
            eight: Sorted::default(),
        }
    }

    /// Begins another input, with offsets up to `window`.
    pub(super) fn start(&mut self, src: &[u8], window: usize) {
        self.data.clear();
        self.data.extend_from_slice(src);
        self.data.resize(src.len() + PADDING, 0);
        (self.len, self.reach) = (src.len(), window);
        let bits = src.len().next_power_of_two().ilog2().max(POSITION_BITS);
        let count = (src.len() + 1).saturating_sub(ROOM);
        self.four.sort(&self.data, count, bits, bits.min(FOUR_BITS));
        self.eight.sort(&self.data, count, bits, bits - 1);
        self.rewind();
    }

    /// Begins the same input again.
    pub(super) fn rewind(&mut self) {
        self.three.fill(0);
        self.noted = 0;
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let words = [&self.three, &self.four.entries, &self.four.ends, &self.four.buckets];
        let more = [&self.eight.entries, &self.eight.ends, &self.eight.buckets];
        self.data.capacity() + words.iter().chain(&more).map(|words| 4 * words.capacity()).sum::<usize>()
    }

    /// Returns the input and the zeros behind it.
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
    pub(super) fn glance(&mut self, at: usize) -> Glance {
        if at + ROOM > self.len {
            return Glance::default();
        }
        while self.noted < at {
            self.three[slot(four_bytes(&self.data, self.noted))] = self.noted as u32 + 1;
            self.noted += 1;
        }
        let three = self.three[slot(four_bytes(&self.data, at))];
        Glance { three, four: self.four.candidates(at), eight: self.eight.candidates(at) }
    }

    /// Finds matches longer than `longest`, their lengths rising.
    pub(super) fn find(&self, at: usize, glance: Glance, longest: usize, found: &mut Vec<Match>) {
        found.clear();
        let limit = self.nice.min(self.len - at);
        if limit < ROOM {
            return;
        }
        let data = &self.data[..];
        let mut longest = longest;
        if longest < 3 {
            if let Some(offset) = self.offset_of_three(at, glance.three as usize) {
                found.push(Match { len: 3, offset });
            }
            longest = 3;
        }
        let [depth, far] = self.depths;
        let search = Search { at, limit, enough: 8, depth, reach: self.reach };
        self.four.search(data, &search, glance.four, longest, found);
        let longest = found.last().map_or(longest, |last| longest.max(last.len as usize));
        let search = Search { enough: usize::MAX, depth: far, ..search };
        self.eight.search(data, &search, glance.eight, longest, found);
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
