//! Carries out the effects of rules.

use std::collections::HashMap;

use super::select::Combinations;
use super::{Matches, Rules, XattrChange};
use crate::build::Rank;
use crate::tree::{Ino, Kind, Recipe, Tree, XattrId};
use crate::{Error, Result};

/// Entries of a tree with the rules that they match.
#[derive(Debug)]
pub struct Selected<'r> {
    pub(super) rules: &'r Rules,
    pub(super) entries: Vec<(Ino, u32)>,
    pub(super) combinations: Combinations,
    pub(super) matches: Vec<Matches>,
}

impl Recipe {
    /// Returns this recipe, changed by a later one.
    fn then(self, later: Recipe) -> Recipe {
        let last = |first: u8, last: u8| if last == 0 { first } else { last };
        Recipe { codec: last(self.codec, later.codec), cluster: last(self.cluster, later.cluster) }
    }
}

impl Selected<'_> {
    /// Returns how many names each rule matched, in the order of the rules.
    pub fn matches(&self) -> &[Matches] {
        &self.matches
    }

    /// Changes the entries, and returns the ranks of the files that have a priority. The tree is that of
    /// [`Rules::select`], with no inodes renumbered. Fails if a rule shifts an owner out of 32 bits.
    pub fn apply(&self, tree: &mut Tree) -> Result<Vec<Rank>> {
        let (mut ranks, mut sets) = (Vec::new(), HashMap::new());
        for &(ino, combination) in &self.entries {
            let (mut priority, mut changes_xattrs) = (None, false);
            for rule in self.combinations.get(combination) {
                let effects = &self.rules.rules[*rule].effects;
                changes_xattrs |= !effects.xattrs.is_empty();
                priority = effects.priority.or(priority);
                let inode = tree.inode_mut(ino);
                match effects.owner(inode.uid, inode.gid) {
                    Ok(owner) => (inode.uid, inode.gid) = owner,
                    Err(why) => return Err(Error::limit(tree.path_of(ino), why)),
                }
                inode.mtime = effects.mtime.unwrap_or(inode.mtime);
                inode.handling |= effects.handling;
                inode.recipe = inode.recipe.then(effects.recipe);
                if let (Some(mode), false) = (&effects.mode, matches!(inode.kind, Kind::Symlink(_))) {
                    inode.mode = mode.apply(inode.mode, matches!(inode.kind, Kind::Dir(_)));
                }
            }
            if changes_xattrs {
                let before = tree.inode(ino).xattrs;
                let after =
                    *sets.entry((before, combination)).or_insert_with(|| self.xattrs(tree, before, combination));
                tree.inode_mut(ino).xattrs = after;
            }
            if let (Some(priority), Kind::File { .. }) = (priority, &tree.inode(ino).kind) {
                ranks.push(Rank { ino, rank: -priority });
            }
        }
        Ok(ranks)
    }

    /// Returns the set that rules make of another one.
    fn xattrs(&self, tree: &mut Tree, before: XattrId, combination: u32) -> XattrId {
        let mut set = tree.xattrs.get(before).clone();
        let rules = self.combinations.get(combination);
        for change in rules.iter().flat_map(|rule| &self.rules.rules[*rule].effects.xattrs) {
            match change {
                XattrChange::Set(name, value) => set.push((name.clone(), value.clone())),
                XattrChange::Drop(names) => set.retain(|(name, _)| !names.matches(name)),
            }
        }
        tree.xattrs.intern(set)
    }
}
