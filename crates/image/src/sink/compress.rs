//! Compresses a stream, such as a tar archive, on all cores: it is cut into pieces, each of which becomes a gzip member, an
//! xz or bzip2 stream or a zstd frame. Their concatenation is read by every decompressor as one stream.

use std::fmt;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

use packfs_blocks::pipeline::{self, Pool, Window};
use packfs_source::{STREAM_FORMATS, StreamCodec, StreamFormat, StreamSupport};

use crate::source::decompress::{is_out_of_memory, out_of_memory};
use crate::{Error, Result};

/// A format of compressed streams, and a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamCompression {
    codec: StreamCodec,
    level: u8,
}

/// An encoder of compressed streams, by the table of formats.
struct StreamEncoder {
    codec: StreamCodec,
    levels: RangeInclusive<u8>,
    default_level: u8,
}

impl StreamEncoder {
    /// Returns the first format that packfs writes and that meets a condition.
    fn find(is_meant: impl Fn(&StreamFormat) -> bool) -> Option<Self> {
        STREAM_FORMATS.iter().filter(|format| is_meant(format)).find_map(|format| match &format.support {
            StreamSupport::ReadAndWritten { codec, levels, default_level } => {
                Some(StreamEncoder { codec: *codec, levels: levels.clone(), default_level: *default_level })
            }
            StreamSupport::Refused(_) | StreamSupport::NameOnly => None,
        })
    }
}

/// Parses `FORMAT` or `FORMAT:LEVEL`.
impl FromStr for StreamCompression {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, level) = text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level)));
        let encoder = StreamEncoder::find(|format| format.name == name);
        let encoder = encoder.ok_or("expected gzip, xz, zstd or bzip2, as in zstd:9")?;
        let level = level.map_or(Ok(encoder.default_level), |level| match level.parse() {
            Ok(level) if encoder.levels.contains(&level) => Ok(level),
            _ => Err(format!("levels of {name} are {} to {}", encoder.levels.start(), encoder.levels.end())),
        });
        Ok(StreamCompression { codec: encoder.codec, level: level? })
    }
}

impl fmt::Display for StreamCompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.codec.name(), self.level)
    }
}

impl StreamCompression {
    /// Returns the compression that the ending of a file name means, if it means any. Fails with a description if packfs
    /// does not write that format.
    pub fn of_name(path: &Path) -> std::result::Result<Option<Self>, String> {
        let Some(ending) = path.extension().and_then(|ending| ending.to_str()) else { return Ok(None) };
        // Files from other systems end in .TGZ as well.
        let ending = ending.to_ascii_lowercase();
        let Some(format) = STREAM_FORMATS.iter().find(|format| format.has_ending(&ending)) else { return Ok(None) };
        match StreamEncoder::find(|written| written.name == format.name) {
            Some(encoder) => Ok(Some(StreamCompression { codec: encoder.codec, level: encoder.default_level })),
            None => Err(format!("packfs does not compress with {}; accepted: gzip, xz, zstd, bzip2", format.name)),
        }
    }

    /// Length of a piece: some times the distance over which the format finds repetitions.
    fn piece(self) -> usize {
        // The dictionaries of the presets of xz.
        const XZ_DICT_LOG: [u8; 10] = [18, 20, 21, 22, 22, 23, 23, 24, 25, 26];
        match self.codec {
            StreamCodec::Gzip => 1 << 20,
            StreamCodec::Zstd if self.level > 16 => 32 << 20,
            StreamCodec::Zstd | StreamCodec::Bzip2 => 8 << 20,
            StreamCodec::Xz => {
                let dict = XZ_DICT_LOG.get(usize::from(self.level)).map_or(26, |log| *log);
                (3usize << dict).clamp(4 << 20, 96 << 20)
            }
        }
    }

    /// Memory of an encoder for a piece in MiB, rounded up: the tables that the library allocates for the level.
    fn encoder(self) -> u64 {
        const XZ: [u64; 10] = [3, 9, 17, 32, 48, 94, 94, 186, 370, 674];
        match (self.codec, self.level) {
            (StreamCodec::Gzip, ..10) => 1,
            (StreamCodec::Gzip, _) => 9,
            (StreamCodec::Bzip2, _) => 8,
            (StreamCodec::Xz, level) => XZ.get(usize::from(level)).map_or(674, |size| *size),
            (StreamCodec::Zstd, ..5) => 4,
            (StreamCodec::Zstd, 5..9) => 12,
            (StreamCodec::Zstd, 9..17) => 80,
            (StreamCodec::Zstd, 17..19) => 64,
            (StreamCodec::Zstd, 19) => 96,
            (StreamCodec::Zstd, 20) => 176,
            (StreamCodec::Zstd, 21) => 336,
            (StreamCodec::Zstd, _) => 400,
        }
    }

