//! Why packfs ends with a status other than 0: decided and printed here only.

use std::fmt;
use std::io;
use std::process::ExitCode;

use super::say;

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well: status 0.
    Done,
    /// It worked, and what it found or had to leave out was reported: status 1.
    Findings,
}

/// A wrong use of the command line that only showed after parsing: status 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\nFor more information, try '--help'.", self.0)
    }
}

impl std::error::Error for Usage {}

/// Prints what there is to say about the end of a command and gives its exit status.
///
/// When the reader of standard output hangs up (`packfs list | head`), that is its choice: there is
/// nothing to print, and unless the output is `all_or_nothing` nothing failed.
pub(crate) fn exit(result: anyhow::Result<Outcome>, all_or_nothing: bool) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Err(error) if hung_up(&error) => ExitCode::from(u8::from(all_or_nothing)),
        Err(error) => {
            say(format_args!("packfs: {}", whole(&error)));
            ExitCode::from(status(&error))
        }
    }
}

fn status(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<packfs_bench::Error>() {
        // As if the signal had ended the program.
        Some(packfs_bench::Error::Interrupted) => 130,
        _ if error.is::<Usage>() => 2,
        _ => 1,
    }
}

fn hung_up(error: &anyhow::Error) -> bool {
    error.chain().any(|e| e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// The error with its causes, leaving out those that the text before already ends with.
fn whole(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn every_cause_is_told_once() {
        let inner = packfs_image::Error::io("cannot open", "a/b")(io::Error::other("no such luck"));
        let error = Err::<(), _>(inner).context("building x").unwrap_err();
        assert_eq!(whole(&error), "building x: a/b: cannot open: no such luck");
        assert_eq!(whole(&anyhow!("only this")), "only this");
    }

    #[test]
    fn a_hung_up_reader_is_recognised_below_any_context() {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(hung_up(&anyhow::Error::from(gone()).context("writing")));
        assert!(hung_up(&packfs_image::Error::io("cannot write", "-")(gone()).into()));
        assert!(!hung_up(&anyhow!("broken pipe")));
    }
}
