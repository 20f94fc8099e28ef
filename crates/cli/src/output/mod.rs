//! All output of packfs: data on standard output, the rest on standard error.

pub(crate) mod display;
pub(crate) mod failure;
pub(crate) mod findings;
pub(crate) mod interrupt;
pub(crate) mod json;
pub(crate) mod meter;
pub(crate) mod target;
pub(crate) mod units;
pub(crate) mod warnings;

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use packfs_image::name::show;

/// Standard output for data: buffered in large pieces, without the line buffering of
/// [`io::stdout`]. Flush it: data still in the buffer when it is dropped may be lost without an
/// error.
pub(crate) fn stdout() -> io::Result<BufWriter<Stdout>> {
    Ok(BufWriter::with_capacity(1 << 16, Stdout(unnamed_stdout()?)))
}

/// Returns standard output without a buffer, for writers that know its name.
pub(crate) fn unnamed_stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Standard output with errors that name it.
#[derive(Debug)]
pub(crate) struct Stdout(File);

/// Name of standard output in messages.
pub(crate) const STDOUT: &str = "standard output";

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| io::Error::new(error.kind(), format!("{STDOUT}: cannot write: {error}")))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a name to standard output unchanged, except on a terminal, where control characters are escaped.
pub(crate) fn name(out: &mut impl Write, name: &[u8]) -> io::Result<()> {
    static TERMINAL: OnceLock<bool> = OnceLock::new();
    let is_terminal = *TERMINAL.get_or_init(|| io::stdout().is_terminal());
    if is_terminal { out.write_all(&show(name)) } else { out.write_all(name) }
}

/// Prints a line on standard error. Errors are ignored: nobody may be listening.
///
/// Messages contain file names from images and archives, which may be anything: control characters
/// are escaped, so that they cannot change the terminal.
pub(crate) fn say(line: impl Display) {
    let mut text = printable(&without_numbers(&line.to_string()));
    text.push('\n');
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Formats words so that a shell reads them as they are.
pub(crate) fn quoted(words: &[OsString]) -> String {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./=:,+%".contains(&byte));
    let word = |word: &OsString| match word.to_string_lossy() {
        text if !text.is_empty() && plain(&text) => text.into_owned(),
        text => format!("'{}'", text.replace('\'', "'\\''")),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The text without the numbers that the standard library puts behind the system's words, as in `(os error 2)`.
fn without_numbers(text: &str) -> String {
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

fn printable(text: &str) -> String {
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
            without_numbers(&format!("a: {told}; b: {told}.")),
            "a: No such file or directory; b: No such file or directory."
        );
        for text in ["", "a (os error x)", "a (os error 2"] {
            assert_eq!(without_numbers(text), text);
        }
    }

    #[test]
    fn messages_cannot_change_the_terminal() {
        assert_eq!(printable("größe\n\x1b[31mred\r\u{9b}"), "größe\n\\u{1b}[31mred\\r\\u{9b}");
    }
}
