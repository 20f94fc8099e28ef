//! Model and prices of lengths. Matches and repeats have one each.

use super::price::{self, BitProb, EVEN};
use super::range::RangeEncoder;
use super::{LEN_MAX, LEN_MIN};

/// Lengths less two below these end in the first and the second tree; all others in the third.
const LOW: u32 = 8;
const MID: u32 = 16;
/// Greatest number of values that the position's low bits take.
const POSITIONS: usize = 16;

pub(super) struct LengthModel {
    probs: LengthProbs,
    /// Prices by position and length.
    prices: Box<[[u32; LEN_MAX + 1]; POSITIONS]>,
    /// Number of lengths to code until the prices of a position are computed anew.
    due: [usize; POSITIONS],
    /// Greatest length that has a price.
    nice: usize,
}

struct LengthProbs {
    not_low: BitProb,
    not_mid: BitProb,
    low: [[BitProb; 8]; POSITIONS],
    mid: [[BitProb; 8]; POSITIONS],
    high: [BitProb; 256],
}

impl LengthProbs {
    const START: LengthProbs = LengthProbs {
        not_low: EVEN,
        not_mid: EVEN,
        low: [[EVEN; 8]; POSITIONS],
        mid: [[EVEN; 8]; POSITIONS],
        high: [EVEN; 256],
    };
}

impl LengthModel {
    pub(super) fn new(nice: usize) -> Self {
        let prices = Box::new([[0; LEN_MAX + 1]; POSITIONS]);
        LengthModel { probs: LengthProbs::START, prices, due: [0; POSITIONS], nice }
    }

    /// Begins a stream with `pb` bits of the position.
    pub(super) fn reset(&mut self, pb: u8) {
        self.probs = LengthProbs::START;
        for position in 0..1 << pb {
            self.update(position);
        }
    }

    /// Returns the prices of all lengths from 2 to `nice` at a position.
    #[inline(always)]
    pub(super) fn prices(&self, position: usize) -> &[u32; LEN_MAX + 1] {
        &self.prices[position]
    }

    fn update(&mut self, position: usize) {
        let probs = &self.probs;
        let low = price::of_0(probs.not_low);
        let mid = price::of_1(probs.not_low) + price::of_0(probs.not_mid);
        let high = price::of_1(probs.not_low) + price::of_1(probs.not_mid);
        for (symbol, price) in (0..).zip(&mut self.prices[position][LEN_MIN..=self.nice]) {
            *price = match symbol {
                0..LOW => low + price::of_tree(&probs.low[position], 3, symbol),
                LOW..MID => mid + price::of_tree(&probs.mid[position], 3, symbol - LOW),
                _ => high + price::of_tree(&probs.high, 8, symbol - MID),
            };
        }
        // An update prices so many lengths: after as many have been coded, it costs a fixed amount for each,
        // as in the LZMA SDK.
        self.due[position] = self.nice - 1;
    }

    /// Encodes a length from 2 to [`LEN_MAX`].
    #[inline(always)]
    pub(super) fn encode(&mut self, range: &mut RangeEncoder, position: usize, len: u32) {
        let symbol = len - LEN_MIN as u32;
        let probs = &mut self.probs;
        range.bit(&mut probs.not_low, u32::from(symbol >= LOW));
        if symbol < LOW {
            range.tree(&mut probs.low[position], 3, symbol);
        } else {
            range.bit(&mut probs.not_mid, u32::from(symbol >= MID));
            if symbol < MID {
                range.tree(&mut probs.mid[position], 3, symbol - LOW);
            } else {
                range.tree(&mut probs.high, 8, symbol - MID);
            }
        }
        self.due[position] -= 1;
        if self.due[position] == 0 {
            self.update(position);
        }
    }
}
