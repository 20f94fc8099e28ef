//! The compressor options after the superblock: settings of the writer's codec, and what the decoder needs of them.

use packfs_codec::Codec;

use super::disk::ImageBytes;
use super::superblock::{self, LEN, Superblock};
use crate::squashfs::format::{METADATA_LEN, METADATA_RAW, SuperblockFlags};
use crate::{Error, Result};

const STRUCTURE: &str = "compressor options";
/// Upper bound of the length of a compressor options block.
const OPTIONS_MAX: usize = 12;

/// The compressor options block: settings of the writer's codec, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressorOptions {
    /// Parameters of zlib.
    Gzip {
        /// 1 to 9.
        level: i32,
        /// log2 of the window.
        window: u16,
        /// Bit set of strategies that were tried.
        strategies: u16,
    },
    /// Parameters of xz.
    Xz {
        /// Dictionary size in bytes.
        dictionary: u32,
        /// Bit set of BCJ filters that were tried.
        filters: u32,
    },
    /// Parameters of lzo.
    Lzo {
        /// 0 lzo1x_1, 1 lzo1x_1_11, 2 lzo1x_1_12, 3 lzo1x_1_15, 4 lzo1x_999.
        algorithm: u32,
        /// 1 to 9, for lzo1x_999.
        level: u32,
    },
    /// Parameters of lz4.
    Lz4 {
        /// 1: the block format.
        version: u32,
        /// Bit 0: the dense encoder.
        flags: u32,
        /// Level or acceleration, which newer writers add.
        level: Option<i32>,
    },
    /// Parameters of zstd.
    Zstd {
        /// The level.
        level: i32,
    },
}

/// Reads the options. The kernel uses them for lz4, which requires them, and for xz; for others
/// they are informative.
pub(super) fn read(disk: &ImageBytes, superblock: &Superblock) -> Result<(Option<CompressorOptions>, u64)> {
    let codec = superblock.codec;
    if !superblock.flags.contains(SuperblockFlags::COMPRESSOR_OPTIONS) {
        if codec == Codec::Lz4 {
            return Err(superblock::wrong("an lz4 image without compressor options, which no reader accepts"));
        }
        return Ok((None, LEN));
    }
    // From here on, the options are after the superblock, so errors are about that place.
    let bad = |why: String| Err(Error::corrupt(STRUCTURE, LEN, why));
    let mut header = [0; 2];
    disk.read(STRUCTURE, LEN, &mut header)?;
    let header = u16::from_le_bytes(header);
    let len = usize::from(header & !METADATA_RAW);
    // The options say how to decode, so they cannot be compressed themselves.
    if header & METADATA_RAW == 0 || len > METADATA_LEN || LEN + 2 + len as u64 > superblock.inode_table {
        return bad(format!("header {header:#06x} does not announce a short block stored as it is"));
    }
    let data_start = LEN + 2 + len as u64;
    let mut bytes = [0; OPTIONS_MAX];
    // Newer writers may have more fields, which are passed over.
    let len = len.min(OPTIONS_MAX);
    disk.read(STRUCTURE, LEN + 2, &mut bytes[..len])?;
    let options = parse_options(codec, &bytes[..len]);
    match (codec, options) {
        // Only these two codecs read the options in Linux: `squashfs_lz4_comp_opts` and
        // `squashfs_xz_comp_opts`.
        (Codec::Lz4 | Codec::Xz, None) => bad(format!("{len} bytes are too short for this codec")),
        (_, Some(CompressorOptions::Lz4 { version, .. })) if version != 1 => {
            bad(format!("unknown lz4 format {version} (only 1 is supported)"))
        }
        (_, Some(CompressorOptions::Xz { dictionary, .. })) if !xz_dictionary_is_valid(dictionary) => {
            bad(format!("xz dictionary length {dictionary} is neither 2^n nor 2^n + 2^(n+1)"))
        }
        (_, options) => Ok((options, data_start)),
    }
}

fn parse_options(codec: Codec, bytes: &[u8]) -> Option<CompressorOptions> {
    let word = |n: usize| Some(u32::from_le_bytes(*bytes.get(n..)?.first_chunk()?));
    let half = |n: usize| Some(u16::from_le_bytes(*bytes.get(n..)?.first_chunk()?));
    Some(match codec {
        Codec::Gzip => {
            CompressorOptions::Gzip { level: word(0)?.cast_signed(), window: half(4)?, strategies: half(6)? }
        }
        Codec::Xz => CompressorOptions::Xz { dictionary: word(0)?, filters: word(4)? },
        Codec::Lzo => CompressorOptions::Lzo { algorithm: word(0)?, level: word(4)? },
        Codec::Lz4 => {
            CompressorOptions::Lz4 { version: word(0)?, flags: word(4)?, level: word(8).map(u32::cast_signed) }
        }
        Codec::Zstd => CompressorOptions::Zstd { level: word(0)?.cast_signed() },
        _ => return None,
    })
}

fn xz_dictionary_is_valid(len: u32) -> bool {
    let lowest = len & len.wrapping_neg();
    // As `squashfs_xz_comp_opts` of Linux tests it. In 64 bits, as three times the highest bit does not fit.
    len != 0 && (len == lowest || u64::from(len) == u64::from(lowest) * 3)
}
