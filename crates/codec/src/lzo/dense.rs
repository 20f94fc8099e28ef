//! The dense encoder: finds all matches of a segment first, then the cheapest sequence of instructions.
//!
//! The costs, in whole bytes, are those of the table in [the module](super). From the end of a
//! segment to its start, each position gets the cheapest way to encode the rest of the segment: a
//! repeat, of any length of any match, or literals and then a repeat. The cost of literals depends
//! on how many there are, and they make the near forms available, so runs of 1, 2, 3 and of 4 or
//! more are kept apart. The result is optimal, with two exceptions that may cost a byte: repeats of
//! medium length with extension bytes, and runs of more than 273 literals.

use std::hint::select_unpredictable;

use super::emit::LzoEmitter;
use super::finder::{ChainFinder, PositionMatches};
use super::{FAR_LEN, FIRST_RUN_MAX, MID_LEN, RUN_LEN, low_word, table};

/// Positions optimised together. A repeat does not cross the end of a segment, which costs a byte
/// or two each time. Costs and lengths within a segment fit in 16 bits.
const SEGMENT: usize = 32_000;

/// Tables of the dense encoder.
#[derive(Debug)]
pub(super) struct DenseTables {
    finder: ChainFinder,
    found: Vec<PositionMatches>,
    ways: SegmentWays,
}

impl DenseTables {
    /// Makes the tables for a level from 1 to 9; others count as the nearest.
    pub(super) fn new(level: u8) -> Self {
        let (depth, nice) = match level {
            0..=8 => (level.max(1).into(), 128),
            _ => (64, 512),
        };
        DenseTables { finder: ChainFinder::new(depth, nice), found: vec![], ways: SegmentWays::new() }
    }

    /// Compresses `src`; returns `None` if `dst` is too short.
    pub(super) fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let mut out = LzoEmitter::new(dst);
        self.finder.reset();
        // Literals from here on are not written yet.
        let mut anchor = 0;
        for start in (0..src.len()).step_by(SEGMENT) {
            let end = src.len().min(start + SEGMENT);
            self.found.resize(end - start, PositionMatches::default());
            self.finder.find(&src[..end], start, &mut self.found);
            self.ways.fill(src, start, &mut self.found);
            anchor = self.write(src, start, anchor, &mut out)?;
        }
        if anchor < src.len() {
            out.literals(src, anchor, src.len())?;
        }
        out.finish()
    }

    /// Writes the cheapest way through the segment at `start`; returns the end of its last repeat.
    #[inline(never)]
    fn write(&self, src: &[u8], start: usize, mut anchor: usize, out: &mut LzoEmitter<'_>) -> Option<usize> {
        let mut at = self.ways.first_run(&self.found, start - anchor, anchor == 0);
        while let Some(found) = self.found.get(at) {
            let run = start + at - anchor;
            let (len, distance) = self.ways.repeat(found, at, run);
            if run > 0 {
                out.literals(src, anchor, start + at)?;
            }
            out.repeat(len, distance, run)?;
            at += len;
            anchor = start + at;
            at += usize::from(self.ways.nodes[at].run);
        }
        Some(anchor)
    }
}

/// A way from a position on: its cost in the upper half, its target in the lower. The cheaper of
/// two ways is the smaller number.
type PackedWay = u32;

const COST: PackedWay = 1 << 16;
/// No way: costs more than any way, yet the sum of two does not overflow.
const NEVER: PackedWay = 0x7F00 * COST;

#[inline(always)]
fn way(cost: PackedWay, to: usize) -> PackedWay {
    cost * COST + PackedWay::from(low_word(to))
}

/// The minimum, without a branch: the outcome is unpredictable.
#[inline(always)]
fn lesser(a: PackedWay, b: PackedWay) -> PackedWay {
    select_unpredictable(a < b, a, b)
}

#[inline(always)]
fn cost(way: PackedWay) -> PackedWay {
    way / COST
}

#[inline(always)]
fn target(way: PackedWay) -> usize {
    (way % COST) as usize
}

