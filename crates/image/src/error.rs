//! The errors of this crate: each says what failed, on what and why. What to do about it is said in terms of this
//! library; a program adds how its user asks for that.

use std::io;
use std::path::{Path, PathBuf};

use packfs_blocks::{Progress, encode};

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
    #[error("{}: {what}: {source}", crate::name::display(path))]
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
    #[error("{}: {why}", crate::name::display(path))]
    Damaged {
        /// The path in the image.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// An entry of the source does not fit in the format.
    #[error("{}: {why}", crate::name::display(path))]
    Limit {
        /// The entry.
        path: PathBuf,
        /// The limit and what exceeds it.
        why: Excess,
    },
    /// There are more of something than the format, or this library, can number.
    #[error("more than {max} {what}")]
    TooMany {
        /// What is counted, in the plural.
        what: &'static str,
        /// The largest number that is possible.
        max: u64,
    },
    /// A file was not the same from one look to the next, or could not be read as announced.
    #[error("{}: {why}", crate::name::display(path))]
    Changed {
        /// The file.
        path: PathBuf,
        /// What changed.
        why: String,
    },
    /// What is a warning otherwise, where warnings are refused.
    #[error("{0}; nothing was made, because warnings are to be errors")]
    Refused(Box<Warning>),
    /// The target, or a file that an extraction would make, is there already and is not to be replaced.
    #[error("{} exists", crate::name::display(path))]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A path that the image or tree does not have.
    #[error("{}: not found in the image", crate::name::display(path))]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// A file of another type than what was asked of it needs.
    #[error("{}: not a {expected}", crate::name::display(path))]
    WrongType {
        /// The file.
        path: PathBuf,
        /// The type that it would need: "directory", "regular file".
        expected: &'static str,
    },
    /// Symbolic links lead from one to the other without end.
    #[error("{}: symbolic links go in circles", crate::name::display(path))]
    LinkLoop {
        /// The path that was looked up.
        path: PathBuf,
    },
    /// A name that a directory cannot hold: empty, `.`, `..`, or with `/` or NUL.
    #[error("`{}` cannot be a file name", name.escape_ascii())]
    BadName {
        /// The name.
        name: Vec<u8>,
    },
    /// A name that a directory of a tree has already.
    #[error("`{}` is there twice", name.escape_ascii())]
    Duplicate {
        /// The name.
        name: Vec<u8>,
    },
    /// A line of a pack list or sort file is wrong.
    #[error("{}:{line}: {why}", crate::name::display(path))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Which line, counted from 1.
        line: u32,
        /// What is wrong with it.
        why: String,
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
    /// A pattern, or a path that is taken for one, is malformed.
    #[error("the pattern `{pattern}` {why}")]
    BadPattern {
        /// The pattern; empty where it is all of them together.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// A valid image uses something this build does not read.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A call that its contract rules out: a key, inode number or offset that was not had from here.
    #[error("{0}")]
    Misuse(String),
    /// The work was stopped with [`Progress::cancel`].
    #[error("cancelled")]
    Cancelled,
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

/// Limit of a format that an entry exceeds. Those that a caller can do something about have kinds of their own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Excess {
    /// Owners and groups are stored once each, in a table of limited size.
    #[error("more than {max} different owners and groups")]
    Owners {
        /// The size of the table.
        max: usize,
    },
    /// A time that the format's fields cannot hold.
    #[error("time {secs} is outside {range}, all that {format} holds")]
    Time {
        /// Seconds since 1970.
        secs: i64,
        /// Name of the format.
        format: &'static str,
        /// The years it has: "1970 to 2106".
        range: &'static str,
    },
    /// An extended attribute of a class that the format does not have.
    #[error("{format} holds only {classes}, not `{}`", name.escape_ascii())]
    XattrClass {
        /// Name of the format.
        format: &'static str,
        /// The classes it has, in words.
        classes: &'static str,
        /// Full name of the attribute.
        name: Vec<u8>,
    },
    /// Any other limit; says which, and what exceeds it.
    #[error("{0}")]
    Other(String),
}

/// An error behind an interface that knows those of the system only, such as [`Read`](io::Read).
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Io { source, .. } => source.kind(),
            Error::Corrupt { .. } | Error::Damaged { .. } | Error::Codec(_) => io::ErrorKind::InvalidData,
            Error::NotFound { .. } => io::ErrorKind::NotFound,
            Error::Exists { .. } => io::ErrorKind::AlreadyExists,
            Error::Unsupported(_) => io::ErrorKind::Unsupported,
            Error::InvalidOption { .. } | Error::BadPattern { .. } | Error::Misuse(_) => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl From<String> for Excess {
    fn from(why: String) -> Self {
        Excess::Other(why)
    }
}

impl From<&str> for Excess {
    fn from(why: &str) -> Self {
        Excess::Other(why.to_owned())
    }
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
    /// [`Error::Cancelled`] if the work is to stop.
    pub(crate) fn unless_cancelled(progress: &Progress) -> Result<()> {
        if progress.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

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

    /// [`Error::InvalidOption`] in short.
    pub fn option(option: &'static str, value: impl ToString, why: impl Into<String>) -> Error {
        Error::InvalidOption { option, value: value.to_string(), why: why.into() }
    }

    /// [`Error::BadPattern`] in short.
    pub(crate) fn pattern(pattern: impl ToString, why: impl Into<String>) -> Error {
        Error::BadPattern { pattern: pattern.to_string(), why: why.into() }
    }

    /// [`Error::Limit`] in short.
    pub fn limit(path: impl AsRef<Path>, why: impl Into<Excess>) -> Error {
        Error::Limit { path: path.as_ref().to_owned(), why: why.into() }
    }

    /// The file or entry that the error is about, if it is about one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::Damaged { path, .. }
            | Error::Limit { path, .. }
            | Error::Changed { path, .. }
            | Error::Exists { path }
            | Error::NotFound { path }
            | Error::WrongType { path, .. }
            | Error::LinkLoop { path }
            | Error::Syntax { path, .. } => Some(path),
            _ => None,
        }
    }
}
