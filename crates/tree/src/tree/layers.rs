//! Layers among the sources of a tree: what one hides of those below it, and where its entries go if it leaves out the
//! directories that contain them.
//!
//! Symbolic links on the way to an entry are followed, as container engines do when they unpack a layer: `lib/x` of a
//! layer that does not list `lib` belongs into `usr/lib` if a lower layer has the link `lib`. Were `lib` made a directory,
//! the image would lose all else that is below the link.

use std::collections::HashSet;

use super::whiteout::{OPAQUE_MARK, WHITEOUT_PREFIX};
use super::{ConflictPolicy, Ino, InodeAttributes, Kind, ROOT, Tree, WhiteoutPolicy, check_name, components, path_of};
use crate::{Error, Result};

/// Number of symbolic links on the way to an entry at most: the limit of Linux.
const LINKS_MAX: usize = 40;

/// A layer among sources.
#[derive(Debug)]
pub(super) struct SourceLayer {
    /// Its first inode.
    first: Ino,
    /// Directories of earlier layers that it has, too.
    described: HashSet<Ino>,
    /// True if OCI's marks for deleted files act on earlier layers.
    applies_marks: bool,
}

impl Tree {
    /// Begins the next layer: an opaque directory in it hides the entries that earlier ones have in it. Unless marks of OCI
    /// for deleted files are kept as files, they act on earlier layers, too.
    pub fn begin_layer(&mut self, whiteouts: WhiteoutPolicy) {
        let first = u32::try_from(self.len()).ok().map(Ino);
        let applies_marks = matches!(whiteouts, WhiteoutPolicy::Overlay | WhiteoutPolicy::Strip);
        self.layer = first.map(|first| SourceLayer { first, described: HashSet::new(), applies_marks });
    }

    /// Returns the inode at `path` for a hard link: in layers, symbolic links on the way are followed.
    pub fn link_target(&mut self, path: &[u8]) -> Result<Option<Ino>> {
        let found = self.lookup(path);
        if found.is_some() || self.layer.is_none() {
            return Ok(found);
        }
        match self.parent_in_layers(path, None)? {
            Some((dir, name)) => self.child(dir, name),
            None => Ok(None),
        }
    }

    /// Notes that the current layer has a directory of an earlier one.
    pub(super) fn note_described(&mut self, dir: Ino) {
        if let Some(layer) = &mut self.layer {
            layer.described.insert(dir);
        }
    }

