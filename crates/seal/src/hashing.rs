//! The hash functions of dm-verity and fs-verity, and the hash of one block after a salt.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256, Sha512};

use crate::error::Error;

/// Hash function of a tree. Both formats have others, which nobody needs: every kernel with dm-verity or fs-verity has
/// these two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HashAlgorithm {
    /// SHA-256: 32 bytes, with instructions of its own on current processors.
    #[default]
    Sha256,
    /// SHA-512: 64 bytes.
    Sha512,
}

impl HashAlgorithm {
    /// Returns the name that kernel, `veritysetup` and `fsverity` have for it.
    pub fn name(self) -> &'static str {
        match self {
            HashAlgorithm::Sha256 => "sha256",
            HashAlgorithm::Sha512 => "sha512",
        }
    }

    /// Returns the length of a digest in bytes.
    pub fn digest_len(self) -> usize {
        match self {
            HashAlgorithm::Sha256 => 32,
            HashAlgorithm::Sha512 => 64,
        }
    }

    /// Returns the number that fs-verity has for it.
    pub(crate) fn fsverity_number(self) -> u8 {
        match self {
            HashAlgorithm::Sha256 => 1,
            HashAlgorithm::Sha512 => 2,
        }
    }

    /// Returns the number of bytes that the function takes at a time, to which fs-verity pads a salt.
    pub(crate) fn input_block_len(self) -> usize {
        // SHA-256 takes 64 bytes and SHA-512 takes 128: both twice their digests.
        2 * self.digest_len()
    }

    /// Hashes bytes without a salt.
    pub(crate) fn digest(self, bytes: &[u8]) -> Vec<u8> {
        let mut digest = Vec::with_capacity(self.digest_len());
        BlockHasher::new(self, &[]).append_digest(bytes, &mut digest);
        digest
    }
}

impl fmt::Display for HashAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for HashAlgorithm {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let known = [HashAlgorithm::Sha256, HashAlgorithm::Sha512];
        known.into_iter().find(|algorithm| algorithm.name() == name).ok_or_else(|| Error::InvalidOption {
            what: "hash algorithm",
            value: name.into(),
            why: "it is sha256 or sha512",
        })
    }
}

/// Hashes blocks, each after the same salt, which is hashed only once.
#[derive(Debug, Clone)]
pub(crate) struct BlockHasher(SaltedState);

#[derive(Debug, Clone)]
enum SaltedState {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl BlockHasher {
    pub(crate) fn new(algorithm: HashAlgorithm, salt: &[u8]) -> Self {
        BlockHasher(match algorithm {
            HashAlgorithm::Sha256 => SaltedState::Sha256(Sha256::new_with_prefix(salt)),
            HashAlgorithm::Sha512 => SaltedState::Sha512(Sha512::new_with_prefix(salt)),
        })
    }

    /// Appends the digest of `block` to `digests`.
    pub(crate) fn append_digest(&self, block: &[u8], digests: &mut Vec<u8>) {
        match &self.0 {
            // Cloning the state after the salt saves hashing the salt for each block.
            SaltedState::Sha256(salted) => digests.extend_from_slice(&salted.clone().chain_update(block).finalize()),
            SaltedState::Sha512(salted) => digests.extend_from_slice(&salted.clone().chain_update(block).finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::to_hex;

    #[test]
    fn names_lengths_and_digests_belong_together() {
        for (algorithm, name, digest) in [
            (HashAlgorithm::Sha256, "sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (HashAlgorithm::Sha512, "sha512", "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"),
        ] {
            assert_eq!(name.parse::<HashAlgorithm>().unwrap(), algorithm);
            assert!(to_hex(&algorithm.digest(b"abc")).starts_with(digest), "{name}");
            assert_eq!(algorithm.digest(b"").len(), algorithm.digest_len());
            // The salt comes first.
            let mut salted = Vec::new();
            BlockHasher::new(algorithm, b"a").append_digest(b"bc", &mut salted);
            assert_eq!(salted, algorithm.digest(b"abc"));
        }
        assert!("crc32c".parse::<HashAlgorithm>().is_err());
    }
}
