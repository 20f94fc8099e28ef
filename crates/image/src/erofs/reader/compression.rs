//! The compression records after the superblock: the algorithms that files of an image use, and the
//! parameters of their decoders.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::disk::DeviceBytes;
use super::superblock::Superblock;
use crate::erofs::format::{self, CLUSTER_MAX, Incompat, SUPERBLOCK_OFFSET, algorithm};
use crate::{Error, Result};

const STRUCTURE: &str = "compression record";
/// Largest distance of an LZ4 match if none is stored.
const LZ4_DISTANCE: u16 = u16::MAX;
/// Dictionary sizes of MicroLZMA that the kernel accepts.
const LZMA_DICT: std::ops::RangeInclusive<u32> = 4096..=8 << 20;
/// Longest window of DEFLATE, as log2.
const DEFLATE_WINDOW: u8 = 15;
/// Shortest window of zstd, as log2, and by how much the kernel allows it to be longer.
const ZSTD_WINDOW: (u8, u8) = (10, 10);

/// An algorithm of compressed files, with the parameters of its decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErofsCompression {
    /// LZ4 blocks.
    Lz4 {
        /// Largest distance of a match.
        max_distance: u16,
        /// Number of blocks in the largest physical cluster.
        max_cluster_blocks: u16,
    },
    /// MicroLZMA.
    Lzma {
        /// Dictionary size in bytes.
        dict_size: u32,
    },
    /// Raw DEFLATE.
    Deflate {
        /// log2 of the window.
        window_bits: u8,
    },
    /// zstd frames.
    Zstd {
        /// log2 of the window.
        window_log: u8,
    },
}

impl ErofsCompression {
    /// Returns the algorithm's number in indexes.
    pub fn number(&self) -> u8 {
        match self {
            ErofsCompression::Lz4 { .. } => algorithm::LZ4,
            ErofsCompression::Lzma { .. } => algorithm::LZMA,
            ErofsCompression::Deflate { .. } => algorithm::DEFLATE,
            ErofsCompression::Zstd { .. } => algorithm::ZSTD,
        }
    }

    /// Returns the size in bytes of a decoder's window or dictionary.
    pub(super) fn window(&self) -> u32 {
        match self {
            ErofsCompression::Lz4 { max_distance, .. } => (*max_distance).into(),
            ErofsCompression::Lzma { dict_size } => *dict_size,
            ErofsCompression::Deflate { .. } => 1 << DEFLATE_WINDOW,
            ErofsCompression::Zstd { window_log } => 1 << window_log,
        }
    }

    /// Returns the algorithm's name.
    pub fn name(&self) -> &'static str {
        match self {
            ErofsCompression::Lz4 { .. } => "lz4",
            ErofsCompression::Lzma { .. } => "lzma",
            ErofsCompression::Deflate { .. } => "deflate",
            ErofsCompression::Zstd { .. } => "zstd",
        }
    }
}

/// Reads the records of an image, in the order of the algorithms' numbers.
pub(super) fn read(
    disk: &DeviceBytes,
    superblock: &Superblock,
    raw: &format::Superblock,
) -> Result<(Vec<ErofsCompression>, u64)> {
    let word = raw.u1.get();
    if !superblock.incompat.contains(Incompat::BIG_CLUSTERS) {
        // From before there were records: LZ4 in clusters of one block, if anything is compressed.
        // The earliest images stored only its distance.
        let compressed = superblock.incompat.contains(Incompat::ZERO_PADDING) || word != 0;
        let lz4 = ErofsCompression::Lz4 { max_distance: distance(word), max_cluster_blocks: 1 };
        return Ok((compressed.then_some(lz4).into_iter().collect(), SUPERBLOCK_OFFSET + superblock.len));
    }
    // The bits above those of known algorithms.
    let unknown = word >> algorithm::COUNT << algorithm::COUNT;
    if unknown != 0 {
        return Err(Error::Unsupported(format!("EROFS compression algorithms {unknown:#x} (known: bits 0 to 3)")));
    }
    let mut at = SUPERBLOCK_OFFSET + superblock.len;
    let found: Result<_> = (0..algorithm::COUNT)
        .filter(|number| word >> number & 1 == 1)
        .map(|number| {
            // Records are aligned, and each begins with its length.
            at = at.next_multiple_of(4);
            let mut len = [0; 2];
            disk.read(STRUCTURE, at, &mut len)?;
            // Length 0 stands for 65536, of which the first bytes are enough.
            let len = u16::from_le_bytes(len).wrapping_sub(1);
            // The longest known record has 14 bytes. A longer one has fields that are newer than this reader.
            let mut payload = [0; 16];
            let payload = &mut payload[..(usize::from(len) + 1).min(16)];
            disk.read(STRUCTURE, at + 2, payload)?;
            let found = parse(number, payload, superblock.block_bits())
                .map_err(|why| Error::corrupt(STRUCTURE, at, format!("algorithm {number}: {why}")))?;
            at += 3 + u64::from(len);
            Ok(found)
        })
        .collect();
    Ok((found?, at))
}

fn parse(number: u8, payload: &[u8], block_bits: u8) -> std::result::Result<ErofsCompression, String> {
    match number {
        algorithm::LZ4 => {
            let raw: format::Lz4Record = record(payload)?;
            // 0 stands for 1 (`z_erofs_load_lz4_config` in Linux).
            let blocks = raw.max_pclusterblks.get().max(1);
            // As much as `z_erofs_load_lz4_config` allows.
            if u64::from(blocks) << block_bits > CLUSTER_MAX {
                return Err(format!("clusters of {blocks} blocks, more than {CLUSTER_MAX} bytes"));
            }
            Ok(ErofsCompression::Lz4 { max_distance: distance(raw.max_distance.get()), max_cluster_blocks: blocks })
        }
        algorithm::LZMA => {
            let raw: format::LzmaRecord = record(payload)?;
            let dict_size = raw.dict_size.get();
            // Only format 0 exists, and Linux limits the dictionary, which it holds in memory for each
            // processor.
            if raw.format.get() != 0 || !LZMA_DICT.contains(&dict_size) {
                return Err(format!("format {}, dictionary of {dict_size} bytes", raw.format));
            }
            Ok(ErofsCompression::Lzma { dict_size })
        }
        algorithm::DEFLATE => {
            let raw: format::DeflateRecord = record(payload)?;
            if raw.windowbits > DEFLATE_WINDOW {
                return Err(format!("window of 2^{} bytes", raw.windowbits));
            }
            Ok(ErofsCompression::Deflate { window_bits: raw.windowbits })
        }
        _ => {
            let raw: format::ZstdRecord = record(payload)?;
            // Stored as what exceeds the shortest window.
            let (least, more) = ZSTD_WINDOW;
            if raw.format != 0 || raw.windowlog > more {
                return Err(format!("format {}, window of 2^{} bytes", raw.format, u16::from(raw.windowlog) + 10));
            }
            Ok(ErofsCompression::Zstd { window_log: least + raw.windowlog })
        }
    }
}

fn record<T: FromBytes + KnownLayout + Immutable>(payload: &[u8]) -> std::result::Result<T, String> {
    T::read_from_prefix(payload).map(|(record, _)| record).map_err(|_| format!("{} bytes are too few", payload.len()))
}

fn distance(stored: u16) -> u16 {
    if stored == 0 { LZ4_DISTANCE } else { stored }
}
