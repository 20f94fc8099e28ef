//! Fills a tree: the functions that every source calls.

use std::path::PathBuf;

use super::acl;
use super::hot::HotInodes;
use super::inodes::InodeStore;
use super::{
    DataHandling, FileData, FileRecipe, Ino, Inode, Kind, ROOT, Time, Tree, TreeXattrs, XattrId, check_name, components,
};
use crate::{Error, Result, Warnings};

/// Attributes of an inode apart from its type and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeAttributes {
    /// The 12 permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of last modification.
    pub mtime: Time,
    /// Extended attributes, from [`Tree::xattrs`].
    pub xattrs: XattrId,
}

impl InodeAttributes {
    /// Attributes of a directory that no source described: 0755, owned by root, dated 1970.
    pub const IMPLICIT_DIR: InodeAttributes =
        InodeAttributes { mode: 0o755, uid: 0, gid: 0, mtime: Time { secs: 0, nanos: 0 }, xattrs: XattrId::NONE };
}

/// Action when a path is already taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictPolicy {
    /// The new entry replaces the old one; a directory over a directory keeps the entries (tar, merged sources).
    Replace,
    /// An error (a pack list that names one path twice).
    Refuse,
}

impl Default for Tree {
    fn default() -> Self {
        Tree::new(InodeAttributes::IMPLICIT_DIR)
    }
}

impl Tree {
    /// Makes a tree with only a root directory.
    pub fn new(root: InodeAttributes) -> Self {
        let mut tree = Tree::without_root();
        // The number 0, by which the root is known.
        tree.push(root, Kind::Dir).expect("the first inode has a number");
        tree
    }

    pub(super) fn without_root() -> Self {
        Tree {
            inodes: InodeStore::default(),
            hot: HotInodes::default(),
            xattrs: TreeXattrs::default(),
            warnings: Warnings::default(),
            implied: None,
            devices: Vec::new(),
            layer: None,
        }
    }

    pub(super) fn push(&mut self, meta: InodeAttributes, kind: Kind) -> Result<Ino> {
        self.inodes.push(meta, kind)
    }

    /// Changes the attributes of an inode.
    pub fn set_meta(&mut self, ino: Ino, meta: InodeAttributes) {
        self.inodes.set_meta(ino, meta);
    }

    /// Changes the attributes of an inode as chmod(2) does: an ACL gets the permissions of a new mode. Linux asks the ACL for
    /// those of the group and of others, so otherwise the new mode would change nothing for them.
    pub fn change_meta(&mut self, ino: Ino, mut meta: InodeAttributes) {
        if (meta.mode ^ self.meta(ino).mode) & acl::PERMISSION_BITS != 0 {
            meta.xattrs = self.xattrs_after_chmod(meta.xattrs, meta.mode);
        }
        self.set_meta(ino, meta);
    }

    /// Returns the set that a change of the mode makes of another one.
    pub fn xattrs_after_chmod(&mut self, xattrs: XattrId, mode: u16) -> XattrId {
        match acl::after_chmod(self.xattrs.get(xattrs), mode) {
            Some(set) => self.xattrs.intern(set),
            None => xattrs,
        }
    }

    /// Returns the attributes of an inode.
    pub fn meta(&self, ino: Ino) -> InodeAttributes {
        self.inodes.meta(ino)
    }

    /// Changes the extended attributes of an inode.
    pub fn set_xattrs(&mut self, ino: Ino, xattrs: XattrId) {
        self.set_meta(ino, InodeAttributes { xattrs, ..self.meta(ino) });
    }

    /// Changes the wishes about the data of a regular file.
    pub fn set_storing(&mut self, ino: Ino, handling: DataHandling, recipe: FileRecipe) {
        self.inodes.set_storing(ino, handling, recipe);
    }

    /// Gives a regular file other data of the same length; leaves other types as they are.
    pub fn set_data(&mut self, ino: Ino, data: FileData) -> Result<()> {
        self.inodes.set_data(ino, data)
    }

    /// Gives a regular file other data.
    pub fn set_file(&mut self, ino: Ino, size: u64, data: FileData) -> Result<()> {
        self.inodes.set_kind(ino, Kind::File { size, data })
    }

