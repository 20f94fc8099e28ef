//! Chooses sequences: the cheapest way through a block, by prices that follow what was chosen before.
//!
//! A run goes over positions in turn and keeps, for each, the cheapest way found to reach it: a match and the literals
//! after it. From each it extends by a literal, by repeats of the last three offsets and by matches, at every length. It
//! ends where all ways meet, or at a match of the nice length.
//!
//! Positions that cost hardly less than the next one are left out ([`ZstdEffort::slack`]): they lie inside a match, and
//! what begins there can begin one byte later. This saves most searches. Large blocks get more of both
//! ([`ZstdEffort::large`]). docs/design/zstd-large-blocks.md has the figures.

use super::finder::{CandidateGlance, OffsetMatch, ROOM, SortedMatchFinder};
use super::levels::ZstdEffort;
use super::prices::{BIT, INFINITE, LEN_MIN, LENS, ZstdCounts, ZstdPrices};
use super::repeats::{REPEATS, RepeatOffsets, after, repeated};
use crate::matching::{common, four_bytes};

/// Most positions of a run.
const RUN: usize = 4096;
/// Nodes: a way may lead beyond the run's end by a match.
const NODES: usize = RUN + LENS + 2;
/// Greatest number of sequences between two looks at the prices.
const STEADY: u32 = 64;
/// Number of sequences after which prices say what sequences cost in this block.
const SETTLED: u32 = STEADY;

/// In large blocks, number of lengths of a match that do not pay before the shorter ones are given up.
const FAILURES: u32 = 8;
/// In large blocks, a position is not left out if the one after the next costs more than this in addition.
const BEYOND: u32 = 2 * BIT;

/// Literals and a match after them; the last sequence of a block has no match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ZstdSequence {
    pub(super) literals: u32,
    /// Length of the match, or 0.
    pub(super) len: u32,
    /// Bytes between the match and what it repeats, or 0.
    pub(super) offset: u32,
    /// True if the offset is one of the last three.
    pub(super) is_repeat: bool,
}

/// The cheapest way found to a position.
#[derive(Debug, Clone, Copy, Default)]
struct ZstdNode {
    price: u32,
    /// Length of the last match, or 0 if the run has none so far.
    len: u32,
    /// Its offset, as the format numbers it: 1 to 3 for repeats, others plus 3.
    offset: u32,
    /// Literals after the match.
    literals: u32,
    /// Repeats; known once the run gets here.
    repeats: RepeatOffsets,
}

/// A match or repeat that is taken without looking further.
#[derive(Debug, Clone, Copy)]
struct LongMatch {
    len: u32,
    offset: u32,
}

#[derive(Debug)]
pub(super) struct ZstdParser {
    effort: ZstdEffort,
    nodes: Vec<ZstdNode>,
    /// Farthest node with a price.
    end: usize,
    matches: Vec<OffsetMatch>,
    /// Scratch: literals, length and offset of matches, the last first.
    way: Vec<[u32; 3]>,
    counts: ZstdCounts,
    prices: ZstdPrices,
    repeats: RepeatOffsets,
    /// End of the last sequence.
    anchor: usize,
    /// Sequences so far when the prices were computed, and since then.
    priced: u32,
    since: u32,
    /// Candidates of a position that is looked up ahead.
    ahead: (usize, CandidateGlance),
}

impl ZstdParser {
    pub(super) fn new(effort: ZstdEffort) -> Self {
        ZstdParser {
            effort,
            nodes: vec![ZstdNode::default(); NODES],
            end: 0,
            matches: Vec::new(),
            way: Vec::new(),
            counts: ZstdCounts::new(&[]),
            prices: ZstdPrices::new(),
            repeats: REPEATS,
            anchor: 0,
            priced: 0,
            since: 0,
            ahead: (usize::MAX, CandidateGlance::default()),
        }
    }

