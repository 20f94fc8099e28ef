//! The share of a scan that belongs to one of several tasks, cut by a rule that needs no communication between them.
//!
//! The levels of a tree are listed from the root down. As long as there are few directories, all tasks list all of
//! them, and each reads the attributes of those entries to which a hash of the path assigns it. The first level with
//! enough directories is dealt out, and from there on each task descends only into its own. So a flat tree is shared as
//! well as a deep one.

use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::{Digest, Output, Progress, pipeline};
use rustix::fs::{self, FileType};

use super::ahead::ListAhead;
use super::attrs::EntryAttrs;
use super::listing::{self, DirListing, ListingBuffers};
use super::part::{PartHead, PartWriter};
use super::root::ScanRoot;
use super::{Options, Scanned, XattrSet};
use crate::tree::child_path;
use crate::{Error, Part, Result};

/// Mode of parts: they have names that others may not read.
const PRIVATE: u32 = 0o600;

/// Number of directories for each of `tasks` tasks from which on each descends only into its own. The more there are,
/// the more evenly the entries below them are shared; but each task lists all that are above them.
fn enough(tasks: u32) -> usize {
    (4096 / tasks as usize).clamp(8, 64)
}

/// The entries that a task is to report: all, or those of its part.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskShare(Part);

impl TaskShare {
    /// Returns true if the entry at this path belongs to the share.
    pub(super) fn holds(self, path: &[u8]) -> bool {
        let digest = Digest::of(path);
        let hash = digest.as_bytes().first_chunk().expect("a digest has 32 bytes");
        self.0.holds(u64::from_le_bytes(*hash))
    }
}

/// Scans a part of directories and writes it to the file `target`, for [`Parts`](super::Parts).
///
/// # Errors
/// [`Error::Unsupported`] if entries that cannot be read are to be left out: other tasks would not know it.
pub fn scan_part(
    sources: &[PathBuf],
    options: &Options,
    part: Part,
    (target, replace): (&std::path::Path, bool),
) -> Result<Scanned> {
    if options.on_error != crate::OnError::Stop {
        return Err(Error::Unsupported("a scan in parts cannot leave out what cannot be read".into()));
    }
    let output = Output::create(target, PRIVATE, replace).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Exists { path: target.to_owned() },
        _ => Error::io("cannot create", target)(error),
    })?;
    let mut options = options.clone();
    let how = options.digest();
    options.leave_out.extend(output.own_files());
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(Error::io("cannot find", path));
    let head = PartHead { part, how, sources: sources.iter().map(absolute).collect::<Result<_>>()? };
    let mut writer = PartWriter::new(&output, &head)?;
    for source in sources {
        let root = ScanRoot::open(source).map_err(|errno| Error::sys("cannot open the directory", source, errno))?;
        let root = &root;
        let options = &options;
        let writer = &mut writer;
        pipeline::scope(options.threads, ListingBuffers::new, |pool| {
            let (attrs, xattrs) = attributes(root, options)?;
            writer.source(&attrs, &xattrs)?;
            let mut scan = ShareScan { options, share: TaskShare(part), writer, device: attrs.id.0, spread: true };
            let mut level: Vec<Arc<[u8]>> = vec![Arc::from(&b""[..])];
            while !level.is_empty() {
                let share = scan.spread.then_some(scan.share);
                let mut ahead = ListAhead::new(level);
                let mut below = Vec::new();
                while let Some((dir, listing)) = ahead.next(pool, |dir, names| {
                    let dir = Arc::clone(dir);
                    pool.submit(move |scratch| listing::list(root, options, (&dir, share), names, scratch))
                }) {
                    scan.take(&dir, listing, &mut below)?;
                }
                level = scan.next(below, part);
            }
            Ok::<_, Error>(())
        })?;
    }
    let (entries, part_bytes) = writer.finish()?;
    output.commit().map_err(Error::io("cannot finish", target))?;
    Ok(Scanned { entries, part_bytes })
}

/// Returns the attributes of a root directory.
pub(super) fn attributes(root: &ScanRoot, options: &Options) -> Result<(EntryAttrs, XattrSet)> {
    let stat = fs::fstat(root.fd()).map_err(|errno| Error::sys("cannot read the attributes", root.name(b""), errno))?;
    let mut attrs = EntryAttrs::of(&stat);
    let name = root.name(b"");
    let xattrs = listing::take_xattrs(options.xattrs, &mut attrs, root.fd(), b".", &name, &mut ListingBuffers::new())?;
    Ok((attrs, xattrs))
}

/// A running scan of one source.
struct ShareScan<'s, 'o> {
    options: &'s Options,
    share: TaskShare,
    writer: &'s mut PartWriter<'o>,
    device: u64,
    /// True while all tasks list all directories.
    spread: bool,
}

impl ShareScan<'_, '_> {
    /// Writes the entries of a directory; adds the directories among them to those of the next level.
    fn take(&mut self, dir: &Arc<[u8]>, listing: DirListing, below: &mut Vec<Arc<[u8]>>) -> Result<()> {
        if let Some(error) = listing.errors.into_iter().next() {
            return Err(error);
        }
        if listing.is_first {
            self.writer.dir(dir, listing.names)?;
        }
        if let Some(progress) = &self.options.progress {
            Progress::add(&progress.entries, listing.entries.len() as u64);
            Error::unless_cancelled(progress)?;
        }
        for found in listing.entries {
            let path = child_path(dir, &found.name);
            let is_mine = !self.spread || self.share.holds(&path);
            if is_mine {
                self.writer.entry(&found)?;
            }
            let stays = !self.options.one_file_system || found.attrs.id.0 == self.device;
            if found.attrs.kind() == FileType::Directory && stays {
                below.push(path.into());
            }
        }
        Ok(())
    }

    /// Returns the directories to list on the next level.
    fn next(&mut self, below: Vec<Arc<[u8]>>, part: Part) -> Vec<Arc<[u8]>> {
        if self.spread && below.len() >= enough(part.count()) * part.count() as usize {
            self.spread = false;
            // All tasks have the same list. If it changes between them, the names of a directory do, which the merge
            // finds.
            return (0..).zip(below).filter(|(number, _)| part.holds(*number)).map(|(_, dir)| dir).collect();
        }
        below
    }
}
