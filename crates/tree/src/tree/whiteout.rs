//! Marks of OCI layers for deleted files, as AUFS wrote them: `.wh.NAME` hides NAME of the layers below, `.wh..wh..opq` all
//! that they have in the directory. Overlayfs has other marks for the same.

use super::{ConflictPolicy, DeviceNumber, Ino, InodeAttributes, Kind, Tree, XattrId};
use crate::Result;

/// Ways to pack marks for deleted files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhiteoutPolicy {
    /// As files of their names.
    #[default]
    Keep,
    /// As overlayfs has them: character devices 0:0, and attributes of directories. Directories that have such devices
    /// already get the attribute, too.
    Overlay,
    /// As files of their names; directories with whiteouts of overlayfs get the attribute that overlayfs looks for.
    MarkOverlay,
    /// Not at all.
    Strip,
    /// As files of their names, but without those of overlayfs itself: character devices 0:0, and its attributes.
    StripOverlay,
}

/// Beginning of the name of a mark for a deleted file.
pub const WHITEOUT_PREFIX: &[u8] = b".wh.";
/// Attribute that overlayfs has for a directory that hides those of lower layers; its value is `y`.
pub const OPAQUE_XATTR: &[u8] = b"trusted.overlay.opaque";
/// Prefixes of attributes of overlayfs: the second is that of mounts with the option `userxattr`, which users make.
const OVERLAY_PREFIXES: [&[u8]; 2] = [b"trusted.overlay.", b"user.overlay."];
/// Attribute of a directory that may have whiteouts. Without it, overlayfs lists a directory that only one layer has as
/// it is, with the names that its whiteouts delete. Any value will do: an empty one means that the origin is unknown.
pub const ORIGIN_XATTR: &[u8] = b"trusted.overlay.origin";
/// Name of the mark for a directory that hides those of lower layers.
pub const OPAQUE_MARK: &[u8] = b".wh..wh..opq";

impl WhiteoutPolicy {
    /// Changes all marks of the tree.
    pub fn apply(self, tree: &mut Tree) -> Result<()> {
        match self {
            WhiteoutPolicy::Keep => return Ok(()),
            WhiteoutPolicy::StripOverlay => return strip_overlay(tree),
            WhiteoutPolicy::MarkOverlay => {
                mark_directories(tree);
                return Ok(());
            }
            WhiteoutPolicy::Overlay | WhiteoutPolicy::Strip => {}
        }
        let mut found: Vec<(Ino, Vec<u8>)> = Vec::new();
        for dir in tree.inos() {
            let marks = tree
                .entries(dir)
                .filter(|(name, _)| name.len() > WHITEOUT_PREFIX.len() && name.starts_with(WHITEOUT_PREFIX));
            found.extend(marks.map(|(name, _)| (dir, name.to_vec())));
        }
        found.into_iter().try_for_each(|(dir, name)| self.change(tree, dir, &name))?;
        if self == WhiteoutPolicy::Overlay {
            mark_directories(tree);
        }
        Ok(())
    }

    fn change(self, tree: &mut Tree, dir: Ino, name: &[u8]) -> Result<()> {
        let mark = tree.child(dir, name)?.map(|ino| tree.meta(ino));
        tree.remove(dir, name)?;
        let Some(mark) = mark.filter(|_| self == WhiteoutPolicy::Overlay) else { return Ok(()) };
        let hidden = &name[WHITEOUT_PREFIX.len()..];
        if name == OPAQUE_MARK {
            set_xattr(tree, dir, OPAQUE_XATTR, b"y");
        } else if !hidden.starts_with(WHITEOUT_PREFIX) {
            // Others, as `.wh..wh.plnk`, are AUFS's own.
            hide_lower(tree, dir, hidden, mark)?;
        }
        Ok(())
    }
}

/// Hides what lower layers have under a name. What the layer itself has there is newer than the mark, and stays.
fn hide_lower(tree: &mut Tree, dir: Ino, name: &[u8], mark: InodeAttributes) -> Result<()> {
    match tree.child(dir, name)? {
        // Two directories are merged, unless the upper one says that it is not.
        Some(newer) if tree.is_dir(newer) => set_xattr(tree, newer, OPAQUE_XATTR, b"y"),
        Some(_) => {}
        None => {
            let nothing = Kind::Char(DeviceNumber::WHITEOUT);
            tree.add(dir, name, InodeAttributes { mode: 0, ..mark }, nothing, ConflictPolicy::Refuse)?;
        }
    }
    Ok(())
}

impl Tree {
    /// Returns true for the attributes of a directory that hides those of lower layers.
    pub(super) fn is_opaque(&self, xattrs: XattrId) -> bool {
        let is_name = |name: &[u8]| OVERLAY_PREFIXES.iter().any(|prefix| name.strip_prefix(*prefix) == Some(b"opaque"));
        self.xattrs.get(xattrs).iter().any(|(name, value)| is_name(name) && **value == *b"y")
    }
}

