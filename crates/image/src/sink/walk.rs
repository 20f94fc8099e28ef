//! Walks an image: every entry, or the entries selected by paths, depth first in name order.
//!
//! Every sink is based on it. It needs no recursion and trusts nothing: names are checked, a
//! directory is entered once, and depth is limited, so that a walk over a hostile image ends.

use std::collections::HashSet;
use std::path::PathBuf;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

use super::lookup::{lookup, trace};
use super::{EntryDecision, Selection};
use crate::image::{Entry, FileType, Image, Nid, Stat};
use crate::name;
use crate::source::ExcludeRules;
use crate::tree::{check_name, components, normal_path, path_of, push_name};
use crate::{Error, Result};
use packfs_blocks::system::OsStrExt;
use packfs_tree::regex::RegexSet;

/// Maximum depth of directories; deeper than any path that a program could use.
const MAX_DEPTH: usize = 4096;

/// Maximum number of bytes in a path; sixteen times what Linux accepts in one call.
const MAX_PATH: usize = 1 << 16;

/// Walks an image.
#[derive(Debug)]
pub struct Walk<'i> {
    image: &'i dyn Image,
    paths: SelectedPaths,
    exclude: ExcludeRules,
    /// Letters of types that are left out.
    without: Vec<u8>,
    prune: bool,
    decide: EntryDecision,
    max_depth: usize,
    /// The directories from the root down to the current one.
    levels: Vec<WalkLevel>,
    /// Number of `levels` already reported: ancestors wait until something below is selected, and so do directories
    /// that may turn out to be empty.
    told: usize,
    /// The next entry to report, while its ancestors come first.
    found: Option<VisitedEntry>,
    /// Path in the image of the current entry.
    path: Vec<u8>,
    /// The same path with the new names of renamed entries.
    told_path: Vec<u8>,
    entered: HashSet<Nid>,
    started: bool,
}

/// An entry visited on a [`Walk`].
#[derive(Debug)]
pub struct Visit<'w> {
    /// Its path with the names that [`Selection::decide`] gives, without a leading slash; the root's is empty.
    pub path: &'w [u8],
    /// The last component of `path`.
    pub name: &'w [u8],
    /// Number of components of `path`.
    pub depth: usize,
    /// Its inode.
    pub nid: Nid,
    /// The attributes of the inode.
    pub stat: Stat,
    /// True if it was selected; otherwise it is a parent directory of a selected entry.
    pub selected: bool,
}

#[derive(Debug)]
struct WalkLevel {
    entries: std::vec::IntoIter<Entry>,
    path_len: usize,
    told_len: usize,
    selected: bool,
    waiting: Option<(Nid, Stat)>,
}

#[derive(Debug)]
struct VisitedEntry {
    nid: Nid,
    stat: Stat,
    name_len: usize,
}

impl Visit<'_> {
    /// Returns the entry without the first `count` components of its path; `None` if it has fewer.
    /// A directory with exactly that many becomes the root.
    pub fn strip(self, count: usize) -> Option<Self> {
        let depth = self.depth.checked_sub(count)?;
        let mut path = self.path;
        for _ in 0..count {
            let end = path.iter().position(|byte| *byte == b'/').map_or(path.len(), |slash| slash + 1);
            path = &path[end..];
        }
        let is_root = depth == 0;
        (!is_root || self.stat.kind == FileType::Dir).then_some(Visit {
            path,
            name: if is_root { b"" } else { self.name },
            depth,
            ..self
        })
    }
}

impl<'i> Walk<'i> {
    /// Begins a walk over the entries that `paths` select, each with everything below; without
    /// paths, over everything.
    ///
    /// A path is one in the image. If it does not exist and contains one of `*?[{`, it is a glob,
    /// whose `*` and `?` do not match `/`. A path that selects nothing is an error, for a glob at
    /// the end of the walk.
    pub fn new(image: &'i dyn Image, paths: &[PathBuf]) -> Result<Self> {
        Self::over(image, &Selection::from(paths.to_vec()))
    }

