//! The errors of this crate: each says what, where and, where it can, what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::Warning;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What an entry that cannot be read or made means for all the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The whole piece of work fails.
    #[default]
    Stop,
    /// It is left out and listed. A full disk fails all the same.
    Skip,
}

/// Why an image, a source or a sink failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("{}: {what}: {source}", path.display())]
    Io {
        /// What was tried: "cannot open", "cannot read", ...
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The bytes of an image or archive break its format.
    #[error("{structure} at byte {offset}: {why}")]
    Corrupt {
        /// Name of the structure, as the format's documentation calls it.
        structure: &'static str,
        /// Where it begins in the image or archive.
        offset: u64,
        /// What is wrong with it.
        why: String,
    },
    /// What an image says of a path cannot be true, or cannot be had from it.
    #[error("{}: {why}", path.display())]
    Damaged {
        /// The path in the image.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something of the source does not fit in the format; names the limit.
    #[error("{}: {why}", path.display())]
    Limit {
        /// The entry.
        path: PathBuf,
        /// The limit and what exceeds it.
        why: String,
    },
    /// A file was not the same from one look to the next, or could not be read as announced.
    #[error("{}: {why}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What changed.
        why: String,
    },
    /// What is a warning otherwise, where warnings are refused.
    #[error("{0}; nothing was made, because warnings are to be errors")]
    Refused(Box<Warning>),
    /// A path, option or text given by the user is wrong.
    #[error("{0}")]
    Usage(String),
    /// A valid image uses something this build does not read.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A block did not come back from its codec as it went in; the image was not finished.
    #[error(
        "{codec}: a block did not decode to what was encoded: faulty memory, processor or library; nothing was kept"
    )]
    Unproven {
        /// Name of the codec.
        codec: &'static str,
    },
    /// A codec failed.
    #[error(transparent)]
    Codec(#[from] packfs_codec::Error),
}

impl Error {
    /// [`Error::Io`] in short, for `map_err`.
    pub fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
        let path = path.as_ref().to_owned();
        move |source| Error::Io { what, path, source }
    }

    /// [`Error::Io`] in short, for calls that answer with a bare error number.
    pub(crate) fn sys(what: &'static str, path: impl AsRef<Path>, errno: rustix::io::Errno) -> Error {
        Error::Io { what, path: path.as_ref().to_owned(), source: errno.into() }
    }

    /// [`Error::Corrupt`] in short.
    pub fn corrupt(structure: &'static str, offset: u64, why: impl Into<String>) -> Error {
        Error::Corrupt { structure, offset, why: why.into() }
    }
}
