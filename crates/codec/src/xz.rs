//! xz streams (one block, CRC32, as the kernel wants them), legacy .lzma streams and MicroLZMA. Our own encoder
//! does what takes an optimal parser; liblzma does the fast presets, rare filters, and all decoding.

mod machine_code;
mod micro;
mod own;
mod stream;

pub(crate) use micro::{micro_decoder, micro_encoder};
pub(crate) use stream::version;
use stream::{FILTERS_ALONE, FilterChain, LzmaOptions, LzmaStream};

use crate::lzma::{LzmaEffort, LzmaEncoder, ModelBits};
use crate::settings::{BcjFilters, DictSize};
use crate::smallest::SmallestEncoder;
use crate::{DecodedStream, Decoder, Encoder, Error, Result, Settings};

/// Memory limit of a decoder: the largest preset's dictionary and the decoder itself. The library
/// touches no more of it than the length of the block.
const DECODER_MEMORY: u64 = 66 << 20;

struct LibraryXzEncoder {
    stream: LzmaStream,
    chain: FilterChain,
}

impl LibraryXzEncoder {
    fn new(bcj: u16, lzma: LzmaOptions) -> Self {
        LibraryXzEncoder { stream: LzmaStream::new("xz"), chain: FilterChain { bcj, lzma } }
    }
}

/// Makes an encoder for [`Settings::Xz`].
pub(crate) fn encoder(settings: &Settings, block_len: usize) -> Result<Box<dyn Encoder>> {
    let Settings::Xz { level, extreme, dict, filters, auto, fixed, lc, lp, pb } = settings else {
        return Err(other_settings("xz"));
    };
    let dict = DictSize::resolve(*dict, block_len)?;
    let mut lzma = LzmaOptions::preset(*level, *extreme, dict)?;
    lzma.set_bits(*lc, *lp, *pb);
    let bits = fixed.then_some(ModelBits { lc: *lc, lp: *lp, pb: *pb });
    let make = XzParameters { dict, bits, effort: own::effort(*level, *extreme), lzma };
    if *auto {
        return Ok(Box::new(AutoFilterEncoder { allowed: *filters, make, encoders: Vec::new() }));
    }
    // A stream keeps its memory only as long as its filters stay the same, so each filter has its own stream.
    let tried = BcjFilters::NAMES.iter().map(|(_, bit)| *bit).filter(|bit| filters & bit != 0);
    Ok(SmallestEncoder::of(std::iter::once(0).chain(tried).map(|bcj| make.encoder(bcj)).collect()))
}

/// Settings of an xz encoder but for its filter.
struct XzParameters {
    dict: u32,
    /// `None` leaves them to our own encoder.
    bits: Option<ModelBits>,
    /// Effort of our own encoder; `None` leaves all to liblzma.
    effort: Option<LzmaEffort>,
    lzma: LzmaOptions,
}

impl XzParameters {
    fn encoder(&self, bcj: u16) -> Box<dyn Encoder> {
        match self.effort {
            Some(effort) if bcj & !FILTERS_ALONE == 0 => {
                Box::new(own::OwnXzEncoder::new(bcj, self.dict, self.bits, effort))
            }
            _ => Box::new(LibraryXzEncoder::new(bcj, self.lzma)),
        }
    }
}

impl Encoder for LibraryXzEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        self.stream.start_xz_encoder(&self.chain)?;
        self.stream.encode(src, dst)
    }
}

/// Encodes each block with the one filter that suits its bytes, or with none.
struct AutoFilterEncoder {
    allowed: u16,
    make: XzParameters,
    /// Filters and their encoders, made when first used.
    encoders: Vec<(u16, Box<dyn Encoder>)>,
}

impl Encoder for AutoFilterEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let bcj = machine_code::likely_filter(src, self.allowed);
        let position = self.encoders.iter().position(|(filter, _)| *filter == bcj).unwrap_or_else(|| {
            self.encoders.push((bcj, self.make.encoder(bcj)));
            self.encoders.len() - 1
        });
        self.encoders[position].1.encode(src, dst)
    }
}

struct XzDecoder(LzmaStream);

/// Makes a decoder of xz streams.
pub(crate) fn decoder() -> Box<dyn Decoder> {
    Box::new(XzDecoder(LzmaStream::new("xz")))
}

