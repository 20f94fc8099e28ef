//! Keys of builds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::size;

/// Key of a build.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Name of the source.
    pub source: String,
    /// Digest of what is known of the source: by it, results of the same source are known.
    pub digest: String,
    /// `packfs`, or a peer by its name.
    pub tool: String,
    /// `squashfs` or `erofs`.
    pub format: String,
    /// The codec as a user writes it.
    pub codec: String,
    /// Bytes of a block or cluster.
    pub block: usize,
    /// Features besides compression: `fragments`, `dedupe`, joined by commas, or nothing.
    pub features: String,
    /// Threads at work; 0 where all is done by one, without handing over.
    pub threads: usize,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { source, tool, format, codec, block, features, threads, .. } = self;
        let block = size(*block);
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