    /// Adds an entry to a directory. With [`ConflictPolicy::Replace`] a directory over a directory takes
    /// the new attributes and keeps its inode and entries; anything else is replaced.
    pub fn add(
        &mut self,
        dir: Ino,
        name: &[u8],
        meta: InodeAttributes,
        kind: Kind,
        conflict: ConflictPolicy,
    ) -> Result<Ino> {
        check_name(name)?;
        self.apply_mark(dir, name)?;
        if let Some(old) = self.child(dir, name)? {
            if conflict == ConflictPolicy::Refuse {
                return Err(Error::Duplicate { name: name.to_owned() });
            }
            // Layers are merged by their directories: the earlier entries stay.
            if self.is_dir(old) && matches!(kind, Kind::Dir) {
                // Only from the second layer on is there anything to hide.
                if self.layer.is_some() && self.is_opaque(meta.xattrs) {
                    self.hide_lower(old)?;
                }
                self.note_described(old);
                self.set_meta(old, meta);
                return Ok(old);
            }
            // Before the new inode takes the name.
            self.unlink(old)?;
        }
        let ino = self.push(meta, kind)?;
        self.insert(dir, name, ino);
        Ok(ino)
    }

    /// Adds another name for an inode that is not a directory.
    pub fn link(&mut self, dir: Ino, name: &[u8], target: Ino, conflict: ConflictPolicy) -> Result<()> {
        check_name(name)?;
        // No system makes them, and a cycle would have no end.
        if self.is_dir(target) {
            return Err(Error::limit(path_of(name), "a directory cannot be hard-linked"));
        }
        // What was replaced under its last name has lost its contents.
        if self.is_gone(target) {
            return Err(Error::Misuse(format!("`{}`: its link target no longer has a name", name.escape_ascii())));
        }
        match self.child(dir, name)? {
            // The name is right already.
            Some(old) if old == target => return Ok(()),
            Some(_) if conflict == ConflictPolicy::Refuse => {
                return Err(Error::Duplicate { name: name.to_owned() });
            }
            _ => {}
        }
        // Before the old entry is removed: it may be a directory that holds the target's only other name.
        self.inodes.set_links(target, self.inodes.links(target) + 1);
        // AUFS made all marks names of one inode.
        self.apply_mark(dir, name)?;
        if let Some(old) = self.child(dir, name)? {
            self.unlink(old)?;
        }
        self.insert(dir, name, target);
        Ok(())
    }

    /// Returns true if an inode has lost its last name, and its contents with it.
    pub fn is_gone(&self, ino: Ino) -> bool {
        self.inodes.links(ino) == 0
    }

    /// Removes an entry from its directory (its inode stays if it has other names). Returns false if there is none.
    pub fn remove(&mut self, dir: Ino, name: &[u8]) -> Result<bool> {
        let Some(old) = self.child(dir, name)? else { return Ok(false) };
        self.unlink(old)?;
        // After the inode has lost the name, so that its own entries are still found.
        if let Some(entries) = self.inodes.dir_mut(dir) {
            entries.remove(name);
        }
        Ok(true)
    }

    /// Gives an entry of a directory another name, which nothing there has.
    pub fn rename(&mut self, dir: Ino, from: &[u8], to: &[u8]) -> Result<()> {
        check_name(to)?;
        if self.child(dir, to)?.is_some() {
            return Err(Error::Duplicate { name: to.to_owned() });
        }
        if let Some(entries) = self.inodes.dir_mut(dir)
            && let Some(ino) = entries.remove(from)
        {
            entries.insert(to, ino);
        }
        Ok(())
    }