    /// As [`Walk::new`], over a selection.
    pub fn over(image: &'i dyn Image, select: &Selection) -> Result<Self> {
        Ok(Walk {
            paths: SelectedPaths::new(image, select)?,
            exclude: select.exclude.clone(),
            without: select.without_types.clone(),
            prune: select.without_empty_dirs,
            decide: select.decide.clone(),
            max_depth: select.max_depth.unwrap_or(usize::MAX),
            image,
            levels: Vec::new(),
            told: 0,
            found: None,
            path: Vec::new(),
            told_path: Vec::new(),
            entered: HashSet::new(),
            started: false,
        })
    }

    /// Returns the next entry: a directory before its entries. `None` at the end. After an error
    /// the walk can continue with the next entry.
    pub fn step(&mut self) -> Result<Option<Visit<'_>>> {
        if !std::mem::replace(&mut self.started, true) {
            self.begin()?;
        }
        loop {
            while self.found.is_none() {
                if !self.advance()? {
                    self.paths.all_found()?;
                    return Ok(None);
                }
            }
            match self.found.take_if(|found| self.prune && found.stat.kind == FileType::Dir) {
                // It waits until something is found below.
                Some(dir) => self.enter(dir.nid, true, Some((dir.nid, dir.stat)))?,
                None => return self.tell(),
            }
        }
    }

    /// Skips the entries of the directory returned last.
    pub fn leave(&mut self) {
        // Levels below it may have been entered already, on the way to something to report.
        self.levels.truncate(self.told.saturating_sub(1));
        self.told = self.levels.len();
        self.found = None;
    }

    fn begin(&mut self) -> Result<()> {
        let nid = self.image.root();
        let stat = self.image.stat(nid)?;
        let selected = self.paths.selects(b"");
        if selected && self.prune {
            self.enter(nid, true, Some((nid, stat)))
        } else if selected {
            self.found = Some(VisitedEntry { nid, stat, name_len: 0 });
            Ok(())
        } else {
            self.enter(nid, false, Some((nid, stat)))
        }
    }

    /// Advances by one entry. Returns false at the end.
    fn advance(&mut self) -> Result<bool> {
        let Some(level) = self.levels.last_mut() else { return Ok(false) };
        self.path.truncate(level.path_len);
        self.told_path.truncate(level.told_len);
        let Some(entry) = level.entries.next() else {
            self.levels.pop();
            self.told = self.told.min(self.levels.len());
            return Ok(true);
        };
        let below_selected = level.selected;
        check_name(&entry.name)?;
        push_name(&mut self.path, &entry.name);
        if self.path.len() > MAX_PATH {
            return Err(Error::Damaged { path: path_of(&self.path), why: "a path of more than 65,536 bytes".into() });
        }
        let selected = below_selected || self.paths.selects(&self.path);
        if !selected && !self.paths.may_select_below(&self.path) {
            return Ok(true);
        }
        let Entry { name, nid } = entry;
        let stat = self.image.stat(nid).map_err(|error| error.in_entry(&self.path))?;
        let is_dir = stat.kind == FileType::Dir;
        // An entry that is not selected matters only as the way to others.
        let wrong_type = if selected { self.without.contains(&stat.kind.letter()) } else { !is_dir };
        if wrong_type || self.exclude.matches(&self.path, is_dir) {
            return Ok(true);
        }
        let Some(name) = self.decide.name(&self.path, name, &stat)? else { return Ok(true) };
        push_name(&mut self.told_path, &name);
        if selected {
            self.found = Some(VisitedEntry { nid, stat, name_len: name.len() });
        } else {
            self.enter(nid, false, Some((nid, stat)))?;
        }
        Ok(true)
    }

    /// Returns the entry that was found, after its parent directories.
    fn tell(&mut self) -> Result<Option<Visit<'_>>> {
        if let Some(level) = self.levels.get_mut(self.told) {
            self.told += 1;
            if let Some((nid, stat)) = level.waiting.take() {
                let path = self.told_path.get(..level.told_len).unwrap_or_default();
                let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                return Ok(Some(Visit { path, name, depth: self.told - 1, nid, stat, selected: level.selected }));
            }
        }
        let Some(VisitedEntry { nid, stat, name_len }) = self.found.take() else { return Ok(None) };
        let depth = self.levels.len();
        if stat.kind == FileType::Dir {
            self.enter(nid, true, None)?;
            self.told = self.levels.len();
        }
        let path = &*self.told_path;
        let name = path.get(path.len() - name_len..).unwrap_or_default();
        Ok(Some(Visit { path, name, depth, nid, stat, selected: true }))
    }

    /// Returns the entries of a directory with these names: its index finds them without reading all others.
    fn find(&self, dir: Nid, names: Vec<Box<[u8]>>) -> Result<Vec<Entry>> {
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            if let Some(nid) = self.image.lookup(dir, &name)? {
                entries.push(Entry { name, nid });
            }
        }
        Ok(entries)
    }

    fn enter(&mut self, nid: Nid, selected: bool, waiting: Option<(Nid, Stat)>) -> Result<()> {
        let damaged = |why: &str| Error::Damaged { path: path_of(&self.path), why: why.into() };
        if self.levels.len() > MAX_DEPTH {
            return Err(damaged("a directory more than 4,096 levels deep"));
        }
        if !self.entered.insert(nid) {
            return Err(damaged(
                "a directory that appears in a second place: the tree has a loop or shares a directory",
            ));
        }
        let names = if selected { None } else { self.paths.names_below(&self.path) };
        let entries = match names {
            _ if self.levels.len() >= self.max_depth => Vec::new(),
            Some(names) => self.find(nid, names)?,
            None => self.image.read_dir(nid).map_err(|error| error.in_entry(&self.path))?,
        };
        let path_len = self.path.len();
        let told_len = self.told_path.len();
        self.levels.push(WalkLevel { entries: entries.into_iter(), path_len, told_len, selected, waiting });
        Ok(())
    }
}

