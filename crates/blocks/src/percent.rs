//! Percent-encoding, as addresses have it: `%` and two hexadecimal digits stand for a byte (RFC 3986, section 2.1).

use crate::hex::byte_of_digits;

/// Returns true for the characters that stand for themselves everywhere in an address (RFC 3986, section 2.3).
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Encodes all bytes but the plain ones, which have to be ASCII.
pub fn encode(bytes: &[u8], is_plain: impl Fn(u8) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii() && is_plain(*byte) {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Decodes every `%XX`; any other `%` stays.
pub fn decode(text: &[u8]) -> Vec<u8> {
    decode_wanted(text, |_| true)
}

/// Decodes every `%XX` that stands for a wanted byte; any other `%` stays.
pub fn decode_wanted(mut text: &[u8], is_wanted: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        let (byte, next) = match text {
            [b'%', high, low, next @ ..] => match byte_of_digits(*high, *low) {
                Some(byte) if is_wanted(byte) => (byte, next),
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
    fn percent_signs_stand_for_bytes_and_others_stay() {
        assert_eq!(decode(b"a%20b%zz%4%+1%"), b"a b%zz%4%+1%");
        assert_eq!(decode_wanted(b"a%3Db%25c%20", |byte| matches!(byte, b'=' | b'%')), b"a=b%c%20");
    }

    #[test]
    fn every_byte_survives_encoding() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(encode(&all, is_unreserved).as_bytes()), all);
        assert_eq!(encode("a b/ü".as_bytes(), is_unreserved), "a%20b%2F%C3%BC");
        assert_eq!(encode("a/ü".as_bytes(), |_| true), "a/%C3%BC");
    }
}
