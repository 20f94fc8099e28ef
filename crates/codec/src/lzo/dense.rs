//! The dense encoder: all matches of a segment first, then the cheapest way through them.
//!
//! The costs of the table in [the module](super) are whole bytes, so the cheapest way is found
//! exactly, from the end of a segment to its start. `after[i]` is the least cost from `i` to the
//! end when a repeat has just ended at `i`: a repeat or a run of literals begins there.

use super::emit::Emitter;
use super::finder::{Finder, Found, Match};
use super::{FAR_LEN, FIRST_RUN_MAX, MID_LEN, RUN_LEN, low_word};

/// Positions looked at together. A repeat does not cross the end of a segment, which costs a byte
/// or two each time; costs and lengths within one fit 16 bits.
const SEGMENT: usize = 32_000;
/// More than any way through a segment costs, and far from overflowing.
const NEVER: u16 = 60_000;
/// Of a longer match, only this many lengths are tried, the longest.
const LENGTHS_TRIED: usize = 64;

/// Tables of the dense encoder.
#[derive(Debug)]
pub(super) struct Dense {
    finder: Finder,
    found: Vec<Found>,
    costs: Costs,
}

/// What is known about the positions of a segment, one element each and one for its end.
#[derive(Debug, Default)]
struct Costs {
    /// Least cost after a repeat.
    after: Vec<u16>,
    /// Literals to write first on the way of that cost.
    run: Vec<u16>,
    /// Least cost when a repeat begins here that does not depend on what is before, and that repeat.
    any: Vec<u16>,
    any_match: Vec<Match>,
    /// Where the run of literals that passes here stops best, were run lengths free.
    stop: Vec<u16>,
}

impl Dense {
    pub(super) fn new(level: u8) -> Self {
        let (depth, nice) = match level {
            0 | 1 => (4, 16),
            2 => (6, 24),
            3 => (8, 32),
            4 => (12, 48),
            5 => (16, 64),
            6 => (24, 96),
            7 => (32, 128),
            8 => (64, 273),
            _ => (1024, 1024),
        };
        Dense { finder: Finder::new(depth, nice), found: vec![], costs: Costs::default() }
    }

    /// Compresses `src`, or gives `None` when `dst` is too short.
    pub(super) fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let mut out = Emitter::new(dst);
        self.finder.reset();
        // Literals from here on are not written yet.
        let mut anchor = 0;
        for start in (0..src.len()).step_by(SEGMENT) {
            let end = src.len().min(start + SEGMENT);
            self.found.clear();
            self.found.extend((start..end).map(|at| self.finder.look_up(src, at, end)));
            self.costs.fill(&self.found);
            anchor = self.write(src, start, anchor, &mut out)?;
        }
        if anchor < src.len() {
            out.literals(src, anchor, src.len())?;
        }
        out.finish()
    }

    /// Writes the cheapest way through the segment at `start`; returns where its last repeat ends.
    fn write(&self, src: &[u8], start: usize, mut anchor: usize, out: &mut Emitter<'_>) -> Option<usize> {
        let (found, costs) = (&self.found[..], &self.costs);
        let pending = Run { len: start - anchor, first: anchor == 0 };
        let mut at = usize::from(costs.best_run(found, 0, pending).1);
        while at < found.len() {
            let run = start + at - anchor;
            let (len, distance) = costs.repeat(found, at, run);
            if run > 0 {
                out.literals(src, anchor, start + at)?;
            }
            out.repeat(len, distance, run)?;
            at += len;
            anchor = start + at;
            at += usize::from(costs.run[at]);
        }
        Some(anchor)
    }
}

/// A run of literals not yet ended.
#[derive(Clone, Copy)]
struct Run {
    len: usize,
    /// It is at the start of the block.
    first: bool,
}

impl Run {
    /// Bytes to announce this run after `more` literals.
    #[inline(always)]
    fn header(self, more: usize) -> usize {
        match self.len + more {
            0 => 0,
            1..=3 => usize::from(self.first),
            4..=RUN_LEN => 1,
            19..=FIRST_RUN_MAX if self.first => 1,
            len => 1 + extension(len, RUN_LEN),
        }
    }
}

