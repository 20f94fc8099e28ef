//! Model and prices of distances (less one). A distance is a slot of six bits, which gives its two highest bits and
//! their position, and the remaining bits: modelled up to 127, beyond that even but for the lowest four.

use super::LEN_MIN;
use super::price::{self, BitProb, EVEN};
use super::range::RangeEncoder;

/// The models of slots differ for lengths 2, 3, 4 and above.
const LEN_MODELS: usize = 4;
/// Distances below this are their own slots.
const FIRST_FOOTER: u32 = 4;
/// Slots from here on end in even bits and four modelled ones.
const FIRST_EVEN: u32 = 14;
/// Distances below this have a price each.
const NEAR: u32 = 128;
const ALIGN_BITS: u32 = 4;
const ALIGN: usize = 1 << ALIGN_BITS;
/// Number of operations after which prices are computed anew.
const MATCHES_DUE: u32 = 128;
const ALIGNS_DUE: u32 = 16;
/// Price of a bit with even odds.
const BIT: u32 = 16;

pub(super) struct DistanceModel {
    slots: [[BitProb; 64]; LEN_MODELS],
    footers: [BitProb; NEAR as usize],
    align: [BitProb; ALIGN],
    /// Prices of slots, with their even bits.
    slot_prices: [[u32; 64]; LEN_MODELS],
    near_prices: [[u32; NEAR as usize]; LEN_MODELS],
    align_prices: [u32; ALIGN],
    matches: u32,
    aligns: u32,
    /// Number of slots that the longest distance needs.
    slots_used: u32,
}

/// Returns the slot of a distance.
#[inline(always)]
fn slot_of(distance: u32) -> u32 {
    if distance < FIRST_FOOTER {
        return distance;
    }
    let high = distance.ilog2();
    2 * high + (distance >> (high - 1) & 1)
}

/// Returns the number of bits below a slot's two, and the lowest distance of the slot.
#[inline(always)]
fn footer(slot: u32) -> (u32, u32) {
    let bits = (slot >> 1) - 1;
    (bits, (2 | slot & 1) << bits)
}

#[inline(always)]
fn len_model(len: usize) -> usize {
    (len - LEN_MIN).min(LEN_MODELS - 1)
}

impl DistanceModel {
    pub(super) fn new() -> Self {
        DistanceModel {
            slots: [[EVEN; 64]; LEN_MODELS],
            footers: [EVEN; NEAR as usize],
            align: [EVEN; ALIGN],
            slot_prices: [[0; 64]; LEN_MODELS],
            near_prices: [[0; NEAR as usize]; LEN_MODELS],
            align_prices: [0; ALIGN],
            matches: 0,
            aligns: 0,
            slots_used: 64,
        }
    }

    /// Begins a stream with distances up to `farthest`.
    pub(super) fn reset(&mut self, farthest: u32) {
        self.slots = [[EVEN; 64]; LEN_MODELS];
        self.footers = [EVEN; NEAR as usize];
        self.align = [EVEN; ALIGN];
        self.slots_used = slot_of(farthest.max(NEAR)) + 1;
        self.update();
        self.update_align();
    }

    /// Returns the price of a distance for a match of `len` bytes.
    #[inline(always)]
    pub(super) fn price(&self, distance: u32, len: usize) -> u32 {
        let model = len_model(len);
        match self.near_prices[model].get(distance as usize) {
            Some(price) => *price,
            None => {
                // A slot is less than 64 anyway: the remainder only saves a check of bounds.
                self.slot_prices[model][slot_of(distance) as usize % 64] + self.align_prices[distance as usize % ALIGN]
            }
        }
    }

    fn update(&mut self) {
        for (prices, probs) in self.slot_prices.iter_mut().zip(&self.slots) {
            for slot in 0..self.slots_used {
                let even = if slot < FIRST_EVEN { 0 } else { footer(slot).0 - ALIGN_BITS };
                prices[slot as usize] = price::of_tree(probs, 6, slot) + even * BIT;
            }
        }
        for distance in 0..NEAR {
            let slot = slot_of(distance);
            let rest = if distance < FIRST_FOOTER {
                0
            } else {
                let (bits, base) = footer(slot);
                price::of_reverse_tree(&self.footers[(base - slot) as usize..], bits, distance - base)
            };
            for (near, slots) in self.near_prices.iter_mut().zip(&self.slot_prices) {
                near[distance as usize] = slots[slot as usize] + rest;
            }
        }
        self.matches = 0;
    }

    fn update_align(&mut self) {
        for (low, price) in (0..).zip(&mut self.align_prices) {
            *price = price::of_reverse_tree(&self.align, ALIGN_BITS, low);
        }
        self.aligns = 0;
    }

    /// Encodes the distance of a match of `len` bytes.
    pub(super) fn encode(&mut self, range: &mut RangeEncoder, distance: u32, len: usize) {
        let slot = slot_of(distance);
        range.tree(&mut self.slots[len_model(len)], 6, slot);
        if slot >= FIRST_FOOTER {
            let (bits, base) = footer(slot);
            let rest = distance - base;
            if slot < FIRST_EVEN {
                // The models of all slots lie in one row. Those of this slot begin where LzmaSpec.cpp has
                // them, `PosDecoders + dist - posSlot`.
                range.reverse_tree(&mut self.footers[(base - slot) as usize..], bits, rest);
            } else {
                range.direct(rest >> ALIGN_BITS, bits - ALIGN_BITS);
                range.reverse_tree(&mut self.align, ALIGN_BITS, rest % ALIGN as u32);
                self.aligns += 1;
            }
        }
        self.matches += 1;
        if self.matches >= MATCHES_DUE {
            self.update();
        }
        if self.aligns >= ALIGNS_DUE {
            self.update_align();
        }
    }
}
