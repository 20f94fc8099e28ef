//! Decoders for checks. They refuse streams that libraries decode but Linux does not, or decodes to
//! other bytes: Huffman codes that zlib refuses, windows and dictionaries larger than the kernel
//! allocates, xz filters and checks that it does not support, and LZ4 matches at distance 0.

mod xz;
#[cfg(any(feature = "zstd", feature = "zstd-rust"))]
mod zstd;

use crate::cluster::ExactDecoder;
use crate::{Codec, DecodedStream, Decoder, Error, Result};

impl Codec {
    /// Makes a decoder that accepts only streams of this codec that Linux can read. `window` is the
    /// number of bytes that Linux allocates for the window or dictionary.
    ///
    /// Its output equals that of [`Codec::decoder`]. A stream that Linux cannot read fails with [`Error::Corrupt`].
    pub fn strict_decoder(self, window: u32) -> Result<Box<dyn Decoder>> {
        let decoder: Box<dyn Decoder> = match self {
            #[cfg(any(feature = "gzip", feature = "gzip-rust"))]
            Codec::Gzip => Box::new(crate::rust::inflate::ZlibRsDecoder::zlib()),
            #[cfg(any(feature = "gzip", feature = "gzip-rust"))]
            Codec::Deflate => Box::new(crate::rust::inflate::ZlibRsDecoder::raw()),
            #[cfg(feature = "zstd")]
            Codec::Zstd => crate::zstd::streaming_decoder(window)?,
            #[cfg(any(feature = "lz4", feature = "lz4-rust"))]
            Codec::Lz4 | Codec::Lz4hc => Box::new(crate::rust::lz4::RustLz4Decoder::new(window)),
            _ => self.decoder()?,
        };
        Ok(Box::new(StrictDecoder { codec: self, window, decoder }))
    }

    /// As [`Codec::strict_decoder`], for EROFS streams; see [`Codec::cluster_decoder`].
    pub fn strict_cluster_decoder(self, window: u32) -> Result<Box<dyn Decoder>> {
        let decoder = match self {
            #[cfg(feature = "xz")]
            Codec::Lzma => crate::xz::micro_decoder(window),
            #[cfg(all(feature = "xz-rust", not(feature = "xz")))]
            Codec::Lzma => Box::new(crate::rust::xz::RustMicroLzmaDecoder::new(window)),
            _ if self.erofs_id().is_some() => self.strict_decoder(window)?,
            _ => return self.cluster_decoder(),
        };
        Ok(Box::new(ExactDecoder { codec: self.name(), decoder }))
    }
}

/// A decoder that examines streams before it decodes them.
struct StrictDecoder {
    codec: Codec,
    window: u32,
    decoder: Box<dyn Decoder>,
}

impl StrictDecoder {
    /// Refuses a stream that Linux cannot read.
    fn examine(&self, src: &[u8]) -> Result<()> {
        let why = match self.codec {
            Codec::Xz => xz::defect(src, self.window),
            #[cfg(any(feature = "zstd", feature = "zstd-rust"))]
            Codec::Zstd => zstd::defect(src, self.window),
            _ => None,
        };
        why.map_or(Ok(()), |why| Err(Error::corrupt(self.codec.name(), why)))
    }
}

impl Decoder for StrictDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.examine(src)?;
        self.decoder.decode(src, dst)
    }

    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        self.examine(src)?;
        self.decoder.decode_stream(src, dst)
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        self.examine(src)?;
        self.decoder.decode_prefix(src, dst)
    }
}

#[cfg(all(test, feature = "gzip", feature = "lz4", feature = "xz", feature = "zstd"))]
mod tests;