    /// As [`Tree::parent_of`], following symbolic links. Missing directories are made with the attributes `implicit`, and
    /// replace files of earlier layers; without attributes, `None` is returned for a path through them.
    pub(super) fn parent_in_layers<'p>(
        &mut self,
        path: &'p [u8],
        implicit: Option<InodeAttributes>,
    ) -> Result<Option<(Ino, &'p [u8])>> {
        let mut names: Vec<&[u8]> = components(path).collect();
        let Some(last) = names.pop() else { return Ok(None) };
        names.iter().try_for_each(|name| check_name(name))?;
        // The next name is at the end.
        let mut pending: Vec<Box<[u8]>> = names.into_iter().rev().map(Box::from).collect();
        let mut entered = vec![ROOT];
        let mut links = 0;
        while let Some(name) = pending.pop() {
            let dir = *entered.last().unwrap_or(&ROOT);
            // From the target of a link.
            if *name == *b".." {
                entered.truncate(entered.len().saturating_sub(1).max(1));
                continue;
            }
            let found = self.child(dir, &name)?;
            if let Some(ino) = found
                && let Kind::Symlink(target) = self.inode(ino).kind
            {
                links += 1;
                if links > LINKS_MAX {
                    let why = format!("more than {LINKS_MAX} symbolic links on the way to it");
                    return Err(Error::limit(path_of(path), why));
                }
                pending.extend(components(target).collect::<Vec<_>>().into_iter().rev().map(Box::from));
                if target.first() == Some(&b'/') {
                    entered.truncate(1);
                }
                continue;
            }
            let next = match (found.filter(|ino| self.is_dir(*ino)), implicit) {
                (Some(ino), _) => ino,
                (None, Some(implicit)) => self.add(dir, &name, implicit, Kind::Dir, ConflictPolicy::Replace)?,
                (None, None) => return Ok(None),
            };
            entered.push(next);
        }
        Ok(Some((*entered.last().unwrap_or(&ROOT), last)))
    }

    /// Removes what a mark of OCI hides, if `name` is that of one: the entries of earlier layers in a directory, or one of
    /// them.
    pub(super) fn apply_mark(&mut self, dir: Ino, name: &[u8]) -> Result<()> {
        let Some(hidden) = name.strip_prefix(WHITEOUT_PREFIX) else { return Ok(()) };
        if !self.layer.as_ref().is_some_and(|layer| layer.applies_marks) {
            return Ok(());
        }
        if name == OPAQUE_MARK {
            return self.hide_lower(dir);
        }
        match self.child(dir, hidden)? {
            Some(ino) => self.hide_entry(dir, hidden, ino),
            None => Ok(()),
        }
    }

    /// Removes the entries of a directory that only earlier layers have.
    pub(super) fn hide_lower(&mut self, dir: Ino) -> Result<()> {
        let entries: Vec<(Box<[u8]>, Ino)> = self.entries(dir).map(|(name, ino)| (name.into(), ino)).collect();
        entries.into_iter().try_for_each(|(name, ino)| self.hide_entry(dir, &name, ino))
    }

    /// Removes an entry that only earlier layers have. An older directory stays if the current layer describes it or has
    /// entries in it.
    fn hide_entry(&mut self, dir: Ino, name: &[u8], ino: Ino) -> Result<()> {
        let is_older = |layer: &SourceLayer| ino < layer.first;
        if !self.layer.as_ref().is_some_and(is_older) {
            return Ok(());
        }
        // Depth first, so that a directory that becomes empty is removed as well.
        if self.is_dir(ino) {
            self.hide_lower(ino)?;
        }
        let is_described = self.layer.as_ref().is_some_and(|layer| layer.described.contains(&ino));
        if !is_described && self.entries(ino).next().is_none() {
            self.remove(dir, name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::FileData;

    const PLAIN: InodeAttributes = InodeAttributes::IMPLICIT_DIR;

    /// Adds a file, or a directory or link if `path` ends so: `a/b`, `a/`, `a -> target`.
    fn add(tree: &mut Tree, line: &str) {
        let (path, target) = line.split_once(" -> ").map_or((line, None), |(path, target)| (path, Some(target)));
        let kind = match target {
            Some(target) => Kind::Symlink(target.as_bytes().into()),
            None if path.ends_with('/') => Kind::Dir,
            None => Kind::File { size: 0, data: FileData::Empty },
        };
        let (dir, name) = tree.parent_of(path.as_bytes(), PLAIN).unwrap().unwrap();
        tree.add(dir, name, PLAIN, kind, ConflictPolicy::Replace).unwrap();
    }

    /// Returns the paths of a tree of these layers; directories end with a slash.
    fn paths(whiteouts: WhiteoutPolicy, layers: &[&[&str]]) -> Vec<String> {
        let mut tree = Tree::default();
        for layer in layers {
            tree.begin_layer(whiteouts);
            layer.iter().for_each(|line| add(&mut tree, line));
        }
        whiteouts.apply(&mut tree).unwrap();
        let mut paths = Vec::new();
        tree.each_name(|_, _, ino, path| {
            let slash = if tree.is_dir(ino) { "/" } else { "" };
            paths.push(format!("{}{slash}", path.escape_ascii()));
            true
        });
        paths.sort();
        paths
    }

    #[test]
    fn entries_below_links_of_lower_layers_go_where_the_links_lead() {
        let lower: &[&str] =
            &["usr/lib/old", "lib -> usr/lib", "abs -> /usr", "up -> usr/../usr/./lib", "far -> not/yet", "f"];
        for (upper, expected) in [
            ("lib/new", "usr/lib/new"),
            ("abs/lib/new", "usr/lib/new"),
            ("up/new", "usr/lib/new"),
            ("far/new", "not/yet/new"),
            ("usr/lib/new", "usr/lib/new"),
            ("f/new", "f/new"),
        ] {
            let found = paths(WhiteoutPolicy::Keep, &[lower, &[upper]]);
            for path in [expected, "lib", "usr/lib/old"] {
                assert!(found.contains(&path.to_owned()), "{upper}: {found:?} lacks {path}");
            }
        }
        // A layer that lists the directory itself replaces the link.
        let found = paths(WhiteoutPolicy::Keep, &[lower, &["lib/", "lib/new"]]);
        assert!(found.contains(&"lib/new".to_owned()), "{found:?}");
    }

    #[test]
    fn links_in_circles_and_ways_upwards_are_refused() {
        let mut tree = Tree::default();
        ["a -> b", "b -> a", "up -> .."].iter().for_each(|line| add(&mut tree, line));
        assert!(tree.parent_of(b"a/x", PLAIN).is_err(), "without layers no link is followed");
        tree.begin_layer(WhiteoutPolicy::Keep);
        for (path, why) in [("a/x", "more than 40 symbolic links"), ("up/../x", "`..`")] {
            let error = tree.parent_of(path.as_bytes(), PLAIN).unwrap_err().to_string();
            assert!(error.contains(why), "{path}: {error}");
        }
        assert_eq!(tree.parent_of(b"up/x", PLAIN).unwrap(), Some((ROOT, &b"x"[..])));
        assert_eq!(tree.link_target(b"gone/x").unwrap(), None);
        assert!(tree.lookup(b"gone").is_none(), "looking for a target makes no directories");
    }

    /// As AUFS made them: all names of one inode.
    #[test]
    fn a_mark_may_be_another_name_of_a_mark() {
        for whiteouts in [WhiteoutPolicy::Strip, WhiteoutPolicy::Overlay] {
            let mut tree = Tree::default();
            tree.begin_layer(whiteouts);
            ["a", "b", "d/old", "kept"].iter().for_each(|line| add(&mut tree, line));
            tree.begin_layer(whiteouts);
            add(&mut tree, ".wh.a");
            let mark = tree.lookup(b".wh.a").unwrap();
            for path in [&b".wh.b"[..], b"d/.wh..wh..opq"] {
                let (dir, name) = tree.parent_of(path, PLAIN).unwrap().unwrap();
                tree.link(dir, name, mark, ConflictPolicy::Replace).unwrap();
            }
            whiteouts.apply(&mut tree).unwrap();
            let is_gone = |path: &[u8]| tree.lookup(path).is_none_or(|ino| tree.inode(ino).kind.is_whiteout());
            assert!(is_gone(b"a") && is_gone(b"b") && is_gone(b"d/old"), "{whiteouts:?}");
            assert!(!is_gone(b"d") && !is_gone(b"kept"), "{whiteouts:?}");
        }
    }

    #[test]
    fn marks_hide_what_earlier_layers_have() {
        let lower: &[&str] = &["d/old", "d/both", "gone", "e/old"];
        let upper: &[&str] = &["d/.wh..wh..opq", "d/both", "d/new", ".wh.gone", "e/new", ".wh.e"];
        for (whiteouts, expected) in [
            (WhiteoutPolicy::Strip, &["d/", "d/both", "d/new", "e/", "e/new"][..]),
            // Below these layers there may be others.
            (WhiteoutPolicy::Overlay, &["d/", "d/both", "d/new", "e/", "e/new", "gone"]),
        ] {
            assert_eq!(paths(whiteouts, &[lower, upper]), expected, "{whiteouts:?}");
            // A later layer may have the name again.
            assert!(paths(whiteouts, &[lower, upper, &["gone"]]).contains(&"gone".to_owned()), "{whiteouts:?}");
        }
        let kept = paths(WhiteoutPolicy::Keep, &[lower, upper]);
        assert!(kept.contains(&"d/old".to_owned()) && kept.contains(&".wh.gone".to_owned()), "{kept:?}");
    }
}
