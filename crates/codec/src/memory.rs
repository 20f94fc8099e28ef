//! How much memory an encoder and a decoder take, for a budget: measured, rounded up.

use crate::settings::{Dict, LZO1X_999};
use crate::{Choice, Settings};

const KIB: usize = 1 << 10;

impl Choice {
    /// Memory of one encoder and one decoder together for blocks of `block_len` bytes, at most.
    pub fn encoder_memory(&self, block_len: usize) -> usize {
        let encoder = match self.settings {
            Settings::None => 0,
            Settings::Gzip { level: 10.., .. } | Settings::Deflate { level: 10.. } => 8900 * KIB,
            Settings::Deflate { .. } => 660 * KIB,
            Settings::Gzip { strategies, .. } => 660 * KIB * strategies.count_ones() as usize,
            // All filters of a list are tried, each by its own stream; a pick uses two or three in practice.
            Settings::Xz { dict, filters, auto, .. } => {
                let streams = 1 + if auto { 2 } else { filters.count_ones() as usize };
                streams * lzma(dict, block_len)
            }
            Settings::Lzma { dict, .. } => lzma(dict, block_len),
            Settings::Lzo { algorithm: LZO1X_999, .. } => 3072 * KIB,
            Settings::Lzo { .. } => 64 * KIB,
            Settings::Lz4 { .. } => 16 * KIB,
            Settings::Lz4hc { .. } => 256 * KIB,
            // The tables of the densest levels; lower ones are within this too.
            Settings::Zstd { .. } => 1536 * KIB + block_len.max(16 * KIB) * 16,
        };
        let decoder = match self.settings {
            Settings::Xz { dict, .. } | Settings::Lzma { dict, .. } => dictionary(dict, block_len) + 64 * KIB,
            Settings::Zstd { .. } => 160 * KIB,
            _ => 16 * KIB,
        };
        encoder + decoder
    }
}

/// Window, hash chains and price tables of one LZMA encoder.
fn lzma(dict: Option<Dict>, block_len: usize) -> usize {
    13 * dictionary(dict, block_len) + 1536 * KIB
}

fn dictionary(dict: Option<Dict>, block_len: usize) -> usize {
    Dict::resolve(dict, block_len).map_or(block_len, |bytes| bytes as usize)
}
