//! The compressor options block after the superblock: codec settings that a reader may need.
//!
//! It is written if the kernel needs it (LZ4 always, XZ with filters or another dictionary), and if
//! the settings differ from those that every tool assumes: gzip 9, LZO1X-999 level 8, zstd 15.

use packfs_codec::{Codec, DictSize, Settings, table};

use super::format::METADATA_RAW;
use crate::Result;

/// Compressor id in the superblock if nothing is compressed: every kernel supports gzip.
const GZIP: u16 = 1;
/// The highest level of zlib; libdeflate has levels up to 12, which other tools do not know.
const GZIP_LEVEL_MAX: u8 = 9;
/// Version of LZ4's block format, and flag of its dense encoder.
const LZ4_VERSION: u32 = 1;
const LZ4_HC: u32 = 1;

/// Returns the compressor id of a codec that SquashFS supports.
pub(crate) fn id(codec: Codec) -> Result<u16> {
    let usable = |codec: Codec| codec.squashfs_id().or((codec == Codec::None).then_some(GZIP));
    usable(codec).ok_or_else(|| {
        let names = table::CODECS.iter().filter(|info| usable(info.codec).is_some()).map(|info| info.name);
        let accepted = names.collect::<Vec<_>>().join(", ");
        packfs_codec::Error::NotInFormat { format: "SquashFS", codec: codec.name(), accepted }.into()
    })
}

/// Returns the block with its header, or `None` if the defaults suffice.
pub(crate) fn emit(settings: &Settings, block_size: u32) -> Result<Option<Vec<u8>>> {
    let words = match settings {
        Settings::Gzip { level: GZIP_LEVEL_MAX, window: 15, strategies: 1 } => None,
        Settings::Gzip { level, window, strategies } => {
            let halves = u32::from(*window) | u32::from(*strategies) << 16;
            Some(vec![u32::from(*level.min(&GZIP_LEVEL_MAX)), halves])
        }
        Settings::Xz { dict, filters, .. } => {
            let dict = DictSize::resolve(*dict, block_size as usize)?;
            (dict != block_size || *filters != 0).then(|| vec![dict, u32::from(*filters)])
        }
        Settings::Lzo { algorithm: 4, level: 8 } => None,
        Settings::Lzo { algorithm, level } => Some(vec![u32::from(*algorithm), u32::from(*level)]),
        Settings::Lz4 { .. } => Some(vec![LZ4_VERSION, 0]),
        Settings::Lz4hc { .. } => Some(vec![LZ4_VERSION, LZ4_HC]),
        Settings::Zstd { level: 15, .. } => None,
        Settings::Zstd { level, .. } => Some(vec![level.cast_unsigned()]),
        _ => None,
    };
    Ok(words.map(|words| {
        let len = u16::try_from(words.len() * 4).expect("two words at most");
        let body = words.iter().flat_map(|word| word.to_le_bytes());
        (METADATA_RAW | len).to_le_bytes().into_iter().chain(body).collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packfs_codec::Choice;

    #[test]
    fn the_block_is_written_exactly_when_a_reader_needs_it() {
        let cases: [(&str, &[u8]); 10] = [
            ("gzip:9", &[]),
            ("gzip:12", &[8, 0x80, 9, 0, 0, 0, 15, 0, 1, 0]),
            ("gzip:4:window=10,strategies=default+rle", &[8, 0x80, 4, 0, 0, 0, 10, 0, 9, 0]),
            ("xz", &[]),
            ("xz:bcj=x86", &[8, 0x80, 0, 0, 2, 0, 1, 0, 0, 0]),
            ("lzo", &[]),
            ("lz4", &[8, 0x80, 1, 0, 0, 0, 0, 0, 0, 0]),
            ("lz4hc", &[8, 0x80, 1, 0, 0, 0, 1, 0, 0, 0]),
            ("zstd:-3", &[4, 0x80, 0xfd, 0xff, 0xff, 0xff]),
            ("none", &[]),
        ];
        for (text, want) in cases {
            let choice: Choice = text.parse().unwrap();
            let block = emit(choice.settings(), 131_072).unwrap();
            assert_eq!(block.unwrap_or_default(), want, "{text}");
        }
    }

    #[test]
    fn a_codec_that_squashfs_lacks_is_refused() {
        assert_eq!(id(Codec::Zstd).unwrap(), 6);
        assert_eq!(id(Codec::None).unwrap(), GZIP);
        for codec in [Codec::Deflate, Codec::Snappy] {
            let message = id(codec).unwrap_err().to_string();
            let accepted = "accepted: zstd, gzip, xz, lzma, lzo, lz4, lz4hc, none";
            assert_eq!(message, format!("SquashFS has no {}; {accepted}", codec.name()));
        }
    }
}
