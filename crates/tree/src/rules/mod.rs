//! Rules for single entries of a tree: tests that choose entries, and effects on those (`build --rules`).
//!
//! `docs/guide/rules.md` describes the language. `parse` reads it, `test` tests entries, `select` finds the rules of each
//! entry, and `apply` carries out their effects.

mod apply;
mod parse;
mod select;
mod test;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

pub use self::apply::SelectedEntries;
use self::test::{EntryTest, TestedEntry};
use crate::RecipeTable;
use crate::tree::{DataHandling, ExcludeXattrs, FileRecipe, ModeChange, Time, shifted};
use crate::{Error, Result};

/// Rules, in the order of their lines. Of two rules that set the same attribute of an entry the later one wins.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<TreeRule>,
    keys: RuleIndex,
    recipes: RecipeTable,
}

/// One rule.
#[derive(Debug)]
struct TreeRule {
    at: RuleLocation,
    /// The tests, all of which have to hold.
    tests: Vec<EntryTest>,
    effects: RuleEffects,
}

/// Place of a rule, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RuleLocation {
    file: PathBuf,
    number: u32,
    text: String,
}

/// Number of entries that a rule matched, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleMatchCount {
    /// The file of the rule, or the option that gave it.
    pub file: PathBuf,
    /// The line in it, counted from 1.
    pub line: u32,
    /// The rule as it is written.
    pub rule: String,
    /// Number of names that it matched.
    pub entries: u64,
}

/// Effects of a rule.
#[derive(Debug, Default)]
struct RuleEffects {
    exclude: bool,
    /// Directories to leave out if nothing is in them.
    exclude_empty: Option<EmptyReason>,
    /// True if later rules do not apply.
    stop: bool,
    handling: DataHandling,
    /// 0 leaves the codec or the cluster size as it is.
    recipe: FileRecipe,
    priority: Option<i32>,
    uid: IdChange,
    gid: IdChange,
    mode: Option<ModeChange>,
    mtime: Option<Time>,
    xattrs: Vec<XattrChange>,
}

impl RuleEffects {
    /// Returns the owner and group that these become.
    fn owner(&self, uid: u32, gid: u32) -> std::result::Result<(u32, u32), String> {
        Ok((self.uid.apply("owner", uid)?, self.gid.apply("group", gid)?))
    }

    /// Returns true if the entry at `path` is left out. The root never is.
    fn excludes(&self, path: &[u8]) -> bool {
        self.exclude && !path.is_empty()
    }
}

/// Reasons why a directory is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EmptyReason {
    Any,
    /// It is empty in the source.
    Source,
    /// Rules left out what was in it.
    Excluded,
}

impl EmptyReason {
    /// Returns true if this is why a directory is empty that was empty before entries were left out, or not.
    fn covers(self, before: bool) -> bool {
        match self {
            EmptyReason::Any => true,
            EmptyReason::Source => before,
            EmptyReason::Excluded => !before,
        }
    }
}

/// Change to an owner or a group.
#[derive(Debug, Clone, Copy, Default)]
enum IdChange {
    #[default]
    Keep,
    Set(u32),
    /// Added to the one that is there.
    Shift(i64),
}

impl IdChange {
    /// Returns the owner or group that `id` becomes; the message for one that is too large or too small.
    fn apply(self, what: &str, id: u32) -> std::result::Result<u32, String> {
        match self {
            IdChange::Keep => Ok(id),
            IdChange::Set(id) => Ok(id),
            IdChange::Shift(offset) => shifted(what, id, offset),
        }
    }
}

/// Change to the extended attributes of an entry.
#[derive(Debug)]
enum XattrChange {
    Set(Box<[u8]>, Box<[u8]>),
    Drop(ExcludeXattrs),
}

/// Rules by the path that they name, so that not every rule is tried on every entry; both lists in the order of the rules.
#[derive(Debug, Default)]
struct RuleIndex {
    by_path: HashMap<Box<[u8]>, Vec<usize>>,
    others: Vec<usize>,
}

impl Rules {
    /// Parses texts, each with the name that messages give it. Fails with [`Error::Syntax`], which names the line.
    pub fn parse<'t>(texts: impl IntoIterator<Item = (&'t Path, &'t [u8])>) -> Result<Self> {
        let mut rules = Vec::new();
        let mut keys = RuleIndex::default();
        // One table for all texts: a codec has one number, whoever names it.
        let mut recipes = RecipeTable::default();
        for (file, text) in texts {
            for (number, line) in (1u32..).zip(text.split(|byte| *byte == b'\n')) {
                let wrong = |why| Error::Syntax { path: file.to_owned(), line: number, why };
                let Some(parsed) = parse::parse_line(line, &mut recipes).map_err(wrong)? else { continue };
                let at = RuleLocation { file: file.to_owned(), number, text: parse::show_line(line) };
                let (tests, path) = parse::split_path(parsed.tests);
                match path {
                    Some(path) => keys.by_path.entry(path).or_default().push(rules.len()),
                    None => keys.others.push(rules.len()),
                }
                rules.push(TreeRule { at, tests, effects: parsed.effects });
            }
        }
        Ok(Rules { rules, keys, recipes })
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns true if a rule decides how or where data is stored, or looks into files: the data of all files has to be
    /// there for it, not only their names.
    pub fn need_data(&self) -> bool {
        self.handle_data()
            || self.rules.iter().any(|rule| rule.effects.priority.is_some() || rule.tests.iter().any(EntryTest::reads))
    }

    /// Returns true if a rule decides how data is stored.
    pub fn handle_data(&self) -> bool {
        !self.recipes.is_empty() || self.rules.iter().any(|rule| !rule.effects.handling.is_empty())
    }

    /// Returns the codecs and cluster sizes that rules give to files, for the options of a build.
    pub fn recipes(&self) -> &RecipeTable {
        &self.recipes
    }

    /// Returns the numbers of the rules whose tests an entry passes, up to one that stops, in their order.
    fn matching_rules(&self, subject: &mut TestedEntry<'_>) -> Vec<usize> {
        let RuleIndex { by_path, others } = &self.keys;
        // Both lists are in the order of the rules, so that they can be merged by number.
        let named = by_path.get(subject.path).map_or(&[][..], Vec::as_slice);
        let mut named = named.iter().peekable();
        let mut others = others.iter().peekable();
        let mut found = Vec::new();
        loop {
            // The rule that comes first in the files: what it does may be replaced by the other.
            let next = match (named.peek(), others.peek()) {
                (Some(first), Some(other)) if first > other => others.next(),
                (Some(_), _) => named.next(),
                (None, _) => others.next(),
            };
            let Some(&n) = next else { break };
            let rule = &self.rules[n];
            if rule.tests.iter().all(|test| test.passes(subject)) {
                found.push(n);
                // What is left out needs no further rules.
                if rule.effects.stop || rule.effects.excludes(subject.path) {
                    break;
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
