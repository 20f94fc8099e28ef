//! One table of the formats of compressed streams, such as `root.tar.zst`: how a file is recognised by its first bytes and
//! by its name, and which formats packfs reads and writes. Decoders are in [`crate::decompress`]; the encoders of archives
//! are packfs-image's.

use std::ops::RangeInclusive;

/// A codec that reads and writes compressed streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamCodec {
    /// gzip (RFC 1952).
    Gzip,
    /// xz.
    Xz,
    /// Zstandard (RFC 8878).
    Zstd,
    /// bzip2.
    Bzip2,
}

/// A format of compressed streams.
#[derive(Debug)]
pub struct StreamFormat {
    /// Name, as an option takes it.
    pub name: &'static str,
    /// Returns true if the first [`STREAM_MAGIC_LEN`] bytes of a file are those of this format.
    is_start: fn(&[u8]) -> bool,
    /// Endings of the names of compressed files, in lower case.
    endings: &'static [&'static str],
    /// Endings that stand for `.tar` and one of [`endings`](Self::endings).
    tar_endings: &'static [&'static str],
    /// Whether packfs reads and writes the format.
    pub support: StreamSupport,
}

/// Whether packfs reads and writes a format of compressed streams.
#[derive(Debug)]
pub enum StreamSupport {
    /// The format is read, and written at these levels.
    ReadAndWritten {
        /// The codec.
        codec: StreamCodec,
        /// Levels of its encoder.
        levels: RangeInclusive<u8>,
        /// Level if none is given.
        default_level: u8,
    },
    /// The format is named in an error, in these words.
    Refused(&'static str),
    /// Only names are recognised: a file of such a name is expected to be compressed.
    NameOnly,
}

/// Number of bytes by which every format is recognised. bzip2 needs the most: 4 of the stream and 6 of its first block.
pub(crate) const STREAM_MAGIC_LEN: usize = 10;

/// All formats.
pub static STREAM_FORMATS: [StreamFormat; 12] = [
    StreamFormat {
        name: "gzip",
        is_start: |head| head.starts_with(b"\x1f\x8b\x08"),
        endings: &["gz"],
        tar_endings: &["tgz"],
        support: StreamSupport::ReadAndWritten { codec: StreamCodec::Gzip, levels: 1..=12, default_level: 6 },
    },
    StreamFormat {
        name: "xz",
        is_start: |head| head.starts_with(b"\xfd7zXZ\0"),
        endings: &["xz"],
        tar_endings: &["txz"],
        support: StreamSupport::ReadAndWritten { codec: StreamCodec::Xz, levels: 0..=9, default_level: 6 },
    },
    StreamFormat {
        name: "zstd",
        // A frame, or a skippable frame before it.
        is_start: |head| matches!(head, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]),
        endings: &["zst", "zstd"],
        tar_endings: &["tzst", "tzstd"],
        support: StreamSupport::ReadAndWritten { codec: StreamCodec::Zstd, levels: 1..=22, default_level: 3 },
    },
    StreamFormat {
        name: "bzip2",
        is_start: is_bzip2_start,
        endings: &["bz2", "bz"],
        tar_endings: &["tbz2", "tbz", "tb2"],
        support: StreamSupport::ReadAndWritten { codec: StreamCodec::Bzip2, levels: 1..=9, default_level: 9 },
    },
    StreamFormat {
        name: "lz4",
        is_start: |head| head.starts_with(b"\x04\x22\x4d\x18"),
        endings: &["lz4"],
        tar_endings: &["tlz4"],
        support: StreamSupport::Refused("compressed with lz4"),
    },
    StreamFormat {
        name: "lzip",
        is_start: |head| head.starts_with(b"LZIP\x01"),
        endings: &["lz"],
        tar_endings: &["tlz"],
        support: StreamSupport::Refused("compressed with lzip"),
    },
    StreamFormat {
        name: "lzop",
        is_start: |head| head.starts_with(b"\x89LZO\0"),
        endings: &["lzo"],
        tar_endings: &["tzo"],
        support: StreamSupport::Refused("compressed with lzop"),
    },
    StreamFormat {
        name: "compress",
        is_start: |head| head.starts_with(b"\x1f\x9d"),
        endings: &["z"],
        tar_endings: &["taz"],
        support: StreamSupport::Refused("compressed with compress"),
    },
    known_by_name("lzma", &["lzma"]),
    known_by_name("brotli", &["br"]),
    known_by_name("snappy", &["sz"]),
    known_by_name("lrzip", &["lrz"]),
];

