//! Inodes that are used first: writers put their metadata side by side, and their data before that of all others.

use std::collections::HashSet;

use super::{Ino, Kind, ROOT, Tree, components};

/// Number of symbolic links that a path may lead through, as in Linux.
const LINKS_MAX: usize = 40;

/// Inodes in order of first use. With each, all directories are in it that lead there.
#[derive(Debug, Default)]
pub(super) struct HotInodes {
    pub(super) order: Vec<Ino>,
    pub(super) known: HashSet<Ino>,
}

impl Tree {
    /// Adds the inode at `path` to those that are used first, after all that are already there, and whatever leads
    /// there: directories and symbolic links. Returns false if nothing has this path.
    pub fn mark_hot(&mut self, path: &[u8]) -> bool {
        let Some(trail) = self.trail(path) else { return false };
        for ino in trail {
            if self.hot.known.insert(ino) {
                self.hot.order.push(ino);
            }
        }
        true
    }

    /// Returns the inodes that are used first, in order of first use, each after the directory that it was found in.
    pub fn hot(&self) -> &[Ino] {
        &self.hot.order
    }

    /// Returns true if an inode is among those that are used first.
    pub fn is_hot(&self, ino: Ino) -> bool {
        self.hot.known.contains(&ino)
    }

    /// Drops inodes that can no longer be reached.
    pub(super) fn forget_removed_hot(&mut self) {
        // The common case, in which the walk is not worth it.
        if self.hot.order.is_empty() {
            return;
        }
        let mut reached = HashSet::new();
        let walked = self.walk(|ino, _| {
            reached.insert(ino);
            Ok(())
        });
        debug_assert!(walked.is_ok(), "the visitor never fails");
        self.hot.order.retain(|ino| reached.contains(ino));
        self.hot.known = self.hot.order.iter().copied().collect();
    }

    /// Returns all inodes that looking up `path` passes, following symbolic links within the tree. A link that leads
    /// nowhere ends the trail.
    fn trail(&self, path: &[u8]) -> Option<Vec<Ino>> {
        let mut left: Vec<&[u8]> = components(path).collect();
        left.reverse();
        // Names of the path itself, which lie below those of targets.
        let mut own = left.len();
        let mut way = vec![ROOT];
        let mut trail = vec![ROOT];
        let mut links = 0;
        while let Some(name) = left.pop() {
            // True while names of a link's target are being resolved.
            let of_link = left.len() >= own;
            own = own.min(left.len());
            let at = way.last().copied().unwrap_or(ROOT);
            if name == b".." {
                // `..` of the root is the root.
                way.pop();
                continue;
            }
            let Some(ino) = self.dir(at).and_then(|entries| entries.get(name)) else {
                // A link of the last component may lead nowhere, but the link itself is there.
                return (of_link && own == 0).then_some(trail);
            };
            trail.push(ino);
            let Kind::Symlink(target) = self.inode(ino).kind else {
                way.push(ino);
                continue;
            };
            links += 1;
            // As ELOOP ends it in Linux, but what was passed is used all the same.
            if links > LINKS_MAX {
                break;
            }
            if target.starts_with(b"/") {
                way.clear();
            }
            let behind = left.len();
            left.extend(components(target));
            // Names are taken from the end.
            left[behind..].reverse();
        }
        Some(trail)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Attrs, Node, Piece, Spec, What};
    use crate::tree::{Ino, Kind, Tree};

    fn tree() -> Tree {
        let file = || Node::file(vec![Piece::Zeros(1)]);
        let link = |target: &str| Node { attrs: Attrs::plain(0o777), what: What::Symlink(target.into()) };
        let lib =
            Node::dir([("libz.so".into(), link("libz.so.1")), ("libz.so.1".into(), file()), ("up".into(), link(".."))]);
        let mut spec = Spec::of([
            (b"usr".to_vec(), Node::dir([(b"lib".to_vec(), lib), (b"far".to_vec(), link("/gone/away"))])),
            (b"lib".to_vec(), link("usr/lib")),
            (b"again".to_vec(), link("/lib/libz.so")),
            (b"loop".to_vec(), link("loop")),
        ]);
        spec.links = vec![(b"usr/lib/libz.so.1".to_vec(), b"z".to_vec())];
        spec.tree().unwrap()
    }

    fn paths(tree: &Tree) -> Vec<String> {
        tree.hot().iter().map(|ino| tree.path_of(*ino).to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn whatever_leads_to_a_path_is_hot_before_it() {
        for (marked, wanted) in [
            (&["/usr/lib/libz.so.1"][..], ["", "usr", "usr/lib", "usr/lib/libz.so.1"].as_slice()),
            (&["lib/libz.so"], &["", "lib", "usr", "usr/lib", "usr/lib/libz.so", "usr/lib/libz.so.1"]),
            (&["again"], &["", "again", "lib", "usr", "usr/lib", "usr/lib/libz.so", "usr/lib/libz.so.1"]),
            // A hard link is one inode; a path given twice counts once.
            (&["z", "usr/lib/libz.so.1", "z"], &["", "usr/lib/libz.so.1", "usr", "usr/lib"]),
            (&["usr/lib/up/far"], &["", "usr", "usr/lib", "usr/lib/up", "usr/far"]),
            (&["loop", "/"], &["", "loop"]),
        ] {
            let mut tree = tree();
            assert!(marked.iter().all(|path| tree.mark_hot(path.as_bytes())), "{marked:?}");
            assert_eq!(paths(&tree), wanted, "{marked:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_told_and_what_is_removed_is_forgotten() {
        let mut tree = tree();
        for path in ["gone", "usr/gone", "lib/gone", "z/below", "usr/lib/libz.so/below"] {
            assert!(!tree.mark_hot(path.as_bytes()), "{path}");
        }
        assert_eq!(tree.hot(), []);
        assert!(tree.mark_hot(b"usr/lib/libz.so"));
        tree.retain(|path, inode| !matches!(inode.kind, Kind::File { .. }) || path == b"z");
        assert_eq!(paths(&tree), ["", "usr", "usr/lib", "usr/lib/libz.so", "z"], "one name is left");
        tree.retain(|path, _| path != b"z");
        assert_eq!(paths(&tree), ["", "usr", "usr/lib", "usr/lib/libz.so"]);
        assert!(tree.is_hot(Ino(0)) && tree.hot().len() == 4);
    }
}
