//! A codec with its level and options, validated; makes encoders and decoders.

use crate::{Codec, Decoder, Encoder, Error, Result, Settings};

/// A codec with its level and options, validated.
///
/// Made by [`Choice::new`] and [`Choice::with_level`], or parsed from text with options (`xz:6:bcj=x86+arm64,lc=4`). Its
/// `Display` is the canonical text, which parses back to an equal choice.
///
/// ```
/// use packfs_codec::{Choice, Codec};
/// assert_eq!(Choice::new(Codec::Zstd).with_level(19)?, "zstd:19".parse()?);
/// # Ok::<(), packfs_codec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub(crate) settings: Settings,
}

impl Choice {
    /// Returns the codec with default level and options.
    pub fn new(codec: Codec) -> Self {
        Choice { settings: crate::syntax::defaults(codec) }
    }

    /// Returns the codec.
    pub fn codec(&self) -> Codec {
        self.settings.codec()
    }

    /// Returns the level and options, resolved.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns true if the encoder itself gives up quickly on a block that does not shrink. Probing
    /// the block beforehand would then only cost time.
    pub fn gives_up_early(&self) -> bool {
        match self.settings {
            Settings::None | Settings::Snappy | Settings::Lz4 { .. } => true,
            Settings::Lzo { algorithm, .. } => algorithm != crate::settings::LZO1X_999,
            Settings::Zstd { level, .. } => level < 3,
            Settings::Gzip { .. }
            | Settings::Deflate { .. }
            | Settings::Xz { .. }
            | Settings::Lzma { .. }
            | Settings::Lz4hc { .. } => false,
        }
    }

    /// Makes an encoder for blocks of up to `block_len` bytes.
    #[cfg_attr(not(any(feature = "xz", feature = "zstd")), allow(unused_variables))]
    pub fn encoder(&self, block_len: usize) -> Result<Box<dyn Encoder>> {
        match &self.settings {
            Settings::None => Ok(Box::new(crate::store::UncompressedCodec)),
            #[cfg(feature = "gzip")]
            Settings::Gzip { level, window, strategies } => crate::gzip::encoder(*level, *window, *strategies),
            #[cfg(feature = "gzip")]
            Settings::Deflate { level } => crate::deflate::encoder(*level),
            #[cfg(feature = "xz")]
            Settings::Xz { .. } => crate::xz::encoder(&self.settings, block_len),
            #[cfg(feature = "xz")]
            Settings::Lzma { .. } => crate::xz::lzma_encoder(&self.settings, block_len),
            #[cfg(feature = "lz4")]
            Settings::Lz4 { acceleration } => Ok(Box::new(crate::lz4::Lz4FastEncoder::new(*acceleration))),
            #[cfg(feature = "lz4")]
            Settings::Lz4hc { level } => Ok(Box::new(crate::lz4::Lz4DenseEncoder::new(*level))),
            #[cfg(feature = "lzo")]
            Settings::Lzo { algorithm, level } => Ok(Box::new(crate::lzo::LzoEncoder::new(match *algorithm {
                crate::settings::LZO1X_999 => crate::lzo::EncoderClass::Dense { level: *level },
                _ => crate::lzo::EncoderClass::Fast,
            }))),
            #[cfg(feature = "snappy")]
            Settings::Snappy => Ok(Box::new(crate::snappy::SnappyEncoder::new())),
            #[cfg(feature = "zstd")]
            Settings::Zstd { level, content_size } => crate::zstd::encoder(*level, *content_size, block_len),
            #[allow(unreachable_patterns, reason = "reached when a codec's feature is off")]
            settings => Err(settings.codec().no_encoder()),
        }
    }

    /// Makes an encoder for SquashFS metadata blocks of 8 KiB. As [`Choice::encoder`], but an xz or
    /// lzma dictionary is never larger than such a block, and no machine-code filter is tried.
    pub fn metadata_encoder(&self) -> Result<Box<dyn Encoder>> {
        let mut settings = self.settings.clone();
        if let Settings::Xz { dict, .. } | Settings::Lzma { dict, .. } = &mut settings {
            *dict = None;
        }
        if let Settings::Xz { filters, fixed, pb, .. } = &mut settings {
            // The rest is mostly names, which have no alignment.
            (*filters, *fixed, *pb) = (0, true, 0);
        }
        Choice { settings }.encoder(8192)
    }
}

