//! The exit status of packfs, and the message for it: decided and printed only here.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use packfs_image::{Error, ExceededLimit};
use signal_hook::consts::SIGPIPE;
use signal_hook::low_level::emulate_default_handler;

use super::{advice, say, stdout, target};
use crate::{limits, startup};

/// Outcome of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// Success: status 0.
    Done,
    /// It worked, and reported findings or entries that were left out: status 1.
    Findings,
}

/// A usage error that is noticed only after parsing: status 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Properties of a command that decide about its errors.
#[derive(Debug, Default)]
pub(crate) struct ExitPolicy {
    /// Sources whose entries `--on-error skip` leaves out, if the command has that option.
    pub(crate) may_leave_out: Option<Vec<PathBuf>>,
    /// True if findings are told, but count as success.
    pub(crate) lenient: bool,
    /// Exit status of wrong usage, if it is another.
    pub(crate) usage: Option<u8>,
    /// Exit status of failures, if it is not 1.
    pub(crate) failure: Option<u8>,
}

/// Prints the final messages of a command and returns its exit status.
///
/// If the reader of standard output leaves before it has the whole result (`packfs list | head`), the program ends as
/// others do: without a message by SIGPIPE, or with a message if the caller ignores that signal. It is never a success,
/// since findings may be among what is lost.
pub(crate) fn report_outcome(result: anyhow::Result<CommandOutcome>, policy: &ExitPolicy) -> ExitCode {
    match result {
        Ok(CommandOutcome::Done) => ExitCode::SUCCESS,
        Ok(CommandOutcome::Findings) => ExitCode::from(u8::from(!policy.lenient)),
        Err(error) if reader_left(&error) && !startup::ignores_broken_pipes() => end_by_broken_pipe(),
        Err(error) => {
            let status = exit_status(&error);
            let mut text = full_text(&error);
            // The limit is worth telling even where the program cannot use less of it.
            let limit = limits::advice(&error).map(|limit| advice::for_user(&limit).unwrap_or(limit));
            let option = || {
                let hint = option_hint(&error, policy.may_leave_out.as_deref())?;
                advice::for_user(hint).or_else(|| advice::for_user(option_hint(&error, None)?))
            };
            if let Some(hint) = limit.or_else(option) {
                text = format!("{text}; {hint}");
            }
            say(format_args!("packfs: {text}"));
            let own = match status {
                WRONG_USE => policy.usage,
                FAILED => policy.failure,
                _ => None,
            };
            ExitCode::from(own.unwrap_or(status))
        }
    }
}

const FAILED: u8 = 1;
/// Exit status of a usage error.
pub(crate) const WRONG_USE: u8 = 2;
/// The same as if the signal had ended the program.
const INTERRUPTED: u8 = 130;

/// Returns the exit status of an error. Errors in the command line are usage errors, even if only a
/// library notices them: an option, a pattern, a file in the wrong role, a list that cannot be read.
/// Errors in the content of files, or of the environment, are failures.
fn exit_status(error: &anyhow::Error) -> u8 {
    let wrong_use = match ErrorCause::of(error) {
        ErrorCause::Image(packfs_image::Error::Cancelled) => return INTERRUPTED,
        ErrorCause::Image(error) => is_wrong_use(error),
        ErrorCause::Dump(error) => {
            use packfs_dump::Error::{InvalidOption, NotResumable, TooSmall, Unsuitable};
            matches!(error, InvalidOption { .. } | NotResumable(_) | TooSmall { .. } | Unsuitable { .. })
        }
        ErrorCause::Oci(_) => false,
        ErrorCause::Seal(error) => matches!(error, packfs_seal::Error::InvalidOption { .. }),
        ErrorCause::Interrupted => return INTERRUPTED,
        ErrorCause::Other => error.is::<UsageError>(),
    };
    if wrong_use { WRONG_USE } else { FAILED }
}

fn is_wrong_use(error: &packfs_image::Error) -> bool {
    use packfs_codec::Error::{InvalidOption as CodecOption, NotInFormat, UnknownCodec};
    use packfs_image::Error::{BadPattern, Codec, InvalidOption, Syntax};
    match error {
        InvalidOption { .. }
        | BadPattern { .. }
        | Codec(CodecOption { .. } | NotInFormat { .. } | UnknownCodec { .. }) => true,
        // A line of the command line has the name of its option where others have their file.
        Syntax { path, .. } => [Path::new("--add"), Path::new("--rule")].contains(&&**path),
        _ => false,
    }
}

