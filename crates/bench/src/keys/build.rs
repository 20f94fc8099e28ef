//! Keys of builds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::short_size;

/// Key of a build.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BuildKey {
    /// Name of the source.
    pub source: String,
    /// Digest of the source's statistics; results with the same digest are comparable.
    pub digest: String,
    /// `packfs`, or the name of a peer.
    pub tool: String,
    /// `squashfs` or `erofs`.
    pub format: String,
    /// The codec in the user's spelling.
    pub codec: String,
    /// Size of a block or cluster in bytes.
    pub block: usize,
    /// Features other than compression: `fragments`, `dedupe`, joined by commas, or empty.
    pub features: String,
    /// Number of threads; 0 if one thread does everything.
    pub threads: usize,
}

impl fmt::Display for BuildKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BuildKey { source, tool, format, codec, block, features, threads, .. } = self;
        let block = short_size(*block);
        write!(f, "{tool} packing {source} as {format}, {codec}, blocks of {block}")?;
        if !features.is_empty() {
            write!(f, ", {features}")?;
        }
        match threads {
            0 => f.write_str(", serial"),
            1 => f.write_str(", 1 thread"),
            n => write!(f, ", {n} threads"),
        }
    }
}
