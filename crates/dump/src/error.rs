//! The errors of this crate: each says what failed, on what and why. What to do about it is said in terms of this
//! library; a program adds how its user asks for that.

use std::io;
use std::path::{Path, PathBuf};

use packfs_blocks::name::display;
use packfs_blocks::{Progress, encode};

use crate::lost::Lost;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a dump could not be split, joined or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("{}: {what}: {source}", display(path))]
    Io {
        /// What was tried: "cannot open", "cannot read", ...
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The bytes of a part or of a crash dump break its format.
    #[error("{}: {structure} at byte {offset}: {why}", display(path))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Name of the structure, as the format's documentation calls it.
        structure: &'static str,
        /// Where it begins in the file.
        offset: u64,
        /// What is wrong with it.
        why: String,
    },
    /// Bytes of the dump that no part has, and that parity cannot bring back.
    #[error("bytes {start} to {end} of the dump are lost: {why}")]
    Lost {
        /// First byte that is lost.
        start: u64,
        /// The byte after the last.
        end: u64,
        /// Which part lacks them.
        why: String,
    },
    /// Some of the dump cannot be had, so that it is not written.
    #[error("{}", incomplete(lost, *open_end))]
    Incomplete {
        /// What is lost, in order.
        lost: Vec<Lost>,
        /// Why there may be more behind what is known of the dump.
        open_end: Option<&'static str>,
    },
    /// The input was not the same from one look to the next.
    #[error("{}: {why}", display(path))]
    Changed {
        /// The input.
        path: PathBuf,
        /// What changed.
        why: String,
    },
    /// All parts being written have failed.
    #[error("no part is left to write to: {why}; what the parts hold stays readable")]
    NoPartLeft {
        /// Each part with what happened to it.
        why: String,
    },
    /// A part, or the target of a join, is there already and is not to be replaced.
    #[error("{}: {}", display(path), if *device { "it is a device, and all on it would be lost" } else { "it exists" })]
    Exists {
        /// The file.
        path: PathBuf,
        /// True if it is a device, false if it is a file.
        device: bool,
    },
    /// An option has a value that cannot be, alone or beside the others.
    #[error("{option} {value}: {why}")]
    InvalidOption {
        /// The option, in words.
        option: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it, and what is possible.
        why: String,
    },
    /// A file that cannot be what it was given as: the input, a part, or a file of a crash dump.
    #[error("{}: {why}", display(path))]
    Unsuitable {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// Parts that were begun do not go with what is asked for now.
    #[error("cannot go on: {0}")]
    NotResumable(String),
    /// The target of a join cannot hold the dump.
    #[error("{}: {len} bytes, but the dump has {needed}: it does not fit", display(path))]
    TooSmall {
        /// The target.
        path: PathBuf,
        /// Bytes that it has.
        len: u64,
        /// Bytes that are needed.
        needed: u64,
    },
    /// A valid file uses something this build does not read.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A chunk did not come back from its codec as it went in.
    #[error("{codec}: a chunk did not decode to what was encoded: faulty memory, processor or library")]
    Unproven {
        /// Name of the codec.
        codec: &'static str,
    },
    /// The work was stopped with [`Progress::cancel`].
    #[error("cancelled")]
    Cancelled,
    /// A codec failed.
    #[error(transparent)]
    Codec(#[from] packfs_codec::Error),
}

fn incomplete(lost: &[Lost], open_end: Option<&str>) -> String {
    let bytes: u64 = lost.iter().map(|lost| lost.end - lost.start).sum();
    let mut text = match open_end {
        Some(why) => format!("the dump has no end: {why}"),
        None => String::new(),
    };
    if bytes > 0 {
        let also = if text.is_empty() { "" } else { ", and " };
        text.push_str(&format!("{also}{bytes} bytes of the dump are lost"));
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
    /// [`Error::Io`] in short, for `map_err`.
    pub fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
        let path = path.as_ref().to_owned();
        move |source| Error::Io { what, path, source }
    }

    /// [`Error::Cancelled`] if the work is to stop.
    pub(crate) fn unless_cancelled(progress: &Progress) -> Result<()> {
        if progress.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// [`Error::InvalidOption`] in short.
    pub(crate) fn option(option: &'static str, value: impl ToString, why: impl Into<String>) -> Error {
        Error::InvalidOption { option, value: value.to_string(), why: why.into() }
    }

    /// [`Error::Unsuitable`] in short.
    pub(crate) fn unsuitable(path: impl AsRef<Path>, why: impl Into<String>) -> Error {
        Error::Unsuitable { path: path.as_ref().to_owned(), why: why.into() }
    }

    /// [`Error::Corrupt`] in short.
    pub fn corrupt(path: impl AsRef<Path>, structure: &'static str, offset: u64, why: impl Into<String>) -> Error {
        Error::Corrupt { path: path.as_ref().to_owned(), structure, offset, why: why.into() }
    }
}
