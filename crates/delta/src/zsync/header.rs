//! The text at the beginning of an index: lines `Name: value`, and an empty one at the end.
//!
//! A reader must know a line or be told by an earlier line `Safe:` that it may ignore it.

use packfs_blocks::hex::from_hex;

use crate::error::{Error, Result};

/// Longest header that is read. zsync reads lines of 1 KiB; an index with a few addresses has 300 bytes.
const HEADER_MAX: usize = 64 << 10;

/// The structure that errors name.
pub(super) const INDEX: &str = "index of zsync";

/// A line of the header.
#[derive(Debug)]
pub(super) struct HeaderLine<'h> {
    /// Offset of the line in the index.
    pub(super) offset: u64,
    pub(super) name: &'h str,
    pub(super) value: &'h str,
}

impl HeaderLine<'_> {
    /// Makes the error of this line.
    pub(super) fn wrong(&self, why: &str) -> Error {
        let value: String = self.value.chars().take(60).collect();
        Error::damaged(INDEX, self.offset, format!("`{}: {value}`: {why}", self.name))
    }

    /// Reads the value as a number within bounds.
    pub(super) fn number(&self, least: u64, most: u64) -> Result<u64> {
        match self.value.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(self.wrong(&format!("it has to be a number from {least} to {most}"))),
        }
    }

    /// Reads the value as hexadecimal digits of so many bytes.
    pub(super) fn digest<const LEN: usize>(&self) -> Result<[u8; LEN]> {
        let digest = from_hex(self.value).and_then(|bytes| bytes.try_into().ok());
        digest.ok_or_else(|| self.wrong(&format!("it has to have {} hexadecimal digits", 2 * LEN)))
    }
}

/// Splits the header off an index; returns its lines and the offset of the bytes after it.
pub(super) fn split_header(index: &[u8]) -> Result<(Vec<HeaderLine<'_>>, usize)> {
    let mut lines = Vec::new();
    let mut at = 0;
    loop {
        let offset = at as u64;
        let rest = &index[at..];
        let line_len = rest.iter().take(HEADER_MAX).position(|byte| *byte == b'\n');
        let Some(line_len) = line_len.filter(|line_len| at + line_len < HEADER_MAX) else {
            let why = if lines.is_empty() {
                "it does not begin as indexes of zsync do"
            } else {
                "the empty line at the end of the header is missing: it was cut short, or is no index"
            };
            return Err(Error::damaged(INDEX, offset, why));
        };
        at += line_len + 1;
        if line_len == 0 && !lines.is_empty() {
            return Ok((lines, at));
        }
        let line = std::str::from_utf8(&rest[..line_len]).ok().and_then(|line| line.split_once(": "));
        let Some((name, value)) = line else {
            let why = if lines.is_empty() { "it does not begin as indexes of zsync do" } else { "not `Name: value`" };
            return Err(Error::damaged(INDEX, offset, why));
        };
        if lines.is_empty() && name != "zsync" {
            return Err(Error::damaged(INDEX, offset, "it does not begin as indexes of zsync do"));
        }
        lines.push(HeaderLine { offset, name, value: value.trim_end() });
    }
}
