//! The type of a file: the extension of its name, or its first bytes if the name has none.

use crate::source::Contents;

/// Maximum length of an extension that counts as a type: what fits the eight bytes of a [`FileClass`].
const ENDING_MAX: usize = 8;
/// Number of first bytes that determine a type: magic numbers are short, and the line of an interpreter mostly ends
/// here.
const HEAD_LEN: usize = 64;

/// The type of a file: an extension as a number that sorts the same. Small, because a tree may have millions of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::build) struct FileClass(u64);

impl FileClass {
    /// Files whose names do not tell their type.
    pub(in crate::build) const UNKNOWN: FileClass = FileClass(0);

    /// Returns the class of a file name.
    pub(in crate::build) fn of_name(name: &[u8]) -> FileClass {
        FileClass::of_ending(ending(name))
    }

    /// Returns bytes that sort as the classes do.
    pub(in crate::build) fn to_bytes(self) -> [u8; ENDING_MAX] {
        self.0.to_be_bytes()
    }

    /// Names contain no NUL, so an extension sorts before longer ones that begin with it.
    fn of_ending(ending: &[u8]) -> FileClass {
        let mut bytes = [0; ENDING_MAX];
        bytes[..ending.len()].copy_from_slice(ending);
        FileClass(u64::from_be_bytes(bytes))
    }
}

/// Returns the class by the first bytes of a file: that of its usual extension. An unreadable file is unknown; reading
/// its data will report the error.
pub(in crate::build) fn of_contents(from: &dyn Contents, key: u64, size: u64) -> FileClass {
    let mut head = [0; HEAD_LEN];
    let len = usize::try_from(size).unwrap_or(HEAD_LEN).min(HEAD_LEN);
    let read = from.open(key).and_then(|mut file| file.read_exact_at(&mut head[..len], 0));
    FileClass::of_ending(read.map_or(b"", |()| usual_ending(&head[..len])))
}

/// Returns the usual extension of files with these first bytes.
fn usual_ending(head: &[u8]) -> &'static [u8] {
    const MAGIC: [(&[u8], &[u8]); 9] = [
        (b"\x7fELF", b"so"),
        (b"!<arch>\n", b"a"),
        (b"\xde\x12\x04\x95", b"mo"),
        (b"\x1f\x8b", b"gz"),
        (b"\xfd7zXZ\0", b"xz"),
        (b"\x28\xb5\x2f\xfd", b"zst"),
        (b"\x89PNG", b"png"),
        (b"<?xml", b"xml"),
        (b"TZif", b"TZif"),
    ];
    if head.starts_with(b"#!") {
        return interpreter(head);
    }
    MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map_or(b"", |(_, ending)| ending)
}

/// Returns the extension of a script by its interpreter.
fn interpreter(head: &[u8]) -> &'static [u8] {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let has = |name: &[u8]| line.windows(name.len()).any(|part| part == name);
    if has(b"python") {
        b"py"
    } else if has(b"perl") {
        b"pl"
    } else {
        b"sh"
    }
}

/// Returns the part of a name that says most about the contents: the last extension that is not a number.
fn ending(name: &[u8]) -> &[u8] {
    let mut parts = name.rsplit(|byte| *byte == b'.');
    let found = parts.find(|part| !part.iter().all(u8::is_ascii_digit)).unwrap_or_default();
    if found.len() > ENDING_MAX || found.len() == name.len() { b"" } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_say_what_a_file_is() {
        let table: [(&str, &str); 8] = [
            ("a.so", "so"),
            ("libc.so.6", "so"),
            ("libfoo.so.1.2.3", "so"),
            ("README", ""),
            (".hidden", "hidden"),
            ("copyright", ""),
            ("x.averylongending", ""),
            ("a.tar.gz", "gz"),
        ];
        for (name, expected) in table {
            assert_eq!(ending(name.as_bytes()), expected.as_bytes(), "{name}");
        }
    }

    #[test]
    fn classes_have_the_order_of_their_endings() {
        let sorted: [&[u8]; 7] = [b"", b"a", b"aa", b"ab", b"b", b"longlong", b"\xff"];
        let classes = sorted.map(FileClass::of_ending);
        assert!(classes.is_sorted_by(|a, b| a < b), "{classes:?}");
        assert_eq!(FileClass::of_name(b"README"), FileClass::UNKNOWN);
    }

    #[test]
    fn first_bytes_stand_for_an_ending() {
        let table: [(&[u8], &str); 7] = [
            (b"\x7fELF\x02", "so"),
            (b"#!/usr/bin/env python3\nimport os", "py"),
            (b"#! /usr/bin/perl -w\n", "pl"),
            (b"#!/bin/bash", "sh"),
            (b"\x1f\x8b\x08", "gz"),
            (b"plain text", ""),
            (b"", ""),
        ];
        for (head, expected) in table {
            assert_eq!(usual_ending(head), expected.as_bytes(), "{}", head.escape_ascii());
        }
    }
}
