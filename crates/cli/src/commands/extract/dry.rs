//! `extract --dry-run`: lists the names that would be created, and conflicts.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use packfs_image::Image;
use packfs_image::image::FileType;
use packfs_image::name::display;
use packfs_image::sink::Walk;
use packfs_image::sink::dir::ExtractOptions;

use crate::output::failure::CommandOutcome;
use crate::output::{self, say, units};

/// Lists what [`extract`](packfs_image::sink::dir::extract) would make in `dir`; [`CommandOutcome::Findings`] if it would fail.
pub(super) fn run(image: &dyn Image, dir: &Path, options: &ExtractOptions, quiet: bool) -> Result<CommandOutcome> {
    let EntryTotals { entries, bytes, in_the_way } =
        output::write_result(|out| list_entries(image, dir, options, out))?;
    if !quiet {
        let entries = units::of(entries, "entry");
        let bytes = units::bytes(bytes);
        say(format_args!("{}: {entries}, {bytes} of files; nothing was written", display(dir)));
    }
    Ok(if in_the_way == 0 { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// Totals of the listed entries.
#[derive(Default)]
struct EntryTotals {
    entries: u64,
    /// Lengths of all files, each hard-linked file once.
    bytes: u64,
    /// Number of entries that could not be created.
    in_the_way: u64,
}

fn list_entries(image: &dyn Image, dir: &Path, options: &ExtractOptions, out: &mut impl Write) -> Result<EntryTotals> {
    let mut walk = Walk::over(image, &options.select)?;
    let mut listed = EntryTotals::default();
    // Files with several names, and names seen before.
    let mut counted = HashSet::new();
    let mut made = HashSet::new();
    while let Some(visit) = walk.step()? {
        let Some(visit) = visit.strip(options.strip).filter(|visit| visit.depth > 0) else { continue };
        let path = dir.join(OsStr::from_bytes(visit.path));
        let is_dir = visit.stat.kind == FileType::Dir;
        let again = options.strip > 0 && !made.insert(path.clone());
        if is_dir && again {
            continue;
        }
        if let Some(why) = find_obstacle(&path, is_dir, again, options.replace) {
            say(format_args!("packfs: {}: {why}", display(&path)));
            listed.in_the_way += 1;
        }
        output::write_name(out, path.as_os_str().as_bytes())?;
        out.write_all(b"\n")?;
        listed.entries += 1;
        if let FileType::File { size } = visit.stat.kind
            && (visit.stat.nlink < 2 || counted.insert(visit.nid))
        {
            listed.bytes += size;
        }
    }
    Ok(listed)
}

/// Returns the reason why an entry could not be created at `path`.
fn find_obstacle(path: &Path, is_dir: bool, again: bool, replace: bool) -> Option<&'static str> {
    let found = std::fs::symlink_metadata(path).map(|found| found.is_dir());
    match (found, is_dir) {
        (Ok(true), true) => None,
        (Ok(true), false) => Some("a directory is there, and directories are not replaced"),
        (Ok(false), _) if !replace => Some("it exists; --force replaces it"),
        _ if again && !replace => Some("several entries would get this name; with --force the last one stays"),
        _ => None,
    }
}
