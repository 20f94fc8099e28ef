//! Decoders in pure Rust, for builds without a C compiler. Each is used if its codec's C library is not built;
//! those of deflate and LZ4 also check streams, as they refuse more than the libraries.
//!
//! They are slower than those libraries, but keep the same contract. Tests compare each with its counterpart.

#[cfg(feature = "gzip-rust")]
pub(crate) mod inflate;
#[cfg(any(feature = "lz4", feature = "lz4-rust"))]
pub(crate) mod lz4;
#[cfg(any(all(test, feature = "xz"), all(feature = "xz-rust", any(feature = "testing", not(feature = "xz")))))]
pub(crate) mod xz;
#[cfg(any(all(test, feature = "zstd"), all(feature = "zstd-rust", not(feature = "zstd"))))]
pub(crate) mod zstd;

/// The decoders of xz and lzma in Rust, also where a build decodes by liblzma: fuzz targets compare both.
#[cfg(all(feature = "testing", feature = "xz-rust"))]
pub mod compared {
    use super::xz::{RustLzmaDecoder, RustMicroLzmaDecoder, RustXzDecoder};
    use crate::{Codec, Decoder};

    /// Returns the decoder of a codec's streams.
    pub fn decoder(codec: Codec) -> Option<Box<dyn Decoder>> {
        match codec {
            Codec::Xz => Some(Box::new(RustXzDecoder::default())),
            Codec::Lzma => Some(Box::new(RustLzmaDecoder::default())),
            _ => None,
        }
    }

    /// Returns the decoder of a codec's streams in EROFS, with a dictionary of at most `dict_max` bytes.
    pub fn cluster_decoder(codec: Codec, dict_max: u32) -> Option<Box<dyn Decoder>> {
        (codec == Codec::Lzma).then(|| Box::new(RustMicroLzmaDecoder::new(dict_max)) as Box<dyn Decoder>)
    }
}

#[cfg(all(test, feature = "gzip", feature = "lz4", feature = "xz", feature = "zstd"))]
mod tests;
