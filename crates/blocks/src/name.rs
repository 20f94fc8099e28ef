//! File names, which are arbitrary bytes, as text: for a terminal, and for JSON.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use crate::percent;
use crate::system::OsStrExt;

/// Returns `bytes` in a form that is safe to print: control characters, bytes that are not UTF-8,
/// characters that change the direction of writing, and `\` itself are escaped (`\n`, `\x1b`,
/// `\u{202e}`, `\\`).
pub fn show(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\') {
        return Cow::Borrowed(bytes);
    }
    let mut out = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let turns = matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            match u8::try_from(c) {
                Ok(byte) if byte.is_ascii_control() || c == '\\' => {
                    out.extend(std::ascii::escape_default(byte).map(char::from));
                }
                _ if c.is_control() || turns => out.extend(c.escape_unicode()),
                _ => out.push(c),
            }
        }
        out.extend(chunk.invalid().iter().flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from));
    }
    Cow::Owned(out.into_bytes())
}

/// A path in a form that is safe to print, see [`show`]; `.` if it is empty. All messages show paths this way.
#[derive(Debug, Clone, Copy)]
pub struct ShownPath<'p>(&'p Path);

/// Formats `path` for a message.
pub fn display<P: AsRef<Path> + ?Sized>(path: &P) -> ShownPath<'_> {
    ShownPath(path.as_ref())
}

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.as_os_str().as_bytes();
        f.pad(&String::from_utf8_lossy(&show(if bytes.is_empty() { b"." } else { bytes })))
    }
}

/// Returns `bytes` as text without loss: `%XX` stands for each byte that is not UTF-8, and for `%` itself.
pub fn encode(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains('%')
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        out.push_str(&chunk.valid().replace('%', "%25"));
        out.push_str(&percent::encode(chunk.invalid(), |_| false));
    }
    Cow::Owned(out)
}

/// Returns the bytes that [`encode`] made text of. A `%` that it would not write stays.
pub fn decode(text: &str) -> Vec<u8> {
    percent::decode(text.as_bytes())
}

/// Decodes a backslash and three octal digits, by which other programs write blanks and the like in names. Any other
/// backslash stays.
pub fn decode_octal(mut text: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        let (byte, next) = match text {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', next @ ..] => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), next)
            }
            _ => (*first, rest),
        };
        name.push(byte);
        text = next;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_escape_sequence_reaches_a_terminal() {
        let cases: [(&[u8], &str); 7] = [
            (b"plain name.txt~", "plain name.txt~"),
            ("größe".as_bytes(), "größe"),
            (b"a\nb\tc\x1b[31m", "a\\nb\\tc\\x1b[31m"),
            (b"back\\slash", "back\\\\slash"),
            (b"\xff\xfe", "\\xff\\xfe"),
            ("\u{85}x\u{202e}y".as_bytes(), "\\u{85}x\\u{202e}y"),
            (b"\x7f", "\\x7f"),
        ];
        for (bytes, shown) in cases {
            assert_eq!(String::from_utf8(show(bytes).into_owned()).unwrap(), shown);
        }
    }

    #[test]
    fn a_path_takes_one_line_of_a_message() {
        let cases =
            [("a/b c", "a/b c"), ("", "."), ("evil\npackfs: all is well\x1b[2K", "evil\\npackfs: all is well\\x1b[2K")];
        for (path, shown) in cases {
            assert_eq!(display(path).to_string(), shown);
        }
    }

    #[test]
    fn any_name_becomes_text_without_loss() {
        let cases: [(&[u8], &str); 3] =
            [(b"plain", "plain"), ("größe 100%".as_bytes(), "größe 100%25"), (b"a\xff\xfeb", "a%FF%FEb")];
        for (bytes, text) in cases {
            assert_eq!(encode(bytes), text);
        }
    }

    #[test]
    fn every_name_survives_as_text() {
        for bytes in [&b"plain"[..], "größe".as_bytes(), b"100%", b"%41", b"\xff\xfe/%", b""] {
            assert_eq!(decode(&encode(bytes)), bytes);
        }
        assert_eq!(decode("50% of %zz %"), b"50% of %zz %", "what is no escape stays");
    }

    #[test]
    fn only_whole_octal_escapes_are_decoded() {
        assert_eq!(decode_octal(b"a\\040b\\\\134\\08\\400\\"), b"a b\\\\\\08\\400\\");
    }
}
