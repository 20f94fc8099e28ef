//! Made-up data for the tests of all crates. It is the same on every run, so that a failure can be repeated.

/// A generator of numbers that look random: the same ones for the same seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts at a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Advances a linear congruential generator (Knuth's MMIX), of which only the high bits look random.
    fn advance(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }

    /// Returns the next number; all of its bits look random.
    pub fn number(&mut self) -> u64 {
        let state = self.advance();
        let mixed = (state ^ (state >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }

    /// Returns a number from 0 to `limit - 1`.
    #[allow(clippy::cast_possible_truncation, reason = "the remainder is less than a usize")]
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    /// Returns `len` bytes that do not compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.advance().to_be_bytes()[0]).collect()
    }
}

/// Returns `len` bytes that do not compress, others for each seed.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    Random::new(seed).bytes(len)
}

/// Returns `len` bytes of `count` different values, in an order that depends on `seed`.
pub fn letters(len: usize, seed: u64, count: u8) -> Vec<u8> {
    let mut bytes = noise(len, seed);
    bytes.iter_mut().for_each(|byte| *byte %= count);
    bytes
}