const fn known_by_name(name: &'static str, endings: &'static [&'static str]) -> StreamFormat {
    StreamFormat { name, is_start: |_| false, endings, tar_endings: &[], support: StreamSupport::NameOnly }
}

/// Returns true if `head` has the magic of a stream, followed by that of a block, or of the end of an empty stream. The
/// first four bytes alone could begin a text.
fn is_bzip2_start(head: &[u8]) -> bool {
    matches!(
        head,
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..]
    )
}

impl StreamFormat {
    /// Returns the format that a file with these first bytes has.
    pub(crate) fn recognise(head: &[u8]) -> Option<&'static StreamFormat> {
        STREAM_FORMATS.iter().find(|format| (format.is_start)(head))
    }

    /// Returns true if a compressed file, or a compressed tar archive, ends with `.` and this text in lower case.
    pub fn has_ending(&self, ending: &str) -> bool {
        self.endings.contains(&ending) || self.is_tar_ending(ending)
    }

    /// Returns true for an ending of a compressed file of any kind, such as `gz`.
    pub(crate) fn is_file_ending(&self, ending: &str) -> bool {
        self.endings.contains(&ending)
    }

    /// Returns true for an ending that only compressed tar archives have, such as `tgz`.
    pub(crate) fn is_tar_ending(&self, ending: &str) -> bool {
        self.tar_endings.contains(&ending)
    }

    /// Returns the codec that reads and writes the format.
    pub fn codec(&self) -> Option<StreamCodec> {
        match self.support {
            StreamSupport::ReadAndWritten { codec, .. } => Some(codec),
            StreamSupport::Refused(_) | StreamSupport::NameOnly => None,
        }
    }
}

impl StreamCodec {
    /// Returns the codec of a stream with these first bytes; `None` if it is not compressed, or by something else.
    pub(crate) fn recognise(head: &[u8]) -> Option<Self> {
        StreamFormat::recognise(head).and_then(StreamFormat::codec)
    }

    /// Name of the codec.
    pub fn name(self) -> &'static str {
        STREAM_FORMATS.iter().find(|format| format.codec() == Some(self)).map_or("", |format| format.name)
    }
}

/// Names the compression of a file, by its first bytes, if packfs does not read it.
pub(crate) fn refused_compression(head: &[u8]) -> Option<&'static str> {
    match StreamFormat::recognise(head)?.support {
        StreamSupport::Refused(description) => Some(description),
        StreamSupport::ReadAndWritten { .. } | StreamSupport::NameOnly => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_format_is_found_by_what_is_its_own() {
        let mut endings = BTreeSet::new();
        for format in &STREAM_FORMATS {
            for ending in format.endings.iter().chain(format.tar_endings) {
                assert!(endings.insert(*ending), "{}: {ending} stands for another format, too", format.name);
                assert!(format.has_ending(ending) && *ending == ending.to_ascii_lowercase(), "{ending}");
            }
            if let StreamSupport::ReadAndWritten { codec, levels, default_level } = &format.support {
                assert!(codec.name() == format.name && levels.contains(default_level), "{}", format.name);
            }
        }
        let heads: [(&[u8], Option<&str>); 11] = [
            (b"\x1f\x8b\x08", Some("gzip")),
            (b"\xfd7zXZ\0\0", Some("xz")),
            (b"\x28\xb5\x2f\xfd", Some("zstd")),
            (b"\x50\x2a\x4d\x18", Some("zstd")),
            (b"BZh91AY&SY", Some("bzip2")),
            (b"BZh9\x17\x72\x45\x38\x50\x90", Some("bzip2")),
            (b"BZh9 a text", None),
            (b"\x04\x22\x4d\x18", Some("lz4")),
            (b"LZIP\x01", Some("lzip")),
            (b"\x1f\x9d\x90", Some("compress")),
            (b"", None),
        ];
        for (head, name) in heads {
            assert_eq!(StreamFormat::recognise(head).map(|format| format.name), name, "{}", head.escape_ascii());
        }
    }
}