    /// Parses the block from `at` to `stop`, which follows the last one, or begins a frame at 0.
    pub(super) fn block(
        &mut self,
        finder: &mut SortedMatchFinder,
        at: usize,
        stop: usize,
        sequences: &mut Vec<ZstdSequence>,
    ) {
        // Compiled for each: a branch at every step takes a tenth of the time.
        if self.effort.large {
            self.block_of::<true>(finder, at, stop, sequences);
        } else {
            self.block_of::<false>(finder, at, stop, sequences);
        }
    }

    fn block_of<const LARGE: bool>(
        &mut self,
        finder: &mut SortedMatchFinder,
        at: usize,
        stop: usize,
        sequences: &mut Vec<ZstdSequence>,
    ) {
        if at > 0 {
            self.counts.age();
        } else {
            self.counts = ZstdCounts::new(&finder.data()[..stop]);
            if self.effort.twice {
                self.restart();
                self.parse::<LARGE>(finder, at, stop, sequences);
                // Of the first pass, only the counts are kept.
                sequences.clear();
                finder.rewind();
                self.counts.age();
            }
            self.restart();
        }
        self.parse::<LARGE>(finder, at, stop, sequences);
    }

    /// Begins a frame.
    fn restart(&mut self) {
        (self.repeats, self.priced, self.since) = (REPEATS, 0, 0);
        self.ahead.0 = usize::MAX;
    }

    /// Computes prices from what was counted so far.
    fn update_prices(&mut self, large: bool) {
        // In a table of numbers that count up, a match costs about as much as literals until its offset repeats. If
        // matches cost more from the start, none is chosen, and prices never learn that repeats are cheap: numbers of
        // four bytes would take 2.7 times as much.
        self.prices.update(&self.counts, self.effort.nice, large && self.priced >= SETTLED);
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.nodes.capacity() * size_of::<ZstdNode>()
            + self.matches.capacity() * size_of::<OffsetMatch>()
            + self.way.capacity() * size_of::<[u32; 3]>()
            + 4 * LENS
    }

    fn parse<const LARGE: bool>(
        &mut self,
        finder: &mut SortedMatchFinder,
        mut at: usize,
        stop: usize,
        sequences: &mut Vec<ZstdSequence>,
    ) {
        self.anchor = at;
        self.update_prices(LARGE);
        while at < stop {
            at = self.run::<LARGE>(finder, at, stop, sequences);
            // Often in the beginning, when every sequence changes the prices.
            if self.since > STEADY.min(self.priced / 8) {
                self.priced += self.since;
                self.since = 0;
                self.update_prices(LARGE);
            }
        }
        if self.anchor < stop {
            let literals = (stop - self.anchor) as u32;
            sequences.push(ZstdSequence { literals, len: 0, offset: 0, is_repeat: false });
        }
    }

    /// Parses from `at` to where all ways meet, and returns that position.
    fn run<const LARGE: bool>(
        &mut self,
        finder: &mut SortedMatchFinder,
        at: usize,
        stop: usize,
        sequences: &mut Vec<ZstdSequence>,
    ) -> usize {
        let literals = (at - self.anchor) as u32;
        self.nodes[0] =
            ZstdNode { price: self.prices.run(literals), literals, repeats: self.repeats, ..ZstdNode::default() };
        self.end = 0;
        let mut node = 0;
        while node == 0 || (node < self.end && node < RUN) {
            self.arrive(node);
            if stop - (at + node) < ROOM {
                // Nothing but literals begins here.
                self.reach(node + 1);
                self.extend_by_literal(finder.data(), node, at + node);
            } else if let Some(long) = self.step::<LARGE>(finder, node, at + node, stop) {
                self.finish(finder.data(), node, sequences);
                let literals = (at + node - self.anchor) as u32;
                self.push(finder.data(), [literals, long.len, long.offset], sequences);
                return self.anchor;
            }
            node += 1;
        }
        self.arrive(node);
        self.finish(finder.data(), node, sequences);
        at + node
    }

