//! Writes LZO1X instructions into a buffer that may turn out too short.

use super::{
    END, FAR_LEN, FIRST_RUN_BASE, FIRST_RUN_MAX, MID_DISTANCE, MID_LEN, NEAR2_DISTANCE, NEAR3_DISTANCE, RUN_LEN,
    SHORT_DISTANCE, SHORT_LEN, low_byte,
};

/// A stream under construction. Every method returns `None` when the buffer is full.
#[derive(Debug)]
pub(super) struct LzoEmitter<'a> {
    dst: &'a mut [u8],
    at: usize,
}

impl<'a> LzoEmitter<'a> {
    pub(super) fn new(dst: &'a mut [u8]) -> Self {
        LzoEmitter { dst, at: 0 }
    }

    /// Writes the literals `src[from..to]`, which are all those between two repeats or between a
    /// repeat and an end of the block.
    #[inline(always)]
    pub(super) fn literals(&mut self, src: &[u8], from: usize, to: usize) -> Option<()> {
        let len = to - from;
        if self.at == 0 {
            self.first_run_header(len)?;
        } else if len <= 3 {
            // A non-empty buffer ends with a repeat, whose S bits are in its last byte but one.
            self.dst[self.at - 2] |= low_byte(len);
        } else if len <= RUN_LEN {
            self.put([low_byte(len - 3)])?;
        } else {
            self.put([0])?;
            self.extension(len - RUN_LEN)?;
        }
        // Overshooting is harmless: the next instruction overwrites it.
        if len <= 16 && src.len() - from >= 16 && self.dst.len() - self.at >= 16 {
            self.dst[self.at..self.at + 16].copy_from_slice(&src[from..from + 16]);
        } else {
            self.dst.get_mut(self.at..self.at + len)?.copy_from_slice(&src[from..to]);
        }
        self.at += len;
        Some(())
    }

    /// Writes a repeat in the cheapest form that can express it after `run` literals.
    #[inline(always)]
    pub(super) fn repeat(&mut self, len: usize, distance: usize, run: usize) -> Option<()> {
        if distance <= SHORT_DISTANCE && (3..=SHORT_LEN).contains(&len) {
            let back = distance - 1;
            return self.put([low_byte((len - 1) << 5 | (back & 7) << 2), low_byte(back >> 3)]);
        }
        if len == 2 {
            debug_assert!((1..=3).contains(&run) && distance <= NEAR2_DISTANCE);
            let back = distance - 1;
            return self.put([low_byte((back & 3) << 2), low_byte(back >> 2)]);
        }
        if len == 3 && run >= 4 && distance <= NEAR3_DISTANCE {
            let back = distance - SHORT_DISTANCE - 1;
            return self.put([low_byte((back & 3) << 2), low_byte(back >> 2)]);
        }
        let (marker, field_max, back) = if distance <= MID_DISTANCE {
            (0x20, MID_LEN, distance - 1)
        } else {
            let beyond = distance - MID_DISTANCE;
            (0x10 | (beyond >> 11 & 8), FAR_LEN, beyond & 0x3FFF)
        };
        let word = [low_byte(back << 2), low_byte(back >> 6)];
        if len <= field_max {
            self.put([low_byte(marker | (len - 2)), word[0], word[1]])
        } else {
            self.put([low_byte(marker)])?;
            self.extension(len - field_max)?;
            self.put(word)
        }
    }

    /// Ends the stream and returns its length.
    pub(super) fn finish(mut self) -> Option<usize> {
        self.put(END)?;
        Some(self.at)
    }

    fn first_run_header(&mut self, len: usize) -> Option<()> {
        match len {
            0 => Some(()),
            1..=FIRST_RUN_MAX => self.put([low_byte(FIRST_RUN_BASE + len)]),
            _ => {
                self.put([0])?;
                self.extension(len - RUN_LEN)
            }
        }
    }

    /// Writes the extension bytes for the part of a length beyond its field, at least 1.
    #[inline(never)]
    fn extension(&mut self, beyond: usize) -> Option<()> {
        let zeros = (beyond - 1) / 255;
        self.dst.get_mut(self.at..self.at + zeros)?.fill(0);
        self.at += zeros;
        self.put([low_byte(beyond - zeros * 255)])
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Option<()> {
        self.dst.get_mut(self.at..self.at + N)?.copy_from_slice(&bytes);
        self.at += N;
        Some(())
    }
}
