//! What a block is: its BLAKE3 digest, and whether it is all zeros.

/// BLAKE3 digest of a block. Cryptographic, so equal digests mean equal bytes and nothing is ever
/// compared or read back to find duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of nothing that can be written: equal to no other.
    pub(crate) const NONE: Digest = Digest([0; 32]);

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of a sequence of digests: what a whole file is, given its blocks.
    pub fn of_all<'a>(digests: impl IntoIterator<Item = &'a Digest>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for digest in digests {
            hasher.update(&digest.0);
        }
        Digest(*hasher.finalize().as_bytes())
    }

    /// Its first 16 hexadecimal digits: enough to tell sources apart.
    pub fn short(&self) -> String {
        self.0[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Its first half.
    pub fn half(&self) -> Half {
        Half(*self.0.first_chunk().expect("16 of 32 bytes"))
    }
}

/// Half a digest, for the many small things of which no two of 2^64 will share one: clusters, chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Half([u8; 16]);

impl Half {
    /// The 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Whether every byte is zero. Stops at the first that is not.
pub fn is_zero(bytes: &[u8]) -> bool {
    // Chunks that the compiler turns into wide loads, with an early way out.
    let mut chunks = bytes.chunks_exact(64);
    chunks.all(|chunk| chunk.iter().fold(0, |acc, byte| acc | byte) == 0)
        && bytes[bytes.len() - bytes.len() % 64..].iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_blocks_of_every_length_are_known_and_a_single_bit_is_seen_anywhere() {
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
        let hex: String = Digest::of(b"abc").as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(Digest::of(b"abc").short(), hex[..16]);
        assert_eq!(hex, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
    }
}
