//! Streams for EROFS physical clusters. They fill an output of fixed size instead of taking an
//! input of fixed size, they declare a window, and readers often decode only their beginning.

use crate::settings::DictSize;
use crate::table::CODECS;
use crate::{Choice, Codec, Decoder, Encoder, Error, Result, Settings};

/// Windows of LZ4 and of deflate, in bytes; both are fixed.
const LZ4_WINDOW: u32 = 65_535;
const DEFLATE_WINDOW: u32 = 32 << 10;
/// Smallest and largest windows that EROFS can declare, in bytes.
const LZMA_WINDOWS: (u32, u32) = (4 << 10, 8 << 20);
const ZSTD_WINDOWS: (u32, u32) = (1 << 10, 1 << 20);

impl Choice {
    /// Returns true if [`Encoder::encode_prefix`] of this codec's cluster encoders fills its destination.
    pub fn fills(&self) -> bool {
        matches!(self.settings, Settings::Lz4 { .. } | Settings::Lz4hc { .. } | Settings::Lzma { .. })
    }

    /// Returns a much faster level of a slow codec that cannot fill clusters. The lengths of its
    /// results predict those of this one.
    pub fn scout(&self) -> Option<Choice> {
        // Levels of zstd differ too much from each other to predict anything.
        match self.settings {
            Settings::Deflate { level: 8.. } => Some(Choice { settings: Settings::Deflate { level: 3 } }),
            _ => None,
        }
    }

    /// Returns the window, or dictionary, to declare for clusters of `cluster_len` bytes.
    pub fn cluster_window(&self, cluster_len: u32) -> u32 {
        match self.settings {
            Settings::Lz4 { .. } | Settings::Lz4hc { .. } => LZ4_WINDOW,
            Settings::Deflate { .. } => DEFLATE_WINDOW,
            Settings::Lzma { dict, .. } => {
                let (min, max) = LZMA_WINDOWS;
                let usual = cluster_len.saturating_mul(4).clamp(32 << 10, max);
                match dict {
                    None => usual,
                    Some(DictSize::Bytes(bytes)) => bytes.clamp(min, max),
                    Some(DictSize::Percent(share)) => (usual / 4 * u32::from(share) / 25).clamp(min, max),
                }
            }
            Settings::Zstd { .. } => {
                let (min, max) = ZSTD_WINDOWS;
                let window = cluster_len.saturating_mul(8).clamp(min, max);
                1 << window.ilog2()
            }
            _ => 0,
        }
    }

    /// Makes an encoder of EROFS streams. Decoding them never needs a window of more than `window`
    /// bytes, as given by [`Choice::cluster_window`].
    #[cfg_attr(not(any(feature = "xz", feature = "zstd")), allow(unused_variables))]
    pub fn cluster_encoder(&self, window: u32) -> Result<Box<dyn Encoder>> {
        self.codec().check_erofs()?;
        match &self.settings {
            Settings::Lzma { dict: Some(DictSize::Bytes(bytes)), .. } if *bytes > LZMA_WINDOWS.1 => {
                let why = format!("dict={bytes} is larger than EROFS can declare; accepted: up to 8M");
                Err(Error::option("lzma", why))
            }
            #[cfg(feature = "xz")]
            Settings::Lzma { .. } => crate::xz::micro_encoder(&self.settings, window),
            #[cfg(feature = "zstd")]
            Settings::Zstd { level, .. } => {
                let (min, max) = ZSTD_WINDOWS;
                crate::zstd::cluster_encoder(*level, window.clamp(min, max).ilog2())
            }
            // Streams of the other codecs are the same everywhere; their block encoders differ only in memory.
            _ => self.encoder(window as usize),
        }
    }
}

impl Codec {
    /// Returns the length of the pieces that a stream decodes in, where all decoders of this codec can decode only its
    /// beginning in less time.
    pub fn piece_len(self) -> Option<usize> {
        match self {
            Codec::Lz4 | Codec::Lz4hc => Some(1),
            // The largest block of a frame.
            Codec::Zstd => Some(128 << 10),
            _ => None,
        }
    }

    /// Makes a decoder for EROFS streams. Its [`Decoder::decode`] requires that the stream decodes
    /// to all of `dst`; its [`Decoder::decode_prefix`] decodes only the beginning of a stream.
    pub fn cluster_decoder(self) -> Result<Box<dyn Decoder>> {
        self.check_erofs()?;
        let decoder = match self {
            #[cfg(feature = "xz")]
            Codec::Lzma => crate::xz::micro_decoder(LZMA_WINDOWS.1),
            #[cfg(all(feature = "xz-rust", not(feature = "xz")))]
            Codec::Lzma => Box::new(crate::rust::xz::RustMicroLzmaDecoder::new(LZMA_WINDOWS.1)),
            #[allow(unreachable_patterns, reason = "reached when a codec's feature is off")]
            Codec::Lzma => return Err(Error::NotBuilt { codec: self.name(), feature: self.feature() }),
            _ => self.decoder()?,
        };
        Ok(Box::new(ExactDecoder { codec: self.name(), decoder }))
    }

    fn check_erofs(self) -> Result<()> {
        if self.erofs_id().is_some() {
            return Ok(());
        }
        let known: Vec<_> = CODECS.iter().filter(|info| info.erofs_id.is_some()).map(|info| info.name).collect();
        Err(Error::NotInFormat { format: "EROFS", codec: self.name(), accepted: known.join(", ") })
    }
}

/// A decoder that requires streams to have exactly the requested length.
pub(crate) struct ExactDecoder {
    pub(crate) codec: &'static str,
    pub(crate) decoder: Box<dyn Decoder>,
}

impl Decoder for ExactDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        match self.decoder.decode(src, dst)? {
            len if len == dst.len() => Ok(len),
            len => Err(Error::corrupt(self.codec, format!("the decoded length is {len} instead of {}", dst.len()))),
        }
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        self.decoder.decode_prefix(src, dst)
    }
}
