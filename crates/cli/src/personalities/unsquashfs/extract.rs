//! Extraction, with the lines that unsquashfs prints before and after it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Result, bail};
use packfs_image::image::FileType;
use packfs_image::name::display;
use packfs_image::sink::Walk;
use packfs_image::{AnyImage, Error};

use super::rows::Rows;
use super::{How, NOT_FATAL, OK};
use crate::args::Extract;
use crate::commands::extract::Extraction;
use crate::output::{self, say};

/// Exit status after an error that unsquashfs ends with.
const FATAL: u8 = 1;

/// Entries to extract.
#[derive(Debug, Default)]
struct Count {
    /// Names of everything but directories.
    names: u64,
    blocks: u64,
    devices: u64,
    fifos: u64,
    sockets: u64,
}

/// Extracts, and returns the exit status.
pub(super) fn run(args: &Extract, how: &How) -> Result<u8> {
    let extraction = Extraction::new(args)?.with_root_attributes();
    let AnyImage::Squashfs(image) = extraction.opened() else { bail!("not a SquashFS image") };
    let mut walk = Walk::over(&**image, &extraction.options().select)?;
    // Its lines are remarks: the result is the unpacked tree.
    let mut out = output::remarks();
    let block_size = image.superblock().block_size.into();
    let mut listed = Vec::new();
    let mut rows = Rows::new(image, &how.style);
    if how.lists {
        rows.root(&mut listed)?;
    }
    let (mut count, mut seen) = (Count::default(), HashSet::new());
    let mut in_the_way = None;
    while let Some(visit) = walk.step()? {
        if how.lists && visit.depth > 0 {
            rows.entry(&mut listed, visit.path, visit.nid, &visit.stat)?;
        }
        let path = args.directory.join(OsStr::from_bytes(visit.path));
        if visit.depth == 1 && !how.force && in_the_way.is_none() && path.symlink_metadata().is_ok() {
            in_the_way = Some((path, visit.stat.kind == FileType::Dir));
        }
        if visit.stat.kind == FileType::Dir {
            continue;
        }
        count.names += 1;
        if visit.stat.nlink < 2 || seen.insert(visit.nid) {
            count.add(&visit.stat.kind, block_size);
        }
    }
    if !how.quiet {
        let threads = args.effort.threads().max(1);
        writeln!(out, "Parallel unsquashfs: Using {}", counted(threads as u64, "processor", "processors"))?;
        writeln!(out, "{} inodes ({} blocks) to write\n", count.names, count.blocks)?;
    }
    out.flush()?;
    if let Some((path, is_dir)) = in_the_way {
        let what = if is_dir { "directory" } else { "file" };
        bail!("FATAL ERROR: failed to make {what} {}, because File exists", display(&path));
    }
    out.write_all(&listed)?;
    out.flush()?;
    let (summary, _) = extraction.run()?;
    for lost in &summary.not_restored {
        say(format_args!("unsquashfs: not restored: {lost}"));
    }
    for error in &summary.skipped {
        say(format_args!("unsquashfs: left out: {error}"));
    }
    if !how.quiet {
        // Only devices can be missing: their creation needs a privilege.
        let missing = (count.devices + count.fifos + count.sockets).saturating_sub(summary.special);
        writeln!(out)?;
        for (n, one, many) in [
            (summary.files, "file", "files"),
            (summary.directories.max(1), "directory", "directories"),
            (summary.symlinks, "symlink", "symlinks"),
            (count.devices.saturating_sub(missing), "device", "devices"),
            (count.fifos, "fifo", "fifos"),
            (count.sockets, "socket", "sockets"),
            (summary.hard_links, "hardlink", "hardlinks"),
        ] {
            writeln!(out, "created {}", counted(n, one, many))?;
        }
        out.flush()?;
    }
    let damaged =
        |error: &Error| matches!(error, Error::Corrupt { .. } | Error::Damaged { .. } | Error::Unsupported { .. });
    if !how.ignores_errors && !summary.skipped.iter().all(damaged) {
        return Ok(FATAL);
    }
    Ok(if summary.is_complete() || how.no_exit_code { OK } else { NOT_FATAL })
}

impl Count {
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

fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
