//! Carries out the effects of rules.

use std::collections::HashMap;

use super::select::RuleCombinations;
use super::{RuleEffects, RuleMatchCount, Rules, XattrChange};
use crate::FileRank;
use crate::tree::{FileRecipe, Ino, Inode, InodeAttributes, Kind, ReducedSet, Tree, XattrId, acl};
use crate::{Error, Result};

/// Entries of a tree with the rules that they match.
#[derive(Debug)]
pub struct SelectedEntries<'r> {
    pub(super) rules: &'r Rules,
    pub(super) entries: Vec<(Ino, u32)>,
    pub(super) combinations: RuleCombinations,
    pub(super) matches: Vec<RuleMatchCount>,
}

impl FileRecipe {
    /// Returns this recipe, changed by a later one.
    fn then(self, later: FileRecipe) -> FileRecipe {
        // 0 leaves it to the image, so it replaces nothing.
        let last = |first: u8, last: u8| if last == 0 { first } else { last };
        FileRecipe { codec: last(self.codec, later.codec), cluster: last(self.cluster, later.cluster) }
    }
}

impl SelectedEntries<'_> {
    /// Returns how many names each rule matched, in the order of the rules.
    pub fn matches(&self) -> &[RuleMatchCount] {
        &self.matches
    }

    /// Changes the entries, and returns the ranks of the files that have a priority. The tree is that of
    /// [`Rules::select`], with no inodes renumbered. Fails if a rule shifts an owner out of 32 bits.
    pub fn apply(&self, tree: &mut Tree) -> Result<Vec<FileRank>> {
        let mut ranks = Vec::new();
        // Entries with equal attributes and equal rules share the result, which is made once.
        let mut sets = HashMap::new();
        for &(ino, combination) in &self.entries {
            let mut priority = None;
            let rules = self.combinations.get(combination);
            let effects = || rules.iter().map(|rule| &self.rules.rules[*rule].effects);
            // Before the mode: without its ACL an inode keeps fewer permissions, unless a rule sets them.
            if effects().any(|effects| !effects.xattrs.is_empty()) {
                let meta = tree.meta(ino);
                let reduced = *sets
                    .entry((meta.xattrs, combination))
                    .or_insert_with(|| self.xattrs(tree, meta.xattrs, combination));
                tree.set_meta(ino, InodeAttributes { xattrs: reduced.id, mode: meta.mode & reduced.mode_bits, ..meta });
            }
            for effects in effects() {
                priority = effects.priority.or(priority);
                effects.change(tree, ino)?;
            }
            if let (Some(priority), Kind::File { .. }) = (priority, tree.inode(ino).kind) {
                // The highest priority first, while ranks ascend.
                ranks.push(FileRank { ino, rank: -priority });
            }
        }
        Ok(ranks)
    }

    /// Returns the set that rules make of another one.
    fn xattrs(&self, tree: &mut Tree, before: XattrId, combination: u32) -> ReducedSet {
        let before = tree.xattrs.get(before).clone();
        let mut set = before.clone();
        let rules = self.combinations.get(combination);
        for change in rules.iter().flat_map(|rule| &self.rules.rules[*rule].effects.xattrs) {
            match change {
                // Of two with one name, the later one is kept when the set is interned.
                XattrChange::Set(name, value) => set.push((name.clone(), value.clone())),
                XattrChange::Drop(names) => set.retain(|(name, _)| !names.matches(name)),
            }
        }
        let mode_bits = acl::kept_mode_bits(&before, &set);
        ReducedSet { id: tree.xattrs.intern(set), mode_bits }
    }
}

impl RuleEffects {
    /// Changes an entry, but for its extended attributes.
    fn change(&self, tree: &mut Tree, ino: Ino) -> Result<()> {
        let inode = tree.inode(ino);
        let owner = self.owner(inode.uid, inode.gid);
        let (uid, gid) = owner.map_err(|why| Error::limit(tree.path_of(ino), why))?;
        let mode = match (&self.mode, &inode.kind) {
            // Linux has no permissions of symbolic links.
            (None, _) | (_, Kind::Symlink(_)) => inode.mode,
            (Some(mode), kind) => mode.apply(inode.mode, matches!(kind, Kind::Dir)),
        };
        let Inode { mtime, xattrs, handling, recipe, .. } = inode;
        tree.change_meta(ino, InodeAttributes { mode, uid, gid, mtime: self.mtime.unwrap_or(mtime), xattrs });
        tree.set_storing(ino, handling.then(self.handling), recipe.then(self.recipe));
        Ok(())
    }
}
