//! Keys of reads.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::short_size;

/// The reader of mounted images.
pub const KERNEL: &str = "kernel";
/// The reader of a single file on a mounted image.
pub const FIO: &str = "fio";
/// The codec of uncompressed images.
pub const NONE: &str = "none";

/// Key of a read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ReadKey {
    /// Name of the image's source, or of the image if its source is unknown.
    pub source: String,
    /// Digest of the names and lengths of its files; images with the same digest are comparable.
    pub digest: String,
    /// Program that made the image; empty if unknown.
    pub tool: String,
    /// `squashfs` or `erofs`.
    pub format: String,
    /// The codec in the user's spelling.
    pub codec: String,
    /// Size of a block or cluster in bytes; 0 if nothing is compressed or the image does not say.
    pub block: usize,
    /// Features other than compression, joined by commas, or empty.
    pub features: String,
    /// `kernel`, `fio`, or the name of a program.
    pub reader: String,
    /// The timed work: `sequential data`, `full random metadata`, ...
    pub work: String,
}

impl fmt::Display for ReadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadKey { source, tool, format, codec, block, features, reader, work, .. } = self;
        write!(f, "{reader}: {work} of {source} as {format}")?;
        if !tool.is_empty() {
            write!(f, " by {tool}")?;
        }
        match (codec.as_str(), block) {
            (NONE, _) => write!(f, ", not compressed")?,
            (codec, 0) => write!(f, ", {codec}")?,
            (codec, block) => write!(f, ", {codec} in blocks of {}", short_size(*block))?,
        }
        if features.is_empty() { Ok(()) } else { write!(f, ", {features}") }
    }
}
