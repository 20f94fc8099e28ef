//! Keys of codecs on blocks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::short_size;

/// Key of a codec benchmark. The text of its fields stays the same in later versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CodecKey {
    /// Name of the data.
    pub data: String,
    /// Digest of the measured sample.
    pub digest: String,
    /// The codec in the user's spelling.
    pub codec: String,
    /// Block size in bytes.
    pub block: usize,
    /// Sector size in bytes.
    pub sector: usize,
    /// Storage policy.
    pub policy: String,
    /// Number of threads.
    pub threads: usize,
}

impl fmt::Display for CodecKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} in blocks of {}", self.codec, self.data, short_size(self.block))?;
        if self.threads == 1 { Ok(()) } else { write!(f, ", {} threads", self.threads) }
    }
}
