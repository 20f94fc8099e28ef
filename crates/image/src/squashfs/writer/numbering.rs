//! The order of inodes: their numbers, and the order in which directories can be written.
//!
//! The children of a directory are numbered consecutively, so that their entries share headers.
//! Inodes other than directories depend on nothing else and come first. A directory's listing needs
//! its children's inodes placed, so directories follow by height: those without subdirectories
//! first.

use crate::tree::{Ino, ROOT, Tree};

/// Numbers and orders of a tree's inodes.
#[derive(Debug)]
pub(crate) struct InodeNumbering {
    /// Inode number by [`Ino`]; 0 for unreachable inodes.
    pub(crate) numbers: Vec<u32>,
    /// Number of inodes.
    pub(crate) count: u32,
    /// Directories by height, and within a height in order of their numbers, each with its parent; after them, in the
    /// same way, those that are used first: none of the others contains one of these.
    pub(crate) levels: Vec<Vec<(Ino, Ino)>>,
}

impl InodeNumbering {
    pub(crate) fn of(tree: &Tree) -> InodeNumbering {
        let mut numbers = vec![0u32; tree.len()];
        let mut count = 1;
        numbers[ROOT.0 as usize] = 1;
        let mut dirs = Vec::new();
        let mut stack = vec![(ROOT, ROOT)];
        while let Some((dir, parent)) = stack.pop() {
            dirs.push((dir, parent));
            let first_subdir = stack.len();
            for (_, ino) in tree.entries(dir) {
                let number = &mut numbers[ino.0 as usize];
                // A further name of an inode that has its number.
                if *number != 0 {
                    continue;
                }
                count += 1;
                *number = count;
                if tree.is_dir(ino) {
                    stack.push((ino, dir));
                }
            }
            // The first subdirectory is popped first.
            stack[first_subdir..].reverse();
        }
        if tree.hot().is_empty() {
            return InodeNumbering { levels: levels(tree, dirs), numbers, count };
        }
        let (hot, others): (Vec<_>, Vec<_>) = dirs.into_iter().partition(|(dir, _)| tree.is_hot(*dir));
        InodeNumbering { levels: [levels(tree, others), levels(tree, hot)].concat(), numbers, count }
    }

    /// Returns all inodes except directories, in order of their numbers; those that are used first come last, in order of
    /// first use. A directory is written after what is in it, so only the end of the table can hold all that is used
    /// first.
    pub(crate) fn plain<'n>(&'n self, tree: &'n Tree) -> impl Iterator<Item = Ino> + 'n {
        let mut stack = Vec::new();
        let mut entries = tree.entries(ROOT);
        let mut count = 1;
        let mut first_subdir = 0;
        // The same walk again takes less than a list of tens of millions.
        let walk = std::iter::from_fn(move || {
            loop {
                let Some((_, ino)) = entries.next() else {
                    stack[first_subdir..].reverse();
                    entries = tree.entries(stack.pop()?);
                    first_subdir = stack.len();
                    continue;
                };
                // Numbers were given in this order. Any other number belongs to an inode that was passed
                // under an earlier name.
                if self.number(ino) != count + 1 {
                    continue;
                }
                count += 1;
                if !tree.is_dir(ino) {
                    return Some(ino);
                }
                stack.push(ino);
            }
        });
        let hot = tree.hot().iter().copied().filter(|ino| !tree.is_dir(*ino));
        walk.filter(|ino| !tree.is_hot(*ino)).chain(hot)
    }

    pub(crate) fn number(&self, ino: Ino) -> u32 {
        self.numbers[ino.0 as usize]
    }
}

/// Groups directories, given parents before children, by height.
fn levels(tree: &Tree, dirs: Vec<(Ino, Ino)>) -> Vec<Vec<(Ino, Ino)>> {
    let mut heights = vec![0u32; tree.len()];
    // Parents come before their subdirectories, so the reverse order knows the height of all subdirectories.
    for (dir, parent) in dirs.iter().rev() {
        if dir != parent {
            let above = heights[dir.0 as usize] + 1;
            let height = &mut heights[parent.0 as usize];
            *height = (*height).max(above);
        }
    }
    let highest = dirs.iter().map(|(dir, _)| heights[dir.0 as usize]).max();
    let mut levels = vec![Vec::new(); highest.map_or(0, |highest| highest as usize + 1)];
    for (dir, parent) in dirs {
        levels[heights[dir.0 as usize] as usize].push((dir, parent));
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{ConflictPolicy, InodeAttributes, Kind};

    #[test]
    fn children_are_numbered_together_and_directories_follow_their_subdirectories() {
        let mut tree = Tree::default();
        let dir = || Kind::Dir;
        for (path, kind) in [("a", dir()), ("a/x", dir()), ("a/f", Kind::Fifo), ("b", dir()), ("c", Kind::Fifo)] {
            let (parent, name) = tree.parent_of(path.as_bytes(), InodeAttributes::IMPLICIT_DIR).unwrap().unwrap();
            tree.add(parent, name, InodeAttributes::IMPLICIT_DIR, kind, ConflictPolicy::Refuse).unwrap();
        }
        let linked = tree.lookup(b"a/f").unwrap();
        tree.link(tree.lookup(b"b").unwrap(), b"again", linked, ConflictPolicy::Refuse).unwrap();
        let numbering = InodeNumbering::of(&tree);
        let number = |path: &str| numbering.number(tree.lookup(path.as_bytes()).unwrap());
        let numbers: Vec<_> = ["", "a", "b", "c", "a/f", "a/x", "b/again"].map(number).to_vec();
        assert_eq!((numbers, numbering.count), (vec![1, 2, 3, 4, 5, 6, 5], 6));
        let names = |level: &[(Ino, Ino)]| level.iter().map(|(dir, _)| numbering.number(*dir)).collect::<Vec<_>>();
        assert_eq!(
            numbering.levels.iter().map(|level| names(level)).collect::<Vec<_>>(),
            [vec![6, 3], vec![2], vec![1]]
        );
        let plain: Vec<_> = numbering.plain(&tree).map(|ino| numbering.number(ino)).collect();
        assert_eq!(plain, [4, 5]);
        // What is used first comes last.
        assert!(tree.mark_hot(b"c"));
        let plain: Vec<_> = numbering.plain(&tree).map(|ino| numbering.number(ino)).collect();
        assert_eq!(plain, [5, 4]);
    }
}