impl Decoder for XzDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.decode_stream(src, dst)?.of_all("xz", src)
    }

    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        self.0.start_xz_decoder(DECODER_MEMORY)?;
        self.0.decode(src, dst)
    }
}

/// Length of a .lzma header: properties, dictionary size and content length.
const LZMA_HEADER: usize = 13;

struct LegacyLzmaEncoder {
    dict: u32,
    by: LegacyLzmaCoder,
}

/// The encoder of a preset: ours, or liblzma's.
enum LegacyLzmaCoder {
    Own(Box<LzmaEncoder>, Vec<u8>),
    Library(LzmaStream, Box<LzmaOptions>, ModelBits),
}

/// Makes an encoder for [`Settings::Lzma`].
pub(crate) fn lzma_encoder(settings: &Settings, block_len: usize) -> Result<Box<dyn Encoder>> {
    let Settings::Lzma { level, extreme, dict, .. } = settings else { return Err(other_settings("lzma")) };
    let dict = DictSize::resolve(*dict, block_len)?;
    let bits = lzma_bits(settings)?;
    let by = match own::effort(*level, *extreme) {
        Some(effort) => LegacyLzmaCoder::Own(Box::new(LzmaEncoder::new(bits, effort, dict)), Vec::new()),
        None => {
            let options = Box::new(lzma_options(settings, dict)?);
            LegacyLzmaCoder::Library(LzmaStream::new("lzma"), options, bits.unwrap_or(ModelBits::USUAL))
        }
    };
    Ok(Box::new(LegacyLzmaEncoder { dict, by }))
}

/// Returns the bits of [`Settings::Lzma`], or `None` if they are not fixed.
fn lzma_bits(settings: &Settings) -> Result<Option<ModelBits>> {
    let Settings::Lzma { fixed, lc, lp, pb, .. } = settings else { return Err(other_settings("lzma")) };
    Ok(fixed.then_some(ModelBits { lc: *lc, lp: *lp, pb: *pb }))
}

/// Returns the coder's options for [`Settings::Lzma`] with a dictionary of `dict` bytes.
fn lzma_options(settings: &Settings, dict: u32) -> Result<LzmaOptions> {
    let Settings::Lzma { level, extreme, lc, lp, pb, .. } = settings else { return Err(other_settings("lzma")) };
    let mut lzma = LzmaOptions::preset(*level, *extreme, dict)?;
    lzma.set_bits(*lc, *lp, *pb);
    Ok(lzma)
}

fn other_settings(codec: &'static str) -> Error {
    Error::Library { codec, why: "the settings belong to another codec".to_owned() }
}

impl Encoder for LegacyLzmaEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let Some((header, body)) = dst.split_at_mut_checked(LZMA_HEADER) else { return Ok(None) };
        // The length goes into the header, as in every SquashFS tool, so no end marker is needed.
        header[1..5].copy_from_slice(&self.dict.to_le_bytes());
        header[5..].copy_from_slice(&(src.len() as u64).to_le_bytes());
        let len = match &mut self.by {
            LegacyLzmaCoder::Own(encoder, out) => {
                out.clear();
                if !encoder.encode_raw(src, body.len(), out) {
                    return Ok(None);
                }
                header[0] = encoder.bits().properties();
                body[..out.len()].copy_from_slice(out);
                Some(out.len())
            }
            LegacyLzmaCoder::Library(stream, lzma, bits) => {
                header[0] = bits.properties();
                stream.start_raw_lzma_encoder(**lzma, src.len() as u64)?;
                stream.encode(src, body)?
            }
        };
        Ok(len.map(|len| len + LZMA_HEADER))
    }
}

struct LegacyLzmaDecoder(LzmaStream);

/// Makes a decoder of .lzma streams.
pub(crate) fn lzma_decoder() -> Box<dyn Decoder> {
    Box::new(LegacyLzmaDecoder(LzmaStream::new("lzma")))
}

impl Decoder for LegacyLzmaDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.0.start_lzma_decoder(DECODER_MEMORY)?;
        if dst.is_empty() {
            // The library does not start without room; an empty stream leaves this byte alone.
            return match self.0.decode(src, &mut [0])?.of_all("lzma", src)? {
                0 => Ok(0),
                _ => Err(Error::corrupt("lzma", "decodes to more than the expected length")),
            };
        }
        self.0.decode(src, dst)?.of_all("lzma", src)
    }
}
