//! Walking an image: every entry, or those that given paths select, depth first in name order.
//!
//! What every sink starts from. Needs no recursion and trusts nothing: names are checked, a directory is
//! entered once, and depth has a limit, so that a walk over a hostile image ends.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

use super::lookup::lookup;
use crate::image::{Entry, FileType, Image, Nid, Stat};
use crate::tree::{check_name, components, display};
use crate::{Error, Result};

/// Directories within directories; deeper than any path a program could name.
const MAX_DEPTH: usize = 4096;

/// Walks an image.
#[derive(Debug)]
pub struct Walk<'i> {
    image: &'i dyn Image,
    paths: Paths,
    /// The directories from the root down to the one being read.
    levels: Vec<Level>,
    /// How many of `levels` the caller has been told of: ancestors wait until something below is selected.
    told: usize,
    /// The next entry to tell, while its ancestors come first.
    found: Option<Found>,
    path: Vec<u8>,
    entered: HashSet<Nid>,
    started: bool,
}

/// An entry met on a [`Walk`].
#[derive(Debug)]
pub struct Visit<'w> {
    /// Its path, without a leading slash; the root's is empty.
    pub path: &'w [u8],
    /// The last component of `path`.
    pub name: &'w [u8],
    /// Number of components of `path`.
    pub depth: usize,
    /// Its inode.
    pub nid: Nid,
    /// The attributes of the inode.
    pub stat: Stat,
    /// Whether it was asked for; otherwise it is a directory on the way to something that was.
    pub selected: bool,
}

#[derive(Debug)]
struct Level {
    entries: std::vec::IntoIter<Entry>,
    path_len: usize,
    selected: bool,
    waiting: Option<(Nid, Stat)>,
}

#[derive(Debug)]
struct Found {
    nid: Nid,
    stat: Stat,
    name_len: usize,
}

impl<'i> Walk<'i> {
    /// Begins a walk over what `paths` select, each with everything below; no paths: over everything.
    ///
    /// A path is one in the image; if there is none such and it has one of `*?[{`, a glob, whose `*` and
    /// `?` do not match `/`. One that selects nothing is an error, for a glob at the end of the walk.
    pub fn new(image: &'i dyn Image, paths: &[PathBuf]) -> Result<Self> {
        Ok(Walk {
            paths: Paths::new(image, paths)?,
            image,
            levels: Vec::new(),
            told: 0,
            found: None,
            path: Vec::new(),
            entered: HashSet::new(),
            started: false,
        })
    }

    /// The next entry: a directory before what is in it. `None` at the end.
    pub fn step(&mut self) -> Result<Option<Visit<'_>>> {
        if !std::mem::replace(&mut self.started, true) {
            self.begin()?;
        }
        while self.found.is_none() {
            if !self.advance()? {
                self.paths.all_found()?;
                return Ok(None);
            }
        }
        self.tell()
    }

    /// Leaves the directory that was told last: what is in it is not visited.
    pub fn leave(&mut self) {
        self.levels.pop();
        self.told = self.told.min(self.levels.len());
    }

    fn begin(&mut self) -> Result<()> {
        let nid = self.image.root();
        let stat = self.image.stat(nid)?;
        if self.paths.selects(b"") {
            self.found = Some(Found { nid, stat, name_len: 0 });
            Ok(())
        } else {
            self.enter(nid, false, Some((nid, stat)))
        }
    }

    /// Looks at one more entry. Whether there was one.
    fn advance(&mut self) -> Result<bool> {
        let Some(level) = self.levels.last_mut() else { return Ok(false) };
        self.path.truncate(level.path_len);
        let Some(entry) = level.entries.next() else {
            self.levels.pop();
            self.told = self.told.min(self.levels.len());
            return Ok(true);
        };
        let selected = level.selected;
        check_name(&entry.name)?;
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&entry.name);
        if selected || self.paths.selects(&self.path) {
            let stat = self.image.stat(entry.nid)?;
            self.found = Some(Found { nid: entry.nid, stat, name_len: entry.name.len() });
        } else if self.paths.may_select_below(&self.path) {
            let stat = self.image.stat(entry.nid)?;
            if stat.kind == FileType::Dir {
                self.enter(entry.nid, false, Some((entry.nid, stat)))?;
            }
        }
        Ok(true)
    }

    /// Hands out what was found, after the directories above it.
    fn tell(&mut self) -> Result<Option<Visit<'_>>> {
        if let Some(level) = self.levels.get_mut(self.told) {
            self.told += 1;
            if let Some((nid, stat)) = level.waiting.take() {
                let path = self.path.get(..level.path_len).unwrap_or_default();
                let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                return Ok(Some(Visit { path, name, depth: self.told - 1, nid, stat, selected: false }));
            }
        }
        let Some(Found { nid, stat, name_len }) = self.found.take() else { return Ok(None) };
        let depth = self.levels.len();
        if stat.kind == FileType::Dir {
            self.enter(nid, true, None)?;
            self.told = self.levels.len();
        }
        let name = self.path.get(self.path.len() - name_len..).unwrap_or_default();
        Ok(Some(Visit { path: &self.path, name, depth, nid, stat, selected: true }))
    }

    fn enter(&mut self, nid: Nid, selected: bool, waiting: Option<(Nid, Stat)>) -> Result<()> {
        let damaged = |why: &str| Error::Damaged { path: display(&self.path), why: why.into() };
        if self.levels.len() > MAX_DEPTH {
            return Err(damaged("a directory more than 4,096 levels deep"));
        }
        if !self.entered.insert(nid) {
            return Err(damaged("a directory that is also found elsewhere: the tree has a loop or a knot"));
        }
        let entries = self.image.read_dir(nid)?.into_iter();
        self.levels.push(Level { entries, path_len: self.path.len(), selected, waiting });
        Ok(())
    }
}

