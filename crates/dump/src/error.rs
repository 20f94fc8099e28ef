//! Errors of this crate: each says what failed, on what and why. Advice refers to this library; a
//! program adds how its own users can follow it.

use std::io;
use std::path::{Path, PathBuf};

use packfs_blocks::name::display;
use packfs_blocks::units::{ByteSpan, Size};
use packfs_blocks::{Progress, encode};

use crate::lost::LostRange;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of splitting, joining or reading a dump.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("{}: {what}: {source}", display(path))]
    Io {
        /// The operation: "cannot open", "cannot read", ...
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The bytes of a part or of a crash dump break its format.
    #[error("{}: {structure} at byte {offset}: {why}", display(path))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Name of the structure, as the format's documentation calls it.
        structure: &'static str,
        /// Offset in the file at which it begins.
        offset: u64,
        /// Description of the damage.
        why: String,
    },
    /// Bytes of the dump that no part contains, and that parity cannot restore.
    #[error("the dump lacks {}: {why}", ByteSpan(*start..*end))]
    Lost {
        /// First byte that is lost.
        start: u64,
        /// End of the lost range.
        end: u64,
        /// The part that lacks them.
        why: String,
    },
    /// Some of the dump cannot be read, so it is not written.
    #[error("{}", incomplete(lost, *open_end))]
    Incomplete {
        /// Lost ranges, in order.
        lost: Vec<LostRange>,
        /// Reason why the dump may be longer than known.
        open_end: Option<&'static str>,
    },
    /// The input changed between two accesses.
    #[error("{}: {why}", display(path))]
    Changed {
        /// The input.
        path: PathBuf,
        /// Description of the change.
        why: String,
    },
    /// All parts being written have failed.
    #[error("no part is left to write to: {why}; data already in the parts stays readable")]
    NoPartLeft {
        /// Each part with its error.
        why: String,
    },
    /// A part, or the target of a join, already exists and must not be replaced.
    #[error("{}: {}", display(path), if *device { "it is a device, and all data on it would be lost" } else { "it exists" })]
    Exists {
        /// The file.
        path: PathBuf,
        /// True if it is a device, false if it is a file.
        device: bool,
    },
    /// An option with an invalid value, by itself or in combination with others.
    #[error("{option} {value}: {why}")]
    InvalidOption {
        /// Name of the option.
        option: &'static str,
        /// Its value.
        value: String,
        /// The reason, and the accepted values.
        why: String,
    },
    /// A file that is not suitable for its role: as input, part, or file of a crash dump.
    #[error("{}: {why}", display(path))]
    Unsuitable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The existing parts do not match the requested split.
    #[error("cannot resume: {0}")]
    NotResumable(String),
    /// The target of a join is too small for the dump.
    #[error("{}: too small: it has {}, but the dump has {}", display(path), Size(*len), Size(*needed))]
    TooSmall {
        /// The target.
        path: PathBuf,
        /// Its size in bytes.
        len: u64,
        /// The required size in bytes.
        needed: u64,
    },
    /// A valid file uses a feature that this build does not support.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A compressed chunk did not decode to its original bytes.
    #[error("{codec}: a compressed chunk did not decode to its original bytes: faulty memory, processor or library")]
    Unproven {
        /// Name of the codec.
        codec: &'static str,
    },
    /// The operation was stopped with [`Progress::cancel`].
    #[error("cancelled")]
    Cancelled,
    /// A codec failed.
    #[error(transparent)]
    Codec(#[from] packfs_codec::Error),
}

fn incomplete(lost: &[LostRange], open_end: Option<&str>) -> String {
    let bytes: u64 = lost.iter().map(|lost| lost.end - lost.start).sum();
    let mut text = match open_end {
        Some(why) => format!("the end of the dump is missing: {why}"),
        None => String::new(),
    };
    if bytes > 0 {
        let also = if text.is_empty() { "" } else { ", and " };
        text.push_str(&format!("{also}{} of the dump are lost", Size(bytes)));
    }
    for lost in lost {
        text.push_str(&format!("\n  {lost}"));
    }
    text
}

impl From<encode::Error> for Error {
    fn from(error: encode::Error) -> Self {
        match error {
            encode::Error::Unproven { codec } => Error::Unproven { codec },
            encode::Error::Codec(error) => Error::Codec(error),
        }
    }
}

impl Error {
    /// Shorthand for [`Error::Io`], for `map_err`.
    pub fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
        let path = path.as_ref().to_owned();
        move |source| Error::Io { what, path, source }
    }

    /// Fails with [`Error::Cancelled`] if the operation was cancelled.
    pub(crate) fn unless_cancelled(progress: &Progress) -> Result<()> {
        if progress.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Shorthand for [`Error::InvalidOption`].
    pub(crate) fn option(option: &'static str, value: impl ToString, why: impl Into<String>) -> Error {
        Error::InvalidOption { option, value: value.to_string(), why: why.into() }
    }

    /// Shorthand for [`Error::Unsuitable`].
    pub(crate) fn unsuitable(path: impl AsRef<Path>, why: impl Into<String>) -> Error {
        Error::Unsuitable { path: path.as_ref().to_owned(), why: why.into() }
    }

    /// Shorthand for [`Error::Corrupt`].
    pub fn corrupt(path: impl AsRef<Path>, structure: &'static str, offset: u64, why: impl Into<String>) -> Error {
        Error::Corrupt { path: path.as_ref().to_owned(), structure, offset, why: why.into() }
    }
}
