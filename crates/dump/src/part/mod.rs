//! The structures of a part as checked types: between raw bytes and everything that reads or writes dumps.
//!
//! Nothing here writes files, and nothing trusts: what is parsed holds together in itself. That the bytes of a chunk
//! are what they were is known when [`ChunkDecoder`] or a payload's sum has said so.

mod chunk;
mod parse;
mod scan;
mod seal;
mod superblock;
mod trailer;

pub use chunk::{ChunkDecoder, fill};
pub use parse::{Lengths, Segment, Shard, Stretch, What};
pub use scan::{Found, Scan, payload_is_sound, read_segment};
pub use seal::{Head, Piece, seal, seal_payload, sealed_len};
pub use superblock::Super;
pub use trailer::{Entry, Foot, find_footer, read_index};

use std::path::Path;

use crate::Error;

/// What is wrong with bytes that should be a structure of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// Name of the structure, as the format's documentation calls it.
    pub structure: &'static str,
    /// What is wrong.
    pub why: String,
}

impl Flaw {
    /// A flaw of `structure`.
    pub fn new(structure: &'static str, why: impl Into<String>) -> Self {
        Flaw { structure, why: why.into() }
    }

    /// As an error about the part at `path`, where the structure begins at byte `offset`.
    pub fn at(self, path: &Path, offset: u64) -> Error {
        Error::corrupt(path, self.structure, offset, self.why)
    }
}
