//! The identity of a block: its BLAKE3 digest, and a test for all zeros.

use crate::hex::to_hex;

/// BLAKE3 digest of a block. It is cryptographic, so equal digests mean equal bytes: finding
/// duplicates never compares or reads back data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// A digest that equals that of no data.
    pub(crate) const NONE: Digest = Digest([0; 32]);

    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// Computes the digest of a sequence of digests: the identity of a whole file, given its blocks.
    pub fn of_all<'a>(digests: impl IntoIterator<Item = &'a Digest>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for digest in digests {
            hasher.update(&digest.0);
        }
        Digest(*hasher.finalize().as_bytes())
    }

    /// Returns the first 16 hexadecimal digits: enough to tell sources apart.
    pub fn short(&self) -> String {
        to_hex(&self.0[..8])
    }

    /// Returns the 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the first half.
    pub fn half(&self) -> HalfDigest {
        HalfDigest(*self.0.first_chunk().expect("16 of 32 bytes"))
    }
}

/// A digest that was stored.
impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Digest(bytes)
    }
}

/// Half a digest, for many small things (clusters, chunks): below 2^64 of them no collision is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfDigest([u8; 16]);

impl HalfDigest {
    /// Returns the 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Half a digest that was stored.
impl From<[u8; 16]> for HalfDigest {
    fn from(bytes: [u8; 16]) -> Self {
        HalfDigest(bytes)
    }
}

/// Returns true if every byte is zero. Stops at the first that is not.
pub fn is_zero(bytes: &[u8]) -> bool {
    // Chunks that the compiler turns into wide loads, with an early exit.
    let mut chunks = bytes.chunks_exact(64);
    chunks.all(|chunk| chunk.iter().fold(0, |acc, byte| acc | byte) == 0)
        && bytes[bytes.len() - bytes.len() % 64..].iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_blocks_of_every_length_are_recognised_and_a_single_bit_is_seen_anywhere() {
        for len in [0, 1, 63, 64, 65, 127, 128, 4096, 4097] {
            let mut bytes = vec![0u8; len];
            assert!(is_zero(&bytes), "{len}");
            for at in 0..len {
                bytes[at] = 0x80;
                assert!(!is_zero(&bytes), "{at} of {len}");
                bytes[at] = 0;
            }
        }
    }

    #[test]
    fn digest_is_blake3() {
        let hex = to_hex(Digest::of(b"abc").as_bytes());
        assert_eq!(Digest::of(b"abc").short(), hex[..16]);
        assert_eq!(hex, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
    }
}
