//! Reading images: by the kernel, which mounts them, and by programs.
//!
//! What the EROFS project measures: every file of a tree in order, some files and all files in an order made at
//! random, their data or their metadata only; and with fio one large file. All of it with caches dropped, on a mount
//! made for it. Programs read whole images, which lie in the page cache.
//!
//! The path: [`build::Tool`](crate::build::Tool)s make images of a source, or there are some; [`Image`] says what is in one; [`cells`] are its
//! readings, and [`Machine`] does them.

mod cells;
mod fio;
mod kernel;
mod machine;
mod mount;
mod programs;
mod protocol;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::subject::subject;
use crate::trial::Trial;

pub use cells::{Cell, File, Image, Order, Pattern, Readers, Tree, Work, cells};
pub use kernel::Config;
pub use machine::{Machine, try_mount};
pub use mount::Mount;
pub use programs::Program;
pub use protocol::SMALL;

/// The reader of what goes through the file system of the kernel.
pub const KERNEL: &str = "kernel";
/// The reader that measures one file, through the kernel too.
pub const FIO: &str = "fio";
/// The codec of what is not compressed.
pub const NONE: &str = "none";

/// What tells one reading from others.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Name of what the image was made of, or of the image where that is not known.
    pub source: String,
    /// Digest of the names and lengths of what is in it: by it, images of the same source are known.
    pub digest: String,
    /// Who made the image; nothing where that is not known.
    pub tool: String,
    /// `squashfs` or `erofs`.
    pub format: String,
    /// The codec as a user writes it.
    pub codec: String,
    /// Bytes of a block or cluster; 0 where nothing is compressed, or the image does not say.
    pub block: usize,
    /// What is on besides, joined by commas, or nothing.
    pub features: String,
    /// `kernel`, `fio`, or the program that reads.
    pub reader: String,
    /// What is read: `sequential data`, `full random metadata`, ...
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
            (codec, block) => write!(f, ", {codec} in blocks of {}", crate::report::size(*block))?,
        }
        if features.is_empty() { Ok(()) } else { write!(f, ", {features}") }
    }
}

subject!(Cell, Read, Key, Trial, |trial| trial.time.seconds());