    /// Offers the steps from a node that is not left out; returns a match that is taken without looking further.
    #[inline(always)]
    fn step<const LARGE: bool>(
        &mut self,
        finder: &mut SortedMatchFinder,
        node: usize,
        at: usize,
        stop: usize,
    ) -> Option<LongMatch> {
        if node == 0 || self.is_worth_it::<LARGE>(node) {
            return self.extend::<LARGE>(finder, node, at, stop);
        }
        if LARGE { self.extend_by_repeats::<LARGE>(finder.data(), node, at, stop).err() } else { None }
    }

    /// Returns true if the next position costs so much more that this one is not left out.
    #[inline(always)]
    fn is_worth_it<const LARGE: bool>(&self, node: usize) -> bool {
        let price = self.nodes[node].price;
        if self.nodes[node + 1].price > price + self.effort.slack {
            return true;
        }
        // Shortly before the end of a match, those that overlap it are too short to be found after it.
        LARGE && (self.end < node + 2 || self.nodes[node + 2].price > price + BEYOND)
    }

    /// Computes the repeats at a node where a match ends.
    #[inline(always)]
    fn arrive(&mut self, node: usize) {
        let ZstdNode { len, offset, literals, .. } = self.nodes[node];
        // After literals, a node has the repeats of the one before it.
        if len > 0 && literals == 0 {
            let from = &self.nodes[node - len as usize];
            self.nodes[node].repeats = after(from.repeats, offset, from.literals > 0);
        }
    }

    /// Writes the sequences that lead to `node`; literals after the last match are left to the next sequence.
    fn finish(&mut self, data: &[u8], mut node: usize, sequences: &mut Vec<ZstdSequence>) {
        let mut way = std::mem::take(&mut self.way);
        while self.nodes[node].len > 0 {
            let ZstdNode { len, offset, literals, .. } = self.nodes[node];
            node -= (literals + len) as usize;
            way.push([self.nodes[node].literals, len, offset]);
        }
        while let Some(step) = way.pop() {
            self.push(data, step, sequences);
        }
        self.way = way;
    }

    /// Writes a sequence after the last one.
    fn push(&mut self, data: &[u8], [literals, len, offset]: [u32; 3], sequences: &mut Vec<ZstdSequence>) {
        let after_literals = literals > 0;
        let distance = if offset > 3 { offset - 3 } else { repeated(self.repeats, offset, after_literals) };
        self.repeats = after(self.repeats, offset, after_literals);
        self.counts.add(&data[self.anchor..][..literals as usize], len, offset);
        self.since += 1;
        sequences.push(ZstdSequence { literals, len, offset: distance, is_repeat: offset <= 3 });
        self.anchor += (literals + len) as usize;
    }

    /// Gives every node up to `node` a price.
    #[inline(always)]
    fn reach(&mut self, node: usize) {
        while self.end < node {
            self.end += 1;
            self.nodes[self.end].price = INFINITE;
        }
    }

    /// Offers a literal.
    #[inline(always)]
    fn extend_by_literal(&mut self, data: &[u8], node: usize, at: usize) {
        let here = self.nodes[node];
        let run = |literals| self.prices.run(literals);
        let price =
            here.price + self.prices.literals[usize::from(data[at])] + run(here.literals + 1) - run(here.literals);
        let other = self.nodes[node + 1];
        if price >= other.price {
            return;
        }
        // A match that ends at the next node costs more, but can be the better one after another literal: the first
        // literal after a match may cost less than none.
        let literal = self.prices.literals[usize::from(data[at + 1])];
        let second = other.price + literal + run(1);
        let is_match = other.price < INFINITE && other.len > 0 && other.literals == 0;
        let is_better = second + run(here.literals + 1) < price + literal + run(here.literals + 2) + run(0);
        self.nodes[node + 1] = ZstdNode { price, literals: here.literals + 1, ..here };
        if is_match && run(1) < run(0) && is_better {
            let price = second - run(0);
            self.reach(node + 2);
            if price < self.nodes[node + 2].price {
                let from = self.nodes[node + 1 - other.len as usize];
                let repeats = after(from.repeats, other.offset, from.literals > 0);
                self.nodes[node + 2] = ZstdNode { price, literals: 1, repeats, ..other };
            }
        }
    }

