//! Checks every directory from the root on: entries against the inodes they name, `.` and `..`, links, loops.

use packfs_blocks::Progress;

use super::inodes::VisitedInodes;
use crate::erofs::format::{Layout, SUPERBLOCK_OFFSET};
use crate::erofs::reader::ErofsReader;
use crate::erofs::reader::dir::{DirEntry, DirentCursor};
use crate::erofs::reader::inode::{Inode, InodeType, STRUCTURE};
use crate::erofs::reader::metadata::OffsetSpace;
use crate::image::Nid;
use crate::{Error, Result};
use packfs_tree::FindingCollector;

/// Maximum number of directory bytes per compressed byte. Directories share no bytes, so if there
/// are more than the whole image can hold, their blocks overlap with others.
const BYTES_PER_BYTE: u64 = 4096;

/// Walks all directories; returns the inodes reached, and the packed inode and the metabox.
pub(super) fn check(
    reader: &ErofsReader,
    progress: &Progress,
    report: &mut FindingCollector<'_>,
) -> Result<VisitedInodes> {
    let left = reader.disk.len();
    let mut walk = CheckWalk { reader, inodes: VisitedInodes::default(), stack: Vec::new(), left, whole: true };
    let root = reader.superblock.root;
    if let Some((n, _)) = walk.inodes.visit(reader, root, report)? {
        // No directory names the root.
        walk.inodes.found[n].names = 1;
        walk.stack.push((n, root));
    }
    while let Some((n, parent)) = walk.stack.pop() {
        // Nothing more would be reported.
        if report.is_full() {
            return Ok(walk.inodes);
        }
        let before = walk.inodes.found.len();
        if let Err(error) = walk.directory(n, parent, report) {
            report.error(error)?;
            walk.whole = false;
        }
        Progress::add(&progress.entries, (walk.inodes.found.len() - before) as u64);
        Error::unless_cancelled(progress)?;
    }
    // The special inodes come after those that directories name: they have no names.
    let named = walk.inodes.found.len();
    for nid in [reader.superblock.packed, reader.superblock.metabox].into_iter().flatten() {
        walk.inodes.visit(reader, nid, report)?;
    }
    // With a directory missing, names would be missing for no fault of their inodes.
    if walk.whole {
        walk.check_links(named, report);
    }
    Ok(walk.inodes)
}

struct CheckWalk<'r> {
    reader: &'r ErofsReader,
    inodes: VisitedInodes,
    /// Directories still to visit, each with its parent.
    stack: Vec<(usize, Nid)>,
    /// Number of stored bytes that directories may still have.
    left: u64,
    /// True if every directory could be read completely.
    whole: bool,
}

impl CheckWalk<'_> {
    fn directory(&mut self, n: usize, parent: Nid, report: &mut FindingCollector<'_>) -> Result<()> {
        let reader = self.reader;
        let dir = self.inodes.found[n].inode.clone();
        let packed = dir.place.space == OffsetSpace::Metabox
            || matches!(dir.layout, Layout::CompressedFull | Layout::CompressedCompact);
        // A compressed directory takes less room than it has bytes.
        let stored = if packed { dir.size / BYTES_PER_BYTE } else { dir.size };
        // Before it is read: directories that share blocks would take any amount of work.
        let Some(left) = self.left.checked_sub(stored) else {
            return Err(dir.error("with it, the directories have more bytes than the image has room for"));
        };
        self.left = left;
        let mut dots = [false; 2];
        let mut dirs = 0u32;
        let mut listing = DirentCursor::open(reader, &dir);
        while let Some((entry, name)) = listing.next()? {
            let to = match name {
                b"." => (0, dir.nid),
                b".." => (1, parent),
                _ => {
                    dirs += u32::from(self.entry(&entry, name, &dir, report)?);
                    continue;
                }
            };
            let (which, nid) = to;
            dots[which] = true;
            if entry.nid != nid || entry.kind != InodeType::Dir as u8 {
                let is = entry.nid.0;
                let kind = entry.kind;
                let name = name.escape_ascii();
                wrong(&dir, report, format!("entry `{name}` leads to inode {is}, type {kind}, not to {}", nid.0));
            }
        }
        // The superblock's feature allows `.` to be left out, `..` never.
        if dots != [!dir.no_dot, true] {
            wrong(&dir, report, format!("entry `.` {}, `..` {}", there(dots[0]), there(dots[1])));
        }
        // A count of one stands for a count that did not fit.
        if ![dirs.saturating_add(2), 1].contains(&dir.nlink) {
            wrong(&dir, report, format!("link count {} with {dirs} directories in it", dir.nlink));
        }
        Ok(())
    }

    /// Checks one entry; returns true if it is a directory.
    fn entry(&mut self, entry: &DirEntry, name: &[u8], dir: &Inode, report: &mut FindingCollector<'_>) -> Result<bool> {
        let Some((n, new)) = self.inodes.visit(self.reader, entry.nid, report)? else {
            // Its own directories are not reached, either.
            self.whole = false;
            return Ok(false);
        };
        let found = &mut self.inodes.found[n];
        found.names = found.names.saturating_add(1);
        let kind = found.inode.kind as u8;
        let is_dir = found.inode.kind == InodeType::Dir;
        if entry.kind != kind {
            let name = name.escape_ascii();
            let says = entry.kind;
            wrong(dir, report, format!("entry `{name}` says type {says}, its inode has {kind}"));
        }
        // Visited once only, or a loop would have no end.
        if is_dir && new {
            self.stack.push((n, dir.nid));
        } else if is_dir {
            let name = name.escape_ascii();
            wrong(dir, report, format!("entry `{name}` is directory {}, reached a second time", entry.nid.0));
        }
        Ok(is_dir)
    }

    /// Checks that each inode has as many names as its link count says; only the first `named` have names.
    fn check_links(&self, named: usize, report: &mut FindingCollector<'_>) {
        let said = self.reader.superblock.inodes;
        let all = self.inodes.found.len() as u64;
        // Some writers count the packed inode and the metabox, some do not.
        if said == 0 {
            report.note("superblock", SUPERBLOCK_OFFSET, "its count of inodes is 0: the writer did not count them");
        } else if said < named as u64 {
            report.add("superblock", SUPERBLOCK_OFFSET, format!("{said} inodes announced, {all} found"));
        } else if said > all {
            // `mkfs.erofs --incremental` counts inodes that a later layer replaced. Linux shows the number in statfs only.
            report.note("superblock", SUPERBLOCK_OFFSET, format!("{said} inodes announced, {all} found"));
        }
        for found in self.inodes.found.iter().take(named).filter(|found| found.inode.kind != InodeType::Dir) {
            if found.names != found.inode.nlink {
                wrong(&found.inode, report, format!("{} names, link count {}", found.names, found.inode.nlink));
            }
        }
    }
}

fn wrong(inode: &Inode, report: &mut FindingCollector<'_>, why: String) {
    report.add(STRUCTURE, inode.place.byte, format!("inode {}: {why}", inode.nid.0));
}

fn there(is: bool) -> &'static str {
    if is { "there" } else { "missing" }
}
