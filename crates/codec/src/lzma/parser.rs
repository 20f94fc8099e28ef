//! Chooses operations: the cheapest way from the present position to one some distance ahead, by the
//! present prices of bits.
//!
//! A run goes over positions in turn and keeps, for each, the cheapest way found to reach it. From each
//! it extends by a literal, by repeats and matches of every length, and by a repeat or match, a literal and a
//! repeat of the first distance together. It ends where all ways meet, at a match of the
//! nice length, or after [`RUN`] positions.

use super::model::{LzmaModel, PositionContext};
use super::price::INFINITE;
use super::state::LzmaState;
use super::{LEN_MAX, LEN_MIN, LzmaEffort, LzmaOperation, REPEATS};
use crate::matching::common;
use crate::trees::{TreeMatch, TreeMatchFinder};

/// Most positions of a run.
const RUN: usize = 4096;
/// Nodes: a way may lead beyond the run's end by a match, a literal and a repeat.
const NODES: usize = RUN + 2 * LEN_MAX + 2;
/// A position is deep inside a match if this many ahead cost at most a bit more.
const COVER: usize = 8;
const COVER_PRICE: u32 = 16;

/// The cheapest way found to a position: a step from an earlier one.
#[derive(Clone, Copy)]
struct LzmaNode {
    from: u32,
    step: NodeStep,
    /// State at this position; known once the run gets here.
    state: LzmaState,
}

/// Operations that lead to a node. The repeat of a last step takes what remains up to the node.
#[derive(Clone, Copy)]
enum NodeStep {
    One(LzmaOperation),
    /// A literal and a repeat of the first distance.
    LiteralRepeat,
    /// An operation, a literal and a repeat of the first distance.
    OpLiteralRepeat(LzmaOperation),
}

const LITERAL: LzmaOperation = LzmaOperation { len: 1, back: LzmaOperation::LITERAL };
const SHORT_REPEAT: LzmaOperation = LzmaOperation { len: 1, back: 0 };

pub(super) struct LzmaParser {
    effort: LzmaEffort,
    prices: Vec<u32>,
    nodes: Vec<LzmaNode>,
    /// Farthest node with a price.
    end: usize,
    matches: Vec<TreeMatch>,
    /// True if `matches` belong to the position where the next run begins.
    ahead: bool,
    /// Operations of the last run, the last first.
    ops: Vec<LzmaOperation>,
}

/// A position and its surroundings.
#[derive(Clone, Copy)]
struct ParsePosition {
    /// Index of its node.
    node: usize,
    /// Position in the data.
    at: usize,
    state: LzmaState,
    price: u32,
    context: PositionContext,
    /// Bytes left.
    left: usize,
    /// Longest length considered: what is left, or the nice length.
    limit: usize,
}

impl LzmaParser {
    pub(super) fn new(effort: LzmaEffort) -> Self {
        let nowhere = LzmaNode { from: 0, step: NodeStep::One(LITERAL), state: LzmaState::default() };
        LzmaParser {
            effort,
            prices: vec![INFINITE; NODES],
            nodes: vec![nowhere; NODES],
            end: 0,
            matches: Vec::new(),
            ahead: false,
            ops: Vec::new(),
        }
    }

    /// Begins another input.
    pub(super) fn reset(&mut self) {
        self.ahead = false;
    }

    /// Returns the next operations from position `at`, the last first; at least one.
    pub(super) fn run(
        &mut self,
        model: &LzmaModel,
        finder: &mut TreeMatchFinder,
        at: usize,
    ) -> &mut Vec<LzmaOperation> {
        self.ops.clear();
        self.look(finder);
        self.ahead = false;
        if let Some(op) = self.long_enough(model.state, finder, at) {
            finder.skip(op.len as usize - 1);
            self.ops.push(op);
            return &mut self.ops;
        }
        (self.end, self.prices[0]) = (0, 0);
        self.nodes[0].state = model.state;
        self.extend(model, finder, 0, at);
        let mut node = 1;
        while node < self.end && node < RUN {
            self.arrive(node);
            if self.prices[node + 1] <= self.prices[node] + self.effort.slack {
                self.leave_out(finder, node);
            } else {
                self.look(finder);
                if self.longest() >= self.effort.nice {
                    // The next run begins here, and takes this match.
                    break;
                }
                self.ahead = false;
                self.extend(model, finder, node, at + node);
            }
            node += 1;
        }
        self.trace(node);
        &mut self.ops
    }

    /// Moves on by a position that is left out.
    #[inline(always)]
    fn leave_out(&self, finder: &mut TreeMatchFinder, node: usize) {
        let ahead = node + COVER;
        let covered = ahead <= self.end && self.prices[ahead] <= self.prices[node] + COVER_PRICE;
        if covered && !self.effort.thorough {
            finder.pass();
        } else {
            finder.skip(1);
        }
    }