    /// Removes all entries for which `keep`, given the path and the inode, returns false. A
    /// directory is removed with everything in it.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], Inode<'_>) -> bool) {
        // No recursion: a tree may be as deep as its source.
        let mut dirs = vec![(ROOT, Vec::new())];
        while let Some((dir, path)) = dirs.pop() {
            let mut gone = Vec::new();
            for (name, ino) in self.entries(dir) {
                let path = [&path[..], if path.is_empty() { b"" } else { b"/" }, name].concat();
                if !keep(&path, self.inode(ino)) {
                    gone.push(name.to_vec());
                } else if self.is_dir(ino) {
                    dirs.push((ino, path));
                }
            }
            // Removed only now, as the entries were borrowed.
            for name in gone {
                let removed: Result<bool> = self.remove(dir, &name);
                debug_assert!(matches!(removed, Ok(true)), "listed a moment ago");
            }
        }
        self.forget_removed_hot();
    }

    /// Returns the directory that holds the last component of `path`, and that component. Missing
    /// directories are made with [`Tree::implied`], or else `implicit`; anything else on the way is an error, unless
    /// [a layer](Tree::begin_layer) is added: then symbolic links are followed. `..` is refused. The root itself has no parent:
    /// `None`.
    pub fn parent_of<'p>(&mut self, path: &'p [u8], implicit: InodeAttributes) -> Result<Option<(Ino, &'p [u8])>> {
        let implicit = self.implied.unwrap_or(implicit);
        let mut dir = ROOT;
        let mut rest = components(path).peekable();
        // A path without names is the root.
        let Some(mut name) = rest.next() else { return Ok(None) };
        for next in rest {
            dir = match self.child(dir, name)? {
                Some(ino) if self.is_dir(ino) => ino,
                Some(_) if self.layer.is_some() => return self.parent_in_layers(path, Some(implicit)),
                Some(_) => {
                    let why = format!("`{}` on the way is not a directory", name.escape_ascii());
                    return Err(Error::limit(path_of(path), why));
                }
                // Nothing of this name is there, so nothing can be replaced.
                None => self.add(dir, name, implicit, Kind::Dir, ConflictPolicy::Refuse)?,
            };
            name = next;
        }
        Ok(Some((dir, name)))
    }

    pub(super) fn child(&self, dir: Ino, name: &[u8]) -> Result<Option<Ino>> {
        match self.dir(dir) {
            Some(entries) => Ok(entries.get(name)),
            None => Err(Error::Misuse(format!("`{}`: its parent is not a directory", name.escape_ascii()))),
        }
    }

    pub(super) fn insert(&mut self, dir: Ino, name: &[u8], ino: Ino) {
        if let Some(entries) = self.inodes.dir_mut(dir) {
            entries.insert(name, ino);
        }
    }

    /// Removes one name; an inode without names drops its contents, however deep.
    fn unlink(&mut self, ino: Ino) -> Result<()> {
        let mut gone = vec![ino];
        while let Some(ino) = gone.pop() {
            let links = self.inodes.links(ino).saturating_sub(1);
            self.inodes.set_links(ino, links);
            if links == 0 {
                // Its entries lose their only directory with it.
                gone.extend(self.entries(ino).map(|(_, ino)| ino));
                // Without contents of its own, so that memory is given back.
                self.inodes.set_kind(ino, Kind::Fifo)?;
            }
        }
        Ok(())
    }
}

