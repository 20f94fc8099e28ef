//! LZ4 streams that are decoded differently by different readers: a match at distance 0 means nothing, and a decoder
//! copies whatever its output buffer holds there. Checks of both formats look for such; reading does not.

/// Shortest match.
const MATCH_MIN: usize = 4;
/// Length in a token that further bytes add to.
const MORE: u8 = 15;

/// Offset in `stream` of a match at distance 0, if one belongs to the first `len` bytes that it decodes to.
pub(crate) fn zero_distance(stream: &[u8], len: usize) -> Option<usize> {
    let (mut at, mut out) = (0, 0usize);
    loop {
        let token = *stream.get(at)?;
        at += 1;
        let literals = length(stream, &mut at, token >> 4)?;
        (at, out) = (at.checked_add(literals)?, out.checked_add(literals)?);
        if out >= len {
            return None;
        }
        if *stream.get(at..)?.first_chunk::<2>()? == [0, 0] {
            return Some(at);
        }
        at += 2;
        out = out.checked_add(length(stream, &mut at, token & MORE)?)?.checked_add(MATCH_MIN)?;
    }
}

/// The length that begins with four bits of a token and may go on behind it.
fn length(stream: &[u8], at: &mut usize, bits: u8) -> Option<usize> {
    let mut len = usize::from(bits);
    if bits == MORE {
        loop {
            let byte = *stream.get(*at)?;
            *at += 1;
            len = len.checked_add(byte.into())?;
            if byte != u8::MAX {
                break;
            }
        }
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_match_that_counts_is_told() {
        let long = [&[0x1f, b'a', 1, 0, 255, 255, 0][..], &[0x10, b'b', 0, 0], &[0x50], b"hello"].concat();
        let cases: [(&[u8], usize, Option<usize>); 7] = [
            (b"\x50hello", 5, None),
            (b"\x10a\x01\x00\x50hello", 10, None),
            (b"\x10a\x00\x00\x50hello", 10, Some(2)),
            // Of the first byte it is not a part.
            (b"\x10a\x00\x00\x50hello", 1, None),
            (&long, 10_000, Some(9)),
            (&long, 500, None),
            // Cut off: for the decoder to tell.
            (b"\xf0", 100, None),
        ];
        for (stream, len, expected) in cases {
            assert_eq!(zero_distance(stream, len), expected, "{stream:?}");
        }
    }
}
