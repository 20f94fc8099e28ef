//! Splitting dumps over several outputs, and joining them again.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::subject::subject;
use crate::trial::Trial;

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
    /// What the outputs are: `directories`, or speeds of simulated disks in MB/s.
    pub disks: String,
    /// How many outputs.
    pub outputs: usize,
    /// `split`, `join` or `check`.
    pub work: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { data, tool, codec, disks, outputs, work, .. } = self;
        write!(f, "{tool} {work} of {data}, {codec}, {outputs} outputs: {disks}")
    }
}

/// One thing to measure.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its key.
    pub key: Key,
}

impl Cell {
    fn key(&self) -> Key {
        self.key.clone()
    }
}

subject!(Cell, Split, Key, Trial, |trial| trial.time.seconds());
