//! An LZ4 block decoder that refuses the same blocks as liblz4: a match may not reach into the last
//! five bytes of the destination, nor follow literals that end within its last twelve. It also
//! refuses what readers disagree on: a match at distance 0, for which liblz4 makes up bytes, and one
//! farther back than its window, which may be out of reach for Linux. So it is the decoder of checks,
//! too, in every build.

use crate::{Decoder, Error, Result};

const NAME: &str = "lz4";
/// Number of bytes at the end that must be literals.
const LAST_LITERALS: usize = 5;
/// Number of bytes at the end within which no match may begin.
const MATCH_LIMIT: usize = 12;
/// The shortest match.
const MIN_MATCH: usize = 4;
/// Least number of bytes after literals that do not end the block: a distance, a token and the last literals.
const NEXT_SEQUENCE: usize = 2 + 1 + LAST_LITERALS;
/// Length value in a token that continues in further bytes.
const MORE: u8 = 15;
/// Most literals are fewer, and a copy of a fixed length is a few instructions.
const SHORT: usize = 16;
/// Bytes that a match whose length is in its token may be copied in, in three parts.
const MATCH_ROOM: usize = 24;
const PART: usize = MATCH_ROOM / 3;
/// Bytes from a token on whose lengths are both in it, to the last byte that the rules for the end are about.
const SEQUENCE: usize = 1 + 14 + NEXT_SEQUENCE;
const _: () = assert!(MATCH_ROOM >= MATCH_LIMIT && MATCH_ROOM >= 14 + MIN_MATCH + LAST_LITERALS);
/// Length up to which literals are copied in steps rather than by a call.
const MEDIUM: usize = 256;

/// The decoder.
pub(crate) struct RustLz4Decoder {
    window: usize,
}

impl RustLz4Decoder {
    /// Makes a decoder of blocks whose matches reach at most `window` bytes back.
    pub(crate) fn new(window: u32) -> Self {
        RustLz4Decoder { window: usize::try_from(window).unwrap_or(usize::MAX) }
    }

    fn block<'a>(&self, src: &'a [u8], dst: &'a mut [u8]) -> BlockDecoder<'a> {
        BlockDecoder { src, dst, at: 0, len: 0, window: self.window }
    }
}

impl Decoder for RustLz4Decoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.block(src, dst).whole().map_err(|defect| match defect {
            BlockDefect::Damaged => {
                Error::corrupt(NAME, "damaged block, or it decodes to more than the expected length")
            }
            other => self.error(other),
        })
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        self.block(src, dst).prefix().map_err(|defect| self.error(defect))
    }
}

impl RustLz4Decoder {
    fn error(&self, defect: BlockDefect) -> Error {
        let why = match defect {
            BlockDefect::Damaged => "damaged block, or it ends too early".into(),
            BlockDefect::NoDistance => "a match at distance 0, which each decoder reads differently".into(),
            BlockDefect::Far(distance) => {
                format!("a match {distance} bytes back, beyond the declared window of {}", self.window)
            }
        };
        Error::corrupt(NAME, why)
    }
}

/// Reason to refuse a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockDefect {
    /// It breaks the format or has another length than expected.
    Damaged,
    /// A match at distance 0.
    NoDistance,
    /// A match this many bytes back, beyond the window.
    Far(usize),
}

/// Result of decoding a part of a block.
type BlockResult<T> = std::result::Result<T, BlockDefect>;

/// A block being decoded.
struct BlockDecoder<'a> {
    src: &'a [u8],
    dst: &'a mut [u8],
    /// Bytes read.
    at: usize,
    /// Bytes written.
    len: usize,
    window: usize,
}

