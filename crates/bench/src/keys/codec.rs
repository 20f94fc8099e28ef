//! Keys of codecs on blocks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::size;

/// Key of a codec on blocks, in words that outlive this program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Name of the data.
    pub data: String,
    /// Digest of what was measured of it.
    pub digest: String,
    /// The codec as a user writes it.
    pub codec: String,
    /// Bytes of a block.
    pub block: usize,
    /// Bytes of a sector.
    pub sector: usize,
    /// Storage policy of blocks.
    pub policy: String,
    /// Threads at work at once.
    pub threads: usize,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} in blocks of {}", self.codec, self.data, size(self.block))?;
        if self.threads == 1 { Ok(()) } else { write!(f, ", {} threads", self.threads) }
    }
}
