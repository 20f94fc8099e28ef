//! The hash table through which all indexes find their keys.

use std::hash::{BuildHasher, RandomState};

/// A hash table of indexes into a list elsewhere, found by the bits of their keys: open addressing
/// with linear probing, at most half full. The keys stay in the list.
#[derive(Debug)]
pub(super) struct IndexTable {
    /// A power of two of slots; each holds [`IndexTable::EMPTY`] or an index.
    slots: Vec<u32>,
    used: usize,
    /// Spreads the bits over the slots. It is secret, so nobody can craft files that all need the same slots.
    factor: u64,
}

impl Default for IndexTable {
    fn default() -> Self {
        // Odd, so that the multiplication loses no bits.
        IndexTable { slots: Vec::new(), used: 0, factor: RandomState::new().hash_one(0) | 1 }
    }
}

impl IndexTable {
    pub(super) const EMPTY: u32 = u32::MAX;
    const LEAST: usize = 16;

    /// Finds the index with these bits for which `is_it` is true.
    pub(super) fn find(&self, bits: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        Some(self.slots[self.slot(bits, is_it)]).filter(|number| *number != Self::EMPTY)
    }

    /// Adds an index, replacing the one for which `is_it` is true; `bits_of` gives the bits of any
    /// index in the table. Returns the replaced index.
    pub(super) fn insert(
        &mut self,
        (bits, number): (u64, u32),
        is_it: impl Fn(u32) -> bool,
        bits_of: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        let before = std::mem::replace(self.entry(bits, is_it, bits_of), number);
        Some(before).filter(|before| *before != Self::EMPTY)
    }

    /// Returns the index for which `is_it` is true; if there is none, adds `number` with these bits.
    pub(super) fn find_or_insert(
        &mut self,
        (bits, number): (u64, u32),
        is_it: impl Fn(u32) -> bool,
        bits_of: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        let entry = self.entry(bits, is_it, bits_of);
        if *entry != Self::EMPTY {
            return Some(*entry);
        }
        *entry = number;
        None
    }

    /// Returns the slot of an index, or an empty one, which counts as used: the caller fills it.
    fn entry(&mut self, bits: u64, is_it: impl Fn(u32) -> bool, bits_of: impl Fn(u32) -> u64) -> &mut u32 {
        if self.used * 2 >= self.slots.len() {
            self.grow(bits_of);
        }
        let slot = self.slot(bits, is_it);
        let entry = &mut self.slots[slot];
        self.used += usize::from(*entry == Self::EMPTY);
        entry
    }

    /// Returns what is in the first slot for these bits, which may be of others.
    pub(super) fn first(&self, bits: u64) -> Option<u32> {
        if self.slots.is_empty() { None } else { Some(self.slots[self.first_slot(bits)]) }
    }

    fn first_slot(&self, bits: u64) -> usize {
        // The upper bits of the product depend on all bits of the key.
        let spread = bits.wrapping_mul(self.factor) >> (u64::BITS - self.slots.len().ilog2());
        usize::try_from(spread).expect("as many bits as an index of a slot has")
    }

    /// Returns the slot of an index, or the empty slot where it would go.
    fn slot(&self, bits: u64, is_it: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.first_slot(bits);
        while self.slots[slot] != Self::EMPTY && !is_it(self.slots[slot]) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self, bits_of: impl Fn(u32) -> u64) {
        let len = (self.slots.len() * 2).max(Self::LEAST);
        let old = std::mem::replace(&mut self.slots, vec![Self::EMPTY; len]);
        for number in old.into_iter().filter(|number| *number != Self::EMPTY) {
            // All keys differ, so each goes to the next empty slot.
            let slot = self.slot(bits_of(number), |_| false);
            self.slots[slot] = number;
        }
    }
}
