//! The escapes of names and values of extended attributes in pax headers.

use packfs_blocks::hex::byte_of_digits;

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
            [b'%', high, low, next @ ..] => match byte_of_digits(*high, *low) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs() {
        assert_eq!(percent_decode(b"a%20b%zz%4"), b"a b%zz%4");
        assert_eq!(gnu_unescape(b"a%3Db%25c%20"), b"a=b%c%20");
    }
}
