//! Errors of measurements.

use packfs_image::name::display;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a measurement, its data or its results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request that is invalid or cannot be met. The text says what is accepted.
    #[error("{0}")]
    Usage(String),
    /// A file or directory cannot be read or written.
    #[error("{path}: {source}", path = display(.path))]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file is not a results file, or has an unsupported version.
    #[error("{path}: line {line}: {why}", path = display(.path))]
    Results {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The reason.
        why: String,
    },
    /// A program failed.
    #[error("{program}: {why}")]
    Program {
        /// Name of the program.
        program: String,
        /// Exit status and last output.
        why: String,
    },
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// An image cannot be built or read.
    #[error(transparent)]
    Image(#[from] packfs_image::Error),
    /// A codec failed.
    #[error(transparent)]
    Codec(#[from] packfs_codec::Error),
    /// A decoded block differs from its source.
    #[error("{0}: a decoded block differs from its source: faulty codec, memory or processor")]
    Damage(String),
}

impl Error {
    /// Returns a closure that makes an [`Error::Io`] for `path`.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        |source| Error::Io { path, source }
    }
}
