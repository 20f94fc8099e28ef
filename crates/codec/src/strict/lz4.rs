//! LZ4 matches that decoders disagree on. A match at distance 0 is undefined: a decoder copies
//! whatever its output buffer holds there. A match farther back than the image declares may be out
//! of reach for Linux.

/// Shortest match.
const MATCH_MIN: usize = 4;
/// Length value in a token that continues in further bytes.
const MORE: u8 = 15;

/// Describes the first invalid match among those that produce the first `len` bytes of output;
/// matches may reach at most `window` bytes back.
pub(super) fn defect(stream: &[u8], len: usize, window: u32) -> Option<String> {
    let mut matches = Matches { stream, at: 0, out: 0 };
    while let Some(distance) = matches.next(len) {
        if distance == 0 {
            return Some("a match at distance 0, which each decoder reads differently".into());
        }
        if u32::from(distance) > window {
            return Some(format!("a match {distance} bytes back, beyond the declared window of {window}"));
        }
    }
    None
}

struct Matches<'s> {
    stream: &'s [u8],
    at: usize,
    /// Bytes decoded.
    out: usize,
}

impl Matches<'_> {
    /// Returns the distance of the next match; `None` after the last, after `len` bytes, or if the
    /// stream is cut off, which the decoder reports.
    fn next(&mut self, len: usize) -> Option<u16> {
        let token = *self.stream.get(self.at)?;
        self.at += 1;
        let literals = self.length(token >> 4)?;
        (self.at, self.out) = (self.at.checked_add(literals)?, self.out.checked_add(literals)?);
        if self.out >= len {
            return None;
        }
        let distance = *self.stream.get(self.at..)?.first_chunk::<2>()?;
        self.at += 2;
        let matched = self.length(token & MORE)?;
        self.out = self.out.checked_add(matched)?.checked_add(MATCH_MIN)?;
        Some(u16::from_le_bytes(distance))
    }

    /// Reads a length that begins with four bits of a token and may continue after it.
    fn length(&mut self, bits: u8) -> Option<usize> {
        let mut len = usize::from(bits);
        if bits == MORE {
            loop {
                let byte = *self.stream.get(self.at)?;
                self.at += 1;
                len = len.checked_add(byte.into())?;
                if byte != u8::MAX {
                    break;
                }
            }
        }
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_match_that_counts_is_told() {
        let long = [&[0x1f, b'a', 1, 0, 255, 255, 0][..], &[0x10, b'b', 0, 0], &[0x50], b"hello"].concat();
        let (zero, far) = (Some("distance 0"), Some("a match 513 bytes back"));
        let cases: [(&[u8], usize, Option<&str>); 9] = [
            (b"\x50hello", 5, None),
            (b"\x10a\x01\x00\x50hello", 10, None),
            (b"\x10a\x00\x00\x50hello", 10, zero),
            // The match does not contribute to the first byte.
            (b"\x10a\x00\x00\x50hello", 1, None),
            (&long, 10_000, zero),
            (&long, 500, None),
            (b"\x10a\x01\x02\x50hello", 10, far),
            (b"\x10a\x00\x02\x50hello", 10, None),
            // Cut off: the decoder reports that.
            (b"\xf0", 100, None),
        ];
        for (stream, len, expected) in cases {
            let found = defect(stream, len, 512);
            assert_eq!(found.is_some(), expected.is_some(), "{stream:?}: {found:?}");
            assert!(expected.is_none_or(|expected| found.is_some_and(|found| found.contains(expected))), "{stream:?}");
        }
    }
}
