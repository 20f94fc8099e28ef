//! Changes the attributes of merged entries and checks them, one entry at a time, as a build does with a whole tree.

use std::collections::{HashMap, HashSet};

use super::Merged;
use super::names::{Entry, Number};
use crate::build::Format;
use crate::limits::{Limits, has_acl};
use crate::tree::{
    Conflict, Data, Handling, Inode, Kind, Meta, ROOT, Recipe, ReducedSet, Tree, XattrId, Xattrs, acl, path_of,
};
use crate::{Error, Result, Warning, WarningKind, Warnings};

/// Number of inodes with a set of extended attributes that stand for all others with it: formats only tell few from many.
pub(super) const SAMPLE: u32 = 101;

/// Attributes that entries get.
#[derive(Debug)]
pub(super) struct Attributes<'m> {
    merged: &'m Merged,
    /// All sets after the changes.
    pub(super) xattrs: Xattrs,
    /// New number of each set after the changes; `None` if they leave out no attributes.
    becomes: Option<Vec<ReducedSet>>,
    /// New number of each of these sets without the ACLs that the format cannot store; `None` if there are none.
    without_acls: Option<Vec<ReducedSet>>,
    /// True for each set after the changes that has such ACLs.
    has_acls: Vec<bool>,
}

impl<'m> Attributes<'m> {
    pub(super) fn new(merged: &'m Merged, limits: &Limits, mut xattrs: Xattrs) -> Self {
        let transform = &merged.transform;
        let becomes = transform.leaves_out_xattrs().then(|| xattrs.exclude(|name| transform.leaves_out(name)));
        let has_acls: Vec<bool> = xattrs.sets().map(|set| !limits.acls && has_acl(set)).collect();
        let without_acls = has_acls.contains(&true).then(|| xattrs.exclude(acl::is_name));
        Attributes { merged, xattrs, becomes, without_acls, has_acls }
    }

    /// Returns the inode of an entry, whose data, if it has any, is stored under the given number; also whether ACLs are
    /// left out.
    pub(super) fn inode<'e>(
        &self,
        entry: &'e Entry,
        number: Number,
        data: Option<u32>,
    ) -> std::result::Result<(Inode<'e>, bool), String> {
        let kind = match &entry.kind {
            Kind::Symlink(target) => Kind::Symlink(&**target),
            Kind::File { size, .. } => Kind::File { size: *size, data: data.map_or(Data::Empty, Data::Stored) },
            Kind::Dir => Kind::Dir,
            Kind::Char(device) => Kind::Char(*device),
            Kind::Block(device) => Kind::Block(*device),
            Kind::Fifo => Kind::Fifo,
            Kind::Socket => Kind::Socket,
        };
        let Meta { mut mode, uid, gid, mtime, mut xattrs } = entry.meta;
        if let Some(becomes) = &self.becomes {
            let reduced = becomes[xattrs.0 as usize];
            mode &= reduced.mode_bits;
            xattrs = reduced.id;
        }
        let (handling, recipe) = (Handling::empty(), Recipe::default());
        let mut inode = Inode { kind, mode, uid, gid, mtime, xattrs, links: number.links, handling, recipe };
        let Meta { mut mode, uid, gid, mtime, mut xattrs } = self.merged.transform.change(&inode)?;
        let mtime = if self.merged.clip_times { mtime.clipped() } else { mtime };
        let has_acl = self.has_acls[xattrs.0 as usize];
        if let Some(without) = &self.without_acls {
            let reduced = without[xattrs.0 as usize];
            mode &= reduced.mode_bits;
            xattrs = reduced.id;
        }
        (inode.mode, inode.uid, inode.gid, inode.mtime, inode.xattrs) = (mode, uid, gid, mtime, xattrs);
        Ok((inode, has_acl))
    }
}

/// Checks entries against the limits of the format.
#[derive(Debug)]
pub(super) struct Checks<'a> {
    attributes: &'a Attributes<'a>,
    limits: Limits,
    owners: HashSet<u32>,
    /// Inodes that stand for all with extended attributes, and the number of those of each set and type.
    sample: Tree,
    sampled: HashMap<(XattrId, u8), u32>,
    warnings: Warnings,
}

impl<'a> Checks<'a> {
    pub(super) fn new(attributes: &'a Attributes<'a>, limits: Limits, warnings: Warnings) -> Self {
        let (owners, sample, sampled) = (HashSet::new(), Tree::default(), HashMap::new());
        Checks { attributes, limits, owners, sample, sampled, warnings }
    }

    /// Checks an entry; `path` tells its path.
    pub(super) fn entry(&mut self, entry: &Entry, number: Number, path: impl Fn() -> Vec<u8>) -> Result<()> {
        self.limits.name(&entry.name).map_err(|why| Error::limit(path_of(&path()), why))?;
        if !number.is_first {
            return Ok(());
        }
        let inode = self.attributes.inode(entry, number, None);
        let (inode, has_acl) = inode.map_err(|why| Error::limit(path_of(&path()), why))?;
        let refuse = |why| Error::limit(path_of(&path()), why);
        self.limits.inode(&inode).map_err(refuse)?;
        self.limits.owners(&mut self.owners, &inode).map_err(refuse)?;
        if has_acl {
            self.warnings.add(Warning::new(WarningKind::PosixAcl, path_of(&path())))?;
        }
        if inode.xattrs != XattrId::NONE {
            self.sample(&inode, &path())?;
        }
        Ok(())
    }

    /// Adds an inode to the sample, unless there are enough like it.
    fn sample(&mut self, inode: &Inode<'_>, path: &[u8]) -> Result<()> {
        let kind = match inode.kind {
            Kind::Dir => 0,
            Kind::File { .. } => 1,
            Kind::Symlink(_) => 2,
            _ => 3,
        };
        let count = self.sampled.entry((inode.xattrs, kind)).or_default();
        if *count >= SAMPLE {
            return Ok(());
        }
        *count += 1;
        let set = self.attributes.xattrs.get(inode.xattrs).clone();
        let Inode { mode, uid, gid, mtime, .. } = *inode;
        let meta = Meta { mode, uid, gid, mtime, xattrs: self.sample.xattrs.intern(set) };
        let (mut dir, mut names) = (ROOT, path.split(|byte| *byte == b'/').peekable());
        while let Some(name) = names.next().filter(|name| !name.is_empty()) {
            let is_last = names.peek().is_none();
            let known = self.sample.dir(dir).and_then(|entries| entries.get(name));
            dir = match known {
                Some(known) if !is_last => known,
                _ if !is_last => self.sample.add(dir, name, Meta::IMPLICIT_DIR, Kind::Dir, Conflict::Replace)?,
                _ => self.sample.add(dir, name, meta, inode.kind.clone().into_owned(), Conflict::Replace)?,
            };
        }
        if path.is_empty() {
            self.sample.set_meta(ROOT, meta);
        }
        Ok(())
    }

    /// Checks what only all entries together show; returns all warnings.
    pub(super) fn finish<F: Format>(mut self, format: &F) -> Result<Warnings> {
        if !self.sampled.is_empty() {
            format.check(&mut self.sample)?;
        }
        Ok(self.warnings)
    }
}
