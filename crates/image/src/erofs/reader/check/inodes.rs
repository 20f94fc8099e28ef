//! Every inode on its own: links, sizes, times, xattrs.

use std::collections::{HashMap, HashSet};

use super::acl;
use crate::Result;
use crate::erofs::format::{Compat, Incompat, Layout};
use crate::erofs::reader::Reader;
use crate::erofs::reader::inode::{Inode, Kind, STRUCTURE};
use crate::erofs::reader::metadata::Space;
use crate::erofs::reader::xattr;
use crate::finding::{Report, Severity};
use crate::image::Nid;

/// Longest symlink target that the kernel reads.
const SYMLINK_MAX: u64 = 4095;

/// The number that stands for no owner and no group.
const NO_ID: u32 = u32::MAX;

/// All inodes that were met.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    pub(super) found: Vec<Found>,
    /// Where in `found` each is; `None` stands for one that cannot be read.
    index: HashMap<Nid, Option<usize>>,
}

/// One inode.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) inode: Inode,
    /// Names met in directories.
    pub(super) names: u32,
}

impl Inodes {
    /// Which of `found` the inode with a nid is, and whether it is new; damage is reported once.
    pub(super) fn visit(
        &mut self,
        reader: &Reader,
        nid: Nid,
        report: &mut Report<'_>,
    ) -> Result<Option<(usize, bool)>> {
        if let Some(known) = self.index.get(&nid) {
            return Ok(known.map(|n| (n, false)));
        }
        let inode = report.take(reader.inode(nid))?;
        let n = inode.map(|inode| {
            self.found.push(Found { inode, names: 0 });
            self.found.len() - 1
        });
        self.index.insert(nid, n);
        let Some(n) = n else { return Ok(None) };
        check(reader, &self.found[n].inode, report)?;
        Ok(Some((n, true)))
    }
}

/// What can be said about an inode alone.
fn check(reader: &Reader, inode: &Inode, report: &mut Report<'_>) -> Result<()> {
    let mut wrong = |why: String| report.add(STRUCTURE, inode.place.byte, format!("inode {}: {why}", inode.nid.0));
    if inode.nlink == 0 {
        wrong("it has a link count of 0".into());
    }
    for id in [inode.uid, inode.gid] {
        if id == NO_ID {
            wrong(format!("{id} is no owner, and the kernel shows another"));
        }
    }
    if inode.kind == Kind::Symlink && inode.size > SYMLINK_MAX {
        wrong(format!("symlink target of {} bytes; the kernel reads up to {SYMLINK_MAX}", inode.size));
    }
    if matches!(inode.kind, Kind::Char | Kind::Block | Kind::Fifo | Kind::Socket) {
        if inode.size != 0 {
            wrong(format!("{} bytes of data for a device, pipe or socket", inode.size));
        }
        if inode.layout != Layout::Plain {
            wrong("a data layout for a device, pipe or socket".into());
        }
    }
    if !inode.extended && inode.mtime != reader.superblock.epoch && !wide(reader) {
        wrong("a compact inode with a time of its own, which only Linux 6.15 and later see".into());
    }
    if inode.kind == Kind::Symlink {
        report.take(reader.target(inode))?;
    }
    xattrs(reader, inode, report)
}

fn wide(reader: &Reader) -> bool {
    reader.superblock.incompat.contains(Incompat::BITS_48)
}

fn xattrs(reader: &Reader, inode: &Inode, report: &mut Report<'_>) -> Result<()> {
    if inode.xattr_len == 0 {
        return Ok(());
    }
    let (mut wrong, mut names, mut bits, mut shared) = (Vec::new(), HashSet::new(), 0, false);
    let filter = xattr::each(reader, inode, &mut |pair| {
        match pair.full_name() {
            None if pair.is_padding() => return,
            None => wrong.push(format!("xattr prefix {:#x} is not known", pair.prefix)),
            Some(name) if name.ends_with(b".") && pair.name.is_empty() => {
                wrong.push(format!("xattr `{}` has no name behind its prefix", name.escape_ascii()));
            }
            Some(name) if name.contains(&0) => wrong.push("NUL in the name of an xattr".into()),
            Some(name) if names.contains(&name) => wrong.push(format!("xattr `{}` twice", name.escape_ascii())),
            Some(name) => drop(names.insert(name)),
        }
        bits |= pair.filter_bit();
        wrong.extend(acl::defect(&pair, inode.kind));
        shared |= pair.shared.is_some();
    });
    if let Some(filter) = report.take(filter)?
        && reader.superblock.xattr_filter
        && filter & bits != 0
    {
        wrong.push(format!("its xattr filter {filter:#010x} denies names that it has"));
    }
    let apart = !reader.superblock.compat.contains(Compat::SHARED_XATTRS_IN_METABOX);
    if shared && apart && inode.place.space == Space::Metabox {
        let text = "xattrs are shared outside the metabox by inodes in it: Linux 6.18 does not show them";
        report.shared(Severity::Note, STRUCTURE, reader.superblock.xattr_start, text, || {
            format!("inode {}", inode.nid.0)
        });
    }
    for why in wrong {
        report.add(STRUCTURE, inode.place.byte, format!("inode {}: {why}", inode.nid.0));
    }
    Ok(())
}
