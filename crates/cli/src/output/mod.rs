//! All output of packfs: results and remarks on standard output ([`stdout`]), messages on standard error.

pub(crate) mod advice;
pub(crate) mod display;
pub(crate) mod failure;
pub(crate) mod findings;
pub(crate) mod interrupt;
pub(crate) mod json;
pub(crate) mod meter;
mod stdout;
pub(crate) mod target;
pub(crate) mod units;
pub(crate) mod warnings;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};

pub(crate) use self::stdout::{
    RemarkWriter, STDOUT, is_lost, is_terminal, remarks, require_pipe_or_file, require_stdout, write_name,
    write_raw_result, write_result,
};

/// Prints a line on standard error. Errors are ignored: nobody may be listening.
///
/// Messages contain file names from images and archives, which may be anything: control characters
/// are escaped, so that they cannot change the terminal.
pub(crate) fn say(line: impl Display) {
    let _ = try_to_say(line);
}

/// As [`say`], for a line that is the whole result of the command.
pub(crate) fn try_to_say(line: impl Display) -> io::Result<()> {
    let mut text = escape_controls(&strip_error_numbers(&line.to_string()));
    text.push('\n');
    io::stderr().write_all(text.as_bytes())
}

/// Formats words so that a shell reads them as they are.
pub(crate) fn quote_words(words: &[OsString]) -> String {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./=:,+%".contains(&byte));
    let word = |word: &OsString| match word.to_string_lossy() {
        text if !text.is_empty() && plain(&text) => text.into_owned(),
        text => format!("'{}'", text.replace('\'', "'\\''")),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns a text without the numbers that the standard library puts after the system's words, as in `(os error 2)`.
fn strip_error_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => out.push_str(rest),
            _ => {
                out.push_str(" (os error ");
                out.push_str(part);
            }
        }
    }
    out
}

fn escape_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c.is_control() && c != '\n' { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        let told = std::io::Error::from_raw_os_error(2);
        assert_eq!(
            strip_error_numbers(&format!("a: {told}; b: {told}.")),
            "a: No such file or directory; b: No such file or directory."
        );
        for text in ["", "a (os error x)", "a (os error 2"] {
            assert_eq!(strip_error_numbers(text), text);
        }
    }

    #[test]
    fn messages_cannot_change_the_terminal() {
        assert_eq!(escape_controls("größe\n\x1b[31mred\r\u{9b}"), "größe\n\\u{1b}[31mred\\r\\u{9b}");
    }
}
