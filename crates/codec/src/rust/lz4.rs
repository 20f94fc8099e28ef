//! An LZ4 block decoder that refuses the same blocks as liblz4: a match may not reach into the last
//! five bytes of the destination, nor follow literals that end within its last twelve. It also
//! refuses a distance of zero, for which liblz4 makes up bytes.

use crate::{Decoder, Error, Result};

/// Number of bytes at the end that must be literals.
const LAST_LITERALS: usize = 5;
/// Number of bytes at the end within which no match may begin.
const MATCH_LIMIT: usize = 12;
/// The shortest match.
const MIN_MATCH: usize = 4;
/// Least number of bytes after literals that do not end the block: a distance, a token and the last literals.
const NEXT_SEQUENCE: usize = 2 + 1 + LAST_LITERALS;

/// The decoder.
pub(crate) struct Unpack;

impl Decoder for Unpack {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let mut block = Block { src, dst, at: 0, len: 0 };
        block
            .whole()
            .ok_or_else(|| Error::corrupt("lz4", "damaged block, or it decodes to more than the expected length"))
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        let mut block = Block { src, dst, at: 0, len: 0 };
        block.prefix().ok_or_else(|| Error::corrupt("lz4", "damaged block, or it ends too early"))
    }
}

/// A block being decoded. Methods return `None` if it is damaged.
struct Block<'a> {
    src: &'a [u8],
    dst: &'a mut [u8],
    /// Bytes read.
    at: usize,
    /// Bytes written.
    len: usize,
}

impl Block<'_> {
    /// Decodes everything; returns the decoded length.
    fn whole(&mut self) -> Option<usize> {
        if self.dst.is_empty() {
            return (self.src == [0]).then_some(0);
        }
        loop {
            let token = self.byte()?;
            let literals = self.length(token >> 4)?;
            let (read, written) = (self.at.checked_add(literals)?, self.len.checked_add(literals)?);
            self.literals(literals)?;
            if read == self.src.len() {
                return Some(self.len);
            }
            if read + NEXT_SEQUENCE > self.src.len() || written + MATCH_LIMIT > self.dst.len() {
                return None;
            }
            let distance = self.distance()?;
            let len = self.length(token & 15)?.checked_add(MIN_MATCH)?;
            if self.len.checked_add(len)?.checked_add(LAST_LITERALS)? > self.dst.len() {
                return None;
            }
            self.copy(distance, len)?;
        }
    }

    /// Decodes until the destination is full.
    fn prefix(&mut self) -> Option<()> {
        while self.len < self.dst.len() {
            let token = self.byte()?;
            let literals = self.length(token >> 4)?;
            self.literals(literals.min(self.room()))?;
            if self.room() == 0 {
                break;
            }
            let distance = self.distance()?;
            let len = self.length(token & 15)?.checked_add(MIN_MATCH)?;
            self.copy(distance, len.min(self.room()))?;
        }
        Some(())
    }

    fn room(&self) -> usize {
        self.dst.len() - self.len
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.src.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Reads a length whose first four bits are `field`.
    fn length(&mut self, field: u8) -> Option<usize> {
        let mut len = usize::from(field);
        if field == 15 {
            loop {
                let byte = self.byte()?;
                len += usize::from(byte);
                if byte != 255 {
                    break;
                }
            }
        }
        Some(len)
    }

    fn distance(&mut self) -> Option<usize> {
        let bytes = self.src.get(self.at..)?.first_chunk()?;
        self.at += 2;
        let distance = usize::from(u16::from_le_bytes(*bytes));
        (1..=self.len).contains(&distance).then_some(distance)
    }

    fn literals(&mut self, len: usize) -> Option<()> {
        let from = self.src.get(self.at..)?.get(..len)?;
        self.dst.get_mut(self.len..)?.get_mut(..len)?.copy_from_slice(from);
        self.at += len;
        self.len += len;
        Some(())
    }

    /// Copies `len` bytes, which fit, from `distance` back; if `len` exceeds `distance`, the bytes repeat.
    fn copy(&mut self, distance: usize, mut len: usize) -> Option<()> {
        let from = self.len.checked_sub(distance)?;
        while len > 0 {
            // The bytes just copied may be copied again, so each turn doubles them.
            let part = len.min(self.len - from);
            self.dst.copy_within(from..from + part, self.len);
            self.len += part;
            len -= part;
        }
        Some(())
    }
}
