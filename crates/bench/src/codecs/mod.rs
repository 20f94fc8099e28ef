//! The codecs to measure: those of packfs, and a few for comparison that no image uses.

mod lzjb;
mod quicklz;
mod zlib;
mod zlib_rs;

use std::fmt;
use std::str::FromStr;

use packfs_codec::{Choice, Codec, Decoder, Encoder, Error as CodecError};

use crate::{Error, Result};

/// A codec with its settings, parsed from the user's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodecMethod {
    /// A codec of packfs.
    Choice(Choice),
    /// Copying, the upper limit of memory speed.
    Memcpy,
    /// LZJB, the first codec of ZFS.
    Lzjb,
    /// QuickLZ level 1, implemented in Rust.
    QuickLz,
    /// The original zlib, levels 1 to 9.
    Zlib(u8),
    /// zlib-rs, levels 1 to 9.
    ZlibRs(u8),
}

/// Default codecs of `packfs bench codecs`: the nine of the test that the metrics come from, then newer ones.
pub const DEFAULT: &[&str] = &[
    "memcpy",
    "lz4",
    "snappy",
    "lzjb",
    "lzo:algorithm=lzo1x_1",
    "quicklz",
    "lzo:9",
    "zlib:1",
    "zlib:6",
    "zlib:9",
    "zlib-rs:6",
    "gzip:1",
    "gzip:6",
    "gzip:12",
    "zstd:-5",
    "zstd:1",
    "zstd:3",
    "zstd:9",
    "zstd:15",
    "zstd:19",
    "lz4hc:9",
    "lz4hc:12",
    "xz:6",
    "lzma:6",
];

/// The codec that others are compared with.
pub const BASELINE: CodecMethod = CodecMethod::Zlib(9);

impl CodecMethod {
    /// Creates an encoder for blocks of up to `block_len` bytes.
    pub fn encoder(&self, block_len: usize) -> Result<Box<dyn Encoder>> {
        Ok(match self {
            CodecMethod::Choice(choice) => choice.encoder(block_len)?,
            CodecMethod::Memcpy => Choice::new(Codec::None).encoder(block_len)?,
            CodecMethod::Lzjb => Box::new(lzjb::LzjbEncoder::new()),
            CodecMethod::QuickLz => Box::new(quicklz::QuickLzEncoder),
            CodecMethod::Zlib(level) => Box::new(zlib::ZlibEncoder::new(*level)?),
            CodecMethod::ZlibRs(level) => Box::new(zlib_rs::ZlibRsEncoder::new(*level)),
        })
    }

    /// Creates a decoder.
    pub fn decoder(&self) -> Result<Box<dyn Decoder>> {
        Ok(match self {
            CodecMethod::Choice(choice) => choice.codec().decoder()?,
            CodecMethod::Memcpy => Codec::None.decoder()?,
            CodecMethod::Lzjb => Box::new(lzjb::LzjbDecoder),
            CodecMethod::QuickLz => Box::new(quicklz::QuickLzDecoder),
            CodecMethod::Zlib(_) => Box::new(zlib::ZlibDecoder::new()?),
            CodecMethod::ZlibRs(_) => Box::new(zlib_rs::ZlibRsDecoder::new()),
        })
    }

    /// Returns the name of the library and, if known, its version.
    pub fn library(&self) -> String {
        match self {
            CodecMethod::Choice(choice) => choice.codec().library(),
            CodecMethod::Memcpy => "Rust".into(),
            CodecMethod::Lzjb => "packfs".into(),
            CodecMethod::QuickLz => "quicklz (Rust)".into(),
            CodecMethod::Zlib(_) => format!("zlib {}", zlib::version()),
            CodecMethod::ZlibRs(_) => "zlib-rs (Rust)".into(),
        }
    }

    /// Parses a list separated by commas. Options of a codec are separated by colons.
    pub fn list(text: &str) -> Result<Vec<CodecMethod>> {
        text.split(',').map(str::parse).collect()
    }

    /// Returns the methods of [`DEFAULT`].
    pub fn defaults() -> Result<Vec<CodecMethod>> {
        DEFAULT.iter().map(|text| text.parse()).collect()
    }
}

impl FromStr for CodecMethod {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let has_no_options = text.len() == name.len();
        let level = |default: u8| match options.parse() {
            _ if has_no_options => Ok(default),
            Ok(level @ 1..=9) => Ok(level),
            _ => Err(Error::Usage(format!("{name}: level `{options}` is not one; accepted: 1 to 9"))),
        };
        match (name, has_no_options) {
            ("memcpy", true) => Ok(CodecMethod::Memcpy),
            ("lzjb", true) => Ok(CodecMethod::Lzjb),
            ("quicklz", true) => Ok(CodecMethod::QuickLz),
            ("memcpy" | "lzjb" | "quicklz", false) => Err(Error::Usage(format!("{name} has no options"))),
            ("zlib", _) => Ok(CodecMethod::Zlib(level(6)?)),
            ("zlib-rs", _) => Ok(CodecMethod::ZlibRs(level(6)?)),
            _ => text.parse().map(CodecMethod::Choice).map_err(|error: CodecError| {
                let unknown = packfs_codec::table::CODECS.iter().all(|info| info.name != name);
                let more = if unknown { ", memcpy, lzjb, quicklz, zlib, zlib-rs" } else { "" };
                Error::Usage(format!("{error}{more}"))
            }),
        }
    }
}

