//! Applies the lines of a pack list to the tree, in their order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::data::DataBytes;
use super::include::{IncludeTarget, kept_entry};
use super::{ContentLocation, DescribedLines, LineAttrs, ListItem, NodeType, host_path};
use crate::Contents;
use crate::dir::{self, Options, SingleFile, SingleFiles};
use crate::entries::StoredFile;
use crate::tree::{ConflictPolicy, FileData, Ino, InodeAttributes, Kind, ROOT, Time, XattrId, normal_path, path_of};
use crate::{Error, OnError, Result, Tree};

/// A list being applied.
pub(super) struct ListApplier<'a> {
    tree: &'a mut Tree,
    options: &'a Options,
    time: Time,
    /// Directory of the list.
    dir: PathBuf,
    singles: SingleFiles,
    /// Data that follows the lines.
    data: Option<Arc<DataBytes>>,
    /// Open files of which lines name some bytes.
    parts: HashMap<Vec<u8>, Arc<DataBytes>>,
    /// Files of the running system that are in the tree with their own attributes.
    hosted: HashMap<(u64, u64), Ino>,
    described: DescribedLines,
    /// Created at the end, when all targets exist.
    links: PendingLinks,
    /// Directories that lines led to, which later lines may describe even if existing entries are kept.
    led_to: HashSet<Vec<u8>>,
    left_out: Vec<Error>,
}

/// Links by path, each with its target and line.
type PendingLinks = BTreeMap<Vec<u8>, (Vec<u8>, u32)>;

/// Resolves a path through links to links. A circle resolves to one of its links, which does not exist yet.
fn follow(links: &PendingLinks, mut path: Vec<u8>) -> Vec<u8> {
    for _ in 0..=links.len() {
        match links.get(&path) {
            Some((target, _)) => path = normal_path(target),
            None => break,
        }
    }
    path
}

impl<'a> ListApplier<'a> {
    pub(super) fn new(
        tree: &'a mut Tree,
        options: &'a Options,
        time: Time,
        dir: PathBuf,
        data: Option<Arc<DataBytes>>,
    ) -> Result<Self> {
        Ok(ListApplier {
            tree,
            options,
            time,
            dir,
            singles: SingleFiles::new(options.xattrs)?,
            data,
            parts: HashMap::new(),
            hosted: HashMap::new(),
            described: DescribedLines::new(),
            links: BTreeMap::new(),
            led_to: HashSet::new(),
            left_out: Vec::new(),
        })
    }

