//! Errors of measurements.

use packfs_image::name::display;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a measurement, of its data or of its results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request that is not understood or cannot be met; says what would be accepted.
    #[error("{0}")]
    Usage(String),
    /// A file or directory could not be read or written.
    #[error("{path}: {source}", path = display(.path))]
    Io {
        /// Which.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file of results is not one, or not of this version.
    #[error("{path}: line {line}: {why}", path = display(.path))]
    Results {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The reason.
        why: String,
    },
    /// A program that was to be measured, or to help, did not do its work.
    #[error("{program}: {why}")]
    Program {
        /// Which.
        program: String,
        /// Its exit status and last output.
        why: String,
    },
    /// The run was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// An image could not be built or read.
    #[error(transparent)]
    Image(#[from] packfs_image::Error),
    /// A codec failed.
    #[error(transparent)]
    Codec(#[from] packfs_codec::Error),
    /// A block did not come back as it went in.
    #[error("{0}: a block did not come back as it went in: a faulty codec, memory or processor")]
    Damage(String),
}

impl Error {
    /// [`Error::Io`] in short.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        |source| Error::Io { path, source }
    }
}
