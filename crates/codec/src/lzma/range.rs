//! The range coder. Its first byte is always zero; it ends with a flush of five bytes.

use super::price::{BitProb, PROB_BITS};

/// A range below this takes in another byte.
const TOP: u32 = 1 << 24;
/// Right shift of a probability's change with each bit.
const ADAPT_SHIFT: u32 = 5;
/// Bytes that a flush adds to those already determined, at most.
const FLUSH_LEN: usize = 4;

/// An encoder of bits that appends to its output.
pub(super) struct RangeEncoder {
    low: u64,
    range: u32,
    /// The byte before those that a carry could still change.
    cache: u8,
    /// Number of undetermined bytes: `cache`, and bytes of 0xff after it.
    undetermined: usize,
    pub(super) out: Vec<u8>,
}

/// The state of a [`RangeEncoder`], to go back to.
#[derive(Clone, Copy)]
pub(super) struct RangeMark {
    low: u64,
    range: u32,
    cache: u8,
    undetermined: usize,
    len: usize,
}

impl RangeEncoder {
    pub(super) fn new() -> Self {
        RangeEncoder { low: 0, range: u32::MAX, cache: 0, undetermined: 1, out: Vec::new() }
    }

    /// Begins another stream after what `out` holds.
    pub(super) fn restart(&mut self) {
        (self.low, self.range, self.cache, self.undetermined) = (0, u32::MAX, 0, 1);
    }

    /// Returns the length that `out` would have after a flush.
    pub(super) fn flushed_len(&self) -> usize {
        self.out.len() + self.undetermined + FLUSH_LEN
    }

    pub(super) fn mark(&self) -> RangeMark {
        let RangeEncoder { low, range, cache, undetermined, .. } = *self;
        RangeMark { low, range, cache, undetermined, len: self.out.len() }
    }

    pub(super) fn back_to(&mut self, mark: RangeMark) {
        (self.low, self.range, self.cache, self.undetermined) = (mark.low, mark.range, mark.cache, mark.undetermined);
        self.out.truncate(mark.len);
    }

    pub(super) fn flush(&mut self) {
        for _ in 0..=FLUSH_LEN {
            self.shift();
        }
    }

    /// Moves one byte out of `low`. A byte of 0xff waits, since a carry may come.
    #[inline(always)]
    fn shift(&mut self) {
        let [.., top, _, _, _] = self.low.to_be_bytes();
        let carry = (self.low >> 32) as u8;
        if top < 0xff || carry != 0 {
            self.out.push(self.cache.wrapping_add(carry));
            for _ in 1..self.undetermined {
                self.out.push(0xff_u8.wrapping_add(carry));
            }
            self.undetermined = 0;
            self.cache = top;
        }
        self.undetermined += 1;
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    /// Encodes a bit, 0 or 1, and adapts its probability. Written without branches on the bit, which nobody can predict.
    #[inline(always)]
    pub(super) fn bit(&mut self, prob: &mut BitProb, bit: u32) {
        let zero = u32::from(*prob);
        let bound = (self.range >> PROB_BITS) * zero;
        let mask = 0_u32.wrapping_sub(bit);
        self.low += u64::from(bound & mask);
        self.range = (bound & !mask) | ((self.range - bound) & mask);
        let up = zero + (((1 << PROB_BITS) - zero) >> ADAPT_SHIFT);
        let down = zero - (zero >> ADAPT_SHIFT);
        *prob = ((up & !mask) | (down & mask)) as BitProb;
        self.normalize();
    }

    #[inline(always)]
    fn normalize(&mut self) {
        if self.range < TOP {
            self.range <<= 8;
            self.shift();
        }
    }

    /// Encodes the low `bits` bits of `value` with even odds, the highest first.
    pub(super) fn direct(&mut self, value: u32, bits: u32) {
        for bit in (0..bits).rev() {
            self.range >>= 1;
            if value >> bit & 1 == 1 {
                self.low += u64::from(self.range);
            }
            self.normalize();
        }
    }

    /// Encodes `symbol` in a tree of `bits` levels, the highest bit first.
    #[inline(always)]
    pub(super) fn tree(&mut self, probs: &mut [BitProb], bits: u32, symbol: u32) {
        let mut node = 1;
        for level in (0..bits).rev() {
            let bit = symbol >> level & 1;
            self.bit(&mut probs[node as usize], bit);
            node = node << 1 | bit;
        }
    }

    /// Encodes `symbol` in a tree of `bits` levels, the lowest bit first.
    #[inline(always)]
    pub(super) fn reverse_tree(&mut self, probs: &mut [BitProb], bits: u32, symbol: u32) {
        let mut node = 1;
        for level in 0..bits {
            let bit = symbol >> level & 1;
            self.bit(&mut probs[node as usize], bit);
            node = node << 1 | bit;
        }
    }
}
