//! The model of a stream: probabilities of all bits, prices of operations by them, and their coding.

use super::distances::DistanceModel;
use super::lengths::LengthModel;
use super::price::{self, BitProb, EVEN};
use super::range::RangeEncoder;
use super::state::{LzmaState, STATES};
use super::{LzmaOperation, ModelBits, REPEATS};

/// Greatest number of values that the position's low bits take.
const POSITIONS: usize = 16;
/// Probabilities of one model of literals: a tree, and two more for literals that follow a match.
const LITERAL: usize = 0x300;

/// Probabilities of the kinds of operations.
struct KindProbs {
    is_match: [[BitProb; POSITIONS]; STATES],
    is_repeat: [BitProb; STATES],
    /// A repeat is not of index 0, then not 1, then not 2.
    not_rep: [[BitProb; STATES]; REPEATS - 1],
    /// A repeat of index 0 is longer than one byte.
    is_long: [[BitProb; POSITIONS]; STATES],
}

impl KindProbs {
    const START: KindProbs = KindProbs {
        is_match: [[EVEN; POSITIONS]; STATES],
        is_repeat: [EVEN; STATES],
        not_rep: [[EVEN; STATES]; REPEATS - 1],
        is_long: [[EVEN; POSITIONS]; STATES],
    };
}

pub(super) struct LzmaModel {
    bits: ModelBits,
    kinds: KindProbs,
    literals: Vec<[BitProb; LITERAL]>,
    pub(super) match_lengths: LengthModel,
    pub(super) repeat_lengths: LengthModel,
    pub(super) distances: DistanceModel,
    /// State after the operations coded so far.
    pub(super) state: LzmaState,
}

/// The parts of a position that choose a model.
#[derive(Clone, Copy)]
pub(super) struct PositionContext {
    /// Low bits of the position.
    pub(super) position: usize,
    literal: usize,
}

impl LzmaModel {
    pub(super) fn new(bits: ModelBits, nice: usize) -> Self {
        LzmaModel {
            bits,
            kinds: KindProbs::START,
            literals: vec![[EVEN; LITERAL]; 1 << (bits.lc + bits.lp)],
            match_lengths: LengthModel::new(nice),
            repeat_lengths: LengthModel::new(nice),
            distances: DistanceModel::new(),
            state: LzmaState::default(),
        }
    }

    /// Changes the bits; what comes next has to begin with [`LzmaModel::reset`].
    pub(super) fn set_bits(&mut self, bits: ModelBits) {
        self.bits = bits;
        self.literals.resize(1 << (bits.lc + bits.lp), [EVEN; LITERAL]);
    }

    /// Begins a stream, or a part of one that resets the state, with distances up to `farthest`.
    pub(super) fn reset(&mut self, farthest: u32) {
        self.kinds = KindProbs::START;
        self.literals.fill([EVEN; LITERAL]);
        self.match_lengths.reset(self.bits.pb);
        self.repeat_lengths.reset(self.bits.pb);
        self.distances.reset(farthest);
        self.state = LzmaState::default();
    }

    /// Returns the context of position `at`, where `before` is the byte before it, or 0.
    #[inline(always)]
    pub(super) fn context(&self, at: usize, before: u8) -> PositionContext {
        let ModelBits { lc, lp, pb } = self.bits;
        let low_bits = |count: u8| at & ((1 << count) - 1);
        PositionContext { position: low_bits(pb), literal: low_bits(lp) << lc | usize::from(before) >> (8 - lc) }
    }

    /// Returns the price of the bit that announces a literal.
    #[inline(always)]
    pub(super) fn literal_kind(&self, state: LzmaState, at: PositionContext) -> u32 {
        price::of_0(self.kinds.is_match[state.index()][at.position])
    }

    /// Returns the price of the bit that announces a match or repeat.
    #[inline(always)]
    pub(super) fn match_kind(&self, state: LzmaState, at: PositionContext) -> u32 {
        price::of_1(self.kinds.is_match[state.index()][at.position])
    }

    /// Returns the price of the bit that tells a match from a repeat.
    #[inline(always)]
    pub(super) fn fresh_kind(&self, state: LzmaState) -> u32 {
        price::of_0(self.kinds.is_repeat[state.index()])
    }

    /// Returns the price of the bit that tells a repeat from a match.
    #[inline(always)]
    pub(super) fn repeat_kind(&self, state: LzmaState) -> u32 {
        price::of_1(self.kinds.is_repeat[state.index()])
    }

