//! Keys of splits, joins and checks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The timed work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitWork {
    /// Splitting, until every disk has received all its data.
    Split,
    /// Joining the parts.
    Join,
    /// Checking the parts.
    Check,
}

impl SplitWork {
    /// Returns the name in [`SplitKey::work`].
    pub const fn name(self) -> &'static str {
        match self {
            SplitWork::Split => "split",
            SplitWork::Join => "join",
            SplitWork::Check => "check",
        }
    }
}

/// Key of a split, join or check.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SplitKey {
    /// Name of the data.
    pub data: String,
    /// Digest of the data.
    pub digest: String,
    /// `packfs`, or the name of a peer.
    pub tool: String,
    /// The codec in the user's spelling.
    pub codec: String,
    /// Kind of the outputs: `directories`, or speeds of simulated disks in MB/s. See
    /// [`DiskProfile`](crate::split::DiskProfile).
    pub disks: String,
    /// Number of outputs.
    pub outputs: usize,
    /// `split`, `join` or `check`.
    pub work: String,
}

impl fmt::Display for SplitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SplitKey { data, tool, codec, disks, outputs, work, .. } = self;
        let outputs = if *outputs == 1 { "1 output".into() } else { format!("{outputs} outputs") };
        match disks.as_str() {
            "directories" => write!(f, "{tool} {work} of {data}, {codec}, {outputs}"),
            speeds => write!(f, "{tool} {work} of {data}, {codec}, {outputs} of {speeds} MB/s"),
        }
    }
}