/// Converts the bytes of a path to a path.
pub fn path_of(path: &[u8]) -> PathBuf {
    packfs_blocks::system::os_str(path).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir() -> Kind {
        Kind::Dir
    }

    #[test]
    fn directories_merge_and_files_are_replaced() {
        let mut tree = Tree::default();
        let a = tree.add(ROOT, b"a", InodeAttributes::IMPLICIT_DIR, dir(), ConflictPolicy::Replace).unwrap();
        tree.add(a, b"f", InodeAttributes::IMPLICIT_DIR, Kind::Fifo, ConflictPolicy::Replace).unwrap();
        let again = tree
            .add(
                ROOT,
                b"a",
                InodeAttributes { uid: 7, ..InodeAttributes::IMPLICIT_DIR },
                dir(),
                ConflictPolicy::Replace,
            )
            .unwrap();
        assert_eq!((again, tree.inode(a).uid, tree.entries(a).count()), (a, 7, 1));
        tree.add(ROOT, b"a", InodeAttributes::IMPLICIT_DIR, Kind::Socket, ConflictPolicy::Replace).unwrap();
        assert!(tree.lookup(b"a/f").is_none());
        assert!(tree.add(ROOT, b"a", InodeAttributes::IMPLICIT_DIR, Kind::Fifo, ConflictPolicy::Refuse).is_err());
    }

    #[test]
    fn what_has_no_name_is_not_linked_to() {
        let mut tree = Tree::default();
        let old = tree.add(ROOT, b"a", InodeAttributes::IMPLICIT_DIR, Kind::Socket, ConflictPolicy::Replace).unwrap();
        tree.add(ROOT, b"a", InodeAttributes::IMPLICIT_DIR, dir(), ConflictPolicy::Replace).unwrap();
        assert!(tree.is_gone(old));
        let told = tree.link(ROOT, b"b", old, ConflictPolicy::Replace).unwrap_err().to_string();
        assert!(told.contains("`b`: its link target no longer has a name") && tree.lookup(b"b").is_none(), "{told}");
    }

    #[test]
    fn directories_of_any_depth_can_go() {
        let mut tree = Tree::default();
        let mut at = ROOT;
        for _ in 0..200_000 {
            at = tree.add(at, b"d", InodeAttributes::IMPLICIT_DIR, dir(), ConflictPolicy::Refuse).unwrap();
        }
        assert!(tree.remove(ROOT, b"d").unwrap());
        assert!(matches!(tree.inode(at).kind, Kind::Fifo));
    }

    #[test]
    fn links_are_counted_and_walked_once() {
        let mut tree = Tree::default();
        let f = tree.add(ROOT, b"b", InodeAttributes::IMPLICIT_DIR, Kind::Fifo, ConflictPolicy::Refuse).unwrap();
        tree.link(ROOT, b"a", f, ConflictPolicy::Refuse).unwrap();
        tree.link(ROOT, b"a", f, ConflictPolicy::Replace).unwrap();
        assert_eq!(tree.inode(f).links, 2);
        let mut seen = Vec::new();
        tree.walk(|ino, path| {
            seen.push((ino, path.to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(ROOT, b"".to_vec()), (f, b"a".to_vec())]);
        assert!(tree.remove(ROOT, b"a").unwrap());
        assert_eq!(tree.inode(f).links, 1);
    }

    #[test]
    fn a_link_over_the_directory_of_its_target_keeps_the_target() {
        let mut tree = Tree::default();
        let d = tree.add(ROOT, b"d", InodeAttributes::IMPLICIT_DIR, dir(), ConflictPolicy::Refuse).unwrap();
        let f = tree.add(d, b"f", InodeAttributes::IMPLICIT_DIR, Kind::Socket, ConflictPolicy::Refuse).unwrap();
        tree.link(ROOT, b"d", f, ConflictPolicy::Replace).unwrap();
        assert!(matches!(tree.inode(tree.lookup(b"d").unwrap()).kind, Kind::Socket));
        assert_eq!(tree.inode(f).links, 1);
    }

    #[test]
    fn parents_are_made_on_the_way_but_not_over_files() {
        let mut tree = Tree::default();
        let (dir, name) = tree.parent_of(b"./x//y/z", InodeAttributes::IMPLICIT_DIR).unwrap().unwrap();
        assert_eq!(name, b"z");
        tree.add(dir, name, InodeAttributes::IMPLICIT_DIR, Kind::Fifo, ConflictPolicy::Refuse).unwrap();
        assert!(tree.lookup(b"x/y/z").is_some());
        assert!(tree.parent_of(b"x/y/z/w", InodeAttributes::IMPLICIT_DIR).is_err());
        assert!(tree.parent_of(b"x/../w", InodeAttributes::IMPLICIT_DIR).is_err());
        assert!(tree.parent_of(b"./", InodeAttributes::IMPLICIT_DIR).unwrap().is_none());
        tree.implied = Some(InodeAttributes { mode: 0o700, uid: 5, ..InodeAttributes::IMPLICIT_DIR });
        let (dir, _) = tree.parent_of(b"other/z", InodeAttributes::IMPLICIT_DIR).unwrap().unwrap();
        assert_eq!(Some(tree.meta(dir)), tree.implied);
    }
}
