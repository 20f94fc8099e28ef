//! Changes the attributes of merged entries and checks them against the limits of the format. A build does both with the
//! whole tree; here only one entry is in memory at a time, so what a format checks over several entries is checked on a
//! small tree of samples.

use std::collections::{HashMap, HashSet};

use super::MergedScans;
use super::names::{NameInode, ScannedEntry};
use crate::build::ImageFormat;
use crate::limits::{FormatLimits, has_acl};
use crate::tree::{
    ConflictPolicy, DataHandling, FileData, FileRecipe, Inode, InodeAttributes, Kind, ROOT, ReducedSet, Tree,
    TreeXattrs, XattrId, acl, path_of,
};
use crate::{Error, Result, Warning, WarningKind, Warnings};

/// Number of inodes with a set of extended attributes that stand for all others with it. Formats only tell few from many:
/// [`merges`](super::merges) asks whether this many suffice.
pub(super) const SAMPLE: u32 = 101;

/// Attributes that entries get.
#[derive(Debug)]
pub(super) struct EntryAttributes<'m> {
    merged: &'m MergedScans,
    /// All sets after the changes.
    pub(super) xattrs: TreeXattrs,
    /// New number of each set after the changes; `None` if they leave out no attributes.
    changed_sets: Option<Vec<ReducedSet>>,
    /// New number of each of these sets without the ACLs that the format cannot store; `None` if there are none.
    without_acls: Option<Vec<ReducedSet>>,
    /// True for each set after the changes that has such ACLs.
    has_acls: Vec<bool>,
}

/// An entry's inode after all changes.
pub(super) struct ChangedInode<'e> {
    pub(super) inode: Inode<'e>,
    /// True if the inode has ACLs that the format cannot store.
    pub(super) loses_acl: bool,
}

impl<'m> EntryAttributes<'m> {
    pub(super) fn new(merged: &'m MergedScans, limits: &FormatLimits, mut xattrs: TreeXattrs) -> Self {
        let transform = &merged.transform;
        let changed_sets = transform.leaves_out_xattrs().then(|| xattrs.exclude(|name| transform.leaves_out(name)));
        let has_acls: Vec<bool> = xattrs.sets().map(|set| !limits.acls && has_acl(set)).collect();
        let without_acls = has_acls.contains(&true).then(|| xattrs.exclude(acl::is_name));
        EntryAttributes { merged, xattrs, changed_sets, without_acls, has_acls }
    }

    /// Returns the inode of an entry after the changes. Its data, if it has any, is stored under the number `data`.
    pub(super) fn change_entry<'e>(
        &self,
        entry: &'e ScannedEntry,
        number: NameInode,
        data: Option<u32>,
    ) -> std::result::Result<ChangedInode<'e>, String> {
        let kind = match &entry.kind {
            Kind::Symlink(target) => Kind::Symlink(&**target),
            Kind::File { size, .. } => Kind::File { size: *size, data: data.map_or(FileData::Empty, FileData::Stored) },
            Kind::Dir => Kind::Dir,
            Kind::Char(device) => Kind::Char(*device),
            Kind::Block(device) => Kind::Block(*device),
            Kind::Fifo => Kind::Fifo,
            Kind::Socket => Kind::Socket,
        };
        let InodeAttributes { mut mode, uid, gid, mtime, mut xattrs } = entry.meta;
        // In the order of a build: attributes to leave out, other changes, and what the format cannot store.
        if let Some(changed_sets) = &self.changed_sets {
            let reduced = changed_sets[xattrs.0 as usize];
            mode &= reduced.mode_bits;
            xattrs = reduced.id;
        }
        let mut inode = Inode {
            kind,
            mode,
            uid,
            gid,
            mtime,
            xattrs,
            links: number.links,
            handling: DataHandling::empty(),
            recipe: FileRecipe::default(),
        };
        let InodeAttributes { mut mode, uid, gid, mtime, mut xattrs } = self.merged.transform.change(&inode)?;
        let mtime = if self.merged.clip_times { mtime.clipped() } else { mtime };
        let loses_acl = self.has_acls[xattrs.0 as usize];
        if let Some(without) = &self.without_acls {
            let reduced = without[xattrs.0 as usize];
            mode &= reduced.mode_bits;
            xattrs = reduced.id;
        }
        inode.mode = mode;
        inode.uid = uid;
        inode.gid = gid;
        inode.mtime = mtime;
        inode.xattrs = xattrs;
        Ok(ChangedInode { inode, loses_acl })
    }
}