/// The user's selection.
#[derive(Debug)]
struct SelectedPaths {
    everything: bool,
    /// Existing paths, without needless slashes and dots, sorted.
    exact: Vec<Vec<u8>>,
    globs: GlobSet,
    patterns: Vec<(PathBuf, bool)>,
    /// Expressions as given and compiled; true if they selected something.
    regexes: Vec<(String, RegexSet, bool)>,
    may_miss: bool,
    scratch: Vec<usize>,
}

impl SelectedPaths {
    fn new(image: &dyn Image, select: &Selection) -> Result<Self> {
        let Selection { paths, regexes, may_miss, .. } = select;
        let mut exact = Vec::new();
        let mut patterns = Vec::new();
        let mut globs = GlobSetBuilder::new();
        for path in paths {
            let bytes = path.as_os_str().as_bytes();
            let clean = normal_path(bytes);
            if select.follow {
                match trace(image, bytes) {
                    Ok(Some(found)) => {
                        exact.extend(found);
                        continue;
                    }
                    Ok(None) => {}
                    Err(Error::LinkLoop { .. }) if *may_miss => {}
                    Err(error) => return Err(error),
                }
            }
            if components(bytes).any(|name| name == b"..") {
                return Err(Error::pattern(name::display(path), "is not a path in an image: it has `..`"));
            }
            // A link that leads nowhere is as good as none.
            if lookup(image, bytes)?.is_some() && (*may_miss || !select.follow) {
                exact.push(clean);
            } else if let Some(pattern) = std::str::from_utf8(&clean).ok().filter(|p| p.contains(['*', '?', '[', '{']))
            {
                let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
                globs
                    .add(glob.map_err(|e| Error::pattern(name::display(path), format!("is malformed: {}", e.kind())))?);
                patterns.push((path.clone(), false));
            } else if !*may_miss {
                return Err(missing(path));
            }
        }
        exact.sort();
        let globs = globs.build().map_err(|e| Error::pattern("", e.to_string()))?;
        let everything = paths.is_empty() && regexes.is_empty();
        let compiled = |regex: &String| Ok((regex.clone(), RegexSet::new(&[regex])?, false));
        let regexes = regexes.iter().map(compiled).collect::<Result<_>>()?;
        Ok(SelectedPaths { everything, exact, globs, patterns, regexes, may_miss: *may_miss, scratch: Vec::new() })
    }