    /// Finds the matches of the finder's position unless that is done.
    #[inline(always)]
    fn look(&mut self, finder: &mut TreeMatchFinder) {
        if !self.ahead {
            finder.find(&mut self.matches);
            self.ahead = true;
        }
    }

    #[inline(always)]
    fn longest(&self) -> usize {
        self.matches.last().map_or(0, |last| last.len)
    }

    /// Returns a repeat or match of the nice length or more.
    fn long_enough(&self, state: LzmaState, finder: &TreeMatchFinder, at: usize) -> Option<LzmaOperation> {
        let data = finder.data();
        let limit = (finder.len() - at).min(LEN_MAX);
        let nice = self.effort.nice;
        let mut best: Option<LzmaOperation> = None;
        for (back, distance) in (0..).zip(state.reps) {
            let Some(other) = at.checked_sub(distance as usize + 1) else { continue };
            let len = common(data, at, other, 0, limit);
            if len >= nice && best.is_none_or(|best| len > best.len as usize) {
                best = Some(LzmaOperation { len: len as u32, back });
            }
        }
        best.or_else(|| {
            let last = self.matches.last().filter(|last| last.len >= nice)?;
            let len = common(data, at, at - last.distance as usize - 1, last.len, limit);
            Some(LzmaOperation { len: len as u32, back: LzmaOperation::MATCH + last.distance })
        })
    }

    /// Computes the state at a node from the one it is reached from.
    #[inline(always)]
    fn arrive(&mut self, node: usize) {
        let LzmaNode { from, step, .. } = self.nodes[node];
        let state = self.nodes[from as usize].state;
        self.nodes[node].state = match step {
            NodeStep::One(op) => state.after(op),
            NodeStep::LiteralRepeat => state.literal().repeat(0),
            NodeStep::OpLiteralRepeat(op) => state.after(op).literal().repeat(0),
        };
    }

    /// Collects the operations that lead to `node`.
    fn trace(&mut self, mut node: usize) {
        while node > 0 {
            let LzmaNode { from, step, .. } = self.nodes[node];
            let len = node as u32 - from;
            match step {
                NodeStep::One(op) => self.ops.push(op),
                NodeStep::LiteralRepeat => self.ops.extend([LzmaOperation { len: len - 1, back: 0 }, LITERAL]),
                NodeStep::OpLiteralRepeat(op) => {
                    self.ops.extend([LzmaOperation { len: len - 1 - op.len, back: 0 }, LITERAL, op])
                }
            }
            node = from as usize;
        }
    }

    /// Gives every node up to `node` a price.
    #[inline(always)]
    fn reach(&mut self, node: usize) {
        while self.end < node {
            self.end += 1;
            self.prices[self.end] = INFINITE;
        }
    }

    /// Notes a way to a node that is within reach, if it is cheaper than the best so far.
    #[inline(always)]
    fn offer(&mut self, node: usize, price: u32, from: usize, step: NodeStep) {
        if price < self.prices[node] {
            self.prices[node] = price;
            (self.nodes[node].from, self.nodes[node].step) = (from as u32, step);
        }
    }

    /// Offers all steps from a node, which has a price and a state.
    fn extend(&mut self, model: &LzmaModel, finder: &TreeMatchFinder, node: usize, at: usize) {
        let data = finder.data();
        let state = self.nodes[node].state;
        let left = finder.len() - at;
        let context = model.context(at, at.checked_sub(1).map_or(0, |before| data[before]));
        let limit = left.min(self.effort.nice);
        let here = ParsePosition { node, at, state, price: self.prices[node], context, left, limit };
        self.reach(node + 1);
        self.extend_by_one(model, data, &here);
        if limit >= LEN_MIN {
            let longer_than = self.extend_by_repeats(model, data, &here);
            self.extend_by_matches(model, data, &here, longer_than);
        }
    }

