//! The dense encoder's match finder: chains of positions with the same hash, newest first.
//!
//! A search walks only a limited way down a chain, but its result serves the neighbours too: the
//! next position inherits each match less its first byte, and [`PositionMatches::reach_back`] extends matches
//! by one byte to the position before. So a long match is found if any of its bytes starts a rare
//! sequence.

use super::{
    FAR_DISTANCE, MID_DISTANCE, NEAR2_DISTANCE, NEAR3_DISTANCE, SHORT_DISTANCE, SHORT_LEN, chunk, common_len, low_word,
    table,
};

/// log2 of the number of chains.
const CHAIN_BITS: u32 = 15;
/// log2 of the number of slots for sequences of three bytes.
const TRIPLE_BITS: u32 = 14;
/// Positions on one chain share this many bytes, except for hash collisions.
const CHAIN_LEN: usize = 4;
/// An inherited match of this length is rarely beaten: a quarter of the candidates is enough.
const GOOD_LEN: usize = 16;

/// A match: its length in the upper half, its distance in the lower. Zero means none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PackedMatch(u32);

impl PackedMatch {
    const ONE_BYTE: u32 = 1 << 16;

    #[inline(always)]
    fn new(len: usize, distance: usize) -> Self {
        PackedMatch(u32::from(low_word(len)) * Self::ONE_BYTE + u32::from(low_word(distance)))
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        (self.0 / Self::ONE_BYTE) as usize
    }

    #[inline(always)]
    pub(super) fn distance(self) -> usize {
        (self.0 % Self::ONE_BYTE) as usize
    }

    /// Returns the match as seen from one byte later.
    #[inline(always)]
    fn shortened(self) -> Self {
        if self.len() > 3 { PackedMatch(self.0 - Self::ONE_BYTE) } else { PackedMatch(0) }
    }

    /// Takes over `next`, the match one byte later, if it is longer and the byte `at` belongs to it.
    #[inline(always)]
    fn reach_back(&mut self, next: PackedMatch, len_max: usize, src: &[u8], at: usize) {
        if next.len() >= self.len().max(3) && next.len() < len_max {
            let distance = next.distance();
            if distance <= at && src[at] == src[at - distance] {
                *self = PackedMatch(next.0 + Self::ONE_BYTE);
            }
        }
    }
}

/// The matches at one position, as far as the format distinguishes them: the longest one for each
/// limit of distance.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PositionMatches {
    /// Within reach of a short repeat, cut to its greatest length.
    pub(super) short: PackedMatch,
    /// Within reach of a mid repeat.
    pub(super) mid: PackedMatch,
    /// At any distance; never shorter than `mid`.
    pub(super) far: PackedMatch,
    /// Distance of a match of two bytes within reach of near2, or zero.
    pub(super) near2: u16,
    /// Distance of a match of three bytes within reach of near3, or zero.
    pub(super) near3: u16,
}

impl PositionMatches {
    #[inline(always)]
    fn add(&mut self, len: usize, distance: usize) {
        let found = PackedMatch::new(len, distance);
        if distance <= SHORT_DISTANCE {
            self.short = self.short.max(PackedMatch::new(len.min(SHORT_LEN), distance));
        }
        if distance <= MID_DISTANCE {
            self.mid = self.mid.max(found);
        }
        self.far = self.far.max(found);
    }

    /// Returns the length that a match within a [`zone`] must exceed to be useful.
    #[inline(always)]
    fn best(&self, zone: usize) -> usize {
        let len = match zone {
            SHORT_DISTANCE if self.short.len() < SHORT_LEN => self.short.len(),
            SHORT_DISTANCE | MID_DISTANCE => self.mid.len(),
            _ => self.far.len(),
        };
        len.max(3)
    }

    /// Returns the matches of the position before `at`, shortened for `at`.
    #[inline(always)]
    fn inherited(&self, src: &[u8], at: usize) -> Self {
        let mut short = self.short.shortened();
        let last = at + SHORT_LEN - 1;
        // The length was capped, so it may well be the same again.
        if self.short.len() == SHORT_LEN && last < src.len() && src[last] == src[last - self.short.distance()] {
            short = self.short;
        }
        PositionMatches { short, mid: self.mid.shortened(), far: self.far.shortened(), near2: 0, near3: 0 }
    }

    /// Adds the matches of the position after `at`, extended back to `at`.
    #[inline(always)]
    pub(super) fn reach_back(&mut self, next: &PositionMatches, src: &[u8], at: usize) {
        self.short.reach_back(next.short, SHORT_LEN, src, at);
        self.mid.reach_back(next.mid, usize::MAX, src, at);
        self.far.reach_back(next.far, usize::MAX, src, at);
        self.far = self.far.max(self.mid);
    }
}

/// Tables of the match finder. They hold the low words of positions. An old entry that looks recent
/// is harmless, as every match is compared byte by byte.
#[derive(Debug)]
pub(super) struct ChainFinder {
    /// The last position of each pair of bytes.
    pairs: Box<[u16; 1 << 16]>,
    /// The last position of each hash of three bytes.
    triples: Box<[u16; 1 << TRIPLE_BITS]>,
    /// The last position of each hash of four bytes.
    heads: Box<[u16; 1 << CHAIN_BITS]>,
    /// For each of the last 65,536 positions the one before it on its chain.
    before: Box<[u16; 1 << 16]>,
    /// Matches of the position looked up last.
    last: PositionMatches,
    /// Candidates tried at a position.
    depth: usize,
    /// Length from which an inherited match makes a search unnecessary.
    nice: usize,
}