/// Spans of 1, 2, 4, ... positions.
const SPANS: usize = 5;
/// Positions of the longest span; any range of up to twice as many is two spans. That covers every
/// length without extension bytes. Of longer repeats only the longest are compared.
const SPAN_MAX: usize = 1 << (SPANS - 1);
/// Length of tables indexed by position: a power of two with room for a segment and one span after it.
const POSITIONS: usize = 1 << 15;
/// The longest run of literals with one extension byte.
const LONG_RUN: usize = RUN_LEN + 255;
const _: () = assert!(SEGMENT + SPAN_MAX <= POSITIONS && MID_LEN - 2 <= 2 * SPAN_MAX);

/// The cheapest ways through a segment.
#[derive(Debug)]
struct SegmentWays {
    /// By position, and one more for the end of the segment.
    nodes: Box<[WayNode; POSITIONS]>,
    /// The best end of a run of literals that has reached position 4, as `stop` in [`SegmentWays::fill`].
    stop4: PackedWay,
}

/// The cheapest ways from one position.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct WayNode {
    /// `spans[k]`: the best end of a repeat among the next `2^k` positions, starting with this one.
    /// Targets are stored as bitwise complements, so that of equal costs the last target wins.
    spans: [PackedWay; SPANS],
    /// The cheapest repeat that begins here and is allowed after any instruction; target as above.
    any: PackedWay,
    /// Literals to write when a repeat ends here.
    run: u16,
}

impl WayNode {
    const NOWHERE: Self = WayNode { spans: [NEVER; SPANS], any: NEVER, run: 0 };
}

impl SegmentWays {
    fn new() -> Self {
        SegmentWays { nodes: table(WayNode::NOWHERE), stop4: NEVER }
    }

    /// Finds the ways through a segment of the block; also extends its matches backwards.
    #[inline(never)]
    fn fill(&mut self, src: &[u8], start: usize, found: &mut [PositionMatches]) {
        let end = found.len();
        // Entries at and after the end are written here, as they are read before any other; the rest need no reset.
        self.nodes[end] = WayNode { spans: [way(0, !end); SPANS], ..WayNode::NOWHERE };
        self.nodes[end + 1..end + SPAN_MAX].fill(WayNode::NOWHERE);

        // Costs of a repeat that begins one, two or three positions later, after as many literals.
        let mut near = [way(0, 0), NEVER, NEVER];
        // Best end of a run of literals that has reached one to five positions later. The cost is
        // from there on, including further extension bytes, if the run began four literals before.
        let mut stop = [way(0, end), NEVER, NEVER, NEVER, NEVER];
        // Position at which the first of these needs one more extension byte.
        let mut extends = end.wrapping_sub(LONG_RUN - 3);
        let mut next = PositionMatches::default();
        for (at, found) in found.iter_mut().enumerate().rev() {
            found.reach_back(&next, src, start + at);
            next = *found;
            let any = self.best_repeat(found, at);

            let mut least = any & !(COST - 1);
            for (near, more) in near.into_iter().zip([way(1, 1), way(2, 2), way(3, 3)]) {
                least = lesser(least, near + more);
            }
            if stop[3] < NEVER {
                least = lesser(least, long_run(stop[3], at));
            }

            let mut spans = [way(cost(least), !at); SPANS];
            for k in 0..SPANS - 1 {
                spans[k + 1] = lesser(spans[k], self.at(at + (1 << k)).spans[k]);
            }
            self.nodes[at % POSITIONS] = WayNode { spans, any, run: low_word(target(least)) };

            near = [self.repeat_way(found, at, 1) & !(COST - 1), near[0], near[1]];
            let here = way(cost(self.repeat_way(found, at, 4)), at);
            let mut beyond = stop[0] + COST;
            if at == extends {
                beyond += COST;
                extends = extends.wrapping_sub(255);
            }
            extends = select_unpredictable(here < beyond, at.wrapping_sub(LONG_RUN - 3), extends);
            stop = [lesser(here, beyond), stop[0], stop[1], stop[2], stop[3]];
        }
        self.stop4 = stop[4];
    }

    #[inline(always)]
    fn at(&self, at: usize) -> &WayNode {
        &self.nodes[at % POSITIONS]
    }

