//! Errors: what failed, on what, and what to do. Only the caller knows the names of files and of options.

use std::io;

use packfs_blocks::units::Size;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure to seal an image or to read a seal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of an input cannot be read.
    #[error("{what}: {source}")]
    Io {
        /// Operation, as in `cannot read the image`.
        what: &'static str,
        /// Reason.
        source: io::Error,
    },
    /// Bytes of the output cannot be written.
    #[error("cannot write {what}: {source}")]
    Write {
        /// Name of the bytes, as in `the hash tree`.
        what: &'static str,
        /// Reason.
        source: io::Error,
    },
    /// A value that the format does not have.
    #[error("{what} {value} is not possible: {why}")]
    InvalidOption {
        /// Name of the option, as in `block size`.
        what: &'static str,
        /// The value.
        value: String,
        /// Reason.
        why: &'static str,
    },
    /// The image has bytes that no block would cover, or is empty.
    #[error(
        "the image has {len} bytes, which is not a positive multiple of the data block size, {}; append zeros to it",
        Size((*block_size).into())
    )]
    Unaligned {
        /// Length of the image in bytes.
        len: u64,
        /// Data block size in bytes.
        block_size: u32,
    },
    /// A superblock that no kernel would accept.
    #[error("the verity superblock is wrong: {0}")]
    BadSuperblock(&'static str),
    /// Text that is no root hash, no UUID or no other value in hexadecimal digits.
    #[error("{what}: {why}")]
    BadText {
        /// What the text stands for.
        what: &'static str,
        /// Reason.
        why: &'static str,
    },
    /// A key, a certificate or a signature that cannot be used.
    #[error(transparent)]
    Signature(#[from] crate::signature::SignatureError),
    /// A key of minisign that cannot be used.
    #[error(transparent)]
    Minisign(#[from] crate::minisign::MinisignError),
    /// An image from which no bundle of RAUC can be made.
    #[error(transparent)]
    Bundle(#[from] crate::rauc::BundleError),
    /// An image from which no SIF file can be made.
    #[error(transparent)]
    Sif(#[from] crate::sif::SifError),
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
}
