//! Splitting dumps over several outputs, and joining them again: what is split ([`Source`]), by which program
//! ([`Tool`]), over which disks ([`Profile`]), and who does and times it ([`Machine`]).

mod disks;
mod machine;
mod matrix;
mod sink;
mod source;
mod tool;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::subject::subject;
use crate::trial::Trial;

pub use disks::{Disk, Profile};
pub(crate) use disks::{ranges, shared, sum};
pub use machine::Machine;
pub use matrix::Matrix;
pub use source::Source;
pub use tool::{Program, Tool};

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Splitting, until every disk has what it was given.
    Split,
    /// Putting the dump together again.
    Join,
    /// Verifying the parts.
    Check,
}

impl Work {
    /// As in [`Key::work`].
    pub const fn name(self) -> &'static str {
        match self {
            Work::Split => "split",
            Work::Join => "join",
            Work::Check => "check",
        }
    }
}

/// What tells one such run from others.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Name of the data.
    pub data: String,
    /// Digest of the data.
    pub digest: String,
    /// `packfs`, or a peer by its name.
    pub tool: String,
    /// The codec as a user writes it.
    pub codec: String,
    /// What the outputs are: `directories`, or speeds of simulated disks in MB/s. See [`Profile`].
    pub disks: String,
    /// How many outputs.
    pub outputs: usize,
    /// `split`, `join` or `check`.
    pub work: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { data, tool, codec, disks, outputs, work, .. } = self;
        let outputs = if *outputs == 1 { "1 output".into() } else { format!("{outputs} outputs") };
        match disks.as_str() {
            "directories" => write!(f, "{tool} {work} of {data}, {codec}, {outputs}"),
            speeds => write!(f, "{tool} {work} of {data}, {codec}, {outputs} of {speeds} MB/s"),
        }
    }
}

/// One thing to measure.
#[derive(Debug, Clone)]
pub struct Cell {
    /// What is split.
    pub source: Arc<Source>,
    /// Who splits it.
    pub tool: Tool,
    /// The codec as a user writes it.
    pub codec: String,
    /// Over what.
    pub profile: Profile,
    /// How many outputs.
    pub outputs: usize,
    /// What is timed.
    pub work: Work,
}

impl Cell {
    fn key(&self) -> Key {
        Key {
            data: self.source.name.clone(),
            digest: self.source.digest.clone(),
            tool: self.tool.name().into(),
            codec: self.codec.clone(),
            disks: self.profile.to_string(),
            outputs: self.outputs,
            work: self.work.name().into(),
        }
    }
}

subject!(Cell, Split, Key, Trial, |trial| trial.time.seconds());