impl fmt::Display for CodecMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecMethod::Choice(choice) => choice.fmt(f),
            CodecMethod::Memcpy => f.write_str("memcpy"),
            CodecMethod::Lzjb => f.write_str("lzjb"),
            CodecMethod::QuickLz => f.write_str("quicklz"),
            CodecMethod::Zlib(level) => write!(f, "zlib:{level}"),
            CodecMethod::ZlibRs(level) => write!(f, "zlib-rs:{level}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryReader, PageShares};

    #[test]
    fn methods_are_read_and_written() {
        for text in DEFAULT {
            assert_eq!(text.parse::<CodecMethod>().unwrap().to_string(), *text);
        }
        assert_eq!("zlib".parse::<CodecMethod>().unwrap(), CodecMethod::Zlib(6));
        assert_eq!(CodecMethod::list("lzjb,zstd:3").unwrap().len(), 2);
        for (text, why) in [
            ("zlib:", "accepted: 1 to 9"),
            ("zlib:0", "accepted: 1 to 9"),
            ("zlib-rs:x", "accepted: 1 to 9"),
            ("lzjb:2", "no options"),
            ("bzip2", "none, memcpy, lzjb, quicklz, zlib, zlib-rs"),
            ("zstd:99", "-131072 to 22"),
            ("", "unknown codec"),
        ] {
            let error = text.parse::<CodecMethod>().unwrap_err().to_string();
            assert!(error.ends_with(why) || error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn every_method_gives_back_what_it_took() {
        let bytes = MemoryReader::bytes(2, PageShares::default(), 300_000);
        for method in CodecMethod::defaults().unwrap() {
            for block_len in [1, 2, 100, 4096, 1 << 17] {
                let mut encoder = method.encoder(block_len).unwrap();
                let mut decoder = method.decoder().unwrap();
                let mut packed = vec![0; 2 * block_len + 1024];
                let mut back = vec![0; block_len];
                for block in bytes.chunks(block_len).take(40) {
                    let len = encoder.encode(block, &mut packed).unwrap().expect("it fits");
                    let got = decoder.decode(&packed[..len], &mut back[..block.len()]).unwrap();
                    assert!(back[..got] == *block, "{method}: {block_len}");
                    let mut tight = vec![0; len - 1];
                    assert_eq!(encoder.encode(block, &mut tight).unwrap(), None, "{method}: {block_len}");
                }
            }
        }
    }

    #[test]
    fn damaged_streams_are_errors_and_nothing_worse() {
        let block = MemoryReader::bytes(2, "text=1".parse::<PageShares>().unwrap(), 3000);
        for method in [CodecMethod::Lzjb, CodecMethod::QuickLz, CodecMethod::Zlib(6), CodecMethod::ZlibRs(6)] {
            let mut encoder = method.encoder(4096).unwrap();
            let mut decoder = method.decoder().unwrap();
            let mut packed = vec![0; 6000];
            let len = encoder.encode(&block, &mut packed).unwrap().unwrap();
            packed.truncate(len);
            assert!(decoder.decode(&packed, &mut vec![0; 2999]).is_err(), "{method}");
            for cut in (0..len).step_by(7) {
                let mut back = vec![0; 3000];
                let got = decoder.decode(&packed[..cut], &mut back);
                assert!(got.is_err() || got.unwrap() < 3000, "{method}: {cut}");
                let mut damaged = packed.clone();
                damaged[cut] ^= 0x55;
                let _ = decoder.decode(&damaged, &mut back);
            }
            // The decoder still works after an error.
            let mut back = vec![0; 3000];
            assert_eq!(decoder.decode(&packed, &mut back).unwrap(), 3000, "{method}");
            assert!(back == block, "{method}");
        }
    }

    #[test]
    fn zlib_and_its_like_read_one_another() {
        let block = MemoryReader::bytes(2, "code=1".parse::<PageShares>().unwrap(), 30_000);
        let methods = [CodecMethod::Zlib(1), CodecMethod::Zlib(9), CodecMethod::ZlibRs(6), "gzip:6".parse().unwrap()];
        for writer in &methods {
            let mut packed = vec![0; 40_000];
            let len = writer.encoder(1 << 15).unwrap().encode(&block, &mut packed).unwrap().unwrap();
            for reader in &methods {
                let mut back = vec![0; block.len()];
                reader.decoder().unwrap().decode(&packed[..len], &mut back).unwrap();
                assert!(back == block, "{writer} read by {reader}");
            }
        }
    }
}
