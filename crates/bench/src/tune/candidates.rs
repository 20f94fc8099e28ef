//! Settings worth trying, and typical speeds of codecs.

use packfs_codec::{Choice, Settings};
use packfs_image::build::AnyOptions;

use super::candidate::TuneCandidate;

/// Codecs to try for SquashFS, fastest first.
pub const SQUASHFS: &[&str] =
    &["lz4", "lz4hc:9", "lz4hc:12", "gzip:6", "zstd:1", "zstd:3", "zstd:9", "zstd:15", "zstd:19", "xz:6"];
/// Block sizes to try for SquashFS.
pub const SQUASHFS_BLOCKS: &[&str] = &["32K", "128K", "1M"];
/// Codecs to try for EROFS, as far as the target kernel supports them.
pub const EROFS: &[&str] = &["lz4", "lz4hc:9", "lz4hc:12", "zstd:3", "zstd:9", "zstd:15", "zstd:19", "lzma:6"];
/// Cluster sizes to try for EROFS.
pub const EROFS_CLUSTERS: &[&str] = &["16K", "64K", "256K"];

/// Returns the approximate speed on one core in MB/s, to plan the work. It does not affect results.
pub(super) fn candidate_speed(candidate: &TuneCandidate) -> f64 {
    let speed = codec_speed(candidate.codec());
    // Codecs that cannot fill a cluster by themselves need several attempts.
    match &candidate.options {
        AnyOptions::Erofs(options) if !options.build.codec.fills() => speed / 3.0,
        _ => speed,
    }
}

/// Returns the typical speed on one core in MB/s. [`sample_factor`] derives the lengths of samples from it, so changes
/// affect predictions.
fn codec_speed(codec: &Choice) -> f64 {
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
        // xz, lzma and unknown ones.
        _ => 4.0,
    }
}

/// Returns the length of a candidate's sample as a multiple of the shortest: longer for faster codecs, so that all take
/// about the same time, and twice as long for large blocks, because a sample has few of them.
pub(super) fn sample_factor(candidate: &TuneCandidate) -> u64 {
    let quickness = match codec_speed(candidate.codec()) {
        ..15.0 => 1,
        15.0..60.0 => 2,
        _ => 4,
    };
    if candidate.settings.block >= MIN_LARGE_BLOCK { 2 * quickness } else { quickness }
}

/// Block size from which a sample has few blocks.
const MIN_LARGE_BLOCK: u32 = 512 << 10;
