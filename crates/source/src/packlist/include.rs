//! Adds a directory of the running system to the tree, whole or in part.

use std::collections::HashMap;
use std::path::PathBuf;

use super::LineAttrs;
use crate::ExcludeRules;
use crate::dir::{Dir, Options};
use crate::tree::{ConflictPolicy, Ino, InodeAttributes, ROOT, Time, path_of, push_name};
use crate::{Error, OnError, Result, Tree};

/// Selection of entries to add.
#[derive(Debug)]
pub(super) struct DirInclude {
    /// The directory as given in the list.
    pub(super) from: Vec<u8>,
    /// Types as `ls -l` shows them; empty for all.
    pub(super) types: Vec<u8>,
    names: Vec<String>,
    paths: Vec<String>,
    pub(super) one_file_system: bool,
    pub(super) keep_time: bool,
    pub(super) recursive: bool,
    /// True to add the directory itself too, not only its entries.
    pub(super) whole: bool,
}

/// Checks a letter of find's `-type`.
pub(super) fn type_letter(word: &[u8]) -> std::result::Result<u8, String> {
    match word {
        [letter @ (b'b' | b'c' | b'd' | b'p' | b'l' | b'f' | b's')] => Ok(*letter),
        _ => Err(format!("the type must be one of b c d p f l s, not `{}`", word.escape_ascii())),
    }
}

impl DirInclude {
    /// Selects a directory with everything in it.
    pub(super) fn whole(from: Vec<u8>) -> Self {
        DirInclude { from, whole: true, keep_time: true, ..Self::contents() }
    }

    /// Selects the entries of a directory.
    pub(super) fn contents() -> Self {
        DirInclude {
            from: Vec::new(),
            types: Vec::new(),
            names: Vec::new(),
            paths: Vec::new(),
            one_file_system: false,
            keep_time: false,
            recursive: true,
            whole: false,
        }
    }

    /// Restricts the selection to entries with a matching name.
    pub(super) fn add_name(&mut self, pattern: &str) -> std::result::Result<(), String> {
        ExcludeRules::new([pattern]).map_err(|error| error.to_string())?;
        self.names.push(pattern.to_owned());
        Ok(())
    }

    /// Restricts the selection to entries with a matching path in the image.
    pub(super) fn add_path(&mut self, pattern: &str) -> std::result::Result<(), String> {
        ExcludeRules::new([pattern]).map_err(|error| error.to_string())?;
        // A leading slash makes a pattern match paths even if it contains no other.
        self.paths.push(format!("/{}", pattern.trim_start_matches('/')));
        Ok(())
    }

    /// Adds the entries found in the directory `from`; returns the errors of entries left out.
    pub(super) fn apply(&self, from: PathBuf, options: &Options, place: IncludeTarget<'_>) -> Result<Vec<Error>> {
        let one_file_system = self.one_file_system || options.one_file_system;
        // Exclude patterns match paths in the image, not in this directory.
        let mut dir = Dir::new(from, Options { one_file_system, exclude: ExcludeRules::default(), ..options.clone() });
        if self.whole {
            dir = dir.noting_all();
        }
        let mut found = Tree::default();
        // Those of the tree, as they know whether a warning ends the build.
        found.warnings = std::mem::take(&mut place.tree.warnings);
        dir.scan_into(&mut found, ROOT)?;
        place.tree.warnings = std::mem::take(&mut found.warnings);
        let patterns =
            IncludePatterns { names: ExcludeRules::new(&self.names)?, paths: ExcludeRules::new(&self.paths)? };
        let at = place.at;
        let mut path = place.path.to_vec();
        let exclude = &options.exclude;
        let ids = dir.take_found().into_iter().map(|(id, ino)| (ino, id)).collect();
        let keeps_existing = options.keep_existing.then_some(options.on_error);
        let mut graft = TreeGraft {
            include: self,
            patterns,
            exclude,
            keeps_existing,
            from: &found,
            place,
            ids,
            links: HashMap::new(),
            left_out: Vec::new(),
        };
        if self.whole && !graft.place.keeps_attributes {
            let meta = graft.meta(ROOT);
            graft.place.tree.set_meta(at, meta);
        }
        graft.fill(ROOT, at, &mut path)?;
        let mut left_out = graft.left_out;
        left_out.extend(dir.take_left_out());
        Ok(left_out)
    }
}

/// Target of the entries.
#[derive(Debug)]
pub(super) struct IncludeTarget<'p> {
    pub(super) tree: &'p mut Tree,
    /// Directory that receives them.
    pub(super) at: Ino,
    /// Path of that directory.
    pub(super) path: &'p [u8],
    /// True if that directory keeps the attributes that it has.
    pub(super) keeps_attributes: bool,
    /// Attributes for all of them.
    pub(super) attrs: &'p LineAttrs,
    /// Time for all of them, unless theirs is kept.
    pub(super) time: Time,
    /// Files of the running system that are in the tree with their own attributes: other names of one become links to
    /// it.
    pub(super) hosted: &'p mut HashMap<(u64, u64), Ino>,
}

