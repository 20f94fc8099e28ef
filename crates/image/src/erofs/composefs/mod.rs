//! Images of composefs: EROFS with metadata alone, whose files overlayfs finds in a directory of objects.
//!
//! A file of more than [`INLINE_MAX`] bytes is a hole with two attributes of overlayfs: `trusted.overlay.redirect` names
//! the object that has its bytes, `trusted.overlay.metacopy` the fs-verity digest that the object must have. An image is
//! known by its own digest, so all bytes are prescribed: those of version 1, as the
//! crate composefs writes them. docs/formats/composefs.md describes them.

mod attributes;
mod emit;
mod order;
mod shape;

use std::collections::HashMap;
use std::io::Write;

pub use self::attributes::{INLINE_MAX, ObjectDigest};
use self::emit::ImageEmitter;
use crate::limits::{self, FormatLimits};
use crate::tree::{Ino, Tree};
use crate::{Error, Result};

/// Size of a block in bytes.
const BLOCK: u64 = 4096;

/// Location of the bytes of a regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    /// In the image: at most [`INLINE_MAX`] bytes.
    Inline(Box<[u8]>),
    /// In the object with this digest.
    Object(ObjectDigest),
}

impl FileContent {
    /// Returns true if it can be that of a file of `size` bytes.
    fn is_of(&self, size: u64) -> bool {
        match self {
            FileContent::Inline(bytes) => bytes.len() as u64 == size && bytes.len() <= INLINE_MAX,
            FileContent::Object(_) => true,
        }
    }
}

/// Writes the image of `tree` to `out`. `files` has the content of each regular file that is not empty. `name` is that of
/// the image, for errors. Returns the length of the image and the number of its inodes.
///
/// # Errors
/// [`Error::Limit`] for an entry that the format cannot hold; [`Error::Misuse`] if `files` does not have a file;
/// [`Error::Io`].
pub fn write(
    tree: &mut Tree,
    files: &HashMap<Ino, FileContent>,
    name: &std::path::Path,
    out: &mut dyn Write,
) -> Result<WrittenImage> {
    limits::check(tree, &LIMITS)?;
    ImageEmitter::new(tree, files)?.write(out).map_err(|error| match error {
        EmitError::Io(source) => Error::io("cannot write", name)(source),
        EmitError::Tree(error) => error,
    })
}

/// Measures of an image that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenImage {
    /// Length of the image in bytes.
    pub len: u64,
    /// Number of its inodes, those that hide the directories of objects included.
    pub inodes: u64,
}

/// The longest file: addresses of its chunks, which follow its inode, must fit in a block. There are 2^31 blocks of 4 KiB
/// in the largest chunk, and the rest of a block holds at least 1016 addresses.
const FILE_MAX: u64 = 1016 << (31 + 12);

const LIMITS: FormatLimits = FormatLimits {
    format: "composefs",
    file: FILE_MAX,
    times: None,
    owners: None,
    acls: true,
    xattr_value: u16::MAX as usize,
    xattr_values: usize::MAX,
};

/// Why an image was not written.
#[derive(Debug)]
enum EmitError {
    Io(std::io::Error),
    Tree(Error),
}

impl From<std::io::Error> for EmitError {
    fn from(error: std::io::Error) -> Self {
        EmitError::Io(error)
    }
}

impl From<Error> for EmitError {
    fn from(error: Error) -> Self {
        EmitError::Tree(error)
    }
}

#[cfg(test)]
mod tests;
