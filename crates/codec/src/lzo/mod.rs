//! LZO1X, written from the public description of the stream: a decoder and two encoders.
//!
//! # The stream
//!
//! A block is a list of instructions and ends with the bytes `11 00 00`. An instruction either
//! starts a run of literals or repeats `length` bytes from `distance` bytes back; each repeat also
//! carries, in two low bits called S, how many literals (0 to 3) follow it at no further cost.
//! LZO1X stores neither a checksum nor a length: the caller keeps both.
//!
//! The meaning of an opcode below 16 depends on the literals just before it:
//!
//! | name  | first byte  | allowed after     | length      | distance         | bytes |
//! |-------|-------------|-------------------|-------------|------------------|-------|
//! | run   | `0000 LLLL` | a repeat with S=0 | 4 or more   | (literals)       | 1 + x |
//! | near2 | `0000 DDSS` | 1 to 3 literals   | 2           | 1 to 1,024       | 2     |
//! | near3 | `0000 DDSS` | 4 or more         | 3           | 2,049 to 3,072   | 2     |
//! | far   | `0001 HLLL` | anything          | 3 or more   | 16,385 to 49,151 | 3 + x |
//! | mid   | `001L LLLL` | anything          | 3 or more   | 1 to 16,384      | 3 + x |
//! | short | `LLLD DDSS` | anything          | 3 to 8      | 1 to 2,048       | 2     |
//!
//! (`LLL` of a short repeat is length - 1, hence never below 2.) A second byte completes the
//! distance of near2, near3 and short; a little-endian word `D << 2 | S` ends mid and far. So the
//! S bits are always in the last byte but one of a repeat, which is where the encoders patch them.
//!
//! Lengths too big for their field set it to zero and continue in extension bytes: one zero byte
//! for each whole 255, then the rest, 1 to 255. Their number is the x of the table: none up to
//! length 18 for run, 9 for far, 33 for mid; above, one byte for each 255 or part of it.
//!
//! The first byte is special. 18 to 255 start the block with 1 to 238 literals in one byte. 17 (a
//! far repeat elsewhere) would be read by newer kernels as the version of an extended stream, so
//! the encoders here write it only as part of the end marker of an empty block.
//!
//! The decoder accepts exactly such streams: it requires the end marker and nothing after it.

mod decode;
mod dense;
mod emit;
mod fast;
mod finder;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

pub(crate) use decode::LzoDecoder;

use crate::{Encoder, Result};
use dense::DenseTables;
use fast::FastTables;

/// Name of this codec in errors.
const NAME: &str = "lzo";

/// The marker that ends every stream.
const END: [u8; 3] = [0x11, 0, 0];
/// The first byte of a stream is this plus its number of literals, for up to 238 of them.
const FIRST_RUN_BASE: usize = 17;
/// The most literals the first byte can announce.
const FIRST_RUN_MAX: usize = 255 - FIRST_RUN_BASE;
/// Farthest distance of a two-byte repeat after one to three literals.
const NEAR2_DISTANCE: usize = 0x400;
/// Farthest distance of a short repeat.
const SHORT_DISTANCE: usize = 0x800;
/// Longest short repeat.
const SHORT_LEN: usize = 8;
/// Farthest distance of a three-byte repeat after four or more literals.
const NEAR3_DISTANCE: usize = SHORT_DISTANCE + 0x400;
/// Farthest distance of a mid repeat.
const MID_DISTANCE: usize = 0x4000;
/// Farthest distance of a far repeat, and so of any.
const FAR_DISTANCE: usize = 0xBFFF;
/// Longest mid repeat without extension bytes.
const MID_LEN: usize = 33;
/// Longest far repeat without extension bytes.
const FAR_LEN: usize = 9;
/// Longest run of literals without extension bytes.
const RUN_LEN: usize = 18;

/// Class of encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncoderClass {
    /// One look-up per position; the first match is taken.
    Fast,
    /// The cheapest encoding by the matches that a search as deep as the level finds.
    Dense {
        /// Depth of the search, 1 to 9.
        level: u8,
    },
}

/// Compresses blocks to LZO1X streams.
#[derive(Debug)]
pub(crate) struct LzoEncoder {
    state: EncoderTables,
}

#[derive(Debug)]
enum EncoderTables {
    Fast(FastTables),
    Dense(DenseTables),
}

impl LzoEncoder {
    /// Makes an encoder of the given class; its tables are made once and reused.
    pub(crate) fn new(class: EncoderClass) -> Self {
        let state = match class {
            EncoderClass::Fast => EncoderTables::Fast(FastTables::new()),
            EncoderClass::Dense { level } => EncoderTables::Dense(DenseTables::new(level)),
        };
        LzoEncoder { state }
    }
}

impl Encoder for LzoEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        Ok(match &mut self.state {
            EncoderTables::Fast(fast) => fast.encode(src, dst),
            EncoderTables::Dense(dense) => dense.encode(src, dst),
        })
    }
}

/// The lowest byte of a number whose upper part is stored elsewhere or known to be zero.
#[inline(always)]
fn low_byte(value: usize) -> u8 {
    value.to_le_bytes()[0]
}

/// The two lowest bytes of a number.
#[inline(always)]
fn low_word(value: usize) -> u16 {
    let bytes = value.to_le_bytes();
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// The `N` bytes of `data` from `at`; the caller knows they are there.
#[inline(always)]
fn chunk<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&data[at..at + N]);
    bytes
}

/// Counts how many bytes at `a` and at `b > a` agree, up to `end` at most.
#[inline(always)]
fn common_len(data: &[u8], a: usize, b: usize, end: usize) -> usize {
    let mut len = 0;
    while b + len + 8 <= end {
        let differ = u64::from_le_bytes(chunk(data, a + len)) ^ u64::from_le_bytes(chunk(data, b + len));
        if differ != 0 {
            return len + differ.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    while b + len < end && data[a + len] == data[b + len] {
        len += 1;
    }
    len
}

/// Makes a table on the heap without placing it on the stack first.
fn table<T: Clone, const N: usize>(value: T) -> Box<[T; N]> {
    match vec![value; N].into_boxed_slice().try_into() {
        Ok(table) => table,
        Err(_) => unreachable!("the length was given"),
    }
}
