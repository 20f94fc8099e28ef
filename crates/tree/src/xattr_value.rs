//! Values of extended attributes as people and archives write them.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use packfs_blocks::hex::from_hex;

/// Base 64 as other programs write it: with `=` at the end or without, and with anything in the bits that belong to no
/// byte.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes the value of an extended attribute: `0x` and hex digits, `0s` and base64, `0t` and text
/// with octal escapes, or plain bytes. The error says what is wrong.
pub fn xattr_value(text: &[u8]) -> Result<Vec<u8>, String> {
    let value = match text {
        [b'0', b'x' | b'X', hex @ ..] => from_hex(hex),
        [b'0', b's' | b'S', base64 @ ..] => decode_base64(base64),
        // As getfattr and its relatives write values.
        [b'0', b't' | b'T', text @ ..] => unoctal(text),
        text => Some(text.to_vec()),
    };
    value.ok_or_else(|| format!("`{}` is not a well-formed value", text.escape_ascii()))
}

fn unoctal(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                after
            }
            (b'\\', [b'\\', after @ ..]) => {
                out.push(b'\\');
                after
            }
            (b'\\', _) => return None,
            (byte, after) => {
                out.push(*byte);
                after
            }
        };
    }
    Some(out)
}

/// Decodes base 64, with or without `=` at the end. Returns `None` if it is malformed.
pub fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    LENIENT_BASE64.decode(text).ok()
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
            assert_eq!(decode_base64(text).as_deref(), want, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn values_of_extended_attributes_are_decoded() {
        let good: [(&[u8], &[u8]); 10] = [
            (b"text", b"text"),
            (b"", b""),
            (b"0xCAfe", b"\xca\xfe"),
            (b"0sSGVsbG8gdGhlcmUgOi0pCg==", b"Hello there :-)\n"),
            (b"0sSGk", b"Hi"),
            (b"0sSGk=", b"Hi"),
            (b"0s", b""),
            (b"0s+/+/", b"\xfb\xff\xbf"),
            (b"0ta\\012\\\\b", b"a\n\\b"),
            (b"\"quoted\"", b"\"quoted\""),
        ];
        for (text, value) in good {
            assert_eq!(xattr_value(text).unwrap(), value, "{}", text.escape_ascii());
        }
        for text in ["0xabc", "0xgg", "0s!", "0sA", "0sA===", "0t\\9", "0t\\"] {
            assert!(xattr_value(text.as_bytes()).is_err(), "{text}");
        }
    }
}
