//! Chooses the bits of the literal and position models by the bytes of a block.
//!
//! Text wants more bits of the byte before a literal, tables of words bits of the position. A greedy parse of half the
//! block tells literals from matches; what the literals then cost in each model is the entropy of their counts, and what
//! it takes to learn them. In integers, so that every machine decides alike.
//! docs/design/xz-and-lzma.md has the figures.

use super::ModelBits;
use crate::logarithm::{BIT, log2};
use crate::matching::{common, four_bytes};

/// Models of literals that are tried: `lc` and `lp`.
const LITERALS: [(u8, u8); 7] = [(3, 0), (4, 0), (0, 0), (3, 1), (0, 2), (2, 2), (1, 3)];
/// Of every two stretches of this many bytes, one is looked at.
const STRETCH: usize = 4096;
/// Price of learning a bit of a model.
const LEARN: u64 = 5 * BIT as u64;
/// Shortest match of the parse.
const MATCH_MIN: usize = 4;
const TABLE_BITS: u32 = 14;
/// The last two operations.
const STATES: usize = 4;

/// Counts of the values of a byte.
type ByteCounts = [u32; 256];
/// Counts of literals and matches, by the last bit of the position and the operations before.
type MatchFlagCounts = [[[u32; 2]; STATES]; 2];

/// Guesses bits. Its memory is kept from one block to the next.
pub(super) struct BitsGuesser {
    /// Last places plus one of each hash of four bytes.
    table: Vec<u32>,
    /// Literals of each context, of one model after the other.
    literals: Vec<ByteCounts>,
}

impl BitsGuesser {
    pub(super) fn new() -> Self {
        let contexts = LITERALS.iter().map(|(lc, lp)| 1 << (lc + lp)).sum();
        BitsGuesser { table: vec![0; 1 << TABLE_BITS], literals: vec![[0; 256]; contexts] }
    }

    /// Returns the bits that suit the first `len` bytes of `data`, after which there are at least seven more.
    pub(super) fn bits(&mut self, data: &[u8], len: usize) -> ModelBits {
        let flags = self.parse(data, len);
        let mut rest = &self.literals[..];
        let mut price = |&(lc, lp): &(u8, u8)| {
            let of_model;
            (of_model, rest) = rest.split_at(1 << (lc + lp));
            of_model.iter().map(price_of_bytes).sum::<u64>()
        };
        let literals = LITERALS.into_iter().min_by_key(|model| price(model));
        let (lc, lp) = literals.expect("there are several models");
        // Where the position tells bytes apart, it tells matches apart as well.
        let pb = if lp > 0 { lp } else { u8::from(depend_on_position(&flags)) };
        ModelBits { lc, lp, pb }
    }

    /// Counts the literals of a greedy parse; returns how it alternates.
    fn parse(&mut self, data: &[u8], len: usize) -> MatchFlagCounts {
        self.table.fill(0);
        self.literals.fill([0; 256]);
        let mut flags = MatchFlagCounts::default();
        let mut at = 0;
        let mut state = 0;
        while at + MATCH_MIN <= len {
            if at / STRETCH % 2 == 1 {
                at = (at / STRETCH + 1) * STRETCH;
                continue;
            }
            let bytes = four_bytes(data, at);
            let slot = (bytes.wrapping_mul(0x9e37_79b1) >> (32 - TABLE_BITS)) as usize;
            let place = std::mem::replace(&mut self.table[slot], at as u32 + 1) as usize;
            let is_match = place > 0 && four_bytes(data, place - 1) == bytes;
            flags[at % flags.len()][state][usize::from(is_match)] += 1;
            state = (state << 1 | usize::from(is_match)) % STATES;
            if is_match {
                at += common(data, at, place - 1, MATCH_MIN, len - at);
            } else {
                self.count(data, at);
                at += 1;
            }
        }
        flags
    }

    /// Counts a literal in each model.
    #[inline(always)]
    fn count(&mut self, data: &[u8], at: usize) {
        let before = at.checked_sub(1).map_or(0, |before| data[before]);
        let mut first = 0;
        for (lc, lp) in LITERALS {
            let context = (at & ((1 << lp) - 1)) << lc | usize::from(before) >> (8 - lc);
            self.literals[first + context][usize::from(data[at])] += 1;
            first += 1 << (lc + lp);
        }
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        4 * self.table.capacity() + size_of::<ByteCounts>() * self.literals.capacity()
    }
}

/// Returns the price of bytes by their counts.
fn price_of_bytes(counts: &ByteCounts) -> u64 {
    let mut price = 0;
    let mut all = 0;
    let mut nodes = 0;
    let mut last = None;
    for (byte, count) in (0_u32..).zip(counts).filter(|(_, count)| **count > 0) {
        price += times_log(*count);
        all += count;
        // Bits of the tree that no smaller byte uses.
        nodes += last.map_or(8, |last: u32| u64::from((last ^ byte).ilog2()));
        last = Some(byte);
    }
    times_log(all).saturating_sub(price) + nodes * LEARN
}

/// Returns true if the last bit of the position helps to tell literals from matches.
fn depend_on_position(flags: &MatchFlagCounts) -> bool {
    let price = |literals: u32, matches: u32| {
        let apart = times_log(literals) + times_log(matches);
        times_log(literals + matches).saturating_sub(apart) + LEARN
    };
    let [even, odd] = flags;
    let by_position: u64 = even.iter().chain(odd).map(|[literals, matches]| price(*literals, *matches)).sum();
    let together: u64 = even.iter().zip(odd).map(|(one, other)| price(one[0] + other[0], one[1] + other[1])).sum();
    by_position < together
}

fn times_log(count: u32) -> u64 {
    if count == 0 { 0 } else { u64::from(count) * u64::from(log2(count)) }
}
