//! A random number generator that gives the same numbers everywhere for the same seed: SplitMix64.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct SeededRng(u64);

impl SeededRng {
    /// Creates the stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        SeededRng(seed)
    }

    /// Creates the stream of one of several items that share a seed.
    pub(crate) fn for_item(seed: u64, index: u64) -> Self {
        // Mixed twice: neighbouring indexes give streams that have nothing in common.
        SeededRng(mix(seed ^ mix(index)))
    }

    /// Returns 64 random bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Returns a number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // The product's upper half is below `end`; the bias is one in 2^64 / end.
        let product = u128::from(self.next_u64()) * end as u128;
        usize::try_from(product >> 64).unwrap_or(0)
    }

    /// Shuffles a slice.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        // Fisher and Yates: every order is as likely.
        for last in (1..things.len()).rev() {
            things.swap(last, self.below(last + 1));
        }
    }

    /// Fills a slice with random bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Maps 64 bits one to one, so that every bit of the result depends on every bit of `z`; 0 stays 0.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published sequence of the seed 1234567.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut rng = SeededRng::new(1_234_567);
        let want = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([rng.next_u64(), rng.next_u64(), rng.next_u64()], want);
    }

    #[test]
    fn orders_are_permutations_and_numbers_stay_below_their_end() {
        let mut order: Vec<usize> = (0..100).collect();
        SeededRng::new(7).shuffle(&mut order);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
        let mut rng = SeededRng::for_item(7, 3);
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[rng.below(5)] += 1);
        assert!(seen.iter().all(|count| (120..280).contains(count)), "{seen:?}");
    }
}
