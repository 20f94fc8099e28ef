//! Errors of mounting.

use std::io;
use std::path::{Path, PathBuf};

use packfs_image::name::display;

/// Result of mounting or unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why something could not be mounted, served or unmounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error("{}: {what}: {source}", display(path))]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The file or directory that it was about.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The system has no FUSE, or none that this user may use.
    #[error("{why}")]
    NoFuse {
        /// The missing part.
        why: String,
    },
    /// The path cannot be a mount point.
    #[error("{}: {why}", display(path))]
    Place {
        /// The mount point.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The mount of a program that has ended is still there.
    #[error("{}: a mount whose program has ended is still in place; unmount it first", display(path))]
    Stale {
        /// The mount point.
        path: PathBuf,
    },
    /// Somebody still uses the mount.
    #[error("{}: still in use", display(path))]
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// The image cannot be read.
    #[error(transparent)]
    Image(#[from] packfs_image::Error),
}

impl Error {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Error::Io { what, path: path.to_owned(), source }
    }

    pub(crate) fn place(path: &Path, why: impl Into<String>) -> Self {
        Error::Place { path: path.to_owned(), why: why.into() }
    }
}
