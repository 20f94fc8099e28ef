//! Facts about an image, as `unsquashfs -s` prints them.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use packfs_image::name::display;
use packfs_image::squashfs::{CompressorOptions, SquashfsReader, SuperblockFlags};

use super::rows::{format_time, time_zone};

const STRATEGIES: [&str; 5] = ["default", "filtered", "huffman_only", "run_length_encoded", "fixed"];
const FILTERS: [&str; 8] = ["x86", "powerpc", "ia64", "arm", "armthumb", "sparc", "arm64", "riscv"];
const LZO: [&str; 5] = ["lzo1x_1", "lzo1x_1_11", "lzo1x_1_12", "lzo1x_1_15", "lzo1x_999"];
/// Bit of the options of lz4 for its dense encoder.
const LZ4_HC: u32 = 1;

/// Prints the lines that callers look for.
pub(super) fn print(image: &SquashfsReader, name: &Path, utc: bool, out: &mut impl Write) -> Result<()> {
    let superblock = image.superblock();
    let has = |flags| superblock.flags.intersects(flags);
    // `print` says "un" or "not " by these flags.
    let not = |word: &'static str, absent: bool| if absent { word } else { "" };
    let packed = |raw| not("un", has(raw));
    let size = superblock.bytes_used;
    let made = format_time(superblock.mkfs_time.into(), &time_zone(utc), "%a %b %e %H:%M:%S %Y")?;
    writeln!(out, "Found a valid SQUASHFS 4:0 superblock on {}.", display(name))?;
    writeln!(out, "Creation or last append time {made}")?;
    writeln!(out, "Filesystem size {size} bytes ({} Kbytes / {} Mbytes)", hundredths(size, 10), hundredths(size, 20))?;
    writeln!(out, "Compression {}", superblock.codec.name())?;
    for line in superblock.options.into_iter().flat_map(options) {
        writeln!(out, "\t{line}")?;
    }
    writeln!(out, "Block size {}", superblock.block_size)?;
    writeln!(out, "Filesystem is {}exportable via NFS", not("not ", !has(SuperblockFlags::EXPORTABLE)))?;
    writeln!(out, "Inodes are {}compressed", packed(SuperblockFlags::RAW_INODES))?;
    writeln!(out, "Data is {}compressed", packed(SuperblockFlags::RAW_DATA))?;
    // Old writers had no flag of its own for the table.
    writeln!(
        out,
        "Uids/Gids (Id table) are {}compressed",
        packed(SuperblockFlags::RAW_INODES | SuperblockFlags::RAW_IDS)
    )?;
    if has(SuperblockFlags::NO_FRAGMENTS) {
        writeln!(out, "Fragments are not stored")?;
    } else {
        writeln!(out, "Fragments are {}compressed", packed(SuperblockFlags::RAW_FRAGMENTS))?;
        writeln!(out, "Tailends are {}packed into fragments", not("not ", !has(SuperblockFlags::ALWAYS_FRAGMENTS)))?;
    }
    if has(SuperblockFlags::NO_XATTRS) {
        writeln!(out, "Xattrs are not stored")?;
    } else {
        writeln!(out, "Xattrs are {}compressed", packed(SuperblockFlags::RAW_XATTRS))?;
    }
    writeln!(out, "Duplicates are {}removed", not("not ", !has(SuperblockFlags::DUPLICATES)))?;
    writeln!(out, "Number of fragments {}", superblock.fragments)?;
    writeln!(out, "Number of inodes {}", superblock.inodes)?;
    writeln!(out, "Number of ids {}", superblock.ids)?;
    if !has(SuperblockFlags::NO_XATTRS) {
        writeln!(out, "Number of xattr ids {}", image.xattr_sets())?;
    }
    Ok(())
}

/// Formats a number of bytes in units of `1 << shift`, with two decimals.
fn hundredths(bytes: u64, shift: u32) -> String {
    #[allow(clippy::cast_precision_loss, reason = "two decimals of it are shown")]
    let units = bytes as f64 / f64::from(1 << shift);
    format!("{units:.2}")
}

fn options(options: CompressorOptions) -> Vec<String> {
    match options {
        CompressorOptions::Gzip { level, window, strategies } => {
            let mut lines = vec![format!("compression-level {level}"), format!("window-size {window}")];
            lines.extend(selected("Strategies", strategies.into(), &STRATEGIES));
            lines
        }
        CompressorOptions::Xz { dictionary, filters } => {
            let mut lines = vec![format!("Dictionary size {dictionary}")];
            lines.push(selected("Filters", filters, &FILTERS).unwrap_or_else(|| "No filters specified".into()));
            lines
        }
        CompressorOptions::Lzo { algorithm, level } => {
            let name = usize::try_from(algorithm).ok().and_then(|at| LZO.get(at)).unwrap_or(&"unknown");
            let mut lines = vec![format!("algorithm {name}")];
            // The other algorithms have no levels.
            lines.extend((*name == LZO[4]).then(|| format!("compression level {level}")));
            lines
        }
        CompressorOptions::Lz4 { flags, .. } if flags & LZ4_HC != 0 => {
            vec!["High Compression option specified (-Xhc)".into()]
        }
        CompressorOptions::Zstd { level } => vec![format!("compression-level {level}")],
        _ => Vec::new(),
    }
}

/// Formats the names of the bits that are set.
fn selected(what: &str, bits: u32, names: &[&str]) -> Option<String> {
    let set: Vec<_> = names.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0).map(|(_, name)| *name).collect();
    (!set.is_empty()).then(|| format!("{what} selected: {}", set.join(", ")))
}