    /// Returns the names in `dir` that lead to something selected, in order; `None` if any name may do so.
    fn names_below(&self, dir: &[u8]) -> Option<Vec<Box<[u8]>>> {
        if self.everything || self.has_patterns() {
            return None;
        }
        let prefix_len = if dir.is_empty() { 0 } else { dir.len() + 1 };
        let first_name = |path: &Vec<u8>| components(&path[prefix_len..]).next().map(Box::from);
        let mut names: Vec<Box<[u8]>> = self.exact_below(dir).iter().filter_map(first_name).collect();
        names.sort();
        names.dedup();
        Some(names)
    }

    /// Returns the paths below a directory, which follow each other in the order of their bytes.
    fn exact_below(&self, dir: &[u8]) -> &[Vec<u8>] {
        if dir.is_empty() {
            return &self.exact;
        }
        let prefix = [dir, b"/"].concat();
        let rest = &self.exact[self.exact.partition_point(|path| **path < *prefix)..];
        &rest[..rest.partition_point(|path| path.starts_with(&prefix))]
    }

    fn selects(&mut self, path: &[u8]) -> bool {
        if self.everything || self.exact.binary_search_by(|exact| (**exact).cmp(path)).is_ok() {
            return true;
        }
        // The root has no name that a pattern could match.
        if path.is_empty() {
            return false;
        }
        self.globs.matches_candidate_into(&Candidate::from_bytes(path), &mut self.scratch);
        // All that match are noted, not only the first: each pattern has to select something.
        for at in &self.scratch {
            if let Some((_, found)) = self.patterns.get_mut(*at) {
                *found = true;
            }
        }
        let mut is_match = !self.scratch.is_empty();
        for (_, regex, found) in &mut self.regexes {
            if regex.is_match(path) {
                (*found, is_match) = (true, true);
            }
        }
        is_match
    }

    /// Returns true if a glob or a regular expression may select entries anywhere.
    fn has_patterns(&self) -> bool {
        !self.patterns.is_empty() || !self.regexes.is_empty()
    }

    /// Returns true if something below `dir`, which is not selected itself, may be selected.
    fn may_select_below(&self, dir: &[u8]) -> bool {
        self.has_patterns() || !self.exact_below(dir).is_empty()
    }

    /// Reports each glob and each regular expression that selected nothing, once.
    fn all_found(&mut self) -> Result<()> {
        if self.may_miss {
            return Ok(());
        }
        if let Some((glob, found)) = self.patterns.iter_mut().find(|(_, found)| !found) {
            *found = true;
            return Err(missing(glob));
        }
        if let Some((regex, _, found)) = self.regexes.iter_mut().find(|(_, _, found)| !found) {
            *found = true;
            return Err(Error::NoMatch { regex: regex.clone() });
        }
        Ok(())
    }
}