impl From<Codec> for Choice {
    fn from(codec: Codec) -> Self {
        Choice::new(codec)
    }
}

impl Codec {
    /// Makes a decoder for this codec's streams.
    pub fn decoder(self) -> Result<Box<dyn Decoder>> {
        match self {
            Codec::None => Ok(Box::new(crate::store::UncompressedCodec)),
            #[cfg(feature = "gzip")]
            Codec::Gzip => crate::gzip::decoder(),
            #[cfg(feature = "gzip")]
            Codec::Deflate => crate::deflate::decoder(),
            #[cfg(all(feature = "gzip-rust", not(feature = "gzip")))]
            Codec::Gzip => Ok(Box::new(crate::rust::inflate::ZlibRsDecoder::zlib())),
            #[cfg(all(feature = "gzip-rust", not(feature = "gzip")))]
            Codec::Deflate => Ok(Box::new(crate::rust::inflate::ZlibRsDecoder::raw())),
            #[cfg(feature = "xz")]
            Codec::Xz => Ok(crate::xz::decoder()),
            #[cfg(feature = "xz")]
            Codec::Lzma => Ok(crate::xz::lzma_decoder()),
            #[cfg(all(feature = "xz-rust", not(feature = "xz")))]
            Codec::Xz => Ok(Box::new(crate::rust::xz::RustXzDecoder::default())),
            #[cfg(all(feature = "xz-rust", not(feature = "xz")))]
            Codec::Lzma => Ok(Box::new(crate::rust::xz::RustLzmaDecoder::default())),
            #[cfg(feature = "lz4")]
            Codec::Lz4 | Codec::Lz4hc => Ok(Box::new(crate::lz4::Lz4Decoder)),
            #[cfg(all(feature = "lz4-rust", not(feature = "lz4")))]
            Codec::Lz4 | Codec::Lz4hc => Ok(Box::new(crate::rust::lz4::RustLz4Decoder::new(u32::MAX))),
            #[cfg(feature = "lzo")]
            Codec::Lzo => Ok(Box::new(crate::lzo::LzoDecoder)),
            #[cfg(feature = "snappy")]
            Codec::Snappy => Ok(Box::new(crate::snappy::SnappyDecoder::default())),
            #[cfg(feature = "zstd")]
            Codec::Zstd => crate::zstd::decoder(),
            #[cfg(all(feature = "zstd-rust", not(feature = "zstd")))]
            Codec::Zstd => Ok(Box::new(crate::rust::zstd::RustZstdDecoder::default())),
            #[allow(unreachable_patterns, reason = "reached when a codec's feature is off")]
            codec => Err(Error::NotBuilt { codec: codec.name(), feature: codec.feature() }),
        }
    }

    /// Returns the reason why there is no encoder: the codec is not built, or only its Rust decoder is.
    #[allow(dead_code, reason = "unused when every codec feature is on")]
    fn no_encoder(self) -> Error {
        let codec = self.name();
        let feature = self.feature();
        let reads = (feature == "gzip" && cfg!(feature = "gzip-rust"))
            || (feature == "lz4" && cfg!(feature = "lz4-rust"))
            || (feature == "xz" && cfg!(feature = "xz-rust"))
            || (feature == "zstd" && cfg!(feature = "zstd-rust"));
        if reads { Error::ReadOnly { codec, feature } } else { Error::NotBuilt { codec, feature } }
    }

    /// Name of the cargo feature that builds this codec.
    #[allow(dead_code, reason = "unused when every codec feature is on")]
    pub(crate) fn feature(self) -> &'static str {
        match self {
            Codec::Deflate => "gzip",
            Codec::Lzma => "xz",
            Codec::Lz4hc => "lz4",
            codec => codec.name(),
        }
    }
}
