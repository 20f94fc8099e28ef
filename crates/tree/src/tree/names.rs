//! Hard links taken apart: each name gets an inode of its own (`build --no-hard-links`).

use std::collections::HashSet;

use super::{Ino, Inode, Tree};
use crate::Result;

impl Tree {
    /// Gives every name of an inode but the first, in the order of [`walk`](Self::walk), an inode of its own with the
    /// same attributes and contents.
    pub fn separate_hard_links(&mut self) -> Result<()> {
        // Collected first, as giving names to inodes changes what is walked over.
        let again = self.names_after_the_first();
        for (dir, name, ino) in again {
            let Inode { kind, links, handling, recipe, .. } = self.inode(ino);
            let kind = kind.into_owned();
            let meta = self.meta(ino);
            let own = self.push(meta, kind)?;
            self.set_storing(own, handling, recipe);
            self.inodes.set_links(ino, links - 1);
            self.insert(dir, &name, own);
        }
        Ok(())
    }

    /// Returns directory, name and inode of all names that an inode has besides its first.
    fn names_after_the_first(&self) -> Vec<(Ino, Box<[u8]>, Ino)> {
        let mut seen = HashSet::new();
        let mut again = Vec::new();
        self.each_name(|dir, name, ino, _| {
            if self.inodes.links(ino) > 1 && !seen.insert(ino) {
                again.push((dir, name.into(), ino));
            }
            true
        });
        again
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Piece, Spec, snapshot_tree};

    #[test]
    fn every_name_gets_an_inode_with_the_same_contents() {
        let file = || Node::file(vec![Piece::Text { seed: 3, len: 5000 }]);
        let mut spec = Spec::of([(b"d".to_vec(), Node::dir([(b"f".to_vec(), file())])), (b"z".to_vec(), file())]);
        let links: [(&[u8], &[u8]); 3] = [(b"d/f", b"a"), (b"d/f", b"d/g"), (b"z", b"y")];
        spec.links = links.map(|(first, other)| (first.to_vec(), other.to_vec())).to_vec();
        let mut tree = spec.tree().unwrap();
        let before = snapshot_tree(&tree).unwrap();
        tree.separate_hard_links().unwrap();
        let names = ["a", "d/f", "d/g", "y", "z"];
        let inos: std::collections::BTreeSet<_> =
            names.iter().map(|name| tree.lookup(name.as_bytes()).unwrap()).collect();
        assert_eq!(inos.len(), names.len());
        assert!(inos.iter().all(|ino| tree.inode(*ino).links == 1));
        let alone = |mut entry: crate::testing::Entry| {
            (entry.nlink, entry.same_as) = (1, None);
            entry
        };
        for (path, entry) in snapshot_tree(&tree).unwrap() {
            assert_eq!(alone(entry), alone(before[&path].clone()), "{path}");
        }
    }
}
