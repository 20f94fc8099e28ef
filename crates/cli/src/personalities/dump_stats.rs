//! Statistics of dump.erofs: numbers of entries by type, and of files by size and by the end of their names.

use std::io::Write;

use anyhow::Result;
use packfs_image::erofs::{ErofsReader, InodeFacts};
use packfs_image::image::FileType;
use packfs_image::sink::Walk;

/// Number of rows of a table of sizes: below 1 KiB, 16 more that double, and the rest.
const SIZES: usize = 17;
/// Ends of names that are counted.
const ENDS: [&str; 9] = [".txt", ".so", ".xml", ".apk", ".odex", ".vdex", ".oat", ".rc", ".otf"];
/// Types of entries, in the order of their numbers.
const TYPES: [&str; 7] =
    ["regular file", "directory", "char dev", "block dev", "FIFO file", "SOCK file", "symlink file"];
/// Width of the bar of all files.
const BAR: usize = 50;

/// Counts of an image. Every name of a file counts.
#[derive(Debug, Default, PartialEq, Eq)]
struct ImageCounts {
    types: [u64; TYPES.len()],
    compressed: u64,
    uncompressed: u64,
    /// Bytes of regular files, and the bytes that they take.
    size: u64,
    stored: u64,
    /// Regular files by either.
    by_size: [u64; SIZES],
    by_stored: [u64; SIZES],
    /// Regular files by the end of their names; the last is all others.
    by_end: [u64; ENDS.len() + 1],
}

impl ImageCounts {
    fn add_layout(&mut self, facts: &InodeFacts) {
        let count = if facts.compressed_blocks.is_some() { &mut self.compressed } else { &mut self.uncompressed };
        *count += 1;
    }

    fn add_file(&mut self, path: &[u8], size: u64, stored: u64) {
        self.size = self.size.saturating_add(size);
        self.stored = self.stored.saturating_add(stored);
        self.by_size[row(size)] += 1;
        self.by_stored[row(stored)] += 1;
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        // It takes a shorter end, as that of `a.o`, for the first one that begins alike.
        let end = name.iter().rposition(|byte| *byte == b'.').map(|at| &name[at..]);
        let known = end.and_then(|end| ENDS.iter().position(|known| known.as_bytes().starts_with(end)));
        self.by_end[known.unwrap_or(ENDS.len())] += 1;
    }
}

/// Returns the row of a size.
fn row(size: u64) -> usize {
    let kib = size >> 10;
    usize::try_from(u64::BITS - kib.leading_zeros()).unwrap_or(SIZES).min(SIZES - 1)
}

fn count(image: &ErofsReader) -> Result<ImageCounts> {
    let mut counts = ImageCounts::default();
    let block = u64::from(image.superblock().block_size);
    let mut walk = Walk::new(image, &[])?;
    while let Some(visit) = walk.step()? {
        let facts = image.facts(visit.nid)?;
        counts.add_layout(&facts);
        let number = match visit.stat.kind {
            FileType::File { size } => {
                let stored = facts.compressed_blocks.map_or(size, |blocks| blocks.saturating_mul(block));
                counts.add_file(visit.path, size, stored);
                0
            }
            FileType::Dir => 1,
            FileType::Char(_) => 2,
            FileType::Block(_) => 3,
            FileType::Fifo => 4,
            FileType::Socket => 5,
            FileType::Symlink { .. } => 6,
        };
        counts.types[number] += 1;
    }
    // The packed inode has no name, so the walk does not meet it; dump.erofs counts what it takes.
    if let Some(packed) = image.superblock().packed {
        let facts = image.facts(packed)?;
        counts.add_layout(&facts);
        let stored = facts.compressed_blocks.map_or(facts.size, |blocks| blocks.saturating_mul(block));
        counts.stored = counts.stored.saturating_add(stored);
        counts.by_stored[row(stored)] += 1;
    }
    Ok(counts)
}

/// Prints the statistics of an image.
pub(super) fn print(image: &ErofsReader, out: &mut impl Write) -> Result<()> {
    let counts = count(image)?;
    let all: u64 = counts.types.iter().sum();
    writeln!(out, "Filesystem total file count:\t\t{all}")?;
    writeln!(out, "Filesystem unknown type count:\t\t0")?;
    for (name, count) in TYPES.iter().zip(counts.types) {
        writeln!(out, "Filesystem {name} count:\t\t{count}")?;
    }
    let mut line = |what: &str, value: String| writeln!(out, "{what:<40}{value}");
    line("Filesystem compressed files:", counts.compressed.to_string())?;
    line("Filesystem uncompressed files:", counts.uncompressed.to_string())?;
    line("Filesystem total original file size:", format!("{} Bytes", counts.size))?;
    line("Filesystem total file size:", format!("{} Bytes", counts.stored))?;
    // As the C library prints a division by 0.
    let rate = if counts.size == 0 { "-nan".into() } else { format!("{:.2}", percent(counts.stored, counts.size)) };
    line("Filesystem compress rate:", format!("{rate}%"))?;
    let files = counts.types[0];
    for (what, rows) in [("Original", counts.by_size), ("On-disk", counts.by_stored)] {
        writeln!(out, "\n{what} file size distribution:")?;
        writeln!(out, "{:<23}count            ratio |{:<BAR$}|", ">=(KB) .. <(KB)", "distribution")?;
        for (n, count) in rows.into_iter().enumerate() {
            // The first row is the one below 1 KiB.
            let from = if n == 0 { 0 } else { 1 << (n - 1) };
            let to = if n + 1 < SIZES { (1 << n).to_string() } else { String::new() };
            write!(out, "{from:>6} .. {to:<6}")?;
            share(count, files, out)?;
        }
    }
    writeln!(out, "\nFile type distribution:")?;
    writeln!(out, "{:<23}count            ratio |{:<BAR$}|", "type", "distribution")?;
    for (end, count) in ENDS.into_iter().chain(["others"]).zip(counts.by_end) {
        write!(out, "{end:<17}")?;
        share(count, files, out)?;
    }
    Ok(())
}

/// Prints the end of a row: a count, and its share of all files with a bar.
fn share(count: u64, files: u64, out: &mut impl Write) -> Result<()> {
    let ratio = if files == 0 { 0.0 } else { percent(count, files) };
    // In integers, so that the bar of all files is exactly as wide as the table.
    let bar = usize::try_from(u128::from(count) * BAR as u128 / u128::from(files.max(1))).unwrap_or(BAR);
    writeln!(out, "\t{count:<9}{ratio:>11.2}% |{:<BAR$}|", "#".repeat(bar))?;
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "two decimals of it are shown")]
fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_by_size_and_name() {
        for (size, expected) in
            [(0, 0), (1023, 0), (1024, 1), (2047, 1), (2048, 2), ((32 << 20) - 1, 15), (32 << 20, 16), (u64::MAX, 16)]
        {
            assert_eq!(row(size), expected, "{size}");
        }
        let mut counts = ImageCounts::default();
        for path in ["a.txt", "d.so/.txt", "b.so", "c.so.1", "d.XML", "txt", "a.", "a.o", "a.txtx"] {
            counts.add_file(path.as_bytes(), 2000, 4096);
        }
        assert_eq!(counts.by_end, [3, 1, 0, 0, 1, 0, 0, 0, 0, 4]);
        assert_eq!((counts.size, counts.stored, counts.by_size[1], counts.by_stored[3]), (18_000, 36_864, 9, 9));
    }
}