    /// Returns the number of bytes that compression on `threads` threads takes.
    pub fn memory(self, threads: usize) -> u64 {
        let threads = threads.max(1) as u64;
        let piece = self.piece() as u64;
        // Each thread has a piece before and after; one more waits, and another is filled.
        threads * (2 * piece + (self.encoder() << 20)) + 2 * piece
    }

    /// Returns the largest number of threads, at most `most`, that takes no more than `memory` bytes; `None` if even one
    /// takes more.
    pub fn threads_within(self, most: usize, memory: u64) -> Option<usize> {
        // One thread is needed even for `most` 0, where the calling thread compresses.
        let fitting = (1..=most.max(1)).rev().find(|threads| self.memory(*threads) <= memory);
        fitting.map(|threads| threads.min(most))
    }

    /// Compresses a piece.
    fn encode(self, piece: &[u8]) -> io::Result<Vec<u8>> {
        self.encode_by_library(piece).map_err(|error| match is_out_of_memory(&error) {
            true => out_of_memory(&self.to_string()),
            false => error,
        })
    }

    fn encode_by_library(self, piece: &[u8]) -> io::Result<Vec<u8>> {
        let level = u32::from(self.level);
        let _ = (level, piece);
        match self.codec {
            #[cfg(feature = "tar-gzip")]
            StreamCodec::Gzip => gzip(piece, self.level),
            #[cfg(feature = "tar-xz")]
            StreamCodec::Xz => {
                let stream = liblzma::stream::Stream::new_easy_encoder(level, liblzma::stream::Check::Crc64)?;
                let mut out = liblzma::write::XzEncoder::new_stream(Vec::with_capacity(piece.len()), stream);
                out.write_all(piece)?;
                out.finish()
            }
            #[cfg(feature = "tar-zstd")]
            StreamCodec::Zstd => {
                let mut encoder = zstd::bulk::Compressor::new(i32::from(self.level))?;
                // The other formats have one here; without it, damage to an archive could be read as data.
                encoder.include_checksum(true)?;
                encoder.compress(piece)
            }
            #[cfg(feature = "tar-bzip2")]
            StreamCodec::Bzip2 => {
                let mut out =
                    bzip2::write::BzEncoder::new(Vec::with_capacity(piece.len()), bzip2::Compression::new(level));
                out.write_all(piece)?;
                out.finish()
            }
            #[allow(unreachable_patterns, reason = "reached when a compressor's feature is off")]
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, format!("this build does not compress with {self}"))),
        }
    }
}

/// Makes a gzip member, by libdeflate. The time in its header is 0, and the system is unknown.
#[cfg(feature = "tar-gzip")]
fn gzip(piece: &[u8], level: u8) -> io::Result<Vec<u8>> {
    const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let choice: packfs_codec::Choice = format!("deflate:{level}").parse().map_err(io::Error::other)?;
    let mut encoder = choice.encoder(piece.len()).map_err(io::Error::other)?;
    // Data that does not shrink grows by some bytes for each block of at least 10,000.
    let mut out = vec![0; HEADER.len() + piece.len() + piece.len() / 1000 + 64];
    out[..HEADER.len()].copy_from_slice(&HEADER);
    let len = encoder.encode(piece, &mut out[HEADER.len()..]).map_err(io::Error::other)?;
    let len = len.ok_or_else(|| io::Error::other("libdeflate needs more room than it says"))?;
    out.truncate(HEADER.len() + len);
    let mut crc = flate2::Crc::new();
    crc.update(piece);
    out.extend(crc.sum().to_le_bytes());
    out.extend(crc.amount().to_le_bytes());
    Ok(out)
}

/// Runs `body` with a writer that compresses to `out`, on `threads` threads; with 0 on the calling one. The bytes do not
/// depend on their number. `name` is that of the output, for messages.
pub fn compressed<R>(
    how: StreamCompression,
    out: &mut dyn Write,
    name: &Path,
    threads: usize,
    body: impl FnOnce(&mut dyn Write) -> Result<R>,
) -> Result<R> {
    let budget = (threads + 1) * how.piece();
    pipeline::scope(
        threads,
        || (),
        |pool: &Pool<'_, ()>| {
            let mut writer =
                StreamCompressor { how, out, pool, window: Window::new(budget), piece: Vec::new(), any: false };
            let result = body(&mut writer)?;
            writer.finish().map_err(Error::io("cannot write", name))?;
            Ok(result)
        },
    )
}

/// Compresses what is written to it.
struct StreamCompressor<'c, 'env> {
    how: StreamCompression,
    out: &'c mut dyn Write,
    pool: &'c Pool<'env, ()>,
    window: Window<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    /// True once a piece was submitted.
    any: bool,
}

impl StreamCompressor<'_, '_> {
    fn submit(&mut self) -> io::Result<()> {
        while self.window.is_full() {
            self.put()?;
        }
        let how = self.how;
        let piece = std::mem::take(&mut self.piece);
        let len = piece.len();
        self.any = true;
        self.window.push(self.pool.submit(move |()| how.encode(&piece)), len);
        Ok(())
    }

