//! Errors: what failed, on what, and what to do. Only the caller knows the names of options.

use std::io;
use std::path::{Path, PathBuf};

use packfs_image::name::display;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure to read a container image or to write one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("{}: {what}: {source}", display(path))]
    Io {
        /// Operation, as in `cannot read`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// A blob or document that contradicts its digest, its format or another document.
    #[error("{name}: {why}")]
    Damaged {
        /// The blob or document.
        name: String,
        /// Description of the damage.
        why: String,
    },
    /// Something that is no container image, or one with what packfs does not convert.
    #[error("{name}: {why}")]
    Unsupported {
        /// The source, document or layer.
        name: String,
        /// Reason, and what to do.
        why: String,
    },
    /// No image of the source has been asked for.
    #[error("{}: no image is {wanted}; it has {available}", display(source_name))]
    NoMatch {
        /// The source.
        source_name: PathBuf,
        /// Name or platform.
        wanted: String,
        /// Names or platforms of the source.
        available: String,
    },
    /// The layout has an image of this name.
    #[error("{}: it already has an image named {name}", display(layout))]
    Exists {
        /// The layout.
        layout: PathBuf,
        /// Name of the image.
        name: String,
    },
    /// A registry cannot be read or written.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Remote(#[from] packfs_remote::Error),
    /// A layer cannot be built.
    #[error(transparent)]
    Image(#[from] packfs_image::Error),
}

impl Error {
    /// Returns a function that makes an error of `path` from its reason.
    pub(crate) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Error::Io { what, path: path.as_ref().to_owned(), source }
    }

    /// Returns the same error as one of an image. `layer` is what was read.
    pub(crate) fn into_image_error(self, layer: &Path) -> packfs_image::Error {
        match self {
            Error::Image(error) => error,
            Error::Io { what, path, source } => packfs_image::Error::Io { what, path, source },
            other => packfs_image::Error::Damaged { path: layer.to_owned(), why: other.to_string() },
        }
    }

    pub(crate) fn damaged(name: impl ToString, why: impl ToString) -> Self {
        Error::Damaged { name: name.to_string(), why: why.to_string() }
    }

    pub(crate) fn unsupported(name: impl ToString, why: impl ToString) -> Self {
        Error::Unsupported { name: name.to_string(), why: why.to_string() }
    }
}
