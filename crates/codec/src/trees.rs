//! Finds earlier positions that begin like the present one: for each length the nearest, by binary trees.
//!
//! All positions whose next four bytes have the same hash form one tree, ordered by the bytes that follow, the newest at
//! the root. A search walks down from the root as if to insert the present position, which becomes
//! the new root on the way; each step either lengthens what is shared with one side or the other. Two small tables
//! give the last positions with the same two and three bytes.

// Positions and distances fit 32 bits.
#![allow(clippy::cast_possible_truncation)]

use crate::matching::{common, eight_bytes, four_bytes};

/// Shortest match.
pub(crate) const LEN_MIN: usize = 2;

/// Bytes of zeros after the data, so that eight bytes can be compared at every position.
const PADDING: usize = 16;
/// Multiplier of the hashes: 2^32 divided by the golden ratio.
const HASH: u32 = 0x9e37_79b1;
const TWO_BITS: u32 = 10;
/// Fewest and most bits of the hash of four bytes.
const FOUR_BITS: (u32, u32) = (12, 20);

/// A match, with its distance less one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeMatch {
    pub(crate) len: usize,
    pub(crate) distance: u32,
}

pub(crate) struct TreeMatchFinder {
    /// The input, and [`PADDING`].
    data: Vec<u8>,
    len: usize,
    at: usize,
    /// Greatest distance.
    reach: usize,
    nice: usize,
    depth: u32,
    // The tables hold positions plus one; zero is none.
    two: Vec<u32>,
    three: Vec<u32>,
    four: Vec<u32>,
    three_bits: u32,
    four_bits: u32,
    /// Roots of the smaller and of the greater positions below each position, whose place is its number modulo their count.
    trees: Vec<[u32; 2]>,
}

impl TreeMatchFinder {
    /// Makes a finder of matches up to `nice` bytes that compares at most `depth` positions. It knows the last positions of
    /// up to 2^`three_bits` sequences of three bytes.
    pub(crate) fn new(nice: usize, depth: u32, three_bits: u32) -> Self {
        TreeMatchFinder {
            data: Vec::new(),
            len: 0,
            at: 0,
            reach: 0,
            nice,
            depth,
            two: vec![0; 1 << TWO_BITS],
            three: vec![0; 1 << three_bits],
            four: Vec::new(),
            three_bits,
            four_bits: 0,
            trees: Vec::new(),
        }
    }

