//! Extraction, with the lines that unsquashfs prints before and after it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Result, bail};
use packfs_image::AnyImage;
use packfs_image::image::FileType;
use packfs_image::name::display;
use packfs_image::sink::Walk;
use packfs_image::sink::dir::ExtractSummary;
use packfs_image::squashfs::SquashfsReader;

use super::rows::ListingRows;
use super::{NOT_FATAL, OK, RunOptions};
use crate::args::ExtractArgs;
use crate::commands::extract::PlannedExtraction;
use crate::output::{self, say};

/// Exit status after an error that unsquashfs ends with.
const FATAL: u8 = 1;

/// Entries that an extraction will make, found before it begins.
#[derive(Debug, Default)]
struct ExtractionSurvey {
    /// The lines of the entries, if they are listed.
    lines: Vec<u8>,
    counts: EntryCounts,
    /// Path of the first entry of the top that exists already, and true for a directory of the image.
    in_the_way: Option<(PathBuf, bool)>,
}

/// Entries to extract.
#[derive(Debug, Default)]
struct EntryCounts {
    /// Names of everything but directories.
    names: u64,
    blocks: u64,
    devices: u64,
    fifos: u64,
    sockets: u64,
}

/// Extracts, and returns the exit status.
pub(super) fn run(args: &ExtractArgs, options: &RunOptions) -> Result<u8> {
    // The attributes of the root of the image go to the directory, as unsquashfs sets them.
    let extraction = PlannedExtraction::new(args)?.with_root_attributes();
    let AnyImage::Squashfs(image) = extraction.opened() else { bail!("not a SquashFS image") };
    let walk = Walk::over(&**image, &extraction.options().select)?;
    // Its lines are remarks: the result is the unpacked tree.
    let mut out = output::remarks();
    let ExtractionSurvey { lines, counts, in_the_way } = survey(walk, image, args, options)?;
    if !options.quiet {
        let threads = args.effort.threads().max(1);
        writeln!(out, "Parallel unsquashfs: Using {}", count_of(threads as u64, "processor", "processors"))?;
        writeln!(out, "{} inodes ({} blocks) to write\n", counts.names, counts.blocks)?;
    }
    out.flush()?;
    // As unsquashfs does: it stops at the first entry that exists.
    if let Some((path, is_dir)) = in_the_way {
        let what = if is_dir { "directory" } else { "file" };
        bail!("FATAL ERROR: failed to make {what} {}, because File exists", display(&path));
    }
    out.write_all(&lines)?;
    out.flush()?;
    let (summary, _) = extraction.run()?;
    for lost in &summary.not_restored {
        say(format_args!("unsquashfs: not restored: {lost}"));
    }
    for error in &summary.skipped {
        say(format_args!("unsquashfs: left out: {error}"));
    }
    if !options.quiet {
        write_created(&summary, &counts, &mut out)?;
        out.flush()?;
    }
    if !options.ignores_errors && !summary.skipped.is_empty() {
        return Ok(FATAL);
    }
    Ok(if summary.is_complete() || options.no_exit_code { OK } else { NOT_FATAL })
}

/// Walks over the entries to extract.
fn survey(
    mut walk: Walk<'_>,
    image: &SquashfsReader,
    args: &ExtractArgs,
    options: &RunOptions,
) -> Result<ExtractionSurvey> {
    let block_size = image.superblock().block_size.into();
    let mut found = ExtractionSurvey::default();
    let mut counted = HashSet::new();
    let mut rows = ListingRows::new(image, &options.style);
    if options.lists {
        rows.root(&mut found.lines)?;
    }
    while let Some(visit) = walk.step()? {
        if options.lists && visit.depth > 0 {
            rows.entry(&mut found.lines, visit.path, visit.nid, &visit.stat)?;
        }
        let path = args.directory.join(OsStr::from_bytes(visit.path));
        let is_dir = visit.stat.kind == FileType::Dir;
        // Only the top: an entry below exists only if the top does.
        if visit.depth == 1 && !options.force && found.in_the_way.is_none() && path.symlink_metadata().is_ok() {
            found.in_the_way = Some((path, is_dir));
        }
        if is_dir {
            continue;
        }
        found.counts.names += 1;
        // A file with several names has its blocks once.
        if visit.stat.nlink < 2 || counted.insert(visit.nid) {
            found.counts.add(&visit.stat.kind, block_size);
        }
    }
    Ok(found)
}

/// Prints how many entries of each kind were made.
fn write_created(summary: &ExtractSummary, counts: &EntryCounts, out: &mut impl Write) -> io::Result<()> {
    // Only devices can be missing: their creation needs a privilege.
    let missing = (counts.devices + counts.fifos + counts.sockets).saturating_sub(summary.special);
    writeln!(out)?;
    for (n, one, many) in [
        (summary.files, "file", "files"),
        // Without entries there is still the directory that they would be in.
        (summary.directories.max(1), "directory", "directories"),
        (summary.symlinks, "symlink", "symlinks"),
        (counts.devices.saturating_sub(missing), "device", "devices"),
        (counts.fifos, "fifo", "fifos"),
        (counts.sockets, "socket", "sockets"),
        (summary.hard_links, "hardlink", "hardlinks"),
    ] {
        writeln!(out, "created {}", count_of(n, one, many))?;
    }
    Ok(())
}

impl EntryCounts {
    fn add(&mut self, kind: &FileType, block_size: u64) {
        match kind {
            FileType::File { size } => self.blocks += size.div_ceil(block_size),
            FileType::Char(_) | FileType::Block(_) => self.devices += 1,
            FileType::Fifo => self.fifos += 1,
            FileType::Socket => self.sockets += 1,
            FileType::Dir | FileType::Symlink { .. } => {}
        }
    }
}

fn count_of(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
