//! A directory of a tree as its root, and targets of symbolic links that lead into it.

use super::{Kind, ROOT, Tree, components, path_of};
use crate::{Error, Result};

impl Tree {
    /// Makes the directory at `path` the root, with its attributes, and removes everything that is not below it. Hard links
    /// keep the names that remain. Fails with [`Error::NotFound`] or, if it is not a directory, [`Error::WrongType`];
    /// symbolic links are not followed.
    pub fn make_root(&mut self, path: &[u8]) -> Result<()> {
        let dir = self.lookup(path).ok_or_else(|| Error::NotFound { path: path_of(path) })?;
        if dir == ROOT {
            return Ok(());
        }
        let wrong = || Error::WrongType { path: path_of(path), expected: "directory" };
        let meta = self.meta(dir);
        // Taken before the rest is removed, since the directory is part of it.
        let entries = std::mem::take(self.inodes.dir_mut(dir).ok_or_else(wrong)?);
        self.retain(|_, _| false);
        if let Some(root) = self.inodes.dir_mut(ROOT) {
            *root = entries;
        }
        self.set_meta(ROOT, meta);
        Ok(())
    }

    /// Shortens the absolute targets of symbolic links that lead to the directory at `path` or below it, as is right once
    /// it is the root. Targets with `..` stay.
    pub fn retarget(&mut self, path: &[u8]) -> Result<()> {
        let root: Vec<&[u8]> = components(path).collect();
        // All inodes: a link may be anywhere in the tree.
        for ino in self.inos() {
            if let Kind::Symlink(target) = self.inode(ino).kind
                && let Some(shorter) = below(target, &root)
            {
                self.inodes.set_kind(ino, Kind::Symlink(shorter.into()))?;
            }
        }
        Ok(())
    }
}

/// Returns the target within `root` of a link to it or below it.
fn below(target: &[u8], root: &[&[u8]]) -> Option<Vec<u8>> {
    let names: Vec<&[u8]> = components(target).collect();
    // A relative target leads to the same place before and after.
    let is_below = target.first() == Some(&b'/') && !root.is_empty() && names.starts_with(root);
    (is_below && !names.contains(&&b".."[..])).then(|| [&b"/"[..], &names[root.len()..].join(&b'/')].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Node, Piece, Spec, snapshot_tree};

    /// A tree with files in `a/b`, one of which has a name outside.
    fn tree() -> Tree {
        let file = || Node::file(vec![Piece::Text { seed: 1, len: 9 }]);
        let inner = Node::dir([(b"f".to_vec(), file()), (b"g".to_vec(), file()), (b"empty".to_vec(), Node::dir([]))]);
        let mut inner = inner;
        inner.attrs.mode = 0o711;
        let outer = Node::dir([(b"b".to_vec(), inner), (b"x".to_vec(), file())]);
        let mut spec = Spec::of([(b"a".to_vec(), outer), (b"f".to_vec(), file())]);
        spec.links.push((b"a/b/f".to_vec(), b"z".to_vec()));
        spec.tree().unwrap()
    }

    #[test]
    fn a_directory_becomes_the_root_with_its_attributes() {
        for path in ["a/b", "/a//./b/"] {
            let mut tree = tree();
            tree.make_root(path.as_bytes()).unwrap();
            let found = snapshot_tree(&tree).unwrap();
            assert_eq!(found.keys().collect::<Vec<_>>(), ["", "empty", "f", "g"]);
            assert_eq!((found[""].mode, tree.inode(tree.lookup(b"f").unwrap()).links), (0o711, 1));
        }
        let mut tree = tree();
        tree.make_root(b"a/b/empty").unwrap();
        assert_eq!(snapshot_tree(&tree).unwrap().len(), 1);
        tree.make_root(b"/").unwrap();
    }

    #[test]
    fn only_directories_of_the_tree_become_the_root() {
        assert!(matches!(tree().make_root(b"a/c"), Err(Error::NotFound { .. })));
        assert!(matches!(tree().make_root(b"a/../a"), Err(Error::NotFound { .. })));
        assert!(matches!(tree().make_root(b"a/x"), Err(Error::WrongType { .. })));
    }

    #[test]
    fn targets_below_the_root_are_shortened() {
        for (target, root, want) in [
            ("/sub/a", "sub", Some("/a")),
            ("//sub/./a/", "/sub/", Some("/a")),
            ("/sub", "sub", Some("/")),
            ("/a/b/c", "a/b", Some("/c")),
            ("sub/a", "sub", None),
            ("/subb/a", "sub", None),
            ("/sub/../a", "sub", None),
            ("/other", "sub", None),
            ("/a", "", None),
        ] {
            let root: Vec<_> = components(root.as_bytes()).collect();
            assert_eq!(below(target.as_bytes(), &root).as_deref(), want.map(str::as_bytes), "{target} below {root:?}");
        }
    }
}