    /// Offers all steps from a node; returns a repeat or match of the nice length instead, if there is one.
    #[inline(always)]
    fn extend<const LARGE: bool>(
        &mut self,
        finder: &mut SortedMatchFinder,
        node: usize,
        at: usize,
        stop: usize,
    ) -> Option<LongMatch> {
        let glance = if self.ahead.0 == at { self.ahead.1 } else { finder.glance::<LARGE>(at) };
        self.ahead = (at + 1, finder.glance::<LARGE>(at + 1));
        self.reach(node + 1);
        self.extend_by_literal(finder.data(), node, at);
        match self.extend_by_repeats::<LARGE>(finder.data(), node, at, stop) {
            Ok(longest) => {
                finder.find::<LARGE>(at, glance, longest, &mut self.matches);
                self.extend_by_matches::<LARGE>(finder.data(), node, at, stop, longest)
            }
            Err(long) => Some(long),
        }
    }

    /// Offers repeats. Returns the greatest length, or a repeat of the nice length.
    #[inline(always)]
    fn extend_by_repeats<const LARGE: bool>(
        &mut self,
        data: &[u8],
        node: usize,
        at: usize,
        stop: usize,
    ) -> Result<usize, LongMatch> {
        let here = self.nodes[node];
        let after_literals = here.literals > 0;
        let price = here.price + self.prices.run(0);
        let limit = self.effort.nice.min(stop - at);
        let mut longest = LEN_MIN - 1;
        for number in 1..=3 {
            let offset = repeated(here.repeats, number, after_literals) as usize;
            // The shortest match has three bytes.
            if offset == 0 || offset > at || (four_bytes(data, at) ^ four_bytes(data, at - offset)) << 8 != 0 {
                continue;
            }
            let len = common(data, at, at - offset, LEN_MIN, limit);
            if len >= self.effort.nice {
                let len = common(data, at, at - offset, len, stop - at) as u32;
                return Err(LongMatch { len, offset: number });
            }
            // Up to the length of an earlier repeat, that one costs no more.
            if len > longest {
                self.reach(node + len);
                self.offer::<LARGE>(node, longest + 1..=len, price + self.prices.offset(number), number);
                longest = len;
            }
        }
        Ok(longest)
    }

    /// Offers the matches found, which are longer than `longest`, each length at its nearest offset.
    #[inline(always)]
    fn extend_by_matches<const LARGE: bool>(
        &mut self,
        data: &[u8],
        node: usize,
        at: usize,
        stop: usize,
        longest: usize,
    ) -> Option<LongMatch> {
        let last = self.matches.last()?;
        if last.len as usize >= self.effort.nice {
            let known = self.effort.nice.min(stop - at);
            let len = common(data, at, at - last.offset as usize, known, stop - at) as u32;
            return Some(LongMatch { len, offset: last.offset + 3 });
        }
        let price = self.nodes[node].price + self.prices.run(0);
        let limit = stop - at;
        self.reach(node + limit.min(last.len as usize));
        let mut from = longest + 1;
        for index in 0..self.matches.len() {
            let OffsetMatch { len, offset } = self.matches[index];
            let len = limit.min(len as usize);
            self.offer::<LARGE>(node, from..=len, price + self.prices.offset(offset + 3), offset + 3);
            from = len + 1;
        }
        None
    }

    /// Offers one match at a range of lengths, the greatest first, down to the first that does not pay, or to
    /// one more than [`FAILURES`] of them in large blocks: the shorter ones seldom do.
    #[inline(always)]
    fn offer<const LARGE: bool>(
        &mut self,
        node: usize,
        lens: std::ops::RangeInclusive<usize>,
        price: u32,
        offset: u32,
    ) {
        let mut left = if LARGE { FAILURES } else { 0 };
        for len in lens.rev() {
            let price = price + self.prices.lens[len];
            let to = &mut self.nodes[node + len];
            if price >= to.price {
                if left == 0 {
                    return;
                }
                left -= 1;
                continue;
            }
            (to.price, to.len, to.offset, to.literals) = (price, len as u32, offset, 0);
        }
    }
}