impl ChainFinder {
    pub(super) fn new(depth: usize, nice: usize) -> Self {
        ChainFinder {
            pairs: table(0),
            triples: table(0),
            heads: table(0),
            before: table(0),
            last: PositionMatches::default(),
            depth,
            nice,
        }
    }

    /// Forgets the previous block.
    pub(super) fn reset(&mut self) {
        self.pairs.fill(0);
        self.triples.fill(0);
        self.heads.fill(0);
        self.last = PositionMatches::default();
    }

    /// Finds the matches from `start` on, one position for each element of `all`. The parts of a
    /// block must be passed in order.
    #[inline(never)]
    pub(super) fn find(&mut self, src: &[u8], start: usize, all: &mut [PositionMatches]) {
        let mut last = self.last;
        for (at, slot) in (start..).zip(all.iter_mut()) {
            let mut found = last.inherited(src, at);
            if src.len() - at >= CHAIN_LEN {
                let head = u32::from_le_bytes(chunk(src, at));
                self.look_up_pair(src, at, head, &mut found);
                self.look_up_triple(src, at, head, &mut found);
                self.look_up_chain(src, at, head, &mut found);
            } else {
                self.look_up_tail(src, at, &mut found);
            }
            last = found;
            *slot = found;
        }
        self.last = last;
    }

    /// Looks up one of the last three positions.
    #[cold]
    fn look_up_tail(&mut self, src: &[u8], at: usize, found: &mut PositionMatches) {
        let mut head = [0; CHAIN_LEN];
        let left = src.len() - at;
        head[..left].copy_from_slice(&src[at..]);
        let head = u32::from_le_bytes(head);
        if left >= 2 {
            self.look_up_pair(src, at, head, found);
        }
        if left >= 3 {
            self.look_up_triple(src, at, head, found);
        }
    }

    #[inline(always)]
    fn look_up_pair(&mut self, src: &[u8], at: usize, head: u32, found: &mut PositionMatches) {
        let slot = &mut self.pairs[(head & 0xFFFF) as usize];
        let distance = low_word(at).wrapping_sub(*slot);
        *slot = low_word(at);
        let back = usize::from(distance);
        if back.wrapping_sub(1) < NEAR2_DISTANCE && back <= at && chunk::<2>(src, at - back) == chunk(src, at) {
            found.near2 = distance;
        }
    }

    #[inline(always)]
    fn look_up_triple(&mut self, src: &[u8], at: usize, head: u32, found: &mut PositionMatches) {
        let slot = &mut self.triples[hash::<TRIPLE_BITS>(head << 8)];
        let distance = usize::from(low_word(at).wrapping_sub(*slot));
        *slot = low_word(at);
        if distance.wrapping_sub(1) < FAR_DISTANCE
            && distance <= at
            && (u32::from_le_bytes(chunk(src, at - distance)) ^ head) << 8 == 0
        {
            found.add(3, distance);
            if distance > SHORT_DISTANCE && distance <= NEAR3_DISTANCE {
                found.near3 = low_word(distance);
            }
        }
    }

    #[inline(always)]
    fn look_up_chain(&mut self, src: &[u8], at: usize, head: u32, found: &mut PositionMatches) {
        let slot = &mut self.heads[hash::<CHAIN_BITS>(head)];
        let here = low_word(at);
        let mut next = *slot;
        self.before[usize::from(here)] = next;
        *slot = here;
        let depth = match found.far.len() {
            len if len >= self.nice => return,
            GOOD_LEN.. => self.depth / 4,
            _ => self.depth,
        };
        let reach = FAR_DISTANCE.min(at);
        let mut last = 0;
        let mut limit = 0;
        let mut best = 0;
        let mut probe = at;
        let mut wanted = 0;
        for _ in 0..depth {
            let from = next;
            let distance = usize::from(here.wrapping_sub(from));
            next = self.before[usize::from(from)];
            // Nearer than the one before: the chain has wrapped around to stale positions.
            if distance <= last {
                return;
            }
            last = distance;
            if distance > limit {
                if distance > reach {
                    return;
                }
                limit = zone(distance);
                best = found.best(limit);
                // A candidate is worth a closer look if it agrees on the four bytes up to the one
                // that would make it longer.
                probe = at + best - 3;
                if probe + 4 > src.len() {
                    return;
                }
                wanted = u32::from_le_bytes(chunk(src, probe));
            }
            if u32::from_le_bytes(chunk(src, probe - distance)) != wanted {
                continue;
            }
            let len = common_len(src, at - distance, at, src.len());
            if len > best {
                found.add(len, distance);
                if len >= self.nice {
                    return;
                }
                limit = 0;
            }
        }
    }
}

/// Returns the limit of the format that a distance falls within.
#[inline(always)]
fn zone(distance: usize) -> usize {
    if distance <= SHORT_DISTANCE {
        SHORT_DISTANCE
    } else if distance <= MID_DISTANCE {
        MID_DISTANCE
    } else {
        FAR_DISTANCE
    }
}

#[inline(always)]
fn hash<const BITS: u32>(bytes: u32) -> usize {
    (bytes.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize
}