    /// Offers a literal, a short repeat, and a literal with a repeat.
    #[inline(always)]
    fn extend_by_one(&mut self, model: &LzmaModel, data: &[u8], here: &ParsePosition) {
        let ParsePosition { node, at, state, context, .. } = *here;
        let [last, ..] = state.reps;
        let other = at.checked_sub(last as usize + 1);
        let expected = other.map_or(0, |other| data[other]);
        let literal =
            here.price + model.literal_kind(state, context) + model.literal(state, context, expected, data[at]);
        let is_cheapest = literal < self.prices[node + 1];
        self.offer(node + 1, literal, node, NodeStep::One(LITERAL));
        let Some(other) = other else { return };
        if expected == data[at] {
            let price = here.price
                + model.match_kind(state, context)
                + model.repeat_kind(state)
                + model.short_kind(state, context);
            // At the same price it is preferred, since more of the same makes it cheaper.
            if price == self.prices[node + 1] {
                self.prices[node + 1] += 1;
            }
            self.offer(node + 1, price, node, NodeStep::One(SHORT_REPEAT));
        } else if !is_cheapest {
            // Where a literal alone is the best step, the next node offers the repeat by itself.
            let limit = (here.left - 1).min(self.effort.nice);
            let len = common(data, at + 1, other + 1, 0, limit);
            if len >= LEN_MIN {
                let price = literal + repeat_after(model, data, at + 1, state.literal(), len);
                self.reach(node + 1 + len);
                self.offer(node + 1 + len, price, node, NodeStep::LiteralRepeat);
            }
        }
    }

    /// Offers repeats; returns the length from which matches are worth offering.
    #[inline(always)]
    fn extend_by_repeats(&mut self, model: &LzmaModel, data: &[u8], here: &ParsePosition) -> usize {
        let ParsePosition { node, at, state, context, .. } = *here;
        let price = here.price + model.match_kind(state, context) + model.repeat_kind(state);
        let mut longer_than = LEN_MIN;
        for rep in 0..REPEATS {
            let Some(other) = at.checked_sub(state.reps[rep] as usize + 1) else { continue };
            if data[at] != data[other] || data[at + 1] != data[other + 1] {
                continue;
            }
            let len = common(data, at, other, LEN_MIN, here.limit);
            self.reach(node + len);
            let price = price + model.which_repeat(state, context, rep);
            let lengths = model.repeat_lengths.prices(context.position);
            let back = rep as u32;
            for (len, of_len) in (0..).zip(&lengths[..=len]).skip(LEN_MIN) {
                self.offer(node + len, price + of_len, node, NodeStep::One(LzmaOperation { len: len as u32, back }));
            }
            // A match that is no longer than the last distance repeated costs more.
            if rep == 0 {
                longer_than = len + 1;
            }
            self.extend_beyond(model, data, here, LzmaOperation { len: len as u32, back }, other, price + lengths[len]);
        }
        longer_than
    }

    /// Offers matches from a length on, each length at its nearest distance.
    #[inline(always)]
    fn extend_by_matches(&mut self, model: &LzmaModel, data: &[u8], here: &ParsePosition, mut len: usize) {
        let longest = self.longest().min(here.limit);
        if longest < len {
            return;
        }
        let ParsePosition { node, at, state, context, .. } = *here;
        let price = here.price + model.match_kind(state, context) + model.fresh_kind(state);
        let lengths = model.match_lengths.prices(context.position);
        self.reach(node + longest);
        for index in 0..self.matches.len() {
            let TreeMatch { len: last, distance } = self.matches[index];
            let back = LzmaOperation::MATCH + distance;
            while len <= last {
                let price = price + lengths[len] + model.distances.price(distance, len);
                let op = LzmaOperation { len: len as u32, back };
                self.offer(node + len, price, node, NodeStep::One(op));
                if len == last {
                    self.extend_beyond(model, data, here, op, at - distance as usize - 1, price);
                }
                len += 1;
            }
        }
    }

    /// Offers an operation of the given price, a literal and a repeat together; `other` is where the operation copies from.
    #[inline(always)]
    fn extend_beyond(
        &mut self,
        model: &LzmaModel,
        data: &[u8],
        here: &ParsePosition,
        op: LzmaOperation,
        other: usize,
        price: u32,
    ) {
        let len = op.len as usize;
        let limit = here.left.saturating_sub(len + 1).min(self.effort.nice);
        let at = here.at + len;
        let other = other + len;
        let more = common(data, at + 1, other + 1, 0, limit);
        if more < LEN_MIN {
            return;
        }
        let state = here.state.after(op);
        let context = model.context(at, data[at - 1]);
        let literal = model.literal_kind(state, context) + model.literal(state, context, data[other], data[at]);
        let price = price + literal + repeat_after(model, data, at + 1, state.literal(), more);
        let to = here.node + len + 1 + more;
        self.reach(to);
        self.offer(to, price, here.node, NodeStep::OpLiteralRepeat(op));
    }
}

/// Returns the price of a repeat of the first distance at position `at`.
#[inline(always)]
fn repeat_after(model: &LzmaModel, data: &[u8], at: usize, state: LzmaState, len: usize) -> u32 {
    let context = model.context(at, data[at - 1]);
    model.match_kind(state, context)
        + model.repeat_kind(state)
        + model.which_repeat(state, context, 0)
        + model.repeat_lengths.prices(context.position)[len]
}
