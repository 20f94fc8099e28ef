//! Keys of reads.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::size;

/// The reader of what goes through the file system of the kernel.
pub const KERNEL: &str = "kernel";
/// The reader that measures one file, through the kernel too.
pub const FIO: &str = "fio";
/// The codec of what is not compressed.
pub const NONE: &str = "none";

/// Key of a reading.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Name of what the image was made of, or of the image where that is not known.
    pub source: String,
    /// Digest of the names and lengths of what is in it: by it, images of the same source are known.
    pub digest: String,
    /// Program that made the image; empty if unknown.
    pub tool: String,
    /// `squashfs` or `erofs`.
    pub format: String,
    /// The codec as a user writes it.
    pub codec: String,
    /// Bytes of a block or cluster; 0 where nothing is compressed, or the image does not say.
    pub block: usize,
    /// Features besides compression, joined by commas, or nothing.
    pub features: String,
    /// `kernel`, `fio`, or the program that reads.
    pub reader: String,
    /// Work that is timed: `sequential data`, `full random metadata`, ...
    pub work: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { source, tool, format, codec, block, features, reader, work, .. } = self;
        write!(f, "{reader}: {work} of {source} as {format}")?;
        if !tool.is_empty() {
            write!(f, " by {tool}")?;
        }
        match (codec.as_str(), block) {
            (NONE, _) => write!(f, ", not compressed")?,
            (codec, 0) => write!(f, ", {codec}")?,
            (codec, block) => write!(f, ", {codec} in blocks of {}", size(*block))?,
        }
        if features.is_empty() { Ok(()) } else { write!(f, ", {features}") }
    }
}
