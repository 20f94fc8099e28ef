//! Errors: which URL, which bytes of it, what went wrong and what helps. No message holds a query, a user or a token.

use std::fmt;
use std::io;
use std::ops::Range;
use std::time::Duration;

use packfs_blocks::io::SourceChanged;
use packfs_blocks::units::Size;

/// A failure to read a remote object.
#[derive(Debug, Clone)]
pub struct Error {
    url: String,
    range: Option<Range<u64>>,
    why: FailureReason,
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Reasons why a remote object cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FailureReason {
    /// The text is no URL that can be read.
    #[error("not a usable address: {0}")]
    Address(String),
    /// No connection, or none that lasted.
    #[error("cannot be read over the network: {last} ({}; check the address, the network and the proxy)", tried(*tries))]
    Unreachable {
        /// Number of attempts.
        tries: u32,
        /// Reason of the last failure.
        last: String,
    },
    /// A status that no repetition changes, or that did not go away.
    #[error("the server answered {status}{} ({})", status_name(*status), advice(*status, *tries))]
    Status {
        /// Status code of HTTP.
        status: u16,
        /// Number of attempts.
        tries: u32,
    },
    /// The server asks to wait longer than packfs waits.
    #[error(
        "the server answered {status}{} and asks to wait {}; run the command again after that",
        status_name(*status), duration(*wait)
    )]
    Busy {
        /// Status code of HTTP.
        status: u16,
        /// Time that it asks to wait.
        wait: Duration,
    },
    /// The whole object came where a part was requested.
    #[error(
        "the server ignores requests for ranges, and an object of more than {} is not read whole: download it first",
        Size(*max)
    )]
    NoRanges {
        /// Largest object that is read whole.
        max: u64,
    },
    /// The object is not the one that was opened.
    #[error("the object was replaced after it was opened; start again to read the new one")]
    Changed,
    /// The server sends nothing that tells versions of the object apart.
    #[error(
        "the server sends neither an entity tag nor a time of modification, so a replacement while it is read would mix \
         two versions unnoticed: download it first, or take that risk with --remote-unversioned"
    )]
    Unversioned,
    /// An answer does not say which version it is of, though earlier ones did.
    #[error(
        "an answer lacks the entity tag or time of modification that the object had when it was opened, so it may be of \
         another version; several servers with different settings may answer under this address"
    )]
    Unproven,
    /// The object was modified each time it was opened.
    #[error("the object keeps changing; read it when it is complete")]
    Unsettled,
    /// The answer contradicts the request or itself.
    #[error("the server's answer is not consistent: {0}; a proxy may be the cause")]
    Contradiction(String),
    /// A redirection that is not followed.
    #[error("redirected {0}; check the address")]
    Redirect(String),
    /// The certificates or the secure connection are not valid.
    #[error("no secure connection: {0}; SSL_CERT_FILE names further certificates to trust")]
    Tls(String),
    /// A registry has something else than an image under the address.
    #[error("{0}")]
    Artifact(String),
    /// Credentials that are missing, incomplete or refused.
    #[error("{0}")]
    Credentials(String),
}

impl Error {
    pub(crate) fn new(url: &str, why: FailureReason) -> Self {
        Error { url: url.to_owned(), range: None, why }
    }

    /// Adds the bytes that could not be read.
    pub(crate) fn at(self, range: Range<u64>) -> Self {
        Error { range: Some(range), ..self }
    }

    /// Returns the reason.
    pub fn why(&self) -> &FailureReason {
        &self.why
    }
}

/// An error of input that does not name the URL, as those of files do not name their paths.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.why {
            FailureReason::Address(_) | FailureReason::Artifact(_) => io::ErrorKind::InvalidInput,
            FailureReason::Status { status: 404 | 410, .. } => io::ErrorKind::NotFound,
            FailureReason::Status { status: 401 | 403, .. } | FailureReason::Credentials(_) => {
                io::ErrorKind::PermissionDenied
            }
            FailureReason::Contradiction(_) | FailureReason::Unproven => io::ErrorKind::InvalidData,
            FailureReason::Changed => return SourceChanged::new(UnnamedError(error).to_string()).into(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, UnnamedError(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.url)?;
        detail(self, f)
    }
}

impl std::error::Error for Error {}

/// An error without the URL.
#[derive(Debug)]
struct UnnamedError(Error);

impl fmt::Display for UnnamedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        detail(&self.0, f)
    }
}

impl std::error::Error for UnnamedError {}

fn detail(error: &Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(Range { start, end }) = &error.range {
        write!(f, "bytes {start} to {end}: ")?;
    }
    write!(f, "{}", error.why)
}

fn tried(tries: u32) -> String {
    if tries == 1 { "tried once".into() } else { format!("tried {tries} times") }
}

/// Returns a time in the largest unit that it has at least two of, rounded up.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 2 * 86_400 => format!("{} days", seconds.div_ceil(86_400)),
        seconds if seconds >= 2 * 3600 => format!("{} hours", seconds.div_ceil(3600)),
        seconds if seconds >= 2 * 60 => format!("{} minutes", seconds.div_ceil(60)),
        seconds => format!("{seconds} seconds"),
    }
}

/// Returns the name of a status, after a blank; empty if it is not a usual one.
pub(crate) fn status_name(status: u16) -> &'static str {
    match status {
        400 => " Bad Request",
        401 => " Unauthorized",
        403 => " Forbidden",
        404 => " Not Found",
        407 => " Proxy Authentication Required",
        410 => " Gone",
        413 => " Content Too Large",
        429 => " Too Many Requests",
        500 => " Internal Server Error",
        502 => " Bad Gateway",
        503 => " Service Unavailable",
        504 => " Gateway Timeout",
        _ => "",
    }
}

fn advice(status: u16, tries: u32) -> String {
    match status {
        401 | 403 => "check the credentials; a signed address may have expired".into(),
        404 | 410 => "check the address".into(),
        407 => "check the proxy's credentials".into(),
        413 => "it, or a proxy before it, limits the length of what it is sent".into(),
        300..=399 => "uploads follow no redirections; name the address that it leads to".into(),
        408 | 429 | 500.. => format!("{}; try again later", tried(tries)),
        _ => "check the address".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_units_that_fit() {
        let cases =
            [(1, "1 seconds"), (90, "90 seconds"), (301, "6 minutes"), (86_400, "24 hours"), (259_200, "3 days")];
        for (seconds, text) in cases {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }
}
