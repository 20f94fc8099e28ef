//! On-disk positions of the data of single inodes.

use std::ops::ControlFlow;

use crate::image::Nid;
use crate::{AnyImage, Result};

/// A piece of an inode's data, and where the image stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placed {
    /// Offset in the file.
    pub offset: u64,
    /// Length in the file.
    pub len: u64,
    /// The stored bytes that it is decoded from; `None` for zeros that are not stored.
    pub stored: Option<Stored>,
    /// Position among the decoded bytes that several files share, if it is there.
    pub fragment: Option<Fragment>,
}

/// Stored bytes of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// Space in which `position` counts.
    pub area: Area,
    /// Offset of the first byte.
    pub position: u64,
    /// Number of bytes.
    pub len: u64,
    /// Name of the codec; `None` for bytes that are stored as they are.
    pub codec: Option<&'static str>,
    /// True if the piece is only the beginning of the decoded bytes, which other pieces share (dedup in EROFS).
    pub partial: bool,
    /// True if the bytes follow the inode (tail packing).
    pub inline: bool,
}

/// Space of an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Area {
    /// The image.
    Image,
    /// The additional device of this number, counted from 1.
    Device(u16),
    /// The decoded data of the metabox (EROFS).
    Metabox,
}

/// Position in a fragment block (SquashFS) or in the packed inode (EROFS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fragment {
    /// Index of the fragment block; `None` for the packed inode, of which an image has only one.
    pub index: Option<u32>,
    /// Offset in its decoded bytes.
    pub offset: u64,
}

impl AnyImage {
    /// Calls `visit` for each piece of an inode's data, in order and without gaps, until it breaks. Adjacent holes are one
    /// piece. SquashFS stores the data of regular files only; EROFS also that of directories and symbolic links.
    ///
    /// Reads metadata, and no data.
    pub fn placement(&self, nid: Nid, visit: &mut dyn FnMut(Placed) -> ControlFlow<()>) -> Result<()> {
        match self {
            AnyImage::Squashfs(reader) => reader.placement(nid, visit),
            AnyImage::Erofs(reader) => reader.placement(nid, visit),
        }
    }
}

#[cfg(test)]
mod tests;
