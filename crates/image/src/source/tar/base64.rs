//! The encodings of extended attributes in pax headers: base 64 and percent signs.

/// Decodes base 64, with or without `=` at the end. Returns `None` if it is malformed.
pub(in crate::source) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let bits = group.iter().try_fold(0u32, |bits, symbol| Some(bits << 6 | value(*symbol)?))?;
        let [_, a, b, c] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        match group.len() {
            4 => bytes.extend([a, b, c]),
            3 => bytes.extend([a, b]),
            2 => bytes.push(a),
            _ => return None,
        }
    }
    Some(bytes)
}

fn value(symbol: u8) -> Option<u32> {
    Some(u32::from(match symbol {
        b'A'..=b'Z' => symbol - b'A',
        b'a'..=b'z' => symbol - b'a' + 26,
        b'0'..=b'9' => symbol - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// Decodes every `%XX`; any other `%` stays.
pub(super) fn percent_decode(text: &[u8]) -> Vec<u8> {
    unescape(text, |_| true)
}

/// Decodes the only escapes that GNU tar writes in an attribute's name: `%3D` for `=` and `%25` for `%`.
pub(super) fn gnu_unescape(text: &[u8]) -> Vec<u8> {
    unescape(text, |byte| matches!(byte, b'=' | b'%'))
}

fn unescape(mut text: &[u8], wanted: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        let (byte, next) = match text {
            [b'%', high, low, next @ ..] => match hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low) {
                Some(byte) if wanted(byte) => (byte, next),
                _ => (*first, rest),
            },
            _ => (*first, rest),
        };
        bytes.push(byte);
        text = next;
    }
    bytes
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64_with_and_without_padding() {
        let cases: [(&[u8], Option<&[u8]>); 8] = [
            (b"", Some(b"")),
            (b"Zg==", Some(b"f")),
            (b"Zg", Some(b"f")),
            (b"Zm8=", Some(b"fo")),
            (b"Zm9v", Some(b"foo")),
            (b"+/+/", Some(&[0xfb, 0xff, 0xbf])),
            (b"Z", None),
            (b"Zm\n9", None),
        ];
        for (text, want) in cases {
            assert_eq!(decode(text).as_deref(), want, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn percent_signs() {
        assert_eq!(percent_decode(b"a%20b%zz%4"), b"a b%zz%4");
        assert_eq!(gnu_unescape(b"a%3Db%25c%20"), b"a=b%c%20");
    }
}