/// Returns the option that would help, which libraries do not know.
/// `may_leave_out` is that of [`ExitPolicy`].
pub(crate) fn option_hint(error: &anyhow::Error, may_leave_out: Option<&[PathBuf]>) -> Option<&'static str> {
    match ErrorCause::of(error) {
        ErrorCause::Image(Error::Io { what, path, source })
            if source.kind() == io::ErrorKind::PermissionDenied && OF_SOURCES.contains(what) =>
        {
            let skips = may_leave_out.is_some_and(|sources| !sources.contains(path));
            Some(if skips { "run as root, or leave it out with --on-error skip" } else { "run as root" })
        }
        ErrorCause::Image(error) => image_hint(error),
        ErrorCause::Oci(packfs_oci::Error::Exists { .. }) => Some("--force replaces it"),
        ErrorCause::Dump(packfs_dump::Error::Exists { device: false, .. }) => {
            Some("replace it with --force, or continue with --resume")
        }
        ErrorCause::Dump(packfs_dump::Error::NoPartLeft { .. }) => {
            Some("a stream must be split anew; else drop --force, make room, then repeat the command with --resume")
        }
        ErrorCause::Dump(packfs_dump::Error::Exists { device: true, .. }) => Some("--force overwrites it"),
        _ => None,
    }
}

/// Operations on the entries of a source that need a permission.
const OF_SOURCES: [&str; 6] = [
    "cannot open",
    "cannot open the directory",
    "cannot read the attributes",
    "cannot list",
    "cannot read",
    "cannot read the link",
];

fn image_hint(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Io { what: "cannot create", source, .. } => match source.kind() {
            // The system says so of an entry to extract; outputs are looked at before.
            io::ErrorKind::IsADirectory if source.raw_os_error().is_some() => "directories are not replaced",
            io::ErrorKind::IsADirectory => target::NAME_A_FILE,
            io::ErrorKind::NotSeekable => target::NAME_ANOTHER,
            _ => return None,
        },
        Error::NotFound { .. } | Error::NoMatch { .. } => "packfs list shows the paths in the image",
        Error::Exists { .. } => "--force replaces it",
        Error::NoIndex { .. } => "--index writes one, --reuse-index names it",
        Error::Limit { why: ExceededLimit::Owners { .. }, .. } => "--owner sets one for all",
        Error::Limit { why: ExceededLimit::Time { .. }, .. } => "--time sets one for all",
        Error::Limit { why: ExceededLimit::XattrClass { .. }, .. } => {
            "--exclude-xattr PATTERN leaves them out, --no-xattrs leaves all of them out"
        }
        _ => return None,
    })
}

