//! Building images: a source, a program, a format, a codec, and so many threads.
//!
//! A [`Matrix`] makes cells for [`Tool`]s, which a [`Builder`] runs; a [`Model`] says what more threads would do.

mod builder;
mod matrix;
mod model;
mod source;
mod tool;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::subject::subject;
use crate::trial::Trial;

pub use builder::Builder;
pub use matrix::{Features, Matrix};
pub use model::{Limit, Model};
pub use source::Source;
pub use tool::{Input, Kind, PEERS, Tool};

/// What tells one build from others.
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
    /// What is on besides: `fragments`, `dedupe`, joined by commas, or nothing.
    pub features: String,
    /// Threads at work; 0 where all is done by one, without handing over.
    pub threads: usize,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { source, tool, format, codec, block, features, threads, .. } = self;
        let block = crate::report::size(*block);
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

subject!(Cell, Build, Key, Trial, |trial| trial.time.seconds());
