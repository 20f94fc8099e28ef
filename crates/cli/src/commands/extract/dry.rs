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
use packfs_image::sink::dir::Options;

use crate::output::failure::Outcome;
use crate::output::{self, say, units};

/// Lists what [`extract`](packfs_image::sink::dir::extract) would make in `dir`; [`Outcome::Findings`] if it would fail.
pub(super) fn run(image: &dyn Image, dir: &Path, options: &Options, quiet: bool) -> Result<Outcome> {
    let mut walk = Walk::over(image, &options.select)?;
    let mut out = output::stdout()?;
    let (mut entries, mut bytes, mut in_the_way) = (0, 0, 0);
    // Files with several names, and names seen before.
    let (mut counted, mut made) = (HashSet::new(), HashSet::new());
    while let Some(visit) = walk.step()? {
        let Some(visit) = visit.strip(options.strip).filter(|visit| visit.depth > 0) else { continue };
        let path = dir.join(OsStr::from_bytes(visit.path));
        let is_dir = visit.stat.kind == FileType::Dir;
        let again = options.strip > 0 && !made.insert(path.clone());
        if is_dir && again {
            continue;
        }
        if let Some(why) = obstacle(&path, is_dir, again, options.replace) {
            say(format_args!("packfs: {}: {why}", display(&path)));
            in_the_way += 1;
        }
        output::name(&mut out, path.as_os_str().as_bytes())?;
        out.write_all(b"\n")?;
        entries += 1;
        if let FileType::File { size } = visit.stat.kind
            && (visit.stat.nlink < 2 || counted.insert(visit.nid))
        {
            bytes += size;
        }
    }
    out.flush()?;
    if !quiet {
        let (entries, bytes) = (units::of(entries, "entry"), units::bytes(bytes));
        say(format_args!("{}: {entries}, {bytes} of files; nothing was written", display(dir)));
    }
    Ok(if in_the_way == 0 { Outcome::Done } else { Outcome::Findings })
}

/// Returns the reason why an entry could not be created at `path`.
fn obstacle(path: &Path, is_dir: bool, again: bool, replace: bool) -> Option<&'static str> {
    let found = std::fs::symlink_metadata(path).map(|found| found.is_dir());
    match (found, is_dir) {
        (Ok(true), true) => None,
        (Ok(true), false) => Some("a directory is there, and directories are not replaced"),
        (Ok(false), _) if !replace => Some("it exists; --force replaces it"),
        _ if again && !replace => Some("several entries would get this name; with --force the last one stays"),
        _ => None,
    }
}
