//! Memory used by encoders and decoders, for a memory budget: measured, rounded up.

use crate::settings::{DictSize, LZO1X_999};
use crate::{Choice, Settings};

const KIB: usize = 1 << 10;

impl Choice {
    /// Returns an upper bound of the memory of one encoder and one decoder together for blocks of
    /// `block_len` bytes.
    pub fn encoder_memory(&self, block_len: usize) -> usize {
        let encoder = match self.settings {
            Settings::None => 0,
            #[cfg(feature = "gzip")]
            Settings::Gzip { level: crate::gzip::DENSE.., .. } => crate::deflate::dense_memory(block_len),
            Settings::Gzip { level: 10.., .. } | Settings::Deflate { level: 10.. } => 8900 * KIB,
            Settings::Deflate { .. } => 660 * KIB,
            Settings::Gzip { strategies, .. } => 660 * KIB * strategies.count_ones() as usize,
            // All filters of a list are tried, each by its own stream; `auto` uses two or three in practice.
            Settings::Xz { dict, filters, auto, .. } => {
                let streams = 1 + if auto { 2 } else { filters.count_ones() as usize };
                streams * lzma(dict, block_len)
            }
            Settings::Lzma { dict, .. } => lzma(dict, block_len),
            Settings::Lzo { algorithm: LZO1X_999, .. } => 3072 * KIB,
            Settings::Lzo { .. } => 64 * KIB,
            // The table, and room for a block that grows by a sixth.
            Settings::Snappy => 64 * KIB + block_len + block_len / 6,
            Settings::Lz4 { .. } => 48 * KIB,
            #[cfg(feature = "lz4")]
            Settings::Lz4hc { level: crate::lz4::OPTIMAL.. } => crate::lz4::optimal_memory(block_len),
            Settings::Lz4hc { .. } => 256 * KIB,
            // Sorted positions and sequences of our own parser, in small blocks, and the library's for tables.
            Settings::Zstd { level: 14.., .. } if block_len <= 128 * KIB => {
                1536 * KIB + block_len.max(16 * KIB) * 40 + zstd_of(block_len)
            }
            // Larger ones are sorted up to five times if all positions of a block begin alike, and usually twice.
            Settings::Zstd { level: 15.., .. } if block_len <= 256 * KIB => own_large_zstd(block_len),
            Settings::Zstd { level: 18.., .. } if block_len <= KIB * KIB => own_large_zstd(block_len),
            Settings::Zstd { .. } => zstd_of(block_len),
        };
        let decoder = match self.settings {
            Settings::Xz { dict, .. } | Settings::Lzma { dict, .. } => dictionary(dict, block_len) + 64 * KIB,
            Settings::Zstd { .. } => 160 * KIB,
            _ => 16 * KIB,
        };
        encoder + decoder
    }
}

impl Choice {
    /// Returns an upper bound of the memory of one [`Choice::cluster_encoder`] and one
    /// [`Codec::cluster_decoder`] together for clusters of `cluster_len` bytes.
    ///
    /// [`Codec::cluster_decoder`]: crate::Codec::cluster_decoder
    pub fn cluster_memory(&self, cluster_len: u32) -> usize {
        let window = self.cluster_window(cluster_len) as usize;
        match self.settings {
            // The decoder's dictionary is as long as its output, which may exceed the encoder's dictionary.
            Settings::Lzma { .. } => lzma_of(window) + (8 << 20) + 64 * KIB,
            // Clusters are filled by the library. Decoding the beginning of a frame keeps its window and a block.
            Settings::Zstd { .. } => zstd_of(window) + window + 672 * KIB,
            // zlib decodes beginnings, with a window of its own.
            Settings::Deflate { .. } => self.encoder_memory(window) + 64 * KIB,
            // Clusters are filled from any length of input.
            Settings::Lz4hc { .. } => self.encoder_memory(usize::MAX),
            _ => self.encoder_memory(window),
        }
    }
}

/// Memory of the library's encoder of Zstandard at its densest levels; lower ones need less.
fn zstd_of(block_len: usize) -> usize {
    1536 * KIB + block_len.max(16 * KIB) * 16
}

/// Memory of our own encoder of Zstandard for blocks above 128 KiB, and of the library's for tables.
fn own_large_zstd(block_len: usize) -> usize {
    3072 * KIB + block_len * 64 + zstd_of(block_len)
}

/// Memory of the window, search trees and price tables of one LZMA encoder, ours or liblzma's.
fn lzma(dict: Option<DictSize>, block_len: usize) -> usize {
    lzma_of(dictionary(dict, block_len))
}

fn lzma_of(dictionary: usize) -> usize {
    16 * dictionary + 1536 * KIB
}

fn dictionary(dict: Option<DictSize>, block_len: usize) -> usize {
    DictSize::resolve(dict, block_len).map_or(block_len, |bytes| bytes as usize)
}