/// The library error below the contexts.
enum ErrorCause<'e> {
    Image(&'e packfs_image::Error),
    Dump(&'e packfs_dump::Error),
    Seal(&'e packfs_seal::Error),
    Oci(&'e packfs_oci::Error),
    Interrupted,
    Other,
}

impl<'e> ErrorCause<'e> {
    fn of(error: &'e anyhow::Error) -> Self {
        if let Some(error) = error.downcast_ref() {
            return ErrorCause::Image(error);
        }
        if let Some(error) = error.downcast_ref() {
            return ErrorCause::Dump(error);
        }
        match error.downcast_ref() {
            Some(packfs_bench::Error::Image(error)) => return ErrorCause::Image(error),
            Some(packfs_bench::Error::Interrupted) => return ErrorCause::Interrupted,
            _ => {}
        }
        match error.downcast_ref() {
            Some(packfs_oci::Error::Image(error)) => return ErrorCause::Image(error),
            Some(error) => return ErrorCause::Oci(error),
            None => {}
        }
        match error.downcast_ref() {
            Some(packfs_delta::Error::Image(error)) => return ErrorCause::Image(error),
            Some(packfs_delta::Error::Interrupted) => return ErrorCause::Interrupted,
            _ => {}
        }
        match error.downcast_ref() {
            Some(packfs_seal::Error::Interrupted) => ErrorCause::Interrupted,
            Some(error) => ErrorCause::Seal(error),
            None => ErrorCause::Other,
        }
    }
}

/// Returns true if the reader of standard output is gone and that is the error. The error of another broken pipe, such
/// as a FIFO named with -o, is printed.
fn reader_left(error: &anyhow::Error) -> bool {
    (is_of_broken_pipe(error) || stdout::met_broken_pipe()) && stdout::has_no_reader()
}

fn is_of_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|e| e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// Ends the program by SIGPIPE, as it would have ended without the runtime, which ignores the signal.
fn end_by_broken_pipe() -> ExitCode {
    // It returns only if the signal cannot be sent.
    let _ = emulate_default_handler(SIGPIPE);
    ExitCode::from(FAILED)
}

/// Formats the error with its causes. Nothing is repeated: neither a cause that the text before
/// ends with, nor the file name if the cause begins with it. An interruption comes first. An option
/// with a file (`--sort FILE`) keeps its name.
pub(crate) fn full_text(error: &anyhow::Error) -> String {
    if matches!(ErrorCause::of(error), ErrorCause::Interrupted) && error.chain().len() > 1 {
        return format!("interrupted: {error}");
    }
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if let Some(rest) = rest_after_end(&text, &cause) {
            text = if text.starts_with("--") { text + rest } else { cause };
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Returns the rest of `cause` if it begins with the last words of `text`.
fn rest_after_end<'c>(text: &str, cause: &'c str) -> Option<&'c str> {
    let ends = std::iter::once(0).chain(text.match_indices(' ').map(|(at, _)| at + 1)).map(|at| &text[at..]);
    let mut rests = ends.filter(|end| !end.is_empty()).filter_map(|end| cause.strip_prefix(end));
    rests.find(|rest| rest.starts_with([':', ' ', '/']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use rustix::io::Errno;

    #[test]
    fn every_cause_is_named_once() {
        let inner = packfs_image::Error::io("cannot open", "a/b")(io::Error::other("no such luck"));
        let error = Err::<(), _>(inner).context("building x").unwrap_err();
        assert_eq!(full_text(&error), "building x: a/b: cannot open: no such luck");
        assert_eq!(full_text(&anyhow!("only this")), "only this");
        let interrupted = || anyhow::Error::from(packfs_bench::Error::Interrupted);
        assert_eq!(full_text(&interrupted()), "interrupted");
        assert_eq!(full_text(&interrupted().context("samples are in x")), "interrupted: samples are in x");
        let cases = [
            ("building y from a b", "a b: cannot open: x", "a b: cannot open: x"),
            ("building y", "y exists", "y exists"),
            ("extracting into y", "y/a exists", "y/a exists"),
            ("a", "a: it is a directory", "a: it is a directory"),
            ("extracting into a", "ab: cannot write", "extracting into a: ab: cannot write"),
            ("a: cannot read", "no room", "a: cannot read: no room"),
            ("--sort a b", "a b: cannot read: x", "--sort a b: cannot read: x"),
            ("--reuse a", "b: no index", "--reuse a: b: no index"),
        ];
        for (context, cause, told) in cases {
            assert_eq!(full_text(&anyhow!(cause.to_owned()).context(context)), told);
        }
    }

    #[test]
    fn hints_name_options_and_only_wrong_use_is_2() {
        let path = || std::path::PathBuf::from("a");
        let table: Vec<(anyhow::Error, u8, &str)> = vec![
            (Error::Exists { path: path() }.into(), 1, "--force"),
            (Error::limit("a", ExceededLimit::Owners { max: 65536 }).into(), 1, "--owner"),
            (Error::limit("a", "too long").into(), 1, ""),
            (Error::option("block size", 5, "too small").into(), 2, ""),
            (Error::from("zstd:99".parse::<packfs_codec::Choice>().unwrap_err()).into(), 2, ""),
            (Error::Syntax { path: "--rule".into(), line: 1, why: "x".into() }.into(), 2, ""),
            (Error::Syntax { path: "rules".into(), line: 1, why: "x".into() }.into(), 1, ""),
            (Error::sys("cannot create", "a", Errno::ISDIR).into(), 1, "directories are not replaced"),
            (Error::io("cannot create", "a")(io::ErrorKind::IsADirectory.into()).into(), 1, "name a file in it"),
            (Error::io("cannot open", "a")(io::ErrorKind::IsADirectory.into()).into(), 1, ""),
            (Error::NotFound { path: path() }.into(), 1, "packfs list"),
            (Error::NoMatch { regex: "x".into() }.into(), 1, "packfs list"),
            (packfs_dump::Error::Exists { path: path(), device: false }.into(), 1, "--resume"),
            (packfs_dump::Error::NoPartLeft { why: "a: full".into() }.into(), 1, "a stream must be split anew"),
            (packfs_dump::Error::NotResumable("other".into()).into(), 2, ""),
            (packfs_bench::Error::Image(Error::option("label", "x", "y")).into(), 2, ""),
            (packfs_bench::Error::Interrupted.into(), 130, ""),
            (UsageError("wrong".into()).into(), 2, ""),
        ];
        for (error, expected, part) in table {
            let error = error.context("doing something");
            assert_eq!(exit_status(&error), expected, "{error:#}");
            assert_eq!(option_hint(&error, None).is_some(), !part.is_empty(), "{error:#}");
            assert!(option_hint(&error, None).unwrap_or_default().contains(part), "{error:#}");
        }
    }

    #[test]
    fn a_broken_pipe_is_recognised_below_any_context() {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_of_broken_pipe(&anyhow::Error::from(gone()).context("writing")));
        assert!(is_of_broken_pipe(&packfs_image::Error::io("cannot write", "-")(gone()).into()));
        assert!(!is_of_broken_pipe(&anyhow!("broken pipe")));
    }
}
