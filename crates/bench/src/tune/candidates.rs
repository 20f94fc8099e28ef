//! Settings worth trying, and typical speeds of codecs.

use packfs_codec::{Choice, Settings};

use packfs_image::build::AnyOptions;

use super::candidate::Candidate;

/// Codecs to try for SquashFS: from the quickest to the densest.
pub const SQUASHFS: &[&str] =
    &["lz4", "lz4hc:9", "lz4hc:12", "gzip:6", "zstd:1", "zstd:3", "zstd:9", "zstd:15", "zstd:19", "xz:6"];
/// Blocks to try for SquashFS.
pub const SQUASHFS_BLOCKS: &[&str] = &["32K", "128K", "1M"];
/// Codecs to try for EROFS. Which of them can be had is for the kernel to say that is to read the image.
pub const EROFS: &[&str] = &["lz4", "lz4hc:9", "lz4hc:12", "zstd:3", "zstd:9", "zstd:15", "zstd:19", "lzma:6"];
/// Clusters to try for EROFS.
pub const EROFS_CLUSTERS: &[&str] = &["16K", "64K", "256K"];

/// MB a second on one core, about, by which work is shared out beforehand. What is measured does not depend on it.
pub(super) fn speed(candidate: &Candidate) -> f64 {
    let codec = by_codec(candidate.codec());
    // Codecs that cannot fill a cluster try several times.
    match &candidate.options {
        AnyOptions::Erofs(options) if !options.build.codec.fills() => codec / 3.0,
        _ => codec,
    }
}

fn by_codec(codec: &Choice) -> f64 {
    match codec.settings() {
        Settings::None | Settings::Snappy | Settings::Lz4 { .. } => 200.0,
        Settings::Lzo { .. } if codec.gives_up_early() => 150.0,
        Settings::Lzo { .. } => 5.0,
        Settings::Lz4hc { level: ..=9 } => 50.0,
        Settings::Lz4hc { .. } => 12.0,
        Settings::Gzip { level, .. } | Settings::Deflate { level } => match level {
            ..=6 => 70.0,
            7..=9 => 30.0,
            _ => 8.0,
        },
        Settings::Zstd { level, .. } => match level {
            ..=2 => 180.0,
            3..=5 => 90.0,
            6..=9 => 40.0,
            10..=12 => 20.0,
            13..=15 => 8.0,
            16..=17 => 5.0,
            _ => 2.5,
        },
        // xz and lzma, and what is not known yet.
        _ => 4.0,
    }
}

/// Length of the sample of a candidate as a multiple of the shortest: the quicker its codec, the longer, in about the same
/// time; and twice as long if blocks are large, as few of them tell little.
pub(super) fn share(candidate: &Candidate) -> u64 {
    let quickness = match by_codec(candidate.codec()) {
        ..15.0 => 1,
        15.0..60.0 => 2,
        _ => 4,
    };
    if candidate.settings.block >= LARGE { 2 * quickness } else { quickness }
}

/// Blocks of which a sample holds few.
const LARGE: u32 = 512 << 10;