struct IncludePatterns {
    names: ExcludeRules,
    paths: ExcludeRules,
}

/// Returns the error for an entry that is left out because there is one already.
pub(super) fn kept_entry(path: &[u8]) -> Error {
    Error::limit(path_of(path), "an earlier source or line has this entry, which is kept")
}

/// Copies one tree into another.
struct TreeGraft<'g> {
    include: &'g DirInclude,
    patterns: IncludePatterns,
    exclude: &'g ExcludeRules,
    /// Whether entries that are there already stay, and what to do with those that do not come for that reason.
    keeps_existing: Option<OnError>,
    from: &'g Tree,
    place: IncludeTarget<'g>,
    /// Device and inode numbers of files in `from`.
    ids: HashMap<Ino, (u64, u64)>,
    /// Files with several names that have got attributes of the line.
    links: HashMap<Ino, Ino>,
    /// Entries that did not come.
    left_out: Vec<Error>,
}

impl TreeGraft<'_> {
    fn fill(&mut self, from: Ino, to: Ino, path: &mut Vec<u8>) -> Result<()> {
        let tree = self.from;
        let mut stack = vec![(tree.entries(from), to, path.len())];
        while let Some((entries, to, len)) = stack.last_mut() {
            path.truncate(*len);
            let to = *to;
            let Some((name, ino)) = entries.next() else {
                stack.pop();
                continue;
            };
            push_name(path, name);
            let is_dir = tree.is_dir(ino);
            if self.exclude.matches(path, is_dir) {
                continue;
            }
            let placed = match self.takes(ino, path) {
                true if self.keeps(is_dir, to, name, path)? => self.existing_dir(to, name),
                true => Some(self.copy(ino, to, name)?),
                false => self.existing_dir(to, name),
            };
            if let (Some(placed), true, true) = (placed, is_dir, self.include.recursive) {
                stack.push((tree.entries(ino), placed, path.len()));
            }
        }
        Ok(())
    }

    fn takes(&self, ino: Ino, path: &[u8]) -> bool {
        let DirInclude { types, .. } = self.include;
        let kind = self.from.inode(ino).kind.letter();
        let fits = |patterns: &ExcludeRules| patterns.is_empty() || patterns.matches(path, false);
        (types.is_empty() || types.contains(&kind)) && fits(&self.patterns.names) && fits(&self.patterns.paths)
    }

    /// Returns true if the entry of a name stays that is there already. Two directories are merged, with the attributes of the
    /// first.
    fn keeps(&mut self, is_dir: bool, to: Ino, name: &[u8], path: &[u8]) -> Result<bool> {
        let Some(on_error) = self.keeps_existing else { return Ok(false) };
        let Some(old) = self.place.tree.dir(to).and_then(|entries| entries.get(name)) else { return Ok(false) };
        if is_dir && self.place.tree.is_dir(old) {
            return Ok(true);
        }
        let error = kept_entry(path);
        match on_error {
            OnError::Stop => return Err(error),
            OnError::Skip => self.left_out.push(error),
        }
        Ok(true)
    }

    /// A directory that is not selected is still entered if the tree has one of its name.
    fn existing_dir(&self, to: Ino, name: &[u8]) -> Option<Ino> {
        self.place.tree.dir(to)?.get(name).filter(|ino| self.place.tree.is_dir(*ino))
    }

    fn copy(&mut self, ino: Ino, to: Ino, name: &[u8]) -> Result<Ino> {
        // A file to which a line gives other attributes becomes another file.
        let shared_id = self.ids.get(&ino).copied().filter(|_| self.include.whole);
        let known = match shared_id {
            Some(id) => self.place.hosted.get(&id).copied().filter(|first| !self.place.tree.is_gone(*first)),
            None => self.links.get(&ino).copied(),
        };
        if let Some(known) = known {
            self.place.tree.link(to, name, known, ConflictPolicy::Replace)?;
            return Ok(known);
        }
        let inode = self.from.inode(ino);
        let kind = inode.kind.into_owned();
        let links = inode.links;
        let meta = self.meta(ino);
        let placed = self.place.tree.add(to, name, meta, kind, ConflictPolicy::Replace)?;
        if let Some(id) = shared_id {
            self.place.hosted.insert(id, placed);
        } else if links > 1 {
            self.links.insert(ino, placed);
        }
        Ok(placed)
    }

    fn meta(&mut self, ino: Ino) -> InodeAttributes {
        let meta = self.from.meta(ino);
        let tree = &mut self.place.tree;
        let xattrs = tree.xattrs.intern(self.from.xattrs.get(meta.xattrs).clone());
        let mtime = if self.include.keep_time { meta.mtime } else { self.place.time };
        let mut changed = self.place.attrs.over(InodeAttributes { xattrs, mtime, ..meta });
        if changed.mode != meta.mode {
            changed.xattrs = tree.xattrs_after_chmod(changed.xattrs, changed.mode);
        }
        changed
    }
}