fn missing(path: &std::path::Path) -> Error {
    Error::NotFound { path: path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::fake::FakeImage;

    fn image() -> FakeImage {
        let image = FakeImage::default().dir(0, &[("a", 1), ("a.b", 2), ("d", 3), ("e[1]", 8)]);
        let image = image.dir(1, &[("x", 4), ("y", 5)]).file(2, b"").dir(3, &[("deep", 6)]);
        image.file(4, b"").file(5, b"").dir(6, &[("x", 7)]).file(7, b"").file(8, b"")
    }

    /// Returns the paths visited, with parent directories in brackets.
    fn visited(image: &FakeImage, paths: &[&str]) -> Result<Vec<String>> {
        visited_of(image, &Selection::from(paths.iter().map(PathBuf::from).collect::<Vec<_>>()))
    }

    fn visited_of(image: &FakeImage, select: &Selection) -> Result<Vec<String>> {
        let mut walk = Walk::over(image, select)?;
        let mut out = Vec::new();
        while let Some(visit) = walk.step()? {
            let path = String::from_utf8_lossy(visit.path).into_owned();
            assert_eq!(visit.depth, components(visit.path).count());
            assert_eq!(Some(visit.name), path.as_bytes().rsplit(|byte| *byte == b'/').next());
            out.push(if visit.selected { path } else { format!("({path})") });
        }
        Ok(out)
    }

    #[test]
    fn paths_below_a_directory_are_found_among_their_neighbours() {
        let paths = ["a", "a-b", "a.b/x", "a/x", "a/y", "a/y/z", "a0", "b/c"];
        let mut exact: Vec<Vec<u8>> = paths.map(|path| path.as_bytes().to_vec()).into();
        exact.sort();
        let selected = SelectedPaths {
            everything: false,
            exact,
            globs: GlobSet::empty(),
            patterns: Vec::new(),
            regexes: Vec::new(),
            may_miss: false,
            scratch: Vec::new(),
        };
        for (dir, below) in [
            ("", &["a", "a-b", "a.b/x", "a/x", "a/y", "a/y/z", "a0", "b/c"][..]),
            ("a", &["a/x", "a/y", "a/y/z"]),
            ("a/y", &["a/y/z"]),
            ("a.b", &["a.b/x"]),
            ("a-b", &[]),
            ("c", &[]),
        ] {
            let found: Vec<&str> =
                selected.exact_below(dir.as_bytes()).iter().map(|path| std::str::from_utf8(path).unwrap()).collect();
            assert_eq!(found, below, "{dir}");
        }
        let names = |dir: &[u8]| selected.names_below(dir).unwrap();
        let expected = |names: &[&str]| names.iter().map(|name| Box::from(name.as_bytes())).collect::<Vec<Box<[u8]>>>();
        assert_eq!(names(b""), expected(&["a", "a-b", "a.b", "a0", "b"]));
        assert_eq!((names(b"a"), names(b"a0")), (expected(&["x", "y"]), expected(&[])));
    }

    #[test]
    fn paths_and_globs_select_with_everything_below_and_the_way_there() {
        let cases: [(&[&str], &[&str]); 12] = [
            (&[], &["", "a", "a/x", "a/y", "a.b", "d", "d/deep", "d/deep/x", "e[1]"]),
            (&["/"], &["", "a", "a/x", "a/y", "a.b", "d", "d/deep", "d/deep/x", "e[1]"]),
            (&["a"], &["()", "a", "a/x", "a/y"]),
            (&["*"], &["()", "a", "a/x", "a/y", "a.b", "d", "d/deep", "d/deep/x", "e[1]"]),
            (&["**"], &["()", "a", "a/x", "a/y", "a.b", "d", "d/deep", "d/deep/x", "e[1]"]),
            (&["./d//deep/x", "/a/y"], &["()", "(a)", "a/y", "(d)", "(d/deep)", "d/deep/x"]),
            (&["a", "a/x"], &["()", "a", "a/x", "a/y"]),
            (&["*/x"], &["()", "(a)", "a/x"]),
            (&["**/x"], &["()", "(a)", "a/x", "(d)", "(d/deep)", "d/deep/x"]),
            (&["a*"], &["()", "a", "a/x", "a/y", "a.b"]),
            (&["{d,a.b}", "a/?"], &["()", "(a)", "a/x", "a/y", "a.b", "d", "d/deep", "d/deep/x"]),
            // An existing name is a name, whatever it looks like.
            (&["e[1]"], &["()", "e[1]"]),
        ];
        for (paths, expected) in cases {
            assert_eq!(visited(&image(), paths).unwrap(), expected, "{paths:?}");
        }
    }

    #[test]
    fn regular_expressions_select_besides_paths() {
        let table: [(&[&str], &[&str], &[&str]); 4] = [
            (&["^a$"], &[], &["()", "a", "a/x", "a/y"]),
            (&["x$", "^a\\.b$"], &[], &["()", "(a)", "a/x", "a.b", "(d)", "(d/deep)", "d/deep/x"]),
            (&["deep"], &["a/y"], &["()", "(a)", "a/y", "(d)", "d/deep", "d/deep/x"]),
            (&[""], &[], &["()", "a", "a/x", "a/y", "a.b", "d", "d/deep", "d/deep/x", "e[1]"]),
        ];
        for (regexes, paths, expected) in table {
            let regexes = regexes.iter().map(ToString::to_string).collect();
            let select = Selection { regexes, ..Selection::from(paths.iter().map(PathBuf::from).collect::<Vec<_>>()) };
            assert_eq!(visited_of(&image(), &select).unwrap(), expected, "{select:?}");
        }
        let missing = Selection { regexes: vec!["a".into(), "^nope$".into()], ..Selection::default() };
        let error = visited_of(&image(), &missing).unwrap_err();
        assert!(matches!(&error, Error::NoMatch { regex } if regex == "^nope$"), "{error}");
        assert!(visited_of(&image(), &Selection { may_miss: true, ..missing }).is_ok());
    }

    #[test]
    fn links_in_paths_are_selected_with_what_they_lead_to() {
        let image = || {
            let image = FakeImage::default().dir(0, &[("a", 1), ("dead", 2), ("l", 3), ("loop", 4)]).symlink(2, "gone");
            let image = image.symlink(3, "/a/m").symlink(4, "loop").dir(1, &[("d", 5), ("f", 6), ("m", 7)]);
            image.symlink(7, "../l/../a/./d").dir(5, &[("x", 8)]).file(6, b"").file(8, b"")
        };
        let follow = |paths: &[&str], may_miss| {
            let paths = paths.iter().map(PathBuf::from).collect::<Vec<_>>();
            visited_of(&image(), &Selection { follow: true, may_miss, ..Selection::from(paths) })
        };
        assert!(matches!(follow(&["l"], false), Err(Error::LinkLoop { .. })));
        for (paths, expected) in [
            (&["a/f"][..], &["()", "(a)", "a/f"][..]),
            (&["a/../a/f", "a/f"], &["()", "(a)", "a/f"]),
            // What a glob selects is not followed.
            (&["a/m*"], &["()", "(a)", "a/m"]),
        ] {
            assert_eq!(follow(paths, false).unwrap(), expected, "{paths:?}");
        }
        for path in ["dead", "dead/x", "gone", "../gone"] {
            assert!(matches!(follow(&[path], false), Err(Error::NotFound { .. } | Error::BadPattern { .. })), "{path}");
        }
        assert_eq!(follow(&["dead", "loop", "gone"], true).unwrap(), ["()", "dead", "loop"]);
        let image = || {
            let image =
                FakeImage::default().dir(0, &[("a", 1), ("l", 3)]).symlink(3, "/a/m/x").dir(1, &[("d", 5), ("m", 7)]);
            image.symlink(7, "../a/./d").dir(5, &[("x", 8), ("y", 9)]).file(8, b"").file(9, b"")
        };
        let select = Selection { follow: true, ..Selection::from(vec![PathBuf::from("l")]) };
        assert_eq!(visited_of(&image(), &select).unwrap(), ["()", "(a)", "(a/d)", "a/d/x", "a/m", "l"]);
    }

    #[test]
    fn only_directories_on_selected_paths_are_listed() {
        let cases: [(&[&str], u64); 5] =
            [(&["d/deep/x"], 0), (&["a/x", "a.b"], 0), (&["a"], 1), (&["d"], 2), (&["*/x"], 4)];
        for (paths, listed) in cases {
            let image = image();
            visited(&image, paths).unwrap();
            assert_eq!(image.listed.into_inner(), listed, "{paths:?}");
        }
    }

    #[test]
    fn a_path_that_selects_nothing_is_named() {
        for paths in [&["nope"][..], &["a", "a/nope"], &["a.b/x"], &["z*"], &["a*", "z*"], &["[", "a"], &["a/../d"]] {
            let error = visited(&image(), paths).unwrap_err().to_string();
            assert!(paths.iter().any(|path| error.contains(path)), "{error}");
        }
    }

    #[test]
    fn impossible_trees_end_the_walk_or_are_skipped() {
        let deep = (0..5000).fold(FakeImage::default(), |image, nid| image.dir(nid, &[("d", nid + 1)])).dir(5000, &[]);
        let name = "n".repeat(255);
        let long = (0..300).fold(FakeImage::default(), |image, nid| image.dir(nid, &[(&name, nid + 1)])).dir(300, &[]);
        let knot = FakeImage::default().dir(0, &[("a", 1), ("b", 1), ("c", 2)]).dir(1, &[]).file(2, b"");
        let circle = FakeImage::default().dir(0, &[("a", 1)]).dir(1, &[("b", 0), ("c", 2)]).file(2, b"");
        let gone = FakeImage::default().dir(0, &[("a", 9), ("c", 2)]).file(2, b"");
        let dots = FakeImage::default().dir(0, &[("..", 1), ("c", 2)]).dir(1, &[]).file(2, b"");
        let cases = [
            (deep, "4,096 levels", None),
            (long, "65,536 bytes", None),
            (knot, "appears in a second place", Some("c")),
            (circle, "appears in a second place", Some("a/c")),
            (gone, "not there", Some("c")),
            (dots, "file name", Some("c")),
        ];
        for (image, why, last) in cases {
            let error = visited(&image, &[]).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            let mut walk = Walk::new(&image, &[]).unwrap();
            let (mut errors, mut reached) = (0, None);
            loop {
                match walk.step() {
                    Ok(Some(visit)) => reached = Some(visit.path.to_vec()),
                    Ok(None) => break,
                    Err(_) => errors += 1,
                }
            }
            assert_eq!(errors, 1, "{why}");
            assert!(last.is_none() || last.map(|path| path.as_bytes().to_vec()) == reached, "{why}");
        }
    }

    #[test]
    fn excluded_entries_are_left_out_with_everything_below() {
        let cases: [(&[&str], &[&str], &[&str]); 7] = [
            (&[], &["x"], &["", "a", "a/y", "a.b", "d", "d/deep", "e[1]"]),
            (&[], &["d/", "a/y"], &["", "a", "a/x", "a.b", "e[1]"]),
            (&["a", "d"], &["x"], &["()", "a", "a/y", "d", "d/deep"]),
            (&["**/x"], &["deep"], &["()", "(a)", "a/x"]),
            (&["d/deep/x"], &["d"], &[]),
            (&["a/*"], &["a"], &[]),
            (&[], &["*"], &[""]),
        ];
        for (paths, exclude, expected) in cases {
            let (image, exclude) = (image(), ExcludeRules::new(exclude).unwrap());
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            let select = Selection { exclude, ..Selection::from(paths.clone()) };
            let mut walk = Walk::over(&image, &select).unwrap();
            let mut seen = Vec::new();
            while let Ok(Some(visit)) = walk.step() {
                let path = String::from_utf8_lossy(visit.path).into_owned();
                seen.push(if visit.selected { path } else { format!("({path})") });
            }
            assert_eq!(seen, expected, "{paths:?}");
        }
    }

    #[test]
    fn depth_ends_a_walk_and_misses_may_be_ignored() {
        let everything: &[&str] = &["", "a", "a/x", "a/y", "a.b", "d", "d/deep", "e[1]"];
        let cases: [(&[&str], usize, &[&str]); 6] = [
            (&[], 0, &[""]),
            (&[], 1, &["", "a", "a.b", "d", "e[1]"]),
            (&[], 2, everything),
            (&["**/x", "nosuch"], 2, &["()", "(a)", "a/x", "(d)", "(d/deep)"][..3]),
            (&["d", "nosuch", "no*"], 1, &["()", "d"]),
            (&["nosuch"], 9, &[]),
        ];
        for (paths, max_depth, expected) in cases {
            let (image, paths) = (image(), paths.iter().map(PathBuf::from).collect::<Vec<_>>());
            let select = Selection { max_depth: Some(max_depth), may_miss: true, ..Selection::from(paths.clone()) };
            let mut walk = Walk::over(&image, &select).unwrap();
            let mut seen = Vec::new();
            while let Some(visit) = walk.step().unwrap() {
                let path = String::from_utf8_lossy(visit.path).into_owned();
                seen.push(if visit.selected { path } else { format!("({path})") });
            }
            assert_eq!(seen, expected, "{paths:?}");
        }
    }

    #[test]
    fn types_and_directories_with_nothing_left_are_left_out() {
        let image =
            FakeImage::default().dir(0, &[("d", 1), ("e", 2), ("f", 3), ("l", 4)]).dir(1, &[("l", 5), ("x", 6)]);
        let image = image.dir(2, &[("e", 7)]).file(3, b"").symlink(4, "f").symlink(5, "f").dir(6, &[("f", 8)]);
        let image = image.dir(7, &[]).file(8, b"");
        let cases: [(&[&str], &str, bool, &[&str]); 7] = [
            (&[], "", false, &["", "d", "d/l", "d/x", "d/x/f", "e", "e/e", "f", "l"]),
            (&[], "", true, &["", "d", "d/l", "d/x", "d/x/f", "f", "l"]),
            (&[], "l", true, &["", "d", "d/x", "d/x/f", "f"]),
            (&[], "f", true, &["", "d", "d/l", "l"]),
            (&[], "fl", true, &[]),
            (&["d/x", "e"], "l", true, &["()", "(d)", "d/x", "d/x/f"]),
            (&["d"], "f", false, &["()", "d", "d/l", "d/x"]),
        ];
        for (paths, without, prune, expected) in cases {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            let (without_types, without_empty_dirs) = (without.as_bytes().to_vec(), prune);
            let select = Selection { without_types, without_empty_dirs, ..Selection::from(paths.clone()) };
            let mut walk = Walk::over(&image, &select).unwrap();
            let mut seen = Vec::new();
            while let Some(visit) = walk.step().unwrap() {
                let path = String::from_utf8_lossy(visit.path).into_owned();
                seen.push(if visit.selected { path } else { format!("({path})") });
            }
            assert_eq!(seen, expected, "{paths:?} {without} {prune}");
        }
    }

    /// Entries below a renamed directory have its new name in their path; selection and decisions see the names of the image.
    #[test]
    fn entries_are_left_out_and_renamed_by_a_function() {
        let image = image();
        let paths_of = |paths: &[&str], decide: EntryDecision| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            visited_of(&image, &Selection { decide, ..Selection::from(paths) })
        };
        let kept =
            paths_of(&[], EntryDecision::filter(|path, _| !path.ends_with("d") && !path.ends_with("y"))).unwrap();
        assert_eq!(kept, ["", "a", "a/x", "a.b", "e[1]"]);
        let rename = |path: &std::path::Path, stat: &Stat| {
            let name = path.file_name()?.to_str()?;
            match (&stat.kind, path.to_str()?) {
                (_, "a/y") => None,
                (FileType::Dir, _) => Some(format!("{name}.dir").into()),
                _ => Some(name.to_uppercase().into()),
            }
        };
        let renamed = paths_of(&[], EntryDecision::rename(rename)).unwrap();
        assert_eq!(renamed, ["", "a.dir", "a.dir/X", "A.B", "d.dir", "d.dir/deep.dir", "d.dir/deep.dir/X", "E[1]"]);
        let renamed = paths_of(&["d/deep"], EntryDecision::rename(rename)).unwrap();
        assert_eq!(renamed, ["()", "(d.dir)", "d.dir/deep.dir", "d.dir/deep.dir/X"]);
        let refused = paths_of(&[], EntryDecision::rename(|_, _| Some("..".into())));
        assert!(matches!(refused, Err(Error::BadName { .. })), "{refused:?}");
    }

    #[test]
    fn a_skipped_directory_is_not_walked() {
        let image = image();
        let mut walk = Walk::new(&image, &[]).unwrap();
        let mut seen = Vec::new();
        while let Some(visit) = walk.step().unwrap() {
            let leave = visit.path == b"a" || visit.path == b"d/deep";
            seen.push(String::from_utf8_lossy(visit.path).into_owned());
            if leave {
                walk.leave();
            }
        }
        assert_eq!(seen, ["", "a", "a.b", "d", "d/deep", "e[1]"]);
    }
}
