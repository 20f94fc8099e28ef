//! Lines of keys and signatures: comments, and base 64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Longest line that minisign reads, of an untrusted comment in bytes, with its end.
const COMMENT_MAX: usize = 1024;
/// Beginning of the first line of every file.
pub(super) const UNTRUSTED: &str = "untrusted comment: ";

/// Returns the lines of a file after the untrusted comment; the error says why it is none of minisign's.
pub(super) fn lines_after_comment(bytes: &[u8]) -> Result<std::str::Lines<'_>, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let mut lines = text.lines();
    match lines.next().and_then(|line| line.strip_prefix(UNTRUSTED)) {
        Some(comment) if UNTRUSTED.len() + comment.len() < COMMENT_MAX - 1 => Ok(lines),
        Some(_) => Err("its first line is longer than minisign reads"),
        None => Err("its first line is not an untrusted comment"),
    }
}

/// Reads a line of base 64 that stands for `LEN` bytes.
pub(super) fn decode<const LEN: usize>(line: Option<&str>) -> Result<[u8; LEN], &'static str> {
    let line = line.ok_or("it ends too early")?;
    let bytes = STANDARD.decode(line).map_err(|_| "a line is not in base 64")?;
    bytes.try_into().map_err(|_| "a line has another length")
}

/// Writes bytes as base 64.
pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Takes `LEN` bytes from the front of a record that has at least as many.
pub(super) fn take<const LEN: usize>(record: &mut &[u8]) -> [u8; LEN] {
    let (taken, rest) = record.split_first_chunk().expect("the length of the record was checked");
    *record = rest;
    *taken
}
