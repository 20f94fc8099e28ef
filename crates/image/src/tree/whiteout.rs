//! Marks of OCI layers for deleted files, as AUFS wrote them: `.wh.NAME` hides NAME of the layers below, `.wh..wh..opq` all
//! that they have in the directory. Overlayfs has other marks for the same.

use super::{Conflict, Device, Ino, Kind, Meta, Tree};
use crate::Result;

/// Ways to pack marks for deleted files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Whiteouts {
    /// As files of their names.
    #[default]
    Keep,
    /// As overlayfs has them: character devices 0:0, and attributes of directories.
    Overlay,
    /// Not at all.
    Strip,
}

const MARK: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

impl Whiteouts {
    /// Changes all marks of the tree.
    pub fn apply(self, tree: &mut Tree) -> Result<()> {
        if self == Whiteouts::Keep {
            return Ok(());
        }
        let mut found: Vec<(Ino, Vec<u8>)> = Vec::new();
        for dir in tree.inos() {
            let marks = tree.entries(dir).filter(|(name, _)| name.len() > MARK.len() && name.starts_with(MARK));
            found.extend(marks.map(|(name, _)| (dir, name.to_vec())));
        }
        found.into_iter().try_for_each(|(dir, name)| self.change(tree, dir, &name))
    }

    fn change(self, tree: &mut Tree, dir: Ino, name: &[u8]) -> Result<()> {
        let mark = tree.child(dir, name)?.map(|ino| tree.meta(ino));
        tree.remove(dir, name)?;
        let Some(mark) = mark.filter(|_| self == Whiteouts::Overlay) else { return Ok(()) };
        let hidden = &name[MARK.len()..];
        if name == OPAQUE {
            set_xattr(tree, dir, b"trusted.overlay.opaque", b"y");
        } else if !hidden.starts_with(MARK) && tree.child(dir, hidden)?.is_none() {
            // Others, as `.wh..wh.plnk`, are AUFS's own; a file beside its mark is newer than the mark.
            let nothing = Kind::Char(Device { major: 0, minor: 0 });
            tree.add(dir, hidden, Meta { mode: 0, ..mark }, nothing, Conflict::Refuse)?;
            // Without it overlayfs shows the device if no other layer has the directory.
            set_xattr(tree, dir, b"trusted.overlay.origin", b"");
        }
        Ok(())
    }
}

fn set_xattr(tree: &mut Tree, ino: Ino, name: &[u8], value: &[u8]) {
    let mut set = tree.xattrs.get(tree.meta(ino).xattrs).clone();
    set.retain(|(other, _)| **other != *name);
    set.push((name.into(), value.into()));
    let set = tree.xattrs.intern(set);
    tree.set_xattrs(ino, set);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Data, ROOT};

    fn tree() -> Tree {
        let mut tree = Tree::default();
        let file = || Kind::File { size: 0, data: Data::Empty };
        let meta = Meta { mode: 0o600, uid: 7, ..Meta::IMPLICIT_DIR };
        let dir = tree.add(ROOT, b"d", Meta::IMPLICIT_DIR, Kind::Dir, Conflict::Refuse).unwrap();
        for name in [&b".wh.gone"[..], b".wh..wh..opq", b".wh..wh.plnk", b".wh.kept", b"kept", b".wh."] {
            tree.add(dir, name, meta, file(), Conflict::Refuse).unwrap();
        }
        tree
    }

    fn names(tree: &Tree) -> Vec<String> {
        let dir = tree.lookup(b"d").unwrap();
        tree.entries(dir).map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
    }

    #[test]
    fn marks_become_those_of_overlayfs() {
        let mut changed = tree();
        Whiteouts::Overlay.apply(&mut changed).unwrap();
        assert_eq!(names(&changed), [".wh.", "gone", "kept"]);
        let gone = changed.inode(changed.lookup(b"d/gone").unwrap());
        assert!(matches!(gone.kind, Kind::Char(Device { major: 0, minor: 0 })));
        assert_eq!((gone.uid, gone.mode), (7, 0));
        let set = changed.xattrs.get(changed.inode(changed.lookup(b"d").unwrap()).xattrs);
        let of = |name: &[u8]| set.iter().find(|(other, _)| **other == *name).map(|(_, value)| value.to_vec());
        assert_eq!((of(b"trusted.overlay.opaque"), of(b"trusted.overlay.origin")), (Some(b"y".to_vec()), Some(vec![])));
    }

    #[test]
    fn marks_stay_or_go() {
        let (mut kept, mut stripped) = (tree(), tree());
        Whiteouts::Keep.apply(&mut kept).unwrap();
        assert_eq!(names(&kept), names(&tree()));
        Whiteouts::Strip.apply(&mut stripped).unwrap();
        assert_eq!(names(&stripped), [".wh.", "kept"]);
    }
}
