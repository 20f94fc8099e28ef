//! Errors: what failed, on what, and what to do. Only the caller knows the names of files and of options.

use std::io;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure to make a patch or to apply one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of an input cannot be read.
    #[error("{what}: {source}")]
    Io {
        /// Operation, as in `cannot read the old file`.
        what: &'static str,
        /// Reason.
        source: io::Error,
    },
    /// Bytes of the output cannot be written.
    #[error("cannot write {what}: {source}")]
    Write {
        /// Name of the bytes, as in `the new file`.
        what: &'static str,
        /// Reason.
        source: io::Error,
    },
    /// A damaged patch, or an image whose metadata cannot be read.
    #[error(transparent)]
    Image(#[from] packfs_image::Error),
    /// The file is not the one that the patch was made from.
    #[error("the patch is for another old file: {why}")]
    WrongOld {
        /// The difference, as in `it has 8192 bytes, this one 4096`.
        why: String,
    },
    /// This build compresses differently from the one that made the patch.
    #[error("this version of packfs compresses with {choice} otherwise than the one that made the patch; use that one")]
    OtherEncoder {
        /// Codec and options.
        choice: String,
    },
    /// The result has another digest than the patch names.
    #[error("{0}")]
    WrongResult(&'static str),
    /// Fetched bytes are not those of the file that an index describes.
    #[error(
        "the block at byte {offset} is not the one that the index describes: the file was replaced, or the index is that of \
         another file"
    )]
    OtherFile {
        /// Offset of the block in the new file.
        offset: u64,
    },
    /// The operation was cancelled through its [`Progress`](packfs_blocks::Progress).
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns a function that makes an error of `what` from its reason.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Error::Io { what, source }
    }

    /// As [`Error::io`], for an output.
    pub(crate) fn write(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Error::Write { what, source }
    }

    /// Makes the error of a damaged part of a patch.
    pub(crate) fn damaged(structure: &'static str, offset: u64, why: impl Into<String>) -> Self {
        Error::Image(packfs_tree::Error::corrupt(structure, offset, why))
    }
}

impl From<packfs_codec::Error> for Error {
    fn from(error: packfs_codec::Error) -> Self {
        Error::Image(error.into())
    }
}
