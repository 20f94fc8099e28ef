//! Sums of blocks: a weak one that rolls on with a window, and MD4, which confirms it.

use md4::{Digest, Md4};

/// Length of an MD4 digest in bytes.
pub(super) const MD4_LEN: usize = 16;

/// Weak sum of a window: the sum of its bytes, and that of its bytes times their distance to the end, both modulo 2^16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RollingSum {
    bytes: u16,
    weighted: u16,
}

impl RollingSum {
    pub(super) fn of(window: &[u8]) -> Self {
        let mut sum = RollingSum { bytes: 0, weighted: 0 };
        for byte in window {
            sum.bytes = sum.bytes.wrapping_add((*byte).into());
            // Each byte is added once for itself and once for each byte after it, which is its distance to the end.
            sum.weighted = sum.weighted.wrapping_add(sum.bytes);
        }
        sum
    }

    /// Moves the window on by one byte. `block_bits` is the binary logarithm of its length.
    #[inline(always)]
    pub(super) fn roll(&mut self, first: u8, next: u8, block_bits: u32) {
        self.bytes = self.bytes.wrapping_sub(first.into()).wrapping_add(next.into());
        // From 16 bits on, the first byte's weight is 0 modulo 2^16.
        let gone = u16::from(first).checked_shl(block_bits).unwrap_or(0);
        self.weighted = self.weighted.wrapping_add(self.bytes).wrapping_sub(gone);
    }

    /// Returns the sum as indexes have it, of which short ones have the last bytes only.
    #[inline(always)]
    pub(super) fn value(self) -> u32 {
        u32::from(self.bytes) << 16 | u32::from(self.weighted)
    }
}

/// Returns the MD4 digest of a window.
pub(super) fn md4(window: &[u8]) -> [u8; MD4_LEN] {
    Md4::digest(window).into()
}

#[cfg(test)]
mod tests {
    use packfs_blocks::hex::to_hex;
    use packfs_blocks::testing::noise;

    use super::*;

    #[test]
    fn a_rolled_sum_is_that_of_its_window() {
        let bytes = noise(300_000, 3);
        for block_bits in [6, 11, 17] {
            let len = 1 << block_bits;
            let mut sum = RollingSum::of(&bytes[..len]);
            for at in 1..3000 {
                sum.roll(bytes[at - 1], bytes[at - 1 + len], block_bits);
                assert_eq!(sum, RollingSum::of(&bytes[at..at + len]), "{block_bits} {at}");
            }
        }
    }

    #[test]
    fn sums_are_the_known_ones() {
        assert_eq!(RollingSum::of(&[1, 2, 3]).value(), 6 << 16 | 10);
        let digest = to_hex(&md4(b"abc"));
        assert_eq!(digest, "a448017aaf21d8525fc10ae87aa6729d");
    }
}
