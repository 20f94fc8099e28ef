//! The order of file data in an image, and the sort file that defines it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::lex::{LineLexer, QuotingRules};
use crate::FileRank;
use crate::tree::{Ino, Kind};
use crate::{Error, Result, Tree, Warning, WarningKind};

/// A sort file: lines of a path in the image and a priority from -32768 to 32767, as in mksquashfs.
///
/// Paths are relative to the root of the image, with or without a leading slash; spaces in them are
/// quoted or escaped with a backslash. A directory's priority applies to all files below it without
/// one of their own. Of two lines for one file the last counts. Empty lines and those that begin
/// with `#` are ignored.
#[derive(Debug, Clone)]
pub struct SortFile {
    name: PathBuf,
    /// Path, priority and line.
    entries: Vec<(Vec<u8>, i16, u32)>,
}

impl SortFile {
    /// Parses the text of a sort file, called `name` in messages.
    pub fn parse(name: &Path, text: &[u8]) -> Result<Self> {
        let mut entries = Vec::new();
        for (number, line) in (1u32..).zip(text.split(|byte| *byte == b'\n')) {
            if let Some((path, priority)) = parse(line).map_err(|why| Error::Syntax {
                path: name.to_owned(),
                line: number,
                why: format!("{why}; expected: PATH PRIORITY"),
            })? {
                entries.push((path, priority, number));
            }
        }
        Ok(SortFile { name: name.to_owned(), entries })
    }

    /// Returns priorities by inode; lines that name no inode become warnings.
    fn resolve(&self, tree: &mut Tree) -> Result<HashMap<Ino, i16>> {
        let mut priorities = HashMap::new();
        for (path, priority, number) in &self.entries {
            // Only a warning: the path may be a mistake, but one sort file often serves several images.
            match tree.lookup(path) {
                Some(ino) => drop(priorities.insert(ino, *priority)),
                None => {
                    let detail = format!("line {number}: `{}`", path.escape_ascii());
                    tree.warnings.add(Warning::new(WarningKind::SortPathMissing, &self.name).with_detail(detail))?;
                }
            }
        }
        Ok(priorities)
    }
}

fn parse(line: &[u8]) -> std::result::Result<Option<(Vec<u8>, i16)>, String> {
    let mut line = LineLexer::new(line);
    if line.is_empty() || line.peek() == Some(b'#') {
        return Ok(None);
    }
    let path = line.word(QuotingRules::Pseudo)?;
    let word = line.bare().ok_or("the priority is missing")?;
    line.end()?;
    // As mksquashfs reads it, with a sign.
    let priority = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    let priority =
        priority.ok_or_else(|| format!("a priority must be from -32768 to 32767, not `{}`", word.escape_ascii()))?;
    Ok(Some((path, priority)))
}

/// Returns the ranks of the regular files that have a priority other than 0: the higher the priority, the lower the
/// rank.
///
/// Files passed to a store during listing already have their place; a [`Spool`](super::Spool) keeps them for later.
pub fn data_order(tree: &mut Tree, sort: &SortFile) -> Result<Vec<FileRank>> {
    let priorities = sort.resolve(tree)?;
    let mut ranks = Vec::new();
    // Priorities of the parent directories, the root's first.
    let mut way: Vec<i16> = Vec::new();
    // In the order of the tree, so that the priorities of the directories above are known.
    tree.walk(|ino, path| {
        let depth = if path.is_empty() { 0 } else { 1 + path.iter().filter(|byte| **byte == b'/').count() };
        way.truncate(depth);
        let inherited = way.last().copied().unwrap_or(0);
        let priority = priorities.get(&ino).copied().unwrap_or(inherited);
        match &tree.inode(ino).kind {
            Kind::Dir => way.push(priority),
            // Low ranks are written first, and files without a rank have 0.
            Kind::File { .. } if priority != 0 => ranks.push(FileRank { ino, rank: -i32::from(priority) }),
            _ => {}
        }
        Ok(())
    })?;
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Node, Piece, Spec};

    fn tree() -> Tree {
        let file = || Node::file(vec![Piece::Zeros(1)]);
        let dir = |names: &[&str]| Node::dir(names.iter().map(|name| (name.as_bytes().to_vec(), file())));
        let mut spec = Spec::of([
            (b"a".to_vec(), dir(&["x", "y"])),
            (b"b".to_vec(), dir(&["x", "with space"])),
            (b"c".to_vec(), file()),
            (b"empty".to_vec(), Node::file(vec![])),
        ]);
        spec.links = vec![(b"b/x".to_vec(), b"z".to_vec())];
        spec.tree().unwrap()
    }

    fn order(text: &str) -> (Vec<String>, Vec<String>) {
        let mut tree = tree();
        let sort = SortFile::parse(Path::new("sort"), text.as_bytes()).unwrap();
        let ranks = data_order(&mut tree, &sort).unwrap();
        let unknown = tree.warnings.kinds().flat_map(|(_, all)| all.first.iter().map(Warning::place)).collect();
        let mut files = Vec::new();
        tree.walk(|ino, path| {
            if matches!(tree.inode(ino).kind, Kind::File { .. }) {
                let rank = ranks.iter().find(|rank| rank.ino == ino).map_or(0, |rank| rank.rank);
                files.push((rank, String::from_utf8(path.to_vec()).unwrap()));
            }
            Ok(())
        })
        .unwrap();
        files.sort_by_key(|(rank, _)| *rank);
        (files.into_iter().map(|(_, path)| path).filter(|path| path != "empty").collect(), unknown)
    }

    #[test]
    fn files_are_ordered_by_priority_then_path() {
        let table = [
            ("", "a/x a/y b/with space b/x c"),
            ("c 1", "c a/x a/y b/with space b/x"),
            ("# comment\n\n  /b 5\nb/x -1\n", "b/with space a/x a/y c b/x"),
            ("a -32768\nb/with\\ space 32767\n\"a/y\" 7", "b/with space a/y b/x c a/x"),
            ("/ -3\na 0", "a/x a/y b/with space b/x c"),
            ("z 3", "b/x a/x a/y b/with space c"),
            ("c 1\nc -1", "a/x a/y b/with space b/x c"),
        ];
        for (text, expected) in table {
            assert_eq!(order(text).0.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn unknown_paths_are_reported_and_mistakes_are_located() {
        assert_eq!(order("gone 1\na/x 2\nb/gone 3").1, ["sort (line 1: `gone`)", "sort (line 3: `b/gone`)"]);
        for (text, expected) in [
            ("a", "sort:1: the priority is missing"),
            ("\na 32768", "sort:2: a priority must be from -32768 to 32767, not `32768`"),
            ("a b", "not `b`"),
            ("a 1 b", "unexpected `b` at the end"),
            ("\"a 1", "a quote is not closed"),
        ] {
            let error = SortFile::parse(Path::new("sort"), text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected) && error.ends_with("expected: PATH PRIORITY"), "{text}: {error}");
        }
    }
}
