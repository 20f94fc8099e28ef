//! The densest LZ4 encoder: chooses the shortest sequence of literals and matches.
//!
//! Every match costs three bytes (a token and an offset), and one more from 19 bytes on and after each 255. So a block's
//! least length follows from the lengths of its beginnings: each ends with a literal or with a match, and of all matches
//! that end at a position, only the one that begins first counts among those of the same price. [`ReachFinder`] knows
//! where it begins.
//!
//! Long input is encoded in segments that see the window before them, which bounds memory.
#![allow(clippy::cast_possible_truncation, reason = "positions and lengths of a segment fit in 32 bits")]

use super::emit::{EXTENDED, MIN_MATCH, PositionTable, SequenceWriter};
use super::fill::fill;
use super::matches::{MatchReach, ReachFinder, WINDOW, resize};
use crate::EncodedPrefix;

/// Bytes of input that are encoded at once, unless little remains.
const SEGMENT: usize = 128 << 10;
/// Fewest bytes of a segment other than the last.
const LEAST: usize = 4 << 10;
/// The format requires five literals at the end, and twelve bytes between the start of the last match and the end.
const LAST_LITERALS: usize = 5;
const MATCH_TO_END: usize = 12;
/// Price of a byte. A match costs one more than its bytes, so that fewer matches win among equals.
const BYTE: u32 = 1 << 13;
const MATCH: u32 = 3 * BYTE + 1;
/// Longest match without a length byte.
const SHORT: usize = MIN_MATCH + EXTENDED - 1;
/// Marks a step that is a match; the other bits are its length, or the number of literals so far.
const MATCHED: u32 = 1 << 31;

/// The encoder, with its memory.
#[derive(Default)]
pub(super) struct OptimalEncoder {
    finder: ReachFinder,
    /// Prices of the beginnings of a segment.
    prices: Vec<u32>,
    /// Their last steps.
    steps: Vec<u32>,
    /// Matches of a segment, the last one first.
    chosen: Vec<MatchReach>,
    /// Tells how much input fills a cluster; made when first used.
    scout: Option<PositionTable>,
}

/// A part of the input: literals from `anchor` on are not written yet, and sequences up to `start` are chosen.
#[derive(Clone, Copy)]
struct InputSegment {
    anchor: usize,
    start: usize,
    end: usize,
}