    /// Returns the cheapest way by a repeat at `at`, of a form that is allowed after any instruction.
    #[inline(always)]
    fn best_repeat(&self, found: &PositionMatches, at: usize) -> PackedWay {
        let mut best = NEVER;
        let short = found.short.len();
        if short >= 3 {
            best = self.best_end(at + 3, at + short) + 2 * COST;
        }
        // The form of a longer repeat does not matter, except at lengths where only a far repeat
        // needs extension bytes.
        let mid = found.mid.len();
        let far = found.far.len();
        let plain = mid.min(MID_LEN).max(far.min(FAR_LEN));
        if plain > short.max(2) {
            best = lesser(best, self.best_end(at + 1 + short.max(2), at + plain) + 3 * COST);
        }
        if far > plain {
            let first = (plain + 1).max((far + 1).saturating_sub(2 * SPAN_MAX));
            let extension = extension(far, if mid == far { MID_LEN } else { FAR_LEN });
            best = best.min(self.best_end(at + first, at + far) + (3 + PackedWay::from(low_word(extension))) * COST);
        }
        best
    }

    /// Returns the best end of a repeat among the positions `first` to `last`.
    #[inline(always)]
    fn best_end(&self, first: usize, last: usize) -> PackedWay {
        let k = ((last + 1 - first).ilog2() as usize).min(SPANS - 1);
        let a = self.at(first);
        let b = self.at(last + 1 - (1 << k));
        lesser(a.spans[k], b.spans[k])
    }

    /// Returns the cheapest way by a repeat at `at` after `run` literals.
    #[inline(always)]
    fn repeat_way(&self, found: &PositionMatches, at: usize, run: usize) -> PackedWay {
        let (len, distance) = match run {
            0 => (0, 0),
            1..=3 => (2, found.near2),
            _ => (3, found.near3),
        };
        let special = select_unpredictable(distance == 0, NEVER, 2 * COST);
        lesser(self.at(at).any, self.at(at + len).spans[0] + special)
    }

    /// Returns length and distance of the repeat to write at `at` after `run` literals.
    #[inline(always)]
    fn repeat(&self, found: &PositionMatches, at: usize, run: usize) -> (usize, usize) {
        let len = target(!self.repeat_way(found, at, run)) - at;
        let distance = match len {
            2 => found.near2.into(),
            3 if run > 3 && found.near3 != 0 && found.short.len() < 3 => found.near3.into(),
            _ if len <= found.short.len() => found.short.distance(),
            _ if len <= found.mid.len() => found.mid.distance(),
            _ => found.far.distance(),
        };
        (len, distance)
    }

    /// Returns how many literals of a segment to write first, if `pending` are left from the one before.
    fn first_run(&self, found: &[PositionMatches], pending: usize, first: bool) -> usize {
        let header = |run| announced(pending + run, first) - announced(pending, first);
        let mut least = NEVER;
        for run in 0..=found.len().min(3) {
            let repeat = found.get(run).map_or(0, |found| cost(self.repeat_way(found, run, pending + run)));
            least = least.min(way(repeat + header(run), run) + COST * PackedWay::from(low_word(run)));
        }
        if self.stop4 < NEVER {
            let alone = long_run(self.stop4, 0);
            let run = target(alone);
            least = least.min(alone - COST * announced(run, false) + COST * header(run));
        }
        target(least)
    }
}

/// Returns the way from `at` by a run of literals to the best end at least four positions later.
#[inline(always)]
fn long_run(stop: PackedWay, at: usize) -> PackedWay {
    let to = stop - way(0, at);
    let header = select_unpredictable(target(to) > RUN_LEN, 2, 1);
    to + (4 + header) * COST
}

/// Number of bytes that announce a run of literals.
#[inline(always)]
fn announced(len: usize, first: bool) -> PackedWay {
    match len {
        0 => 0,
        1..=3 => PackedWay::from(first),
        4..=RUN_LEN => 1,
        19..=FIRST_RUN_MAX if first => 1,
        len => 1 + PackedWay::try_from(extension(len, RUN_LEN)).unwrap_or(PackedWay::MAX - 1),
    }
}

/// Number of extension bytes of a length beyond its field.
#[inline(always)]
fn extension(len: usize, field_max: usize) -> usize {
    (len - field_max).div_ceil(255)
}
