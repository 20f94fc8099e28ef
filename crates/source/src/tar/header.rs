//! One header block: checks it and decodes numbers and names. `members` interprets them.

use std::mem::offset_of;

use zerocopy::FromBytes;

use super::format::{BLOCK, TarHeader, checksum, signed_checksum};
use crate::{Error, Result};

/// Checks a block that is not all zeros and returns it as a header.
pub(super) fn check(block: &[u8; BLOCK], at: u64) -> Result<TarHeader> {
    let header = TarHeader::read_from_bytes(block).map_err(|_| Error::corrupt("tar header", at, "not a block"))?;
    match number(&header.checksum) {
        Some(sum) if sum == checksum(&header) || sum == signed_checksum(&header) => Ok(header),
        _ => Err(Error::corrupt("tar header", at, "its checksum does not match: not a tar archive, or damaged")),
    }
}

/// Returns true if a block has the magic that all but the oldest archives have.
pub(super) fn has_magic(block: &[u8]) -> bool {
    block.get(offset_of!(TarHeader, magic)..).is_some_and(|magic| magic.starts_with(b"ustar"))
}

/// Returns a field's bytes up to the first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or(field)
}

/// Decodes a numeric field: octal digits, or base 256 if the first bit is set (GNU and star: big or
/// negative numbers). An empty field is 0.
pub(super) fn number(field: &[u8]) -> Option<i64> {
    match field {
        [first, rest @ ..] if first & 0x80 != 0 => {
            // The second bit is the sign of the rest.
            let start = if first & 0x40 != 0 { i128::from(first.cast_signed()) } else { i128::from(first & 0x3f) };
            let value = rest
                .iter()
                .try_fold(start, |value, byte| value.checked_mul(256).map(|value| value | i128::from(*byte)))?;
            i64::try_from(value).ok()
        }
        _ => {
            let digits = field.trim_ascii_start();
            let end = digits.iter().position(|byte| matches!(byte, 0 | b' ')).unwrap_or(digits.len());
            digits[..end].iter().try_fold(0i64, |value, digit| match digit {
                b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(digit - b'0')),
                _ => None,
            })
        }
    }
}

/// Decodes a named field as [`number`], in the range of `T`.
pub(super) fn field<T: TryFrom<i64>>(field: &[u8], name: &str, at: u64) -> Result<T> {
    number(field)
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| Error::corrupt("tar header", at, format!("`{}` is not a valid {name}", field.escape_ascii())))
}

/// Returns the name in a header: `prefix/name` in POSIX archives, `name` in all others.
pub(super) fn name(header: &TarHeader) -> Vec<u8> {
    let name = text(&header.name);
    let posix = header.magic == *b"ustar\0";
    // star has a shorter prefix and its own magic at the end.
    let star = header.padding.ends_with(b"tar\0");
    let prefix = text(if star { &header.prefix[..131] } else { &header.prefix });
    if !posix || prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_all_their_forms() {
        let cases: [(&[u8], Option<i64>); 12] = [
            (b"0000644\0", Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"777777777777", Some(0o777_777_777_777)),
            (b"0000689\0", None),
            (b"-1      ", None),
            (b"\x80\0\0\0\0\0\0\x02\0\0\0\0", Some(2 << 32)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", Some(-2)),
            (b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", Some(i64::MAX)),
            (b"", Some(0)),
        ];
        for (bytes, want) in cases {
            assert_eq!(number(bytes), want, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_negative_size_or_wide_uid_is_named() {
        let error = field::<u64>(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", "size", 512).unwrap_err();
        assert!(error.to_string().contains("at byte 512") && error.to_string().contains("not a valid size"), "{error}");
        assert!(field::<u32>(b"\x80\0\0\x01\0\0\0\0", "uid", 0).is_err());
    }
}
