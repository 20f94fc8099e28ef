//! MicroLZMA, as EROFS stores it: raw LZMA without an end marker. Its first byte, which would
//! always be zero, holds the inverted properties instead. The lengths and the dictionary size come
//! from the image.

use super::own;
use super::stream::{LzmaOptions, LzmaStream};
use crate::{Decoder, EncodedPrefix, Encoder, Result, Settings};

const NAME: &str = "lzma";
/// Least output room: the first byte and a flush. The library demands as much.
const LEAST: usize = 6;
/// Input offered at first, as a multiple of the output room: encoders copy all input before they begin.
const LOOKAHEAD: usize = 16;

/// The smallest and the largest dictionary that EROFS can declare.
const DICT_MIN: u32 = 4096;
const DICT_MAX: u32 = 8 << 20;

struct MicroEncoder(MicroCoder);

/// The encoder of a preset: ours, or liblzma's.
enum MicroCoder {
    Us(Box<own::OwnMicroEncoder>),
    Library(Box<(LzmaStream, LzmaOptions)>),
}

/// Makes an encoder for [`Settings::Lzma`] with a dictionary of `window` bytes.
pub(crate) fn micro_encoder(settings: &Settings, window: u32) -> Result<Box<dyn Encoder>> {
    let Settings::Lzma { level, extreme, .. } = settings else { return Err(super::other_settings(NAME)) };
    let by = match own::effort(*level, *extreme) {
        Some(effort) => {
            MicroCoder::Us(Box::new(own::OwnMicroEncoder::new(window, super::lzma_bits(settings)?, effort)))
        }
        None => MicroCoder::Library(Box::new((LzmaStream::new(NAME), super::lzma_options(settings, window)?))),
    };
    Ok(Box::new(MicroEncoder(by)))
}

impl MicroEncoder {
    /// Encodes as much of `src` as fits; returns `None` if not even the shortest stream fits.
    fn fill(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<EncodedPrefix>> {
        if dst.len() < LEAST {
            return Ok(None);
        }
        match &mut self.0 {
            MicroCoder::Us(encoder) => Ok(Some(encoder.fill(src, dst))),
            MicroCoder::Library(library) => {
                let (stream, lzma) = &mut **library;
                stream.start_micro_encoder(*lzma)?;
                stream.encode_some(src, dst).map(Some)
            }
        }
    }
}

impl Encoder for MicroEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        Ok(self.fill(src, dst)?.filter(|done| done.taken == src.len()).map(|done| done.len))
    }

    fn encode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<EncodedPrefix>> {
        let mut some = dst.len().saturating_mul(LOOKAHEAD);
        loop {
            let part = &src[..src.len().min(some)];
            match self.fill(part, dst)? {
                // Only data that shrinks to almost nothing gets here.
                Some(done) if done.taken == part.len() && part.len() < src.len() => {
                    some = some.saturating_mul(LOOKAHEAD);
                }
                done => return Ok(done.and_then(|done| EncodedPrefix::if_useful(done.taken, done.len))),
            }
        }
    }
}

struct MicroDecoder {
    stream: LzmaStream,
    /// Size of the largest dictionary.
    dict_max: u32,
}

/// Makes a decoder of clusters that need no dictionary beyond `dict_max` bytes.
pub(crate) fn micro_decoder(dict_max: u32) -> Box<dyn Decoder> {
    let dict_max = dict_max.clamp(DICT_MIN, DICT_MAX);
    Box::new(MicroDecoder { stream: LzmaStream::new(NAME), dict_max })
}

impl MicroDecoder {
    /// Starts a stream. Distances never exceed the decoded length, so a dictionary of that length
    /// is enough. Rounding it up to a power of two lets the library keep its memory from one
    /// cluster to the next.
    fn start(&mut self, src: &[u8], dst: &[u8], exact: bool) -> Result<()> {
        let dict = u32::try_from(dst.len()).unwrap_or(DICT_MAX).clamp(DICT_MIN, DICT_MAX).next_power_of_two();
        let dict = dict.min(self.dict_max);
        self.stream.start_micro_decoder(src.len() as u64, dst.len() as u64, exact, dict)
    }
}

impl Decoder for MicroDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.start(src, dst, true)?;
        self.stream.decode(src, dst)?.of_all("lzma", src)
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        self.start(src, dst, false)?;
        self.stream.decode_some(src, dst)
    }
}
