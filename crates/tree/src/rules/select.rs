//! Finds the rules of each entry of a tree, and takes out those that rules exclude.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{EmptyReason, RuleMatchCount, Rules, SelectedEntries, TestedEntry};
use crate::tree::{Ino, Kind, ROOT};
use crate::{Result, Tree, Warning, WarningKind};

/// Combinations of rules, each stored once.
#[derive(Debug, Default)]
pub(super) struct RuleCombinations {
    list: Vec<Vec<usize>>,
    known: HashMap<Vec<usize>, u32>,
}

impl RuleCombinations {
    fn number(&mut self, rules: Vec<usize>) -> u32 {
        let next = u32::try_from(self.list.len()).expect("fewer combinations than entries");
        // Few combinations serve millions of entries.
        *self.known.entry(rules.clone()).or_insert_with(|| {
            self.list.push(rules);
            next
        })
    }

    pub(super) fn get(&self, number: u32) -> &[usize] {
        &self.list[number as usize]
    }
}

impl Rules {
    /// Tests all entries, removes those that a rule excludes, and returns the rest for [`SelectedEntries::apply`]. A
    /// rule that matches nothing becomes a warning.
    ///
    /// Tests see each name of the tree as it is now; what a file with several names gets is what all its names get
    /// together. The root can be changed, but not excluded.
    pub fn select(&self, tree: &mut Tree) -> Result<SelectedEntries<'_>> {
        // Everything is tested before anything changes, so that no rule sees the effects of another.
        let TestedTree { mut entries, linked, mut combinations, excluded, hollow, counts } = self.find(tree);
        for (ino, rules) in linked {
            entries.push((ino, combinations.number(rules.into_iter().collect())));
        }
        for (dir, name) in excluded {
            tree.remove(dir, &name)?;
        }
        // What is in a directory comes after it.
        for HollowDir { dir, name, ino, before, reasons } in hollow.into_iter().rev() {
            if tree.entries(ino).next().is_none() && reasons.iter().any(|reason| reason.covers(before)) {
                tree.remove(dir, &name)?;
            }
        }
        let lines = self.rules.iter().zip(&counts);
        let matches: Vec<RuleMatchCount> = lines.map(|(rule, count)| rule.at.matched(*count)).collect();
        for unused in matches.iter().filter(|rule| rule.entries == 0) {
            let detail = format!("line {}: {}", unused.line, unused.rule);
            tree.warnings.add(Warning::new(WarningKind::RuleMatchesNothing, &unused.file).with_detail(detail))?;
        }
        Ok(SelectedEntries { rules: self, entries, combinations, matches })
    }

    /// Tests all entries.
    fn find(&self, tree: &Tree) -> TestedTree {
        let mut found = TestedTree { counts: vec![0; self.rules.len()], ..TestedTree::default() };
        // The root has no name, so the walk over names does not visit it.
        self.visit(tree, ROOT, b"", &mut found);
        tree.each_name(|dir, name, ino, path| {
            let Some(reasons) = self.visit(tree, ino, path, &mut found) else {
                found.excluded.push((dir, name.into()));
                // What is below goes with it, untested.
                return false;
            };
            if !reasons.is_empty() && matches!(tree.inode(ino).kind, Kind::Dir) {
                // Asked before anything is removed.
                let before = tree.entries(ino).next().is_none();
                found.hollow.push(HollowDir { dir, name: name.into(), ino, before, reasons });
            }
            true
        });
        found
    }

    /// Notes the rules of an entry. Returns the reasons for which it is left out if it is an empty directory; `None` if it is
    /// excluded.
    fn visit(&self, tree: &Tree, ino: Ino, path: &[u8], found: &mut TestedTree) -> Option<Vec<EmptyReason>> {
        let inode = tree.inode(ino);
        let rules = self.matching_rules(&mut TestedEntry { path, inode: &inode, head: None });
        rules.iter().for_each(|rule| found.counts[*rule] += 1);
        if rules.iter().any(|rule| self.rules[*rule].effects.excludes(path)) {
            return None;
        }
        let reasons = rules.iter().filter_map(|rule| self.rules[*rule].effects.exclude_empty).collect();
        // All names together decide about a file, so it is done when every name was seen.
        if inode.links > 1 && !rules.is_empty() {
            found.linked.entry(ino).or_default().extend(rules);
        } else if !rules.is_empty() {
            let number = found.combinations.number(rules);
            found.entries.push((ino, number));
        }
        Some(reasons)
    }
}

/// Result of testing all entries.
#[derive(Debug, Default)]
struct TestedTree {
    /// Entries with one name, and the combination of rules of each.
    entries: Vec<(Ino, u32)>,
    /// Files with several names, and the rules of all of them.
    linked: BTreeMap<Ino, BTreeSet<usize>>,
    combinations: RuleCombinations,
    /// Names to remove.
    excluded: Vec<(Ino, Box<[u8]>)>,
    /// Directories to remove if they are empty, each before those in it.
    hollow: Vec<HollowDir>,
    counts: Vec<u64>,
}

/// A directory to remove if it is empty.
#[derive(Debug)]
struct HollowDir {
    dir: Ino,
    name: Box<[u8]>,
    ino: Ino,
    /// True if it was empty before entries were left out.
    before: bool,
    reasons: Vec<EmptyReason>,
}

impl super::RuleLocation {
    fn matched(&self, entries: u64) -> RuleMatchCount {
        RuleMatchCount { file: self.file.clone(), line: self.number, rule: self.text.clone(), entries }
    }
}
