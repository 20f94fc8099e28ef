//! Raw deflate streams, as EROFS stores them. libdeflate encodes them and decodes whole streams;
//! zlib decodes their beginnings, as libdeflate cannot stop early. The densest encoder is our own and serves zlib streams.

// Lengths, distances and counts of a stretch of input fit 16 and 32 bits.
#![allow(clippy::cast_possible_truncation)]

use crate::inflate::{DeflateFrame, LibdeflateDecompressor};
use crate::rust::inflate::ZlibRsDecoder;
use crate::{DecodedStream, Decoder, Encoder, Result};

const NAME: &str = "deflate";

mod bits;
mod block;
mod cache;
mod codes;
mod dense;
mod header;
mod library;
mod parser;
mod split;
mod symbols;

pub(crate) use dense::{DenseDeflate, memory as dense_memory};
pub(crate) use library::LibdeflateCompressor;

struct DeflateEncoder(LibdeflateCompressor);

/// Makes an encoder.
pub(crate) fn encoder(level: u8) -> Result<Box<dyn Encoder>> {
    Ok(Box::new(DeflateEncoder(LibdeflateCompressor::new(NAME, level)?)))
}

impl Encoder for DeflateEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let Some(len) = self.0.deflate(src, dst) else { return Ok(None) };
        if let Some(first @ 0) = dst[..len].first_mut() {
            // EROFS skips zeros before a stream, so its first byte must not be zero. It is zero
            // only for a stored block that is not the last one, and the upper five bits of that
            // byte are unused.
            *first = 1 << 3;
        }
        Ok(Some(len))
    }
}

struct DeflateDecoder {
    whole: LibdeflateDecompressor,
    start: ZlibRsDecoder,
}

/// Makes a decoder of blocks and clusters.
pub(crate) fn decoder() -> Result<Box<dyn Decoder>> {
    Ok(Box::new(DeflateDecoder {
        whole: LibdeflateDecompressor::new(NAME, DeflateFrame::Raw)?,
        start: ZlibRsDecoder::raw(),
    }))
}

impl Decoder for DeflateDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.decode_stream(src, dst)?.of_all(NAME, src)
    }

    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        self.whole.decode_stream(src, dst)
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        self.start.decode_prefix(src, dst)
    }
}
