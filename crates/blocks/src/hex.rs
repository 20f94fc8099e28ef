//! Hexadecimal digits, two a byte.

/// Writes bytes as lower-case digits.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Reads digits of either case; `None` for an odd number of them, or for any other character.
pub fn from_hex(digits: &(impl AsRef<[u8]> + ?Sized)) -> Option<Vec<u8>> {
    let pairs = digits.as_ref().chunks(2);
    pairs.map(|pair| byte_of_digits(pair[0], *pair.get(1)?)).collect()
}

/// Reads two digits of either case; `None` for any other character.
pub fn byte_of_digits(high: u8, low: u8) -> Option<u8> {
    // `to_digit` and not `from_str_radix`, which would accept a sign as in "+1".
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    Some(value(high)? << 4 | value(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_bytes_and_nothing_else_is() {
        assert_eq!(to_hex(&[0x00, 0x1f, 0xa5]), "001fa5");
        assert_eq!(from_hex("001Fa5"), Some(vec![0x00, 0x1f, 0xa5]));
        assert_eq!(from_hex(""), Some(vec![]));
        for wrong in ["0", "0g", "00 ", "é0", "+1"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }
}
