//! Errors of this crate: each says what failed, on what and why. Advice refers to this library; a
//! program adds how its own users can follow it.

use std::io;
use std::path::{Path, PathBuf};

use packfs_blocks::io::SourceChanged;
use packfs_blocks::{Progress, encode, system};

use crate::Warning;
use crate::tree::path_of;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Action for an entry that cannot be read or created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The whole operation fails.
    #[default]
    Stop,
    /// The entry is left out and listed. A full disk is always fatal, and so is a process that may open no more files.
    Skip,
}

impl OnError {
    /// Returns true if the entry that failed is left out. An error that the other entries would meet as well ends the
    /// operation, instead of leaving out most of a tree: a process without memory or without files to open, a full or
    /// read-only disk, and the wish to end.
    pub fn skips(self, error: &Error) -> bool {
        use io::ErrorKind::{OutOfMemory, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        // These will not go away with the next entry.
        let meets_all_entries = match error {
            Error::Cancelled => true,
            Error::Io { source, .. } => {
                system::is_file_limit(source)
                    || matches!(source.kind(), OutOfMemory | QuotaExceeded | ReadOnlyFilesystem | StorageFull)
            }
            _ => false,
        };
        self == OnError::Skip && !meets_all_entries
    }
}

/// Error of an image, a source or a sink.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("{}: {what}: {source}", crate::name::display(path))]
    Io {
        /// The operation: "cannot open", "cannot read", ...
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The bytes of an image or archive break its format.
    #[error("{structure} at byte {offset}: {why}")]
    Corrupt {
        /// Name of the structure, as the format's documentation calls it.
        structure: &'static str,
        /// Offset in the image or archive at which it begins.
        offset: u64,
        /// Description of the damage.
        why: String,
    },
    /// A file is no image of a format known here.
    #[error("{}: neither a SquashFS nor an EROFS image", crate::name::display(path))]
    NoImage {
        /// The file.
        path: PathBuf,
    },
    /// The data or metadata of an entry of an image is damaged.
    #[error("{}: {source}", crate::name::display(path))]
    Entry {
        /// The path of the entry.
        path: PathBuf,
        /// Description of the damage.
        source: Box<Error>,
    },
    /// An image contradicts itself about a path, or its data cannot be read.
    #[error("{}: {why}", crate::name::display(path))]
    Damaged {
        /// The path in the image.
        path: PathBuf,
        /// Description of the damage.
        why: String,
    },
    /// A shard of a build is missing or damaged, and has to be packed again.
    #[error("{source}")]
    Shard {
        /// Number of the shard in its image.
        shard: u32,
        /// Description of the damage.
        source: Box<Error>,
    },
    /// An entry of the source does not fit in the format.
    #[error("{}: {why}", crate::name::display(path))]
    Limit {
        /// The entry.
        path: PathBuf,
        /// The limit and what exceeds it.
        why: ExceededLimit,
    },
    /// More items than the format, or this library, can number.
    #[error("more than {max} {what}")]
    TooMany {
        /// Kind of item, in the plural.
        what: &'static str,
        /// The largest possible number.
        max: u64,
    },
    /// More bytes were asked for at once than one call may hold in memory.
    #[error(
        "{}: {needed} bytes in memory, more than the limit of {limit}; read the file in parts, or raise the limit",
        crate::name::display(path)
    )]
    ReadLimit {
        /// The file, or the first of several, with which the limit is exceeded.
        path: PathBuf,
        /// Number of bytes that the call needs, up to the end of that file.
        needed: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file changed between two accesses, or could not be read as listed.
    #[error("{}: {why}", crate::name::display(path))]
    Changed {
        /// The file.
        path: PathBuf,
        /// Description of the change.
        why: String,
    },
    /// A warning, if warnings are treated as errors.
    #[error("{0}; nothing was written, because warnings are treated as errors")]
    Refused(Box<Warning>),
    /// The target, or a file to be extracted, already exists and must not be replaced.
    #[error("{} exists", crate::name::display(path))]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// An older image is to be reused, and there is no index of it.
    #[error("{}: no such index; only images built with an index can be reused", crate::name::display(path))]
    NoIndex {
        /// The index.
        path: PathBuf,
    },
    /// A path that the image or tree does not have.
    #[error("{}: not found in the image", crate::name::display(path))]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// A regular expression that matches no path of the image.
    #[error("the regular expression `{regex}` matches nothing in the image")]
    NoMatch {
        /// The expression.
        regex: String,
    },
    /// The file's type does not support the requested operation.
    #[error("{}: not a {expected}", crate::name::display(path))]
    WrongType {
        /// The file.
        path: PathBuf,
        /// Required type: "directory", "regular file".
        expected: &'static str,
    },
    /// Symbolic links form a loop.
    #[error("{}: symbolic links form a loop", crate::name::display(path))]
    LinkLoop {
        /// The path that was looked up.
        path: PathBuf,
    },
    /// A name that is not valid in a directory: empty, `.`, `..`, or with `/` or NUL.
    #[error("`{}` cannot be a file name", name.escape_ascii())]
    BadName {
        /// The name.
        name: Vec<u8>,
    },
    /// A name that the directory of a tree already has.
    #[error("`{}` already exists", name.escape_ascii())]
    Duplicate {
        /// The name.
        name: Vec<u8>,
    },
    /// A syntax error in a pack list or sort file.
    #[error("{}:{line}: {why}", crate::name::display(path))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: u32,
        /// Description of the error.
        why: String,
    },
    /// An option with an invalid value, by itself or in combination with others.
    #[error("{option}{}{value}: {why}", if value.is_empty() { "" } else { " " })]
    InvalidOption {
        /// Name of the option.
        option: &'static str,
        /// Its value; empty for a switch, which is only on or off.
        value: String,
        /// The reason, and the accepted values.
        why: String,
    },
    /// A malformed pattern, or a path used as one.
    #[error("the pattern `{pattern}` {why}")]
    BadPattern {
        /// The pattern; empty if the error concerns all of them together.
        pattern: String,
        /// Description of the error.
        why: String,
    },
    /// A valid image uses a feature that this build does not support.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A call that violates its contract: a key, inode number or offset that this library did not return.
    #[error("{0}")]
    Misuse(String),
    /// The operation was stopped with [`Progress::cancel`].
    #[error("cancelled")]
    Cancelled,
    /// A compressed block did not decode to its original bytes; the image was not finished.
    #[error(
        "{codec}: a compressed block did not decode to its original bytes: faulty memory, processor or library; nothing was kept"
    )]
    Unproven {
        /// Name of the codec.
        codec: &'static str,
    },
    /// A codec failed.
    #[error(transparent)]
    Codec(#[from] packfs_codec::Error),
}

