//! The one table of codecs.

use crate::{Decoder, Error, Result};

/// A codec by its stream format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// Bytes as they are.
    None,
    /// zlib streams (what SquashFS calls gzip).
    Gzip,
    /// xz streams.
    Xz,
    /// Legacy .lzma streams.
    Lzma,
    /// LZO1X.
    Lzo,
    /// LZ4, fast encoder.
    Lz4,
    /// LZ4, dense encoder.
    Lz4hc,
    /// zstd.
    Zstd,
}

impl Codec {
    /// A decoder for this codec's streams.
    pub fn decoder(self) -> Result<Box<dyn Decoder>> {
        match self {
            Codec::None => Ok(Box::new(crate::store::Store)),
            _ => Err(Error::NotBuilt("codec")),
        }
    }
}
