//! The LZO1X decoder: takes untrusted bytes and returns a block or the reason of refusal.

use super::{END, FIRST_RUN_BASE, NAME, chunk};
use crate::{Decoder, Error, Result};

/// Decodes LZO1X streams; needs no memory of its own. Bytes of the target beyond the decoded length
/// may be overwritten.
#[derive(Debug)]
pub(crate) struct LzoDecoder;

impl Decoder for LzoDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        decode(src, dst).map_err(|why| Error::corrupt(NAME, why))
    }
}

/// Reason for refusing a stream.
type RefusalReason = &'static str;

const INPUT_ENDS: RefusalReason = "the stream ends before its end marker";
const OUTPUT_FULL: RefusalReason = "the stream decodes to more than the block";
const BEFORE_START: RefusalReason = "a repeat reaches back before the start of the block";
const BAD_END: RefusalReason = "the end marker is malformed";
const TRAILING: RefusalReason = "bytes follow the end marker";

/// Bytes copied at once where there is room to overshoot.
const WIDE: usize = 16;

fn decode(src: &[u8], dst: &mut [u8]) -> std::result::Result<usize, RefusalReason> {
    let mut input = LzoInput { src, at: 0 };
    let mut output = LzoOutput { dst, at: 0 };
    // Number of literals just before the next opcode: 0 to 3, or 4 for a run of four or more.
    let mut state = 0;
    // Such a first byte announces a run of literals (Documentation/staging/lzo.rst of Linux).
    if let Some(&first) = src.first()
        && usize::from(first) > FIRST_RUN_BASE
    {
        input.at = 1;
        let run = usize::from(first) - FIRST_RUN_BASE;
        output.literals(&mut input, run)?;
        state = run.min(4);
    }
    loop {
        let op = input.byte()?;
        let (len, distance, low) = if op >= 64 {
            let high = input.byte()?;
            ((op >> 5) + 1, (high << 3) + (op >> 2 & 7) + 1, op)
        } else if op >= 32 {
            let len = input.length(op & 31, 31)?;
            let word = input.word()?;
            (len + 2, (word >> 2) + 1, word)
        } else if op >= 16 {
            let len = input.length(op & 7, 7)?;
            let word = input.word()?;
            let beyond = ((op & 8) << 11) + (word >> 2);
            if beyond == 0 {
                return finish(&input, &output, op, word);
            }
            (len + 2, beyond + 0x4000, word)
        } else if state == 0 {
            let run = input.length(op, 15)? + 3;
            output.literals(&mut input, run)?;
            state = 4;
            continue;
        } else {
            let near = (input.byte()? << 2) + (op >> 2);
            if state == 4 { (3, near + 2049, op) } else { (2, near + 1, op) }
        };
        output.repeat(distance, len)?;
        state = low & 3;
        output.trailing_literals(&mut input, state)?;
    }
}

/// Checks that the end marker is complete and last.
#[cold]
fn finish(
    input: &LzoInput<'_>,
    output: &LzoOutput<'_>,
    op: usize,
    word: usize,
) -> std::result::Result<usize, RefusalReason> {
    if op != usize::from(END[0]) || word != 0 {
        return Err(BAD_END);
    }
    if input.at != input.src.len() {
        return Err(TRAILING);
    }
    Ok(output.at)
}

struct LzoInput<'a> {
    src: &'a [u8],
    at: usize,
}

impl LzoInput<'_> {
    #[inline(always)]
    fn byte(&mut self) -> std::result::Result<usize, RefusalReason> {
        let byte = *self.src.get(self.at).ok_or(INPUT_ENDS)?;
        self.at += 1;
        Ok(usize::from(byte))
    }

    #[inline(always)]
    fn word(&mut self) -> std::result::Result<usize, RefusalReason> {
        let bytes = self.src.get(self.at..self.at + 2).ok_or(INPUT_ENDS)?;
        self.at += 2;
        Ok(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    /// Reads the length from an opcode's `field`, or from the bytes after it if the field is zero.
    #[inline(always)]
    fn length(&mut self, field: usize, field_max: usize) -> std::result::Result<usize, RefusalReason> {
        if field != 0 { Ok(field) } else { Ok(self.extension()?.saturating_add(field_max)) }
    }

    fn extension(&mut self) -> std::result::Result<usize, RefusalReason> {
        let start = self.at;
        loop {
            let byte = self.byte()?;
            if byte != 0 {
                // Saturating: an absurd length then fails for lack of room.
                return Ok((self.at - 1 - start).saturating_mul(255).saturating_add(byte));
            }
        }
    }
}

struct LzoOutput<'a> {
    dst: &'a mut [u8],
    at: usize,
}

impl LzoOutput<'_> {
    /// Copies a run of literals.
    #[inline(always)]
    fn literals(&mut self, input: &mut LzoInput<'_>, len: usize) -> std::result::Result<(), RefusalReason> {
        if len <= WIDE && self.dst.len() - self.at >= WIDE && input.src.len() - input.at >= WIDE {
            // Both sides have room for more, and what follows overwrites the surplus.
            self.dst[self.at..self.at + WIDE].copy_from_slice(&input.src[input.at..input.at + WIDE]);
        } else {
            if len > input.src.len() - input.at {
                return Err(INPUT_ENDS);
            }
            if len > self.dst.len() - self.at {
                return Err(OUTPUT_FULL);
            }
            self.dst[self.at..self.at + len].copy_from_slice(&input.src[input.at..input.at + len]);
        }
        input.at += len;
        self.at += len;
        Ok(())
    }

    /// Copies the 0 to 3 literals announced by a repeat.
    #[inline(always)]
    fn trailing_literals(&mut self, input: &mut LzoInput<'_>, len: usize) -> std::result::Result<(), RefusalReason> {
        if self.dst.len() - self.at >= 4 && input.src.len() - input.at >= 4 {
            self.dst[self.at..self.at + 4].copy_from_slice(&input.src[input.at..input.at + 4]);
            input.at += len;
            self.at += len;
            Ok(())
        } else {
            self.literals(input, len)
        }
    }

    /// Repeats `len` bytes from `distance` back; source and target may overlap.
    #[inline(always)]
    fn repeat(&mut self, distance: usize, len: usize) -> std::result::Result<(), RefusalReason> {
        if distance > self.at {
            return Err(BEFORE_START);
        }
        let room = self.dst.len() - self.at;
        let from = self.at - distance;
        if len <= WIDE && len <= distance && room >= WIDE {
            let bytes: [u8; WIDE] = chunk(self.dst, from);
            self.dst[self.at..self.at + WIDE].copy_from_slice(&bytes);
        } else {
            if len > room {
                return Err(OUTPUT_FULL);
            }
            self.repeat_long(from, len);
        }
        self.at += len;
        Ok(())
    }

    /// [`LzoOutput::repeat`] for long or overlapping repeats, or without room to overshoot; already checked.
    #[inline(never)]
    fn repeat_long(&mut self, from: usize, len: usize) {
        let mut at = self.at;
        let end = self.at + len;
        let distance = at - from;
        if distance == 1 {
            let byte = self.dst[from];
            self.dst[at..end].fill(byte);
        } else if distance < WIDE && len <= WIDE {
            for at in at..end {
                self.dst[at] = self.dst[at - distance];
            }
        } else {
            // The bytes between `from` and `at` repeat: each copy doubles them.
            while at < end {
                let step = (at - from).min(end - at);
                self.dst.copy_within(from..from + step, at);
                at += step;
            }
        }
    }
}