/// Limit of a format that an entry exceeds. Limits that a caller can act on have variants of their own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExceededLimit {
    /// Owners and groups are stored once each, in a table of limited size.
    #[error("more than {max} different owners and groups")]
    Owners {
        /// Size of the table.
        max: usize,
    },
    /// A time outside the range of the format.
    #[error("time {secs} is outside {range}, the range of {format}")]
    Time {
        /// Seconds since 1970.
        secs: i64,
        /// Name of the format.
        format: &'static str,
        /// Years in range: "1970 to 2106".
        range: &'static str,
    },
    /// An extended attribute of a class that the format does not support.
    #[error("{format} supports only {classes}, not `{}`", name.escape_ascii())]
    XattrClass {
        /// Name of the format.
        format: &'static str,
        /// The supported classes, as text.
        classes: &'static str,
        /// Full name of the attribute.
        name: Vec<u8>,
    },
    /// Any other limit: its text names the limit and the value that exceeds it.
    #[error("{0}")]
    Other(String),
}

/// Wraps an error for interfaces that use the system's errors, such as [`Read`](io::Read).
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        io::Error::new(kind, error)
    }
}

impl From<String> for ExceededLimit {
    fn from(why: String) -> Self {
        ExceededLimit::Other(why)
    }
}

impl From<&str> for ExceededLimit {
    fn from(why: &str) -> Self {
        ExceededLimit::Other(why.to_owned())
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
    /// Fails with [`Error::Cancelled`] if the operation was cancelled.
    pub fn unless_cancelled(progress: &Progress) -> Result<()> {
        if progress.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Shorthand for [`Error::Io`], for `map_err`; makes an [`Error::Changed`] of a [`SourceChanged`].
    pub fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
        let path = path.as_ref().to_owned();
        move |source| {
            // A source that changed shows as an error of the system on the way here.
            if SourceChanged::is_cause_of(&source) {
                return Error::Changed { path, why: source.to_string() };
            }
            Error::Io { what, path, source }
        }
    }

    /// Shorthand for [`Error::Io`], for calls that return a bare error number.
    pub fn sys(what: &'static str, path: impl AsRef<Path>, error: impl Into<io::Error>) -> Error {
        Error::Io { what, path: path.as_ref().to_owned(), source: error.into() }
    }

    /// Shorthand for [`Error::Corrupt`].
    pub fn corrupt(structure: &'static str, offset: u64, why: impl Into<String>) -> Error {
        Error::Corrupt { structure, offset, why: why.into() }
    }

    /// Shorthand for [`Error::InvalidOption`].
    pub fn option(option: &'static str, value: impl ToString, why: impl Into<String>) -> Error {
        Error::InvalidOption { option, value: value.to_string(), why: why.into() }
    }

    /// Shorthand for [`Error::InvalidOption`] of a switch.
    pub fn switch(option: &'static str, why: impl Into<String>) -> Error {
        Error::option(option, "", why)
    }

    /// Shorthand for [`Error::BadPattern`].
    pub fn pattern(pattern: impl ToString, why: impl Into<String>) -> Error {
        Error::BadPattern { pattern: pattern.to_string(), why: why.into() }
    }

    /// Shorthand for [`Error::Limit`].
    pub fn limit(path: impl AsRef<Path>, why: impl Into<ExceededLimit>) -> Error {
        Error::Limit { path: path.as_ref().to_owned(), why: why.into() }
    }

    /// Adds the path of the entry to an error about damage, which only says where in the image it is.
    #[must_use]
    pub fn in_entry(self, path: &[u8]) -> Error {
        match self {
            Error::Corrupt { .. } if !path.is_empty() => Error::Entry { path: path_of(path), source: Box::new(self) },
            other => other,
        }
    }

    /// Returns the kind of the error, for programs that act on few kinds: damage is
    /// [`InvalidData`](io::ErrorKind::InvalidData), a path or match that does not exist
    /// [`NotFound`](io::ErrorKind::NotFound), a wrong argument [`InvalidInput`](io::ErrorKind::InvalidInput). Errors of
    /// the system keep their kind. An error without a kind of its own is [`Other`](io::ErrorKind::Other): match on its variant.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Io { source, .. } => source.kind(),
            Error::Shard { source, .. } | Error::Entry { source, .. } => source.kind(),
            Error::ReadLimit { .. } | Error::Codec(packfs_codec::Error::NoMemory { .. }) => io::ErrorKind::OutOfMemory,
            Error::Corrupt { .. } | Error::NoImage { .. } | Error::Damaged { .. } | Error::Codec(_) => {
                io::ErrorKind::InvalidData
            }
            Error::NotFound { .. } | Error::NoMatch { .. } => io::ErrorKind::NotFound,
            Error::Exists { .. } => io::ErrorKind::AlreadyExists,
            Error::Unsupported(_) => io::ErrorKind::Unsupported,
            Error::InvalidOption { .. }
            | Error::BadPattern { .. }
            | Error::BadName { .. }
            | Error::Syntax { .. }
            | Error::Misuse(_) => io::ErrorKind::InvalidInput,
            // A kind of its own would promise that programs can act on it.
            _ => io::ErrorKind::Other,
        }
    }

    /// Returns the file or entry that the error concerns, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::NoImage { path }
            | Error::Damaged { path, .. }
            | Error::Entry { path, .. }
            | Error::Limit { path, .. }
            | Error::ReadLimit { path, .. }
            | Error::Changed { path, .. }
            | Error::Exists { path }
            | Error::NoIndex { path }
            | Error::NotFound { path }
            | Error::WrongType { path, .. }
            | Error::LinkLoop { path }
            | Error::Syntax { path, .. } => Some(path),
            Error::Shard { source, .. } => source.path(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn what_all_entries_would_meet_is_never_skipped() {
        let failed = |errno: Errno| Error::io("cannot open", "a")(errno.into());
        for error in [failed(Errno::MFILE), failed(Errno::NOMEM), failed(Errno::NOSPC), Error::Cancelled] {
            assert!(!OnError::Skip.skips(&error), "{error}");
        }
        for error in [failed(Errno::ACCESS), failed(Errno::IO), Error::NotFound { path: "a".into() }] {
            assert!(OnError::Skip.skips(&error) && !OnError::Stop.skips(&error), "{error}");
        }
    }
}