impl OptimalEncoder {
    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let words = 4 * (self.prices.capacity() + self.steps.capacity());
        let scout = self.scout.as_ref().map_or(0, |_| size_of::<u16>() << super::emit::TABLE_BITS);
        self.finder.allocated() + words + self.chosen.capacity() * size_of::<MatchReach>() + scout
    }

    /// Compresses `src` into `dst`; returns `None` if it does not fit.
    pub(super) fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let mut out = SequenceWriter { dst, len: 0 };
        let anchor = self.sequences(src, &mut out, SEGMENT, None)?.0;
        out.literals(&src[anchor..], 0)?;
        Some(out.len)
    }

    /// Compresses as much of `src` as fits in `dst`.
    pub(super) fn fill(&mut self, src: &[u8], dst: &mut [u8]) -> Option<EncodedPrefix> {
        // The fast encoder usually gets three quarters as far; what it writes is overwritten.
        let scout = self.scout.get_or_insert_with(PositionTable::new);
        let taken = fill(scout, src, dst, 1).map_or(dst.len(), |prefix| prefix.taken);
        let segment = (taken + taken / 2 + 256).clamp(LEAST, SEGMENT);
        // As many bytes as a step can count; a cluster of 1 MiB takes less.
        let src = &src[..src.len().min(1 << 30)];
        let room = dst.len();
        let mut out = SequenceWriter { dst, len: 0 };
        let (anchor, end) = self.sequences(src, &mut out, segment, Some(room))?;
        out.literals(&src[anchor..end], 0)?;
        EncodedPrefix::if_useful(end, out.len)
    }

    /// Writes the sequences of `src`, or of as much of it as fits in `room` bytes. Returns where the last literals begin and end.
    fn sequences(
        &mut self,
        src: &[u8],
        out: &mut SequenceWriter<'_>,
        segment: usize,
        room: Option<usize>,
    ) -> Option<(usize, usize)> {
        let mut anchor = 0;
        let mut start = 0;
        loop {
            let end = if src.len() - start < segment + LEAST { src.len() } else { start + segment };
            let part = InputSegment { anchor, start, end };
            self.price(src, part);
            let stop = match room {
                Some(room) => self.stop(part, room.saturating_sub(out.len))?,
                None => end,
            };
            anchor = self.write(src, out, part, stop)?;
            // No more fits, unless the stop is so near to the end that the next segment may add something.
            if end == src.len() || stop + LEAST / 2 < end {
                return Some((anchor, stop));
            }
            // These bytes became literals only because the segment ended. The next one looks at them again.
            start = stop - LAST_LITERALS;
        }
    }

    /// Computes the prices of the beginnings of a segment.
    fn price(&mut self, src: &[u8], part: InputSegment) {
        let InputSegment { anchor, start, end } = part;
        let history = start.min(WINDOW);
        let from = start - history;
        // Up to there matches may begin and end.
        let last_start = end.saturating_sub(MATCH_TO_END);
        let last_end = end.saturating_sub(LAST_LITERALS).max(start);
        let reaches = self.finder.find(&src[from..end], history, last_end - from);
        let len = last_end - start;
        resize(&mut self.prices, len + 1);
        resize(&mut self.steps, len + 1);
        let mut literals = start - anchor;
        let mut price = 0;
        let mut next_length_byte = next_length_byte(literals);
        (self.prices[0], self.steps[0]) = (0, literals as u32);
        let prices = &mut self.prices[..=len];
        let mut reaches = reaches.iter();
        let mut reach = reaches.next();
        for at in 1..=len {
            price += BYTE;
            literals += 1;
            if literals == next_length_byte {
                price += BYTE;
                next_length_byte += 255;
            }
            let mut step = literals as u32;
            while reach.is_some_and(|reach| (reach.end as usize) < at + history) {
                reach = reaches.next();
            }
            // A match in this segment: it may begin at `first` or later.
            if let Some(first) = reach.map(|reach| reach.start as usize - history)
                && first + MIN_MATCH <= at
            {
                let mut consider = |begin: usize, extra: u32| {
                    let begin = cheaper(prices, begin, at - MIN_MATCH);
                    let cost = prices[begin] + MATCH + extra * BYTE;
                    if cost <= price && start + begin <= last_start {
                        (price, step) = (cost, MATCHED | (at - begin) as u32);
                    }
                };
                // The longest match of each price: without a length byte, with one, and the longest of all.
                consider(first.max(at.saturating_sub(SHORT)), 0);
                if first + SHORT < at {
                    consider(first.max(at.saturating_sub(SHORT + 255)), 1);
                    if first + SHORT + 255 < at {
                        consider(first, 1 + ((at - first - SHORT - 1) / 255) as u32);
                    }
                }
                if step & MATCHED != 0 {
                    (literals, next_length_byte) = (0, EXTENDED);
                }
            }
            prices[at] = price;
            self.steps[at] = step;
        }
    }

    /// Returns the last place where the input may end if `room` bytes are left.
    fn stop(&self, part: InputSegment, room: usize) -> Option<usize> {
        let InputSegment { anchor, start, end } = part;
        let waiting = start - anchor + length_bytes(start - anchor);
        for at in (0..self.steps.len()).rev() {
            // What follows the last match are literals, at least five.
            let (literals, last) = match self.steps[at] {
                step if step & MATCHED != 0 => (0, (step & !MATCHED) as usize),
                step => {
                    let literals = step as usize;
                    (
                        literals,
                        at.checked_sub(literals).map_or(MATCH_TO_END, |at| match self.steps[at] {
                            step if step & MATCHED != 0 => (step & !MATCHED) as usize,
                            _ => MATCH_TO_END,
                        }),
                    )
                }
            };
            let more = LAST_LITERALS + length_bytes(literals + LAST_LITERALS) - length_bytes(literals);
            let len = waiting + (self.prices[at] / BYTE) as usize + 1 + more;
            if len <= room && last + literals + LAST_LITERALS >= MATCH_TO_END {
                return Some(start + at + LAST_LITERALS).filter(|stop| *stop <= end);
            }
        }
        None
    }

    /// Writes the chosen sequences up to `stop`, and returns where the last match ends.
    fn write(&mut self, src: &[u8], out: &mut SequenceWriter<'_>, part: InputSegment, stop: usize) -> Option<usize> {
        let InputSegment { mut anchor, start, .. } = part;
        self.chosen.clear();
        let mut at = (stop - start).saturating_sub(LAST_LITERALS).min(self.steps.len() - 1);
        let mut reaches = self.finder.reaches().iter().rev().peekable();
        let history = start.min(WINDOW);
        while at > 0 {
            let step = self.steps[at];
            if step & MATCHED == 0 {
                at = at.saturating_sub(step as usize);
                continue;
            }
            let begin = at - (step & !MATCHED) as usize;
            // The first of the reaches that include the end includes the start, too.
            let mut reach = reaches.peek().copied()?;
            while reach.start as usize > begin + history {
                reaches.next();
                reach = reaches.peek().copied()?;
            }
            self.chosen.push(MatchReach { start: begin as u32, end: at as u32, distance: reach.distance });
            at = begin;
        }
        for MatchReach { start: begin, end, distance } in self.chosen.iter().rev() {
            let begin = start + *begin as usize;
            let end = start + *end as usize;
            out.sequence_near_end(src, anchor, begin, *distance as usize, end - begin - MIN_MATCH)?;
            anchor = end;
        }
        Some(anchor)
    }
}

/// Returns an upper bound of the memory of an encoder of blocks of `len` bytes; of clusters, for the greatest `len`.
pub(crate) fn memory(len: usize) -> usize {
    /// Bytes for each position, the lists of matches twice as long as they need be.
    const POSITION: usize =
        1 + 5 * size_of::<u32>() + 2 * size_of::<MatchReach>() + 2 * size_of::<MatchReach>() / MIN_MATCH;
    /// The table of buckets, that of the scout, and what is small.
    const TABLES: usize = 384 << 10;
    TABLES + len.min(SEGMENT + LEAST + WINDOW) * POSITION
}

/// Returns the position from `begin` on where prices stop to fall, `last` at most. They hardly ever fall: only where a
/// match ends and literals need another length byte.
#[inline(always)]
fn cheaper(prices: &[u32], mut begin: usize, last: usize) -> usize {
    while begin < last && prices[begin + 1] < prices[begin] {
        begin += 1;
    }
    begin
}

/// Number of bytes that continue the length of a run of literals.
fn length_bytes(literals: usize) -> usize {
    literals.checked_sub(EXTENDED).map_or(0, |rest| 1 + rest / 255)
}

/// The next number of literals that needs one more.
fn next_length_byte(literals: usize) -> usize {
    EXTENDED + 255 * length_bytes(literals)
}

#[cfg(test)]
mod tests;