    /// Begins another input, with distances up to `window`.
    pub(crate) fn start(&mut self, src: &[u8], window: usize) {
        self.data.clear();
        self.data.extend_from_slice(src);
        self.data.resize(src.len() + PADDING, 0);
        (self.len, self.at) = (src.len(), 0);
        // A position shares its place with those a multiple of this away.
        let places = src.len().min(window).next_power_of_two();
        self.reach = window.min(places - 1);
        self.trees.resize(places, [0; 2]);
        self.four_bits = places.ilog2().clamp(FOUR_BITS.0, FOUR_BITS.1);
        self.two.fill(0);
        self.three.fill(0);
        self.four.clear();
        self.four.resize(1 << self.four_bits, 0);
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(crate) fn allocated(&self) -> usize {
        self.data.capacity()
            + 4 * (self.two.capacity() + self.three.capacity() + self.four.capacity())
            + 8 * self.trees.capacity()
    }

    /// Returns the input and the zeros after it.
    #[inline(always)]
    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns the length of the input.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Notes the present position in the tables; returns the last ones plus one with the same two, three and four bytes.
    #[inline(always)]
    fn look_up(&mut self) -> [usize; 3] {
        let bytes = four_bytes(&self.data, self.at);
        let slot = |bytes: u32, bits: u32| (bytes.wrapping_mul(HASH) >> (32 - bits)) as usize;
        let now = self.at as u32 + 1;
        // One by one: a program optimised for size would call a closure for each element of an array.
        let two = std::mem::replace(&mut self.two[slot(bytes & 0xffff, TWO_BITS)], now);
        let three = std::mem::replace(&mut self.three[slot(bytes << 8, self.three_bits)], now);
        let four = std::mem::replace(&mut self.four[slot(bytes, self.four_bits)], now);
        [two as usize, three as usize, four as usize]
    }

    /// Finds matches at the present position, both lengths and distances rising, and moves on by one.
    pub(crate) fn find(&mut self, found: &mut Vec<TreeMatch>) {
        found.clear();
        let limit = self.nice.min(self.len - self.at);
        if limit >= 4 {
            let [two, three, four] = self.look_up();
            self.find_short(two, three, limit, found);
            let longest = found.last().map_or(0, |last| last.len);
            if longest == limit {
                self.insert::<false>(four, limit, found);
            } else {
                self.insert::<true>(four, limit, found);
            }
        }
        self.at += 1;
    }

    /// Looks for matches at the last positions with the same two and three bytes.
    #[inline(always)]
    fn find_short(&self, two: usize, three: usize, limit: usize, found: &mut Vec<TreeMatch>) {
        let bytes = four_bytes(&self.data, self.at);
        let begins_alike = |place: usize, mask: u32| {
            place != 0 && self.at + 1 - place <= self.reach && (four_bytes(&self.data, place - 1) ^ bytes) & mask == 0
        };
        if begins_alike(two, 0xffff) {
            found.push(TreeMatch { len: 2, distance: (self.at - two) as u32 });
        }
        if three != two && begins_alike(three, 0xff_ffff) {
            found.push(TreeMatch { len: 3, distance: (self.at - three) as u32 });
        }
        if let Some(last) = found.last_mut() {
            last.len = common(&self.data, self.at, self.at - last.distance as usize - 1, LEN_MIN, limit);
        }
    }

    /// Makes the present position the root of its tree; with `REPORT`, adds matches longer than those found.
    #[inline(always)]
    fn insert<const REPORT: bool>(&mut self, root: usize, limit: usize, found: &mut Vec<TreeMatch>) {
        let data = &self.data[..];
        let trees = &mut self.trees[..];
        let mask = trees.len() - 1;
        let at = self.at;
        let mut longest = found.last().map_or(3, |last| last.len.max(3));
        // Where the next smaller and the next greater position go, and how much the last ones on either side share.
        let mut smaller = (at & mask, 0);
        let mut greater = (at & mask, 1);
        let mut smaller_len = 0;
        let mut greater_len = 0;
        let mut place = root;
        for _ in 0..self.depth {
            if place == 0 || at + 1 - place > self.reach {
                break;
            }
            let other = place - 1;
            let pair = trees[other & mask];
            let mut len = usize::min(smaller_len, greater_len);
            let mut theirs = eight_bytes(data, other + len);
            let mut ours = eight_bytes(data, at + len);
            while theirs == ours && len < limit {
                len += 8;
                if len < limit {
                    (theirs, ours) = (eight_bytes(data, other + len), eight_bytes(data, at + len));
                }
            }
            if theirs != ours {
                len += ((theirs ^ ours).trailing_zeros() / 8) as usize;
            }
            if REPORT && len > longest {
                longest = len.min(limit);
                found.push(TreeMatch { len: longest, distance: (at - place) as u32 });
            }
            if len >= limit {
                // Equal as far as it matters: takes that position's place.
                trees[smaller.0][smaller.1] = pair[0];
                trees[greater.0][greater.1] = pair[1];
                return;
            }
            // Which way it goes cannot be predicted, but a processor that guesses loads the next position early.
            if theirs.swap_bytes() < ours.swap_bytes() {
                trees[smaller.0][smaller.1] = place as u32;
                smaller = (other & mask, 1);
                smaller_len = len;
                place = pair[1] as usize;
            } else {
                trees[greater.0][greater.1] = place as u32;
                greater = (other & mask, 0);
                greater_len = len;
                place = pair[0] as usize;
            }
        }
        trees[smaller.0][smaller.1] = 0;
        trees[greater.0][greater.1] = 0;
    }

    /// Moves on by one position, which is never found.
    #[cfg(feature = "xz")]
    #[inline(always)]
    pub(crate) fn pass(&mut self) {
        self.at += 1;
    }

    /// Moves on by `count` positions without looking for matches.
    pub(crate) fn skip(&mut self, count: usize) {
        for _ in 0..count {
            let limit = self.nice.min(self.len - self.at);
            if limit >= 4 {
                let [_, _, four] = self.look_up();
                self.insert::<false>(four, limit, &mut Vec::new());
            }
            self.at += 1;
        }
    }
}