    /// Writes the oldest piece.
    fn put(&mut self) -> io::Result<()> {
        self.window.pop().map_or(Ok(()), |piece| self.out.write_all(&piece?))
    }

    /// Writes the rest; nothing at all becomes an empty stream.
    fn finish(mut self) -> io::Result<()> {
        // Decompressors take an empty file for a damaged one.
        if !self.piece.is_empty() || !self.any {
            self.submit()?;
        }
        while !self.window.is_empty() {
            self.put()?;
        }
        self.out.flush()
    }
}

impl Write for StreamCompressor<'_, '_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.piece.capacity() == 0 {
            // At once: growing would take up to twice as much.
            self.piece.reserve_exact(self.how.piece());
        }
        let room = self.how.piece() - self.piece.len();
        let taken = buf.len().min(room);
        self.piece.extend_from_slice(&buf[..taken]);
        if taken == room {
            self.submit()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn every_format_is_read_back_and_does_not_depend_on_threads() {
        let plain: Vec<u8> =
            (0..2_500_000u32).flat_map(|n| (n / 7).wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for how in ["gzip", "gzip:12", "zstd:1", "xz:0", "bzip2:1"] {
            let how: StreamCompression = how.parse().unwrap();
            let written = [0, 1, 3].map(|threads| {
                let mut out = Vec::new();
                let done = compressed(how, &mut out, Path::new("out"), threads, |writer| {
                    plain.chunks(99_999).try_for_each(|chunk| writer.write_all(chunk)).map_err(Error::io("x", "y"))
                });
                done.unwrap();
                out
            });
            assert!(written[0] == written[1] && written[0] == written[2] && written[0].len() < plain.len(), "{how}");
            let from = Box::new(io::Cursor::new(written[0].clone()));
            let mut again = Vec::new();
            crate::source::decompress::reader(from, Path::new("a")).unwrap().read_to_end(&mut again).unwrap();
            assert!(again == plain, "{how}");
        }
        let mut out = Vec::new();
        compressed("gzip".parse().unwrap(), &mut out, Path::new("out"), 2, |_| Ok(())).unwrap();
        let mut empty = Vec::new();
        let from = Box::new(io::Cursor::new(out));
        crate::source::decompress::reader(from, Path::new("a")).unwrap().read_to_end(&mut empty).unwrap();
        assert!(empty.is_empty(), "an empty stream");
    }

    #[test]
    fn threads_are_as_many_as_fit() {
        let xz: StreamCompression = "xz:9".parse().unwrap();
        let cases = [
            (4, 4 << 30, Some(4)),
            (4, xz.memory(4) - 1, Some(3)),
            (4, xz.memory(1), Some(1)),
            (4, xz.memory(1) - 1, None),
            (0, xz.memory(1), Some(0)),
            (0, xz.memory(1) - 1, None),
        ];
        for (most, memory, threads) in cases {
            assert_eq!(xz.threads_within(most, memory), threads, "{most} in {memory}");
        }
    }

    #[cfg(feature = "tar-zstd")]
    #[test]
    fn the_memory_of_encoders_is_bounded() {
        for level in [1, 4, 8, 12, 15, 16, 18, 19, 20, 21, 22] {
            let how: StreamCompression = format!("zstd:{level}").parse().unwrap();
            let mut encoder = zstd::bulk::Compressor::new(level).unwrap();
            encoder.compress(&vec![0; how.piece()]).unwrap();
            let taken = encoder.context_mut().sizeof() as u64;
            assert!(taken <= how.encoder() << 20, "level {level}: {taken}");
        }
    }

    #[test]
    fn names_and_levels_are_read() {
        for (text, shown) in [("gzip", "gzip:6"), ("zstd:22", "zstd:22"), ("xz:0", "xz:0"), ("bzip2", "bzip2:9")] {
            assert_eq!(text.parse::<StreamCompression>().unwrap().to_string(), shown);
        }
        for bad in ["", "lz4", "zstd:", "zstd:0", "xz:10", "gzip:x"] {
            assert!(bad.parse::<StreamCompression>().is_err(), "{bad}");
        }
        for (name, how) in [
            ("a.tar.gz", Some("gzip:6")),
            ("a.TZST", Some("zstd:3")),
            ("a.tar.zstd", Some("zstd:3")),
            ("a.tar", None),
            ("gz", None),
        ] {
            let compression = StreamCompression::of_name(Path::new(name)).unwrap();
            assert_eq!(compression.map(|how| how.to_string()).as_deref(), how, "{name}");
        }
        for (name, format) in [("a.tar.lz4", "lz4"), ("a.tlz", "lzip"), ("a.tar.Z", "compress"), ("a.br", "brotli")] {
            let refused = StreamCompression::of_name(Path::new(name)).unwrap_err();
            assert!(refused.starts_with(&format!("packfs does not compress with {format};")), "{name}: {refused}");
        }
    }
}