    /// Returns the price of the bits that announce a short repeat.
    #[inline(always)]
    pub(super) fn short_kind(&self, state: LzmaState, at: PositionContext) -> u32 {
        let [not_0, ..] = &self.kinds.not_rep;
        price::of_0(not_0[state.index()]) + price::of_0(self.kinds.is_long[state.index()][at.position])
    }

    /// Returns the price of a repeat's index.
    #[inline(always)]
    pub(super) fn which_repeat(&self, state: LzmaState, at: PositionContext, rep: usize) -> u32 {
        let [not_0, not_1, not_2] = &self.kinds.not_rep;
        let not_0 = not_0[state.index()];
        let not_1 = not_1[state.index()];
        let not_2 = not_2[state.index()];
        match rep {
            0 => price::of_0(not_0) + price::of_1(self.kinds.is_long[state.index()][at.position]),
            1 => price::of_1(not_0) + price::of_0(not_1),
            2 => price::of_1(not_0) + price::of_1(not_1) + price::of_0(not_2),
            _ => price::of_1(not_0) + price::of_1(not_1) + price::of_1(not_2),
        }
    }

    /// Returns the price of a literal's bits; `expected` is the byte at the last distance.
    #[inline(always)]
    pub(super) fn literal(&self, state: LzmaState, at: PositionContext, expected: u8, byte: u8) -> u32 {
        let probs = &self.literals[at.literal];
        if state.after_literal() {
            return price::of_tree(probs, 8, u32::from(byte));
        }
        ExpectedBits::new(expected, byte).map(|(node, bit)| price::of_bit(probs[node], bit)).sum()
    }

    /// Encodes an operation at position `at` of `data`.
    #[inline(always)]
    pub(super) fn encode(&mut self, range: &mut RangeEncoder, data: &[u8], at: usize, op: LzmaOperation) {
        let state = self.state;
        let index = state.index();
        let before = at.checked_sub(1).map_or(0, |before| data[before]);
        let context = self.context(at, before);
        let is_match = &mut self.kinds.is_match[index][context.position];
        self.state = state.after(op);
        if op.back == LzmaOperation::LITERAL {
            range.bit(is_match, 0);
            self.encode_literal(range, data, at, state, context);
            return;
        }
        range.bit(is_match, 1);
        range.bit(&mut self.kinds.is_repeat[index], u32::from(op.back < LzmaOperation::MATCH));
        if op.back >= LzmaOperation::MATCH {
            self.match_lengths.encode(range, context.position, op.len);
            self.distances.encode(range, op.back - LzmaOperation::MATCH, op.len as usize);
            return;
        }
        for (rep, probs) in (0..).zip(&mut self.kinds.not_rep) {
            range.bit(&mut probs[index], u32::from(op.back > rep));
            if op.back == rep {
                break;
            }
        }
        if op.back == 0 {
            range.bit(&mut self.kinds.is_long[index][context.position], u32::from(op.len > 1));
        }
        if op.len > 1 {
            self.repeat_lengths.encode(range, context.position, op.len);
        }
    }

    #[inline(always)]
    fn encode_literal(
        &mut self,
        range: &mut RangeEncoder,
        data: &[u8],
        at: usize,
        state: LzmaState,
        context: PositionContext,
    ) {
        let probs = &mut self.literals[context.literal];
        if state.after_literal() {
            range.tree(probs, 8, u32::from(data[at]));
            return;
        }
        let [last, ..] = state.reps;
        for (node, bit) in ExpectedBits::new(data[at - last as usize - 1], data[at]) {
            range.bit(&mut probs[node], bit);
        }
    }
}

/// The models and bits of a literal after a match: as long as its bits are those of the expected byte, the
/// models are others than afterwards.
struct ExpectedBits {
    expected: u32,
    /// The byte's bits after a leading 1; eight of them have been seen when this reaches 2^16.
    byte: u32,
    /// 0x100 while all bits were as expected, then 0.
    offset: u32,
}

impl ExpectedBits {
    #[inline(always)]
    fn new(expected: u8, byte: u8) -> Self {
        ExpectedBits { expected: u32::from(expected), byte: u32::from(byte) | 0x100, offset: 0x100 }
    }
}

impl Iterator for ExpectedBits {
    type Item = (usize, u32);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.byte >= 1 << 16 {
            return None;
        }
        self.expected <<= 1;
        let node = self.offset + (self.expected & self.offset) + (self.byte >> 8);
        let bit = self.byte >> 7 & 1;
        self.byte <<= 1;
        self.offset &= !(self.expected ^ self.byte);
        Some((node as usize, bit))
    }
}
