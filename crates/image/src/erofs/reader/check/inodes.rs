//! Checks every inode by itself: links, sizes, times, xattrs.

use std::collections::HashMap;

use super::xattrs;
use crate::Result;
use crate::build::FileDigest;
use crate::erofs::format::{Incompat, Layout};
use crate::erofs::reader::ErofsReader;
use crate::erofs::reader::inode::{Inode, InodeType, STRUCTURE};
use crate::image::Nid;
use packfs_tree::FindingCollector;

/// Maximum length of a symlink target that the kernel reads.
const SYMLINK_MAX: u64 = 4095;

/// An id that is not valid for owner or group.
const NO_ID: u32 = u32::MAX;

/// All inodes visited.
#[derive(Debug, Default)]
pub(super) struct VisitedInodes {
    pub(super) found: Vec<VisitedInode>,
    /// Index of each inode in `found`; `None` for an unreadable one.
    index: HashMap<Nid, Option<usize>>,
    /// Files that have digests, by their index in `found`.
    pub(super) digests: Vec<(usize, FileDigest)>,
}

/// One inode.
#[derive(Debug)]
pub(super) struct VisitedInode {
    pub(super) inode: Inode,
    /// Number of names found in directories.
    pub(super) names: u32,
}

impl VisitedInodes {
    /// Returns the index in `found` of the inode with a nid, and whether it is new; damage is reported once.
    pub(super) fn visit(
        &mut self,
        reader: &ErofsReader,
        nid: Nid,
        report: &mut FindingCollector<'_>,
    ) -> Result<Option<(usize, bool)>> {
        // An inode with several names is checked for its first one.
        if let Some(known) = self.index.get(&nid) {
            return Ok(known.map(|n| (n, false)));
        }
        let inode = report.take(reader.inode(nid))?;
        let n = inode.map(|inode| {
            self.found.push(VisitedInode { inode, names: 0 });
            self.found.len() - 1
        });
        // An unreadable one is remembered too, so that it is reported once.
        self.index.insert(nid, n);
        let Some(n) = n else { return Ok(None) };
        let digest = check(reader, &self.found[n].inode, report)?;
        self.stamp(n, digest);
        Ok(Some((n, true)))
    }
}

/// Checks everything about an inode that does not depend on others. Returns the digest of its data, if it has one.
fn check(reader: &ErofsReader, inode: &Inode, report: &mut FindingCollector<'_>) -> Result<Option<FileDigest>> {
    let mut wrong = |why: String| report.add(STRUCTURE, inode.place.byte, format!("inode {}: {why}", inode.nid.0));
    if inode.nlink == 0 {
        wrong("it has a link count of 0".into());
    }
    for id in [inode.uid, inode.gid] {
        if id == NO_ID {
            wrong(format!("{id} is not a valid owner; the kernel shows another"));
        }
    }
    if inode.kind == InodeType::Symlink && inode.size > SYMLINK_MAX {
        wrong(format!("symlink target of {} bytes; the kernel reads up to {SYMLINK_MAX}", inode.size));
    }
    // Linux ignores both; a writer that sets them is broken.
    if matches!(inode.kind, InodeType::Char | InodeType::Block | InodeType::Fifo | InodeType::Socket) {
        if inode.size != 0 {
            wrong(format!("{} bytes of data for a device, pipe or socket", inode.size));
        }
        if inode.layout != Layout::Plain {
            wrong("a data layout for a device, pipe or socket".into());
        }
    }
    // Without 48-bit addresses, all compact inodes have the time of the image in Linux.
    if !inode.extended && inode.mtime != reader.superblock.epoch && !wide(reader) {
        wrong("a compact inode with its own time, which only Linux 6.15 and later show".into());
    }
    // Reading it is the check.
    if inode.kind == InodeType::Symlink {
        report.take(reader.target(inode))?;
    }
    xattrs::check(reader, inode, report)
}

fn wide(reader: &ErofsReader) -> bool {
    reader.superblock.incompat.contains(Incompat::BITS_48)
}