/// Checks entries against the limits of the format.
#[derive(Debug)]
pub(super) struct EntryChecks<'a> {
    attributes: &'a EntryAttributes<'a>,
    limits: FormatLimits,
    owners: HashSet<u32>,
    /// Inodes that stand for all with extended attributes.
    sample: Tree,
    /// Number of sampled inodes by set and type.
    sample_counts: HashMap<(XattrId, u8), u32>,
    warnings: Warnings,
}

impl<'a> EntryChecks<'a> {
    pub(super) fn new(attributes: &'a EntryAttributes<'a>, limits: FormatLimits, warnings: Warnings) -> Self {
        EntryChecks {
            attributes,
            limits,
            owners: HashSet::new(),
            sample: Tree::default(),
            sample_counts: HashMap::new(),
            warnings,
        }
    }

    /// Checks an entry; `path` returns its path, for messages.
    pub(super) fn check_entry(
        &mut self,
        entry: &ScannedEntry,
        number: NameInode,
        path: impl Fn() -> Vec<u8>,
    ) -> Result<()> {
        // Every name counts, but the inode only once.
        self.limits.name(&entry.name).map_err(|why| Error::limit(path_of(&path()), why))?;
        if !number.is_first {
            return Ok(());
        }
        let changed = self.attributes.change_entry(entry, number, None);
        let ChangedInode { inode, loses_acl } = changed.map_err(|why| Error::limit(path_of(&path()), why))?;
        let refuse = |why| Error::limit(path_of(&path()), why);
        self.limits.inode(&inode).map_err(refuse)?;
        self.limits.owners(&mut self.owners, &inode).map_err(refuse)?;
        if loses_acl {
            self.warnings.add(Warning::new(WarningKind::PosixAcl, path_of(&path())))?;
        }
        if inode.xattrs != XattrId::NONE {
            self.add_sample(&inode, &path())?;
        }
        Ok(())
    }

    /// Adds an inode to the sample, unless there are enough like it.
    fn add_sample(&mut self, inode: &Inode<'_>, path: &[u8]) -> Result<()> {
        let kind = match inode.kind {
            Kind::Dir => 0,
            Kind::File { .. } => 1,
            Kind::Symlink(_) => 2,
            _ => 3,
        };
        let count = self.sample_counts.entry((inode.xattrs, kind)).or_default();
        if *count >= SAMPLE {
            return Ok(());
        }
        *count += 1;
        let set = self.attributes.xattrs.get(inode.xattrs).clone();
        let Inode { mode, uid, gid, mtime, .. } = *inode;
        let meta = InodeAttributes { mode, uid, gid, mtime, xattrs: self.sample.xattrs.intern(set) };
        // At its own path, which messages name.
        let mut dir = ROOT;
        let mut names = path.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next().filter(|name| !name.is_empty()) {
            let is_last = names.peek().is_none();
            let known = self.sample.dir(dir).and_then(|entries| entries.get(name));
            dir = match known {
                Some(known) if !is_last => known,
                _ if !is_last => {
                    self.sample.add(dir, name, InodeAttributes::IMPLICIT_DIR, Kind::Dir, ConflictPolicy::Replace)?
                }
                _ => self.sample.add(dir, name, meta, inode.kind.clone().into_owned(), ConflictPolicy::Replace)?,
            };
        }
        if path.is_empty() {
            self.sample.set_meta(ROOT, meta);
        }
        Ok(())
    }

    /// Checks what only all entries together show; returns all warnings.
    pub(super) fn finish<F: ImageFormat>(mut self, format: &F) -> Result<Warnings> {
        if !self.sample_counts.is_empty() {
            format.check(&mut self.sample)?;
        }
        Ok(self.warnings)
    }
}
