//! Reading images: through the kernel and by programs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::subject::subject;
use crate::trial::Trial;

/// What tells one reading from others.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Name of what the image was made of.
    pub source: String,
    /// Digest of what is known of the source.
    pub digest: String,
    /// Who made the image.
    pub tool: String,
    /// `squashfs` or `erofs`.
    pub format: String,
    /// The codec as a user writes it.
    pub codec: String,
    /// Bytes of a block or cluster; 0 where nothing is compressed.
    pub block: usize,
    /// What is on besides, joined by commas, or nothing.
    pub features: String,
    /// `kernel`, or the program that reads.
    pub reader: String,
    /// What is read: `sequential data`, `random metadata`, ...
    pub work: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { source, tool, format, codec, block, features, reader, work, .. } = self;
        write!(f, "{reader}: {work} of {source} as {format} by {tool}, {codec}")?;
        if *block > 0 {
            write!(f, " in blocks of {}", crate::report::size(*block))?;
        }
        if features.is_empty() { Ok(()) } else { write!(f, ", {features}") }
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

subject!(Cell, Read, Key, Trial, |trial| trial.time.seconds());
