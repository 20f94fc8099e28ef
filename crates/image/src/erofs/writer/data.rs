//! File data: clusters in the image, and what an inode says of them.

use packfs_blocks::Progress;

use super::Counts;
use crate::Error;
use crate::erofs::format::Layout;

/// What the inode of a regular file carries to lead to its data. Made when all data is down; the metadata
/// zone follows the data.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Whole blocks one behind the other from `start` on ([`None`]: a hole), and the bytes after the last
    /// whole block, which follow the inode and lie within one block.
    Plain { start: Option<u64>, tail: Box<[u8]> },
    /// Chunks of `1 << bits` blocks each at a block or nowhere.
    Chunks { bits: u8, blocks: Vec<Option<u64>> },
    /// Compressed, with an index.
    Compressed(super::index::Index),
}

impl Body {
    /// The layout the inode declares.
    pub(crate) fn layout(&self) -> Layout {
        match self {
            Body::Plain { tail, .. } if tail.is_empty() => Layout::Plain,
            Body::Plain { .. } => Layout::Inline,
            Body::Chunks { .. } => Layout::Chunks,
            Body::Compressed(index) => index.layout(),
        }
    }
}

/// A file whose data is down.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) size: u64,
    pub(crate) body: Body,
}

/// What remains when all data is down.
#[derive(Debug)]
pub(crate) struct DataDone {
    /// The first block behind the data.
    pub(crate) end: u64,
    /// Files by the numbers the tree has in `Data::Stored`.
    pub(crate) files: Vec<Stored>,
    /// The packed inode's data, if any fragment lies in it.
    pub(crate) packed: Option<Stored>,
    pub(crate) failed: Vec<(u32, Error)>,
    pub(crate) counts: Counts,
}

pub(crate) fn unused(_: &Progress) {}