/// Extension bytes of a length.
#[inline(always)]
fn extension(len: usize, field_max: usize) -> usize {
    (len - field_max).div_ceil(255)
}

impl Costs {
    fn fill(&mut self, found: &[Found]) {
        let end = found.len();
        for table in [&mut self.after, &mut self.run, &mut self.any, &mut self.stop] {
            table.clear();
            table.resize(end + 1, 0);
        }
        self.any_match.clear();
        self.any_match.resize(end + 1, Match::default());
        self.stop[end] = low_word(end);
        for at in (0..end).rev() {
            (self.any[at], self.any_match[at]) = self.best_match(&found[at], at);
            let next = usize::from(self.stop[at + 1]);
            let stops_here = usize::from(self.from(found, at, 4)) <= next - at + usize::from(self.from(found, next, 4));
            self.stop[at] = if stops_here { low_word(at) } else { low_word(next) };
            (self.after[at], self.run[at]) = self.best_run(found, at, Run { len: 0, first: false });
        }
    }

    /// The cheapest repeat at `at` of a form that is allowed anywhere.
    #[inline(always)]
    fn best_match(&self, found: &Found, at: usize) -> (u16, Match) {
        let mut best = (NEVER, Match::default());
        let mut lens = 3;
        let mut try_up_to = |max: usize, cost: usize, distance: u16| {
            if max < lens {
                return;
            }
            let from = lens.max((max + 1).saturating_sub(LENGTHS_TRIED));
            for (i, after) in self.after[at + from..=at + max].iter().enumerate() {
                let cost = after + low_word(cost);
                if cost <= best.0 {
                    best = (cost, Match { len: low_word(from + i), distance });
                }
            }
            lens = max + 1;
        };
        try_up_to(found.short.len.into(), 2, found.short.distance);
        for (found, field_max) in [(found.mid, MID_LEN), (found.far, FAR_LEN)] {
            let len = usize::from(found.len);
            try_up_to(len.min(field_max), 3, found.distance);
            if len > field_max {
                let mut max = field_max;
                let mut cost = 3;
                while max < len {
                    max = len.min(max + 255);
                    cost += 1;
                    try_up_to(max, cost, found.distance);
                }
            }
        }
        best
    }

    /// The repeat to write at `at` after `run` literals: its length and distance.
    #[inline(always)]
    fn repeat(&self, found: &[Found], at: usize, run: usize) -> (usize, usize) {
        let found = &found[at];
        if (1..=3).contains(&run) && found.near2 != 0 && self.after[at + 2] + 2 < self.any[at] {
            (2, found.near2.into())
        } else if run > 3 && found.near3 != 0 && self.after[at + 3] + 2 < self.any[at] {
            (3, found.near3.into())
        } else {
            let Match { len, distance } = self.any_match[at];
            (len.into(), distance.into())
        }
    }

    /// Least cost when a repeat begins at `at` after `run` literals.
    #[inline(always)]
    fn from(&self, found: &[Found], at: usize, run: usize) -> u16 {
        let any = self.any[at];
        match found.get(at) {
            Some(found) if (1..=3).contains(&run) && found.near2 != 0 => any.min(self.after[at + 2] + 2),
            Some(found) if run > 3 && found.near3 != 0 => any.min(self.after[at + 3] + 2),
            _ => any,
        }
    }

    /// The least cost from `at` on, where `pending` literals are still open, and how many more of
    /// them that takes.
    #[inline(always)]
    fn best_run(&self, found: &[Found], at: usize, pending: Run) -> (u16, u16) {
        let end = found.len();
        let mut best = (usize::MAX, 0);
        let mut try_stop = |stop: usize| {
            let more = stop - at;
            let run = pending.len + more;
            let cost = more + pending.header(more) + usize::from(self.from(found, stop, run));
            if cost < best.0 {
                best = (cost, more);
            }
        };
        for stop in at..=end.min(at + 3) {
            try_stop(stop);
        }
        if at + 4 <= end {
            try_stop(self.stop[at + 4].into());
        }
        (low_word(best.0), low_word(best.1))
    }
}
