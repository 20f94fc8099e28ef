//! Decoders for checks. They refuse what libraries decode and Linux does not, or not to the same bytes: Huffman codes
//! that zlib does not take, windows and dictionaries that the kernel has no room for, filters and checks of xz that it
//! does not know, matches of LZ4 at distance 0.

mod lz4;
mod xz;
#[cfg(any(feature = "zstd", feature = "zstd-rust"))]
mod zstd;

use crate::cluster::Exact;
use crate::{Codec, Decoded, Decoder, Error, Result};

impl Codec {
    /// A decoder for this codec's streams as Linux reads them, where `window` bytes are the window or the dictionary that
    /// it makes room for.
    ///
    /// It gives the bytes that [`Codec::decoder`] gives. What Linux does not read is [`Error::Corrupt`].
    pub fn strict_decoder(self, window: u32) -> Result<Box<dyn Decoder>> {
        let decoder: Box<dyn Decoder> = match self {
            #[cfg(any(feature = "gzip", feature = "gzip-rust"))]
            Codec::Gzip => Box::new(crate::rust::inflate::Inflate::zlib()),
            #[cfg(any(feature = "gzip", feature = "gzip-rust"))]
            Codec::Deflate => Box::new(crate::rust::inflate::Inflate::raw()),
            #[cfg(feature = "zstd")]
            Codec::Zstd => crate::zstd::streaming_decoder(window)?,
            _ => self.decoder()?,
        };
        Ok(Box::new(Strict { codec: self, window, decoder }))
    }

    /// The same for streams of EROFS: see [`Codec::cluster_decoder`].
    pub fn strict_cluster_decoder(self, window: u32) -> Result<Box<dyn Decoder>> {
        let decoder = match self {
            #[cfg(feature = "xz")]
            Codec::Lzma => crate::xz::micro_decoder(window),
            _ if self.erofs_id().is_some() => self.strict_decoder(window)?,
            _ => return self.cluster_decoder(),
        };
        Ok(Box::new(Exact { codec: self.name(), decoder }))
    }
}

/// A decoder whose streams are looked at before they are decoded.
struct Strict {
    codec: Codec,
    window: u32,
    decoder: Box<dyn Decoder>,
}

impl Strict {
    /// Refuses a stream of which `len` bytes are wanted.
    fn examine(&self, src: &[u8], len: usize) -> Result<()> {
        let why = match self.codec {
            Codec::Lz4 | Codec::Lz4hc => lz4::defect(src, len, self.window),
            Codec::Xz => xz::defect(src, self.window),
            #[cfg(any(feature = "zstd", feature = "zstd-rust"))]
            Codec::Zstd => zstd::defect(src, self.window),
            _ => None,
        };
        why.map_or(Ok(()), |why| Err(Error::corrupt(self.codec.name(), why)))
    }
}

impl Decoder for Strict {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.examine(src, dst.len())?;
        self.decoder.decode(src, dst)
    }

    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Decoded> {
        self.examine(src, dst.len())?;
        self.decoder.decode_stream(src, dst)
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        self.examine(src, dst.len())?;
        self.decoder.decode_prefix(src, dst)
    }
}

#[cfg(all(test, feature = "gzip", feature = "lz4", feature = "xz", feature = "zstd"))]
mod tests;
