//! zlib streams. libdeflate makes the ordinary ones: it is several times faster than zlib at the
//! same size. zlib itself makes those with a smaller window or another strategy.

use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Status, Strategy};

use crate::deflate::{DenseDeflate, LibdeflateCompressor};
use crate::inflate::{DeflateFrame, LibdeflateDecompressor};
use crate::settings::GzipStrategies;
use crate::smallest::SmallestEncoder;
use crate::{DecodedStream, Decoder, Encoder, Error, Result};

const NAME: &str = "gzip";
/// Level from which on our own encoder is used.
pub(crate) const DENSE: u8 = 12;
/// The beginning of a stream: deflate with a window of 32K, compressed best. Source: RFC 1950.
const HEAD: [u8; 2] = [0x78, 0xda];
/// Length of the checksum at the end, and of both.
const SUM: usize = 4;
const FRAME: usize = HEAD.len() + SUM;

/// Makes an encoder that tries every strategy of the set and keeps the smallest result.
pub(crate) fn encoder(level: u8, window: u8, strategies: u16) -> Result<Box<dyn Encoder>> {
    let chosen = GzipStrategies::NAMES.iter().filter(|(_, bit)| strategies & bit != 0);
    Ok(SmallestEncoder::of(chosen.map(|(_, bit)| engine(level, window, *bit)).collect::<Result<_>>()?))
}

fn engine(level: u8, window: u8, strategy: u16) -> Result<Box<dyn Encoder>> {
    if window == 15 && strategy == GzipStrategies::DEFAULT {
        if level >= DENSE {
            return Ok(Box::new(DenseZlibEncoder(DenseDeflate::new())));
        }
        return Ok(Box::new(LibdeflateZlibEncoder(LibdeflateCompressor::new(NAME, level)?)));
    }
    let strategy = match strategy {
        GzipStrategies::FILTERED => Strategy::Filtered,
        GzipStrategies::HUFFMAN => Strategy::HuffmanOnly,
        GzipStrategies::RLE => Strategy::Rle,
        GzipStrategies::FIXED => Strategy::Fixed,
        _ => Strategy::Default,
    };
    let config =
        DeflateConfig { level: i32::from(level), window_bits: i32::from(window), strategy, ..DeflateConfig::default() };
    Ok(Box::new(ZlibRsEncoder(Deflate::new_with_config(config))))
}

/// The densest encoder, our own.
struct DenseZlibEncoder(DenseDeflate);

impl Encoder for DenseZlibEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let Some(room) = dst.len().checked_sub(FRAME) else { return Ok(None) };
        let (head, body) = dst.split_at_mut(HEAD.len());
        let Some(len) = self.0.compress(src, &mut body[..room]) else { return Ok(None) };
        head.copy_from_slice(&HEAD);
        body[len..len + SUM].copy_from_slice(&libdeflater::adler32(src).to_be_bytes());
        Ok(Some(len + FRAME))
    }
}

struct LibdeflateZlibEncoder(LibdeflateCompressor);

impl Encoder for LibdeflateZlibEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        Ok(self.0.zlib(src, dst))
    }
}

struct ZlibRsEncoder(Deflate);

impl Encoder for ZlibRsEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        self.0.reset();
        match self.0.compress(src, dst, DeflateFlush::Finish) {
            Ok(Status::StreamEnd) => Ok(usize::try_from(self.0.total_out()).ok()),
            Ok(Status::Ok | Status::BufError) => Ok(None),
            Err(error) => Err(library(error.as_str())),
        }
    }
}

fn library(why: &str) -> Error {
    Error::Library { codec: NAME, why: why.to_owned() }
}

/// Makes a decoder.
pub(crate) fn decoder() -> Result<Box<dyn Decoder>> {
    Ok(Box::new(ZlibDecoder(LibdeflateDecompressor::new(NAME, DeflateFrame::Zlib)?)))
}

struct ZlibDecoder(LibdeflateDecompressor);

impl Decoder for ZlibDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.decode_stream(src, dst)?.of_all(NAME, src)
    }

    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        self.0.decode_stream(src, dst)
    }
}
