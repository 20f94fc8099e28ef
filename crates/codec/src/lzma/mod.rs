//! An LZMA encoder for independent blocks, written from the public description of the format. Its results
//! are read by every LZMA decoder: as LZMA2 in xz streams, as legacy .lzma and as MicroLZMA.
//!
//! # The format
//!
//! A stream is a list of operations, coded by an adaptive binary range coder. An operation is a literal, a match
//! (length 2 to 273 and a distance) or a repeat: a match at one of the last four distances, the first of which may
//! have length 1 ("short repeat"). The model of each bit depends on the kinds of the last operations
//! ([`state`]), on the position modulo 2^pb and, for literals, on `lc` bits of the byte before and `lp` bits of the position.
//!
//! # The encoder
//!
//! | step | module |
//! |---|---|
//! | the bits of the models, by the bytes of the block | [`guess`] |
//! | binary trees of earlier positions give the nearest match of each length | [`trees`](crate::trees) |
//! | the cheapest list of operations by the present prices of bits | [`parser`] |
//! | the model: probabilities, prices, coding of an operation | [`model`], [`lengths`], [`distances`] |
//! | the range coder | [`range`] |
//! | LZMA2 chunks, raw LZMA, clusters of a fixed size | [`stream`] |
//!
//! # Speed
//!
//! The usual optimal parser looks for matches at every position and prices all of them. This one leaves out
//! positions that are as expensive to reach as the next one ([`LzmaEffort::slack`]): such a position lies inside a
//! match, and whatever starts there can start one byte later at the same distance. Positions deep inside a match are
//! not even noted as ones to copy from: what they copied still is. docs/design/xz-and-lzma.md has the figures.
//!
//! Sources: the LZMA specification of the LZMA SDK (public domain) and the xz file format 1.2.1.

// Positions fit 32 bits, lengths nine, prices and probabilities far less.
#![allow(clippy::cast_possible_truncation)]

mod distances;
mod guess;
mod lengths;
mod model;
mod parser;
mod price;
mod range;
mod state;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use stream::LzmaEncoder;

use crate::settings::USUAL_BITS;

/// Smallest length of a match or repeat, except the short repeat.
const LEN_MIN: usize = crate::trees::LEN_MIN;
/// Greatest length of a match or repeat.
const LEN_MAX: usize = 273;
/// Number of distances that repeats can take up.
const REPEATS: usize = 4;

/// Bits of the literal and position models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelBits {
    /// Bits of the byte before that choose the model of a literal, 0 to 4; with `lp` at most 4.
    pub(crate) lc: u8,
    /// Bits of the position that choose the model of a literal, 0 to 4.
    pub(crate) lp: u8,
    /// Bits of the position that choose the model of operations and lengths, 0 to 4.
    pub(crate) pb: u8,
}

impl ModelBits {
    /// Those that suit most blocks.
    pub(crate) const USUAL: ModelBits = ModelBits { lc: USUAL_BITS.0, lp: USUAL_BITS.1, pb: USUAL_BITS.2 };

    /// Returns the properties byte of LZMA headers.
    pub(crate) fn properties(self) -> u8 {
        (self.pb * 5 + self.lp) * 9 + self.lc
    }
}

/// Effort of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LzmaEffort {
    /// Length from which a match is taken without looking further, 16 to 273.
    pub(crate) nice: usize,
    /// Greatest number of earlier positions that a search compares.
    pub(crate) depth: u32,
    /// A position is left out if the next one costs at most this much more, in sixteenths of a bit.
    pub(crate) slack: u32,
    /// True to note all positions as ones that may be copied, even deep inside a match.
    pub(crate) thorough: bool,
}

/// One operation of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LzmaOperation {
    /// Number of bytes it makes.
    len: u32,
    /// [`LzmaOperation::LITERAL`], the index of a repeat, or [`REPEATS`] plus a distance (less one, as the format
    /// counts).
    back: u32,
}

impl LzmaOperation {
    /// Marks a literal.
    const LITERAL: u32 = u32::MAX;
    /// The first value of `back` that is a distance.
    const MATCH: u32 = REPEATS as u32;
}
