//! Prices of bits: the length, in sixteenths of a bit, that the range coder adds for a bit of a given probability.

/// A probability that a bit is 0, in units of 1/2048.
pub(super) type BitProb = u16;
/// The probability at the start.
pub(super) const EVEN: BitProb = 1 << (PROB_BITS - 1);
pub(super) const PROB_BITS: u32 = 11;
/// A price above any that occurs.
pub(super) const INFINITE: u32 = 1 << 30;

/// log2 of the probabilities that share a price.
const STEP_BITS: u32 = 4;
/// Bits of a price's fraction.
const FRACTION_BITS: u32 = 4;

static PRICES: [u8; 1 << (PROB_BITS - STEP_BITS)] = prices();

/// Computes -16 log2(p / 2048) for the middle of each step, in integers: four squarings give four bits of the fraction.
const fn prices() -> [u8; 1 << (PROB_BITS - STEP_BITS)] {
    let mut prices = [0; 1 << (PROB_BITS - STEP_BITS)];
    let mut step = 0;
    while step < prices.len() {
        let mut power = ((step as u32) << STEP_BITS) + (1 << (STEP_BITS - 1));
        let mut log = 0;
        let mut squaring = 0;
        while squaring < FRACTION_BITS {
            power *= power;
            log <<= 1;
            while power >= 1 << 16 {
                power >>= 1;
                log += 1;
            }
            squaring += 1;
        }
        // The price of the rarest bit is 128 sixteenths.
        prices[step] = ((PROB_BITS << FRACTION_BITS) - 15 - log) as u8;
        step += 1;
    }
    prices
}

/// Returns the price of `bit`, 0 or 1.
#[inline(always)]
pub(super) fn of_bit(prob: BitProb, bit: u32) -> u32 {
    // Turns the probability of a 0 into that of a 1, without a branch.
    let flipped = u32::from(prob) ^ (0_u32.wrapping_sub(bit) & ((1 << PROB_BITS) - 1));
    // The remainder changes nothing, but saves a check of bounds.
    u32::from(PRICES[(flipped >> STEP_BITS) as usize % PRICES.len()])
}

/// Returns the price of a bit of 0.
#[inline(always)]
pub(super) fn of_0(prob: BitProb) -> u32 {
    of_bit(prob, 0)
}

/// Returns the price of a bit of 1.
#[inline(always)]
pub(super) fn of_1(prob: BitProb) -> u32 {
    of_bit(prob, 1)
}

/// Returns the price of `symbol` in a tree of `bits` levels, the highest bit first.
#[inline(always)]
pub(super) fn of_tree(probs: &[BitProb], bits: u32, symbol: u32) -> u32 {
    let mut node = symbol | 1 << bits;
    let mut price = 0;
    while node != 1 {
        let bit = node & 1;
        node >>= 1;
        price += of_bit(probs[node as usize], bit);
    }
    price
}

/// Returns the price of `symbol` in a tree of `bits` levels, the lowest bit first.
#[inline(always)]
pub(super) fn of_reverse_tree(probs: &[BitProb], bits: u32, symbol: u32) -> u32 {
    let mut node = 1;
    let mut price = 0;
    for level in 0..bits {
        let bit = symbol >> level & 1;
        price += of_bit(probs[node as usize], bit);
        node = node << 1 | bit;
    }
    price
}
