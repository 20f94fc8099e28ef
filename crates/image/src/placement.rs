//! On-disk positions of the data of single inodes.

use std::ops::Range;

use crate::Result;
use crate::image::Nid;

/// A piece of an inode's data, and where the image stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlacedPiece {
    /// Offset in the file.
    pub offset: u64,
    /// Length in the file.
    pub len: u64,
    /// The stored bytes that it is decoded from; `None` for zeros that are not stored.
    pub stored: Option<StoredLocation>,
    /// Position among the decoded bytes that several files share, if it is there.
    pub fragment: Option<FragmentPosition>,
}

/// Stored bytes of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLocation {
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
pub struct FragmentPosition {
    /// Index of the fragment block; `None` for the packed inode, of which an image has only one.
    pub index: Option<u32>,
    /// Offset in its decoded bytes.
    pub offset: u64,
}

/// Stored bytes, and the plain bytes that a user has in them.
#[derive(Debug, Clone)]
pub(crate) struct StoredRange {
    /// Position in the image.
    pub(crate) stored: Range<u64>,
    /// Position in the decoded bytes.
    pub(crate) plain: Range<u64>,
    /// True if it is in a fragment block or the packed inode.
    pub(crate) fragment: bool,
}

impl StoredRange {
    /// Makes a piece of metadata, which has one user.
    pub(crate) fn metadata(stored: Range<u64>) -> StoredRange {
        StoredRange { plain: 0..stored.end.saturating_sub(stored.start), stored, fragment: false }
    }
}

/// A reader that knows where an image stores what.
pub(crate) trait OccupiedSpace {
    /// Returns the length of the image and of its additional devices.
    fn len(&self) -> u64;

    /// Calls `visit` for each piece of a regular file.
    fn file(&self, nid: Nid, visit: &mut dyn FnMut(StoredRange)) -> Result<()>;

    /// Calls `visit` for the metadata of an inode, unless it lies in a table.
    fn inode(&self, nid: Nid, visit: &mut dyn FnMut(&'static str, StoredRange)) -> Result<()>;

    /// Calls `visit` for the metadata of the image.
    fn tables(&self, visit: &mut dyn FnMut(&'static str, StoredRange)) -> Result<()>;
}

#[cfg(test)]
mod tests;