/// Marks directories that have whiteouts of overlayfs. An attribute that is there already stays.
fn mark_directories(tree: &mut Tree) {
    let has_whiteouts = |tree: &Tree, dir| tree.entries(dir).any(|(_, entry)| tree.inode(entry).kind.is_whiteout());
    let is_marked = |tree: &Tree, dir| {
        let attributes = tree.xattrs.get(tree.meta(dir).xattrs);
        attributes.iter().any(|(name, _)| **name == *ORIGIN_XATTR)
    };
    for dir in tree.inos() {
        if has_whiteouts(tree, dir) && !is_marked(tree, dir) {
            set_xattr(tree, dir, ORIGIN_XATTR, b"");
        }
    }
}

/// Takes out what only overlayfs understands.
fn strip_overlay(tree: &mut Tree) -> Result<()> {
    for ino in tree.inos() {
        let marks = tree.entries(ino).filter(|(_, entry)| tree.inode(*entry).kind.is_whiteout());
        let names: Vec<Box<[u8]>> = marks.map(|(name, _)| name.into()).collect();
        names.iter().try_for_each(|name| tree.remove(ino, name).map(drop))?;
        let mut set = tree.xattrs.get(tree.meta(ino).xattrs).clone();
        let before = set.len();
        set.retain(|(name, _)| !OVERLAY_PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
        if set.len() < before {
            let set = tree.xattrs.intern(set);
            tree.set_xattrs(ino, set);
        }
    }
    Ok(())
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
    use crate::tree::{FileData, ROOT};

    fn tree() -> Tree {
        let mut tree = Tree::default();
        let file = || Kind::File { size: 0, data: FileData::Empty };
        let meta = InodeAttributes { mode: 0o600, uid: 7, ..InodeAttributes::IMPLICIT_DIR };
        let dir = tree.add(ROOT, b"d", InodeAttributes::IMPLICIT_DIR, Kind::Dir, ConflictPolicy::Refuse).unwrap();
        for name in [&b".wh.gone"[..], b".wh..wh..opq", b".wh..wh.plnk", b".wh.kept", b"kept", b".wh."] {
            tree.add(dir, name, meta, file(), ConflictPolicy::Refuse).unwrap();
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
        WhiteoutPolicy::Overlay.apply(&mut changed).unwrap();
        assert_eq!(names(&changed), [".wh.", "gone", "kept"]);
        let gone = changed.inode(changed.lookup(b"d/gone").unwrap());
        assert!(matches!(gone.kind, Kind::Char(DeviceNumber::WHITEOUT)));
        assert_eq!((gone.uid, gone.mode), (7, 0));
        let set = changed.xattrs.get(changed.inode(changed.lookup(b"d").unwrap()).xattrs);
        let of = |name: &[u8]| set.iter().find(|(other, _)| **other == *name).map(|(_, value)| value.to_vec());
        assert_eq!((of(b"trusted.overlay.opaque"), of(b"trusted.overlay.origin")), (Some(b"y".to_vec()), Some(vec![])));
    }

    #[test]
    fn a_directory_that_replaces_a_deleted_one_hides_it() {
        for (whiteouts, opaque) in [(WhiteoutPolicy::Overlay, true), (WhiteoutPolicy::Strip, false)] {
            let mut changed = tree();
            let file = Kind::File { size: 0, data: FileData::Empty };
            changed.add(ROOT, b".wh.d", InodeAttributes::IMPLICIT_DIR, file, ConflictPolicy::Refuse).unwrap();
            // Its own mark would hide what is below it anyway.
            changed.remove(changed.lookup(b"d").unwrap(), OPAQUE_MARK).unwrap();
            whiteouts.apply(&mut changed).unwrap();
            let dir = changed.lookup(b"d").unwrap();
            assert_eq!(changed.is_opaque(changed.meta(dir).xattrs), opaque, "{whiteouts:?}");
            assert!(changed.lookup(b"d/kept").is_some() && changed.lookup(b".wh.d").is_none(), "{whiteouts:?}");
        }
    }

    #[test]
    fn directories_with_whiteouts_of_overlayfs_are_marked() {
        let origin = |tree: &Tree, path: &[u8]| {
            let set = tree.xattrs.get(tree.meta(tree.lookup(path).unwrap()).xattrs);
            set.iter().filter(|(name, _)| **name == *ORIGIN_XATTR).map(|(_, value)| value.to_vec()).collect::<Vec<_>>()
        };
        for (whiteouts, marked) in [
            (WhiteoutPolicy::Keep, 0),
            (WhiteoutPolicy::Strip, 0),
            (WhiteoutPolicy::MarkOverlay, 1),
            (WhiteoutPolicy::Overlay, 1),
        ] {
            let mut changed = tree();
            let plain = InodeAttributes::IMPLICIT_DIR;
            let known = changed.xattrs.intern(vec![(ORIGIN_XATTR.into(), b"known"[..].into())]);
            for (name, meta) in
                [("unmarked", plain), ("marked", InodeAttributes { xattrs: known, ..plain }), ("other", plain)]
            {
                let dir = changed.add(ROOT, name.as_bytes(), meta, Kind::Dir, ConflictPolicy::Refuse).unwrap();
                let number = DeviceNumber { major: u32::from(name == "other"), minor: 0 };
                changed.add(dir, b"gone", plain, Kind::Char(number), ConflictPolicy::Refuse).unwrap();
            }
            whiteouts.apply(&mut changed).unwrap();
            assert_eq!(origin(&changed, b"unmarked"), vec![Vec::<u8>::new(); marked], "{whiteouts:?}");
            assert_eq!(origin(&changed, b"marked"), [b"known"], "{whiteouts:?}");
            assert!(origin(&changed, b"other").is_empty(), "{whiteouts:?}");
            assert_eq!(
                origin(&changed, b"d").len(),
                usize::from(whiteouts == WhiteoutPolicy::Overlay),
                "{whiteouts:?}"
            );
        }
    }

    #[test]
    fn marks_stay_or_go() {
        let mut kept = tree();
        let mut stripped = tree();
        WhiteoutPolicy::Keep.apply(&mut kept).unwrap();
        assert_eq!(names(&kept), names(&tree()));
        WhiteoutPolicy::Strip.apply(&mut stripped).unwrap();
        assert_eq!(names(&stripped), [".wh.", "kept"]);
    }

    #[test]
    fn directories_that_a_layer_describes_before_their_opaque_parent_stay() {
        let mut tree = Tree::default();
        let plain = InodeAttributes::IMPLICIT_DIR;
        let opaque = tree.xattrs.intern(vec![(OPAQUE_XATTR.into(), b"y"[..].into())]);
        let d = tree.add(ROOT, b"d", plain, Kind::Dir, ConflictPolicy::Replace).unwrap();
        for name in [b"both", b"only"] {
            tree.add(d, name, plain, Kind::Dir, ConflictPolicy::Replace).unwrap();
        }
        tree.begin_layer(WhiteoutPolicy::Keep);
        tree.add(d, b"both", InodeAttributes { uid: 5, ..plain }, Kind::Dir, ConflictPolicy::Replace).unwrap();
        tree.add(ROOT, b"d", InodeAttributes { xattrs: opaque, ..plain }, Kind::Dir, ConflictPolicy::Replace).unwrap();
        assert_eq!(names(&tree), ["both"]);
        assert_eq!(tree.meta(tree.lookup(b"d/both").unwrap()).uid, 5);
        // In the next layer it is one of an earlier layer.
        tree.begin_layer(WhiteoutPolicy::Keep);
        tree.add(ROOT, b"d", InodeAttributes { xattrs: opaque, ..plain }, Kind::Dir, ConflictPolicy::Replace).unwrap();
        assert_eq!(names(&tree), Vec::<String>::new());
    }

    #[test]
    fn opaque_directories_hide_what_lower_layers_have() {
        let file = || Kind::File { size: 0, data: FileData::Empty };
        let names_of_attribute = [OPAQUE_XATTR, b"user.overlay.opaque"];
        for (layers, attribute) in
            [false, true].into_iter().flat_map(|layers| names_of_attribute.map(|name| (layers, name)))
        {
            let mut tree = Tree::default();
            let plain = InodeAttributes::IMPLICIT_DIR;
            let opaque = tree.xattrs.intern(vec![(attribute.into(), b"y"[..].into())]);
            for (name, attrs) in [("lower", plain), ("upper", InodeAttributes { xattrs: opaque, ..plain })] {
                if layers {
                    tree.begin_layer(WhiteoutPolicy::Keep);
                }
                let d = tree.add(ROOT, b"d", plain, Kind::Dir, ConflictPolicy::Replace).unwrap();
                let sub = tree.add(d, b"sub", plain, Kind::Dir, ConflictPolicy::Replace).unwrap();
                tree.add(sub, name.as_bytes(), plain, file(), ConflictPolicy::Replace).unwrap();
                // An archive may have a directory after its entries, or twice.
                tree.add(d, name.as_bytes(), plain, file(), ConflictPolicy::Replace).unwrap();
                tree.add(ROOT, b"d", attrs, Kind::Dir, ConflictPolicy::Replace).unwrap();
            }
            let sub = tree.lookup(b"d/sub").unwrap();
            assert_eq!(tree.child(sub, b"lower").unwrap().is_none(), layers);
            assert!(tree.child(sub, b"upper").unwrap().is_some());
            let nothing = Kind::Char(DeviceNumber::WHITEOUT);
            tree.add(ROOT, b"gone", plain, nothing, ConflictPolicy::Replace).unwrap();
            assert_eq!(names(&tree), if layers { &["sub", "upper"][..] } else { &["lower", "sub", "upper"] });
            WhiteoutPolicy::StripOverlay.apply(&mut tree).unwrap();
            assert!(tree.lookup(b"gone").is_none());
            assert_eq!(tree.meta(tree.lookup(b"d").unwrap()).xattrs, XattrId::NONE);
        }
    }
}
