//! Bytes in, compressed bytes out: the block codecs of packfs behind two object-safe traits.
//!
//! A [`Choice`] is what a user writes (`zstd:19`, `xz:6:bcj=auto`); it is parsed and checked against
//! the one [`table`] of codecs, and makes [`Encoder`]s and [`Decoder`]s. Both keep their state between
//! blocks, so each thread makes one and reuses it. Nothing here knows about images or files.
//!
//! # Features
//!
//! | feature | codecs | needs a C compiler |
//! |---|---|---|
//! | `gzip` | gzip, deflate | yes (libdeflate) |
//! | `xz` | xz, lzma | yes (liblzma) |
//! | `lzo` | lzo | no |
//! | `snappy` | snappy | no |
//! | `lz4` | lz4, lz4hc | yes (liblz4) |
//! | `zstd` | zstd | yes (libzstd) |
//! | `gzip-rust`, `lz4-rust`, `zstd-rust` | the same, decoders only | no |
//!
//! The first six are on by default. Names, options and errors of all codecs are there in every build; to make an
//! encoder or decoder that was left out is [`Error::NotBuilt`] or [`Error::ReadOnly`].
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
mod memory;
mod settings;
#[cfg(any(feature = "gzip", feature = "xz"))]
mod smallest;
mod store;
mod strict;
mod syntax;
pub mod table;

#[cfg(feature = "gzip")]
mod deflate;
#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "gzip")]
mod inflate;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "lzo")]
mod lzo;
mod rust;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(feature = "xz")]
mod xz;
#[cfg(feature = "zstd")]
mod zstd;

pub use choice::Choice;
pub use error::{Error, Result};
pub use settings::{Dict, Settings};
pub use table::Codec;

/// Compresses independent blocks. State (tables, windows) is kept between calls, never data.
///
/// Contract: one thread at a time; each thread makes its own. Any order, any number of blocks, of any length up to the one
/// the encoder was made for. After an error, or where a block does not fit, `dst` may hold anything and the next call
/// works as if there had been none.
pub trait Encoder: Send {
    /// Compresses `src` into `dst` and returns the length, or `None` when the result does not fit
    /// in `dst`. Give a `dst` shorter than `src` to learn early that a block does not shrink.
    ///
    /// The result depends only on `src`, on `dst.len()` deciding between `Some` and `None`, and on
    /// the settings: never on earlier blocks.
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>>;

    /// Compresses as long a prefix of `src` as fits `dst`, or returns `None` when none gets shorter.
    ///
    /// The result depends only on `src`, on `dst.len()` and on the settings: never on earlier calls.
    /// Where [`Choice::fills`] is true, this fills `dst`. Elsewhere it is what this default does: it
    /// halves `src` until it fits, which is correct and far from full. To fill `dst` there, search with
    /// [`Encoder::encode`].
    fn encode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<Prefix>> {
        let mut taken = src.len();
        while taken > 0 {
            if let Some(len) = self.encode(&src[..taken], dst)? {
                return Ok(Prefix::if_useful(taken, len));
            }
            taken /= 2;
        }
        Ok(None)
    }
}

/// What [`Encoder::encode_prefix`] did: `taken` bytes of `src` became `len` bytes of `dst`, which are fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// Bytes of `src`.
    pub taken: usize,
    /// Bytes of `dst`.
    pub len: usize,
}

impl Prefix {
    /// `None` where nothing is gained.
    pub(crate) fn if_useful(taken: usize, len: usize) -> Option<Self> {
        (taken > len).then_some(Prefix { taken, len })
    }
}

/// What [`Decoder::decode_stream`] read and wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// Length of the stream, in bytes of `src`.
    pub taken: usize,
    /// Length of what it decodes to, in bytes of `dst`.
    pub len: usize,
}

impl Decoded {
    /// The decoded length, of a stream that takes all of `src`.
    #[cfg_attr(
        not(any(feature = "gzip", feature = "gzip-rust", feature = "xz", feature = "zstd", feature = "zstd-rust")),
        allow(dead_code)
    )]
    pub(crate) fn of_all(self, codec: &'static str, src: &[u8]) -> Result<usize> {
        match src.len() - self.taken {
            0 => Ok(self.len),
            more => Err(Error::corrupt(codec, format!("{more} bytes after the stream"))),
        }
    }
}

/// Decompresses independent blocks.
///
/// Contract: one thread at a time; each thread makes its own. Nothing in `src` makes it panic, read or write elsewhere, or
/// take memory beyond what its codec's window needs. After an error `dst` may hold anything and the next call works as if
/// there had been none.
pub trait Decoder: Send {
    /// Decodes all of `src` into `dst` and returns the decoded length. A stream that is damaged,
    /// that would exceed `dst`, or that is followed by bytes not its own is [`Error::Corrupt`].
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize>;

    /// Decodes the stream that `src` begins with, as [`Decoder::decode`] does, and ignores what follows it.
    ///
    /// Only gzip, deflate, xz and zstd mark where a stream ends. Streams of other codecs take all of `src`.
    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Decoded> {
        Ok(Decoded { taken: src.len(), len: self.decode(src, dst)? })
    }

    /// Fills `dst` with the first bytes of what `src` decodes to, which may be more. A stream that is
    /// damaged in that part, or that decodes to less, is [`Error::Corrupt`].
    ///
    /// Only the decoders of [`Codec::cluster_decoder`] stop early; from others this is [`Error::Library`].
    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        let _ = (src, dst);
        Err(Error::Library { codec: "decoder", why: "only decoders of clusters stop early".to_owned() })
    }
}
