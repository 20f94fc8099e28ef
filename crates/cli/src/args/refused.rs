//! Errors of the command line parser in the form of all other errors: one line with the option, its value and what is
//! accepted.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Returns the message for a value that is not accepted; `None` for errors that the parser explains well by itself.
pub(crate) fn value(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg)?.split(' ').next()?;
    let value = text(ContextKind::InvalidValue).filter(|value| !value.is_empty())?;
    let why = match error.kind() {
        ErrorKind::ValueValidation => error.source()?.to_string(),
        ErrorKind::InvalidValue => {
            let Some(ContextValue::Strings(accepted)) = error.get(ContextKind::ValidValue) else { return None };
            let meant = text(ContextKind::SuggestedValue).map(|meant| format!("; '{meant}' is similar"));
            format!("accepted: {}{}", accepted.join(", "), meant.unwrap_or_default())
        }
        _ => return None,
    };
    // Many parsers repeat the value.
    let why = why.strip_prefix(&format!("{value}: ")).unwrap_or(&why);
    Some(format!("{argument} {value}: {why}"))
}

/// Removes advice that is of no use: to pass a mistyped option as a file name.
pub(crate) fn without_escapes(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument && error.get(ContextKind::SuggestedArg).is_none() {
        error.insert(ContextKind::Suggested, ContextValue::None);
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn error(words: &[&str]) -> clap::Error {
        Cli::try_parse_from(["packfs"].iter().chain(words)).unwrap_err()
    }

    #[test]
    fn refused_values_are_told_in_one_line() {
        let cases: [(&[&str], &str); 5] = [
            (&["build", "x", "-o", "y", "--format", "ext4"], "--format ext4: accepted: squashfs, erofs"),
            (&["build", "x", "-o", "y", "--fragments", "tail"], "accepted: none, small, tails; 'tails' is similar"),
            (&["build", "x", "-o", "y", "-j", "-1"], "--jobs -1: expected a number of threads"),
            (&["split", "x", "-o", "y", "--parity", "x"], "--parity x: expected a whole number, 0 or more"),
            (&["completions", "tcsh"], "<SHELL> tcsh: accepted: bash"),
        ];
        for (words, told) in cases {
            let text = value(&error(words)).unwrap();
            assert!(text.contains(told) && text.lines().count() == 1, "{words:?}: {text}");
        }
        for words in [&["build"][..], &["biuld"], &["build", "x", "-o"], &["build", "x", "--no-such"]] {
            assert_eq!(value(&error(words)), None, "{words:?}");
        }
    }

    #[test]
    fn options_are_not_offered_as_file_names() {
        let told = without_escapes(error(&["build", "x", "-o", "y", "--comp", "xz"])).to_string();
        assert!(told.contains("'--comp'") && !told.contains("as a value"), "{told}");
        let told = without_escapes(error(&["build", "x", "-o", "y", "--block-sise", "4K"])).to_string();
        assert!(told.contains("'--block-size'"), "{told}");
    }
}