    /// Applies one line.
    pub(super) fn item(&mut self, item: ListItem, line: u32) -> Result<()> {
        match item {
            ListItem::Node { path, attrs, node } => self.node(&path, &attrs, node, line),
            ListItem::Link { path, target } => {
                if let Some(path) = self.begin(&path, false, line)? {
                    self.links.insert(path, (target, line));
                }
                Ok(())
            }
            ListItem::HostLink { path, target, links } => self.host_link(&path, &target, links, line),
            ListItem::DirLike { path, from } => self.dir_like(&path, &from, line),
            ListItem::Modify { path, attrs } => {
                let ino = match self.existing(&path) {
                    Ok(ino) => ino,
                    Err(error) if self.options.on_error == OnError::Skip && self.has_parent(&path) => {
                        self.left_out.push(error);
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                };
                let meta = attrs.over(self.tree.meta(ino));
                self.tree.change_meta(ino, meta);
                Ok(())
            }
            ListItem::Xattr { path, name, value } => {
                let ino = match self.existing(&path) {
                    Ok(ino) => ino,
                    Err(error) if self.options.on_error == OnError::Skip => {
                        self.left_out.push(error);
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                };
                let meta = self.tree.meta(ino);
                let mut set = self.tree.xattrs.get(meta.xattrs).clone();
                set.push((name.into(), value.into()));
                let xattrs = self.tree.xattrs.intern(set);
                self.tree.set_meta(ino, InodeAttributes { xattrs, ..meta });
                Ok(())
            }
            ListItem::Include { path, attrs, include } => {
                let path = normal_path(&path);
                if !path.is_empty() && self.options.exclude.covers(&path, true) {
                    return Ok(());
                }
                let existing = self.tree.lookup(&path);
                if self.options.keep_existing && existing.is_some_and(|ino| !self.tree.is_dir(ino)) {
                    // It stays, so nothing can be put in it.
                    return self.keeps(&path).map(drop);
                }
                let at = self.directory(&path, include.whole)?;
                let from = host_path(&self.dir, &include.from);
                let place = IncludeTarget {
                    tree: self.tree,
                    at,
                    path: &path,
                    keeps_attributes: self.options.keep_existing && existing.is_some(),
                    attrs: &attrs,
                    time: self.time,
                    hosted: &mut self.hosted,
                };
                let left_out = include.apply(from, self.options, place)?;
                self.left_out.extend(left_out);
                Ok(())
            }
        }
    }

    /// Creates the links; links to other links come last.
    pub(super) fn finish(mut self) -> std::result::Result<Vec<Error>, (u32, Error)> {
        let links = std::mem::take(&mut self.links);
        for (path, (target, line)) in &links {
            self.link(&links, path, target).map_err(|error| (*line, error))?;
        }
        self.singles.finish();
        Ok(self.left_out)
    }

    fn link(&mut self, links: &PendingLinks, path: &[u8], target: &[u8]) -> Result<()> {
        let end = follow(links, normal_path(target));
        let found = self.tree.lookup(&end);
        let why = || Error::limit(path_of(target), "there is no such file to link to");
        self.link_to(path, found.ok_or_else(why)?)
    }

    /// Records that a line describes a path; a second time is an error, and so is anything but a directory where an earlier
    /// line has put entries.
    fn describe(&mut self, path: &[u8], is_dir: bool, line: u32) -> Result<Vec<u8>> {
        let path = normal_path(path);
        let refuse = |why: String| Err(Error::limit(path_of(&[b"/", &path[..]].concat()), why));
        if let Some(first) = self.described.insert(path.clone(), line) {
            return refuse(format!("line {first} already describes it"));
        }
        let below = [&path[..], b"/"].concat();
        let next = self.described.range(below.clone()..).next().filter(|(inside, _)| inside.starts_with(&below));
        match next {
            Some((_, first)) if !is_dir => refuse(format!("line {first} describes an entry in it")),
            _ => Ok(path),
        }
    }

    fn implicit(&self) -> InodeAttributes {
        InodeAttributes { mtime: self.time, ..InodeAttributes::IMPLICIT_DIR }
    }

    fn existing(&self, path: &[u8]) -> Result<Ino> {
        let found = self.tree.lookup(&follow(&self.links, normal_path(path)));
        found.ok_or_else(|| Error::limit(path_of(path), "there is no such file to change at this point"))
    }

    /// Returns true if the directory is there in which an entry would be.
    fn has_parent(&self, path: &[u8]) -> bool {
        let path = normal_path(path);
        let parent = path.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |end| &path[..end]);
        self.tree.lookup(parent).is_some()
    }

    /// Returns the directory at `path`, creating it if needed; `replaces` says whether it may take the place of something
    /// else.
    fn directory(&mut self, path: &[u8], replaces: bool) -> Result<Ino> {
        let implicit = self.implicit();
        let Some((dir, name)) = self.tree.parent_of(path, implicit)? else { return Ok(ROOT) };
        match self.tree.lookup(path) {
            Some(ino) if self.tree.is_dir(ino) => Ok(ino),
            Some(_) if !replaces => Err(Error::limit(path_of(path), "it is not a directory, so nothing can be in it")),
            _ => self.tree.add(dir, name, implicit, Kind::Dir, ConflictPolicy::Replace),
        }
    }

    fn add(&mut self, path: &[u8], meta: InodeAttributes, kind: Kind) -> Result<Option<Ino>> {
        if self.options.exclude.covers(path, matches!(kind, Kind::Dir)) {
            return Ok(None);
        }
        match self.tree.parent_of(path, self.implicit())? {
            Some((dir, name)) => self.tree.add(dir, name, meta, kind, ConflictPolicy::Replace).map(Some),
            None if matches!(kind, Kind::Dir) => {
                self.tree.set_meta(ROOT, meta);
                Ok(Some(ROOT))
            }
            None => Err(Error::limit(path_of(b"/"), "the root can only be a directory")),
        }
    }

    /// Returns true if the entry at `path`, which earlier sources or lines have, is to stay as it is.
    fn keeps(&mut self, path: &[u8]) -> Result<bool> {
        if !self.options.keep_existing {
            return Ok(false);
        }
        let parents = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        for parent in parents {
            if self.tree.lookup(parent).is_none() {
                self.led_to.insert(parent.to_vec());
            }
        }
        if path.is_empty() || self.led_to.contains(path) || self.tree.lookup(path).is_none() {
            return Ok(false);
        }
        let error = kept_entry(path);
        match self.options.on_error {
            OnError::Stop => return Err(error),
            OnError::Skip => self.left_out.push(error),
        }
        Ok(true)
    }

    /// Begins with an entry that a line describes; `None` if the tree keeps the one that it has.
    fn begin(&mut self, path: &[u8], is_dir: bool, line: u32) -> Result<Option<Vec<u8>>> {
        if self.keeps(&normal_path(path))? { Ok(None) } else { self.describe(path, is_dir, line).map(Some) }
    }

    fn node(&mut self, path: &[u8], attrs: &LineAttrs, node: NodeType, line: u32) -> Result<()> {
        let is_dir = matches!(node, NodeType::Dir);
        let Some(path) = self.begin(path, is_dir, line)? else { return Ok(()) };
        let mut base = self.implicit();
        let kind = match node {
            NodeType::Dir => Kind::Dir,
            NodeType::Symlink(target) => Kind::Symlink(target.into()),
            NodeType::Char(device) => Kind::Char(device),
            NodeType::Block(device) => Kind::Block(device),
            NodeType::Fifo => Kind::Fifo,
            NodeType::Socket => Kind::Socket,
            NodeType::File(ContentLocation::Inline(text)) => {
                let size = text.len() as u64;
                let from: Arc<dyn Contents> =
                    Arc::new(StoredFile { from: Arc::new(text), path: "a file within a pack list".into() });
                Kind::File { size, data: FileData::Source { from, key: 0 } }
            }
            NodeType::File(ContentLocation::Within { offset, len, of }) => {
                let from = self.bytes(of)?.file(offset, len).map_err(|why| Error::limit(path_of(&path), why))?;
                Kind::File { size: len, data: FileData::Source { from, key: 0 } }
            }
            NodeType::File(file) => {
                let name = if let ContentLocation::At(name) = file { name } else { path.clone() };
                let (meta, size, data) = self.singles.find_regular(self.tree, &host_path(&self.dir, &name))?;
                // As with gensquashfs, times and extended attributes come from the list.
                base = InodeAttributes { xattrs: XattrId::NONE, mtime: self.time, ..meta };
                Kind::File { size, data }
            }
        };
        self.add(&path, attrs.over(base), kind).map(|_| ())
    }

    /// Returns the data that follows the lines, or the bytes of a named file.
    fn bytes(&mut self, name: Option<Vec<u8>>) -> Result<Arc<DataBytes>> {
        let Some(name) = name else {
            let none = || Error::limit("the list", "no data follows its lines: name the file that has it");
            return self.data.clone().ok_or_else(none);
        };
        if let Some(open) = self.parts.get(&name) {
            return Ok(Arc::clone(open));
        }
        let open = Arc::new(DataBytes::open(&host_path(&self.dir, &name), 0)?);
        self.parts.insert(name, Arc::clone(&open));
        Ok(open)
    }

    fn host_link(&mut self, path: &[u8], target: &[u8], links: dir::LinkPolicy, line: u32) -> Result<()> {
        let Some(path) = self.begin(path, false, line)? else { return Ok(()) };
        let SingleFile { meta, kind, id, .. } = self.singles.find(self.tree, &host_path(&self.dir, target), links)?;
        // A later line may have replaced all names so far.
        if let Some(first) = self.hosted.get(&id).copied().filter(|first| !self.tree.is_gone(*first)) {
            return self.link_to(&path, first);
        }
        if let Some(ino) = self.add(&path, meta, kind)? {
            self.hosted.insert(id, ino);
        }
        Ok(())
    }

    fn dir_like(&mut self, path: &[u8], from: &[u8], line: u32) -> Result<()> {
        let Some(path) = self.begin(path, true, line)? else { return Ok(()) };
        let from = host_path(&self.dir, from);
        let SingleFile { meta, kind, .. } = self.singles.find_any(self.tree, &from, dir::LinkPolicy::Follow)?;
        match kind {
            Kind::Dir => self.add(&path, meta, Kind::Dir).map(|_| ()),
            _ => Err(Error::WrongType { path: from, expected: "directory" }),
        }
    }

    fn link_to(&mut self, path: &[u8], target: Ino) -> Result<()> {
        if self.options.exclude.covers(path, false) {
            return Ok(());
        }
        match self.tree.parent_of(path, self.implicit())? {
            Some((dir, name)) => self.tree.link(dir, name, target, ConflictPolicy::Replace),
            None => Err(Error::limit(path_of(b"/"), "the root cannot be a link")),
        }
    }
}
