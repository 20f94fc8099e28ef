//! Hash trees as dm-verity and fs-verity both have them: blocks of digests, whose digests fill the blocks above, up to one
//! root.

mod blocks;
mod shape;
mod writer;

pub(crate) use blocks::{BlockSource, hash_blocks};
pub(crate) use shape::TreeShape;
pub(crate) use writer::TreeWriter;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use packfs_blocks::Progress;

use crate::error::{Error, Result};
use crate::hashing::HashAlgorithm;
use crate::hex::{from_hex, to_hex};

/// Digest at the top of a tree, on which everything below depends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootHash(Vec<u8>);

impl RootHash {
    pub(crate) fn new(digest: Vec<u8>) -> Self {
        RootHash(digest)
    }

    /// Returns the bytes of the digest.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the algorithm with digests of this length: 32 bytes are SHA-256, 64 bytes SHA-512.
    pub fn algorithm(&self) -> HashAlgorithm {
        // Both lengths were checked, or are those of our own digests.
        if self.0.len() == HashAlgorithm::Sha512.digest_len() { HashAlgorithm::Sha512 } else { HashAlgorithm::Sha256 }
    }
}

/// Lower-case hexadecimal digits: the text that files of root hashes contain, and that is signed.
impl fmt::Display for RootHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl FromStr for RootHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why| Error::BadText { what: "root hash", why };
        let bytes = from_hex(text).ok_or_else(|| bad("it has other characters than pairs of hexadecimal digits"))?;
        // systemd takes at least 16 bytes; but no algorithm here has a digest that short.
        if ![HashAlgorithm::Sha256, HashAlgorithm::Sha512].iter().any(|known| known.digest_len() == bytes.len()) {
            return Err(bad("it has neither the 64 digits of SHA-256 nor the 128 of SHA-512"));
        }
        Ok(RootHash(bytes))
    }
}

/// Threads of an operation, and its progress.
#[derive(Debug, Clone, Default)]
pub struct HashEffort {
    /// Number of worker threads; 0 hashes on the calling thread. The result does not depend on it.
    pub threads: usize,
    /// Counters, and the way to cancel.
    pub progress: Arc<Progress>,
}