impl BlockDecoder<'_> {
    /// Decodes everything; returns the decoded length.
    fn whole(&mut self) -> BlockResult<usize> {
        if self.dst.is_empty() {
            return if self.src == [0] { Ok(0) } else { Err(BlockDefect::Damaged) };
        }
        loop {
            self.short();
            let token = self.byte()?;
            let literals = self.length(token >> 4)?;
            self.literals(literals)?;
            if self.at == self.src.len() {
                return Ok(self.len);
            }
            if self.at + NEXT_SEQUENCE > self.src.len() || self.len + MATCH_LIMIT > self.dst.len() {
                return Err(BlockDefect::Damaged);
            }
            let distance = self.distance()?;
            let len = self.length(token & MORE)? + MIN_MATCH;
            if len.saturating_add(LAST_LITERALS) > self.room() {
                return Err(BlockDefect::Damaged);
            }
            self.copy(distance, len);
        }
    }

    /// Decodes sequences whose lengths are in their tokens, which most are, by copies of fixed lengths. Stops before any
    /// other, before one with a defect, and where the rules for the end may count.
    fn short(&mut self) {
        let mut at = self.at;
        let mut len = self.len;
        while let Some(head) = self.src.get(at..).and_then(|rest| rest.first_chunk::<SEQUENCE>()) {
            let literals = usize::from(head[0] >> 4);
            let more = usize::from(head[0] & MORE);
            if literals == usize::from(MORE) || more == usize::from(MORE) {
                break;
            }
            let distance = usize::from(u16::from_le_bytes([head[1 + literals], head[2 + literals]]));
            let to = len + literals;
            if distance < PART || distance > self.window.min(to) || self.dst.len() < to + MATCH_ROOM {
                break;
            }
            put::<SHORT>(self.dst, len, part(head, 1));
            for step in [0, PART, 2 * PART] {
                put::<PART>(self.dst, to + step, part(self.dst, to + step - distance));
            }
            at += 1 + literals + 2;
            len = to + more + MIN_MATCH;
        }
        (self.at, self.len) = (at, len);
    }

    /// Decodes until the destination is full.
    fn prefix(&mut self) -> BlockResult<()> {
        while self.room() > 0 {
            let token = self.byte()?;
            let literals = self.length(token >> 4)?;
            self.literals(literals.min(self.room()))?;
            if self.room() == 0 {
                break;
            }
            let distance = self.distance()?;
            let len = self.length(token & MORE)? + MIN_MATCH;
            self.copy(distance, len.min(self.room()));
        }
        Ok(())
    }

    fn room(&self) -> usize {
        self.dst.len() - self.len
    }

    fn byte(&mut self) -> BlockResult<u8> {
        let byte = *self.src.get(self.at).ok_or(BlockDefect::Damaged)?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads the rest of a length whose first four bits are `field`. It stays below 255 times the length of the block.
    fn length(&mut self, field: u8) -> BlockResult<usize> {
        let mut len = usize::from(field);
        if field == MORE {
            loop {
                let byte = self.byte()?;
                len += usize::from(byte);
                if byte != u8::MAX {
                    break;
                }
            }
        }
        Ok(len)
    }

    fn distance(&mut self) -> BlockResult<usize> {
        let bytes = self.src.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(BlockDefect::Damaged)?;
        self.at += 2;
        match usize::from(u16::from_le_bytes(*bytes)) {
            0 => Err(BlockDefect::NoDistance),
            distance if distance > self.window => Err(BlockDefect::Far(distance)),
            distance if distance > self.len => Err(BlockDefect::Damaged),
            distance => Ok(distance),
        }
    }

    #[inline(always)]
    fn literals(&mut self, len: usize) -> BlockResult<()> {
        let from = &self.src[self.at..];
        let to = &mut self.dst[self.len..];
        let steps = len.next_multiple_of(SHORT);
        if len <= MEDIUM && from.len() >= steps && to.len() >= steps {
            let mut step = 0;
            while step < steps {
                put::<SHORT>(to, step, part(from, step));
                step += SHORT;
            }
        } else {
            let from = from.get(..len).ok_or(BlockDefect::Damaged)?;
            to.get_mut(..len).ok_or(BlockDefect::Damaged)?.copy_from_slice(from);
        }
        self.at += len;
        self.len += len;
        Ok(())
    }

    /// Copies `len` bytes, which fit, from `distance` back, where there are at least as many: more than those repeat.
    fn copy(&mut self, distance: usize, mut len: usize) {
        let from = self.len - distance;
        let steps = len.next_multiple_of(SHORT);
        if distance >= SHORT && self.room() >= steps {
            let window = &mut self.dst[from..self.len + steps];
            let mut step = 0;
            while step < steps {
                put::<SHORT>(window, step + distance, part(window, step));
                step += SHORT;
            }
            self.len += len;
            return;
        }
        while len > 0 {
            // What was copied last may be copied again, so each turn doubles.
            let part = len.min(self.len - from);
            self.dst.copy_within(from..from + part, self.len);
            self.len += part;
            len -= part;
        }
    }
}

/// Returns the `N` bytes at `at`.
// Always inlined, as `put` is: a program optimised for size would call slices' own copies for each of these few bytes.
#[inline(always)]
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// Writes `part` at `at`.
#[inline(always)]
fn put<const N: usize>(bytes: &mut [u8], at: usize, part: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_match_that_counts_is_refused() {
        let long = [&[0x1f, b'a', 1, 0, 255, 255, 0][..], &[0x10, b'b', 0, 0], &[0x50], b"hello"].concat();
        let zero = Some("distance 0");
        let far = Some("a match 513 bytes back");
        let cases: [(&[u8], usize, Option<&str>); 9] = [
            (b"\x50hello", 5, None),
            (b"\x10a\x01\x00\x50hello", 10, None),
            (b"\x10a\x00\x00\x50hello", 10, zero),
            // It is not a part of the first byte.
            (b"\x10a\x00\x00\x50hello", 1, None),
            (&long, 10_000, zero),
            (&long, 500, None),
            (b"\x10a\x01\x02\x50hello", 10, far),
            (b"\x10a\x00\x02\x50hello", 10, Some("damaged")),
            (b"\xf0", 100, Some("damaged")),
        ];
        for (stream, len, expected) in cases {
            let refused =
                RustLz4Decoder::new(512).decode_prefix(stream, &mut vec![0; len]).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), expected.is_some(), "{stream:?}: {refused:?}");
            assert!(expected.is_none_or(|expected| refused.is_some_and(|why| why.contains(expected))), "{stream:?}");
        }
    }
}