/// What the user selected.
#[derive(Debug)]
struct Paths {
    everything: bool,
    /// Paths that are there, without needless slashes and dots, sorted.
    exact: Vec<Vec<u8>>,
    globs: GlobSet,
    patterns: Vec<(PathBuf, bool)>,
    scratch: Vec<usize>,
}

impl Paths {
    fn new(image: &dyn Image, paths: &[PathBuf]) -> Result<Self> {
        let mut exact = Vec::new();
        let mut patterns = Vec::new();
        let mut globs = GlobSetBuilder::new();
        for path in paths {
            let bytes = path.as_os_str().as_bytes();
            let clean = components(bytes).collect::<Vec<_>>().join(&b'/');
            if components(bytes).any(|name| name == b"..") {
                return Err(Error::Usage(format!("`{}`: a path in an image cannot have `..`", path.display())));
            }
            if lookup(image, bytes)?.is_some() {
                exact.push(clean);
            } else if let Some(pattern) = std::str::from_utf8(&clean).ok().filter(|p| p.contains(['*', '?', '[', '{']))
            {
                let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
                globs.add(glob.map_err(|e| Error::Usage(format!("`{}`: {}", path.display(), e.kind())))?);
                patterns.push((path.clone(), false));
            } else {
                return Err(missing(path));
            }
        }
        exact.sort();
        let globs = globs.build().map_err(|e| Error::Usage(e.to_string()))?;
        Ok(Paths { everything: paths.is_empty(), exact, globs, patterns, scratch: Vec::new() })
    }

    fn selects(&mut self, path: &[u8]) -> bool {
        if self.everything || self.exact.binary_search_by(|exact| (**exact).cmp(path)).is_ok() {
            return true;
        }
        self.globs.matches_candidate_into(&Candidate::from_bytes(path), &mut self.scratch);
        for at in &self.scratch {
            if let Some((_, found)) = self.patterns.get_mut(*at) {
                *found = true;
            }
        }
        !self.scratch.is_empty()
    }

    /// Whether something below `dir`, which is not selected itself, may be.
    fn may_select_below(&self, dir: &[u8]) -> bool {
        let below = |exact: &Vec<u8>| exact.strip_prefix(dir).is_some_and(|rest| rest.first() == Some(&b'/'));
        !self.patterns.is_empty() || self.exact.iter().any(below)
    }

    fn all_found(&self) -> Result<()> {
        match self.patterns.iter().find(|(_, found)| !found) {
            Some((pattern, _)) => Err(missing(pattern)),
            None => Ok(()),
        }
    }
}

fn missing(path: &std::path::Path) -> Error {
    Error::Usage(format!("`{}`: nothing of this name in the image", path.display()))
}
