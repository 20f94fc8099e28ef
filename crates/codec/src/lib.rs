//! The block codecs of packfs behind two object-safe traits.
//!
//! A [`Choice`] is what a user writes (`zstd:19`, `xz:6:bcj=auto`). It is parsed and checked
//! against the one [`table`] of codecs, and makes [`Encoder`]s and [`Decoder`]s. Both keep their
//! state between blocks, so each thread makes one and reuses it. This crate knows nothing about
//! images or files.
//!
//! # Features
//!
//! | feature | codecs | needs a C compiler |
//! |---|---|---|
//! | `gzip` | gzip, deflate | yes (libdeflate) |
//! | `xz` | xz, lzma | yes (liblzma: fast levels and decoding) |
//! | `lzo` | lzo | no |
//! | `snappy` | snappy | no |
//! | `lz4` | lz4, lz4hc | yes (liblz4: some levels and decoding) |
//! | `zstd` | zstd | yes (libzstd) |
//! | `gzip-rust`, `lz4-rust`, `xz-rust`, `zstd-rust` | those of the feature without `-rust`, decoders only | no |
//!
//! The first six are on by default. Names, options and errors of all codecs are present in every
//! build. Making an encoder or decoder that was left out fails with [`Error::NotBuilt`] or
//! [`Error::ReadOnly`].
//!
//! ```
//! use packfs_codec::Choice;
//! let choice: Choice = "zstd:15".parse()?;
//! let block = vec![b'a'; 4096];
//! let mut packed = vec![0; block.len() - 1];
//! let len = choice.encoder(block.len())?.encode(&block, &mut packed)?.expect("it shrinks");
//! let mut back = vec![0; block.len()];
//! assert_eq!(choice.codec().decoder()?.decode(&packed[..len], &mut back)?, block.len());
//! assert_eq!(back, block);
//! # Ok::<(), packfs_codec::Error>(())
//! ```

mod choice;
mod cluster;
mod error;
mod library;
#[cfg(any(feature = "gzip", feature = "xz", feature = "zstd"))]
mod logarithm;
mod memory;
mod settings;
#[cfg(any(feature = "gzip", feature = "xz"))]
mod smallest;
mod store;
mod strict;
mod syntax;
pub mod table;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(feature = "gzip")]
mod deflate;
#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "gzip")]
mod inflate;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "xz")]
mod lzma;
#[cfg(feature = "lzo")]
mod lzo;
#[cfg(any(feature = "gzip", feature = "lz4", feature = "xz", feature = "zstd"))]
mod matching;
mod rust;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(any(feature = "gzip", feature = "xz"))]
mod trees;
#[cfg(feature = "xz")]
mod xz;
#[cfg(feature = "zstd")]
mod zstd;

pub use choice::Choice;
pub use error::{Error, Result};
#[doc(hidden)]
#[cfg(all(feature = "testing", feature = "xz-rust"))]
pub use rust::compared;
pub use settings::{DictSize, Settings};
pub use table::Codec;

/// Compresses independent blocks. Memory (tables, windows) is kept between calls, never data.
///
/// Contract: an encoder serves one thread at a time; each thread makes its own. It takes any number
/// of blocks in any order, each of any length up to the one the encoder was made for. After an
/// error, or if a block does not fit, `dst` may hold anything and the next call is unaffected.
pub trait Encoder: Send {
    /// Compresses `src` into `dst` and returns the length, or `None` if the result does not fit in
    /// `dst`. Pass a `dst` shorter than `src` to learn early that a block does not shrink.
    ///
    /// The result depends only on `src` and the settings; `dst.len()` only decides between `Some`
    /// and `None`. It never depends on earlier blocks.
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>>;

    /// Compresses the longest prefix of `src` that fits `dst`, or returns `None` if no prefix gets shorter.
    ///
    /// The result depends only on `src`, on `dst.len()` and on the settings, never on earlier
    /// calls. If [`Choice::fills`] is true, the call fills `dst`. Otherwise it does what this
    /// default does: it halves `src` until the result fits, which is correct but far from full. To
    /// fill `dst` then, search with [`Encoder::encode`].
    fn encode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<EncodedPrefix>> {
        let mut taken = src.len();
        while taken > 0 {
            if let Some(len) = self.encode(&src[..taken], dst)? {
                return Ok(EncodedPrefix::if_useful(taken, len));
            }
            taken /= 2;
        }
        Ok(None)
    }
}

/// Result of [`Encoder::encode_prefix`]: `taken` bytes of `src` became `len` bytes of `dst`, with `len < taken`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedPrefix {
    /// Bytes taken from `src`.
    pub taken: usize,
    /// Bytes written to `dst`.
    pub len: usize,
}

impl EncodedPrefix {
    /// Returns `None` if nothing was saved.
    pub(crate) fn if_useful(taken: usize, len: usize) -> Option<Self> {
        (taken > len).then_some(EncodedPrefix { taken, len })
    }
}

/// Result of [`Decoder::decode_stream`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodedStream {
    /// Length of the stream, in bytes of `src`.
    pub taken: usize,
    /// Decoded length, in bytes of `dst`.
    pub len: usize,
}

impl DecodedStream {
    /// Returns the decoded length; fails if the stream does not take all of `src`.
    #[cfg_attr(
        not(any(
            feature = "gzip",
            feature = "gzip-rust",
            feature = "xz",
            feature = "xz-rust",
            feature = "zstd",
            feature = "zstd-rust"
        )),
        allow(dead_code)
    )]
    pub(crate) fn of_all(self, codec: &'static str, src: &[u8]) -> Result<usize> {
        match src.len() - self.taken {
            0 => Ok(self.len),
            more => Err(Error::corrupt(codec, format!("{more} extra bytes after the stream"))),
        }
    }
}

/// Decompresses independent blocks.
///
/// Contract: a decoder serves one thread at a time; each thread makes its own. No `src` makes it
/// panic, access memory out of bounds, or allocate more than its codec's window needs. After an
/// error `dst` may hold anything and the next call is unaffected.
pub trait Decoder: Send {
    /// Decodes all of `src` into `dst` and returns the decoded length. Fails with
    /// [`Error::Corrupt`] if the stream is damaged, exceeds `dst`, or is followed by other bytes.
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize>;

    /// Decodes the stream at the beginning of `src`, as [`Decoder::decode`] does, and ignores the bytes after it.
    ///
    /// Only gzip, deflate, xz and zstd streams mark their end. Streams of other codecs take all of `src`.
    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        Ok(DecodedStream { taken: src.len(), len: self.decode(src, dst)? })
    }

    /// Fills `dst` with the first bytes of the decoded stream, which may be longer. Fails with
    /// [`Error::Corrupt`] if the stream is damaged in that part or decodes to less.
    ///
    /// The decoders of [`Codec::cluster_decoder`] can stop early, and those of codecs for which
    /// [`Codec::piece_len`] is known; others fail with [`Error::Library`].
    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        let _ = (src, dst);
        Err(Error::Library { codec: "decoder", why: "only cluster decoders can stop early".to_owned() })
    }
}
