//! A directory or a single file of the running system as a source.
//!
//! Directories are read in parallel, one job each, or several for a large one. The conductor adds
//! the listings to the tree in breadth-first order, whatever the order in which they finish. Each
//! worker uses one file descriptor.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::pipeline::{self, Pool};
use packfs_blocks::{Digest, Progress};
use rustix::fs::{self, FileType};

use super::{Contents, Source, Store};
use crate::tree::{ConflictPolicy, DeviceNumber, FileData, Ino, InodeAttributes, Kind, ROOT, XattrSet};
use crate::{Error, Result, Tree};

mod ahead;
mod attrs;
mod files;
mod listing;
mod merge;
mod part;
#[cfg(test)]
mod part_tests;
mod root;
mod share;
mod single;
mod stream;
#[cfg(test)]
mod tests;

use ahead::ListAhead;
use attrs::EntryAttrs;
pub use files::reopen;
use files::{FileRecords, ListedFiles};
use listing::{FoundEntry, ListingBuffers};
use merge::MergedSource;
pub use merge::Parts;
use root::ScanRoot;
pub use share::scan_part;
pub(super) use single::SingleFiles;
pub use stream::stream;

pub(super) use crate::scan::{LinkPolicy, SingleFile};
pub use crate::scan::{Options, Receive, Scanned, Streamed};

impl Options {
    /// Returns a digest of all that decides which entries and attributes a scan finds.
    fn digest(&self) -> Digest {
        let flags = [self.one_file_system, self.no_mount_points, self.xattrs].map(u8::from);
        Digest::of(&[&flags[..], self.exclude.text().as_bytes()].concat())
    }
}

/// A directory, or a file that becomes the only entry of the root.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
    options: Options,
    left_out: Vec<Error>,
    /// Files found, by device and inode number.
    found: HashMap<(u64, u64), Ino>,
    /// True to note all files found, not only those with several names.
    notes_all: bool,
}

impl Dir {
    /// Makes a source that scans `path`; nothing is opened yet. Symbolic links on the way to `path`
    /// are followed, those below it are not.
    pub fn new(path: impl Into<PathBuf>, options: Options) -> Self {
        Dir { path: path.into(), options, left_out: Vec::new(), found: HashMap::new(), notes_all: false }
    }

    /// Notes the device and inode number of each file, also of those with one name.
    pub(super) fn noting_all(self) -> Self {
        Dir { notes_all: true, ..self }
    }

    /// Returns the files that the last scan found, by device and inode number: those with several names, or all.
    pub(super) fn take_found(&mut self) -> HashMap<(u64, u64), Ino> {
        std::mem::take(&mut self.found)
    }

    /// Adds everything below the scanned directory to the directory `at` of the tree, which takes its attributes.
    pub(super) fn scan_into(&mut self, tree: &mut Tree, at: Ino) -> Result<()> {
        let root =
            ScanRoot::open(&self.path).map_err(|errno| Error::sys("cannot open the directory", &self.path, errno))?;
        let files = Arc::new(ListedFiles::new(root));
        let options = &self.options;
        // Only if this source is one of those that were scanned.
        let listed = options.parts.as_ref().map(|parts| parts.take(&self.path)).transpose()?.flatten();
        let mut scan = DirScan {
            tree,
            options,
            contents: files.clone(),
            root: &files.root,
            records: FileRecords::default(),
            links: HashMap::new(),
            notes_all: self.notes_all,
            device: 0,
            errors: Vec::new(),
            ahead: ListAhead::new([(at, FileRecords::ROOT)]),
        };
        // A tree is the same, whether it comes from parts or from the directories.
        match listed {
            Some(listed) => scan.take_parts(&listed, at)?,
            None => pipeline::scope(options.threads, ListingBuffers::new, |pool| scan.list_all(pool, at))?,
        }
        self.left_out = std::mem::take(&mut scan.errors);
        self.found = std::mem::take(&mut scan.links);
        let records = scan.records;
        // Only now may files be opened: they are found by their records.
        files.fill(records);
        Ok(())
    }

    /// Returns the errors of entries that the last scan left out.
    pub(super) fn take_left_out(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.left_out)
    }

    /// Adds the file at `self.path` to the root, under its own name.
    fn scan_file(&self, tree: &mut Tree) -> Result<()> {
        let name = self.path.file_name().map(OsStrExt::as_bytes);
        let name = name.ok_or_else(|| Error::BadName { name: self.path.as_os_str().as_bytes().to_owned() })?;
        let mut singles = SingleFiles::new(self.options.xattrs)?;
        let (meta, size, data) = singles.find_regular(tree, &self.path)?;
        singles.finish();
        tree.add(ROOT, name, meta, Kind::File { size, data }, ConflictPolicy::Replace).map(|_| ())
    }
}

impl Source for Dir {
    fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()> {
        self.options.leave_out.extend(store.own_files());
        let stat = fs::stat(&self.path).map_err(|errno| Error::sys("cannot read the attributes", &self.path, errno))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return self.scan_into(tree, ROOT);
        }
        self.scan_file(tree)
    }

    fn left_out(&self) -> &[Error] {
        &self.left_out
    }
}

/// A running scan: the state of the conductor.
struct DirScan<'s> {
    tree: &'s mut Tree,
    options: &'s Options,
    contents: Arc<ListedFiles>,
    root: &'s ScanRoot,
    records: FileRecords,
    links: HashMap<(u64, u64), Ino>,
    notes_all: bool,
    device: u64,
    errors: Vec<Error>,
    /// Directories, each by its inode and its record.
    ahead: ListAhead<(Ino, u32)>,
}

impl<'s> DirScan<'s> {
    fn list_all(&mut self, pool: &Pool<'s, ListingBuffers>, at: Ino) -> Result<()> {
        let (attrs, xattrs) = share::attributes(self.root, self.options)?;
        self.begin_dir(at, &attrs, xattrs);
        while let Some(((ino, record), listing)) = self.next_listing(pool) {
            // Errors in the order of the tree, so that a run stops at the same one every time.
            for error in listing.errors {
                if !self.options.on_error.skips(&error) {
                    return Err(error);
                }
                self.errors.push(error);
            }
            self.count_found(listing.entries.len())?;
            for found in listing.entries {
                self.add_entry(ino, record, found)?;
            }
        }
        Ok(())
    }

    /// Takes all entries from parts.
    fn take_parts(&mut self, listed: &MergedSource, at: Ino) -> Result<()> {
        self.begin_dir(at, &listed.attrs, listed.xattrs.clone());
        while let Some((ino, record)) = self.ahead.waiting.pop_front() {
            let mut count = 0;
            listed.list(&self.records.dir_path(record), &mut |found| {
                count += 1;
                self.add_entry(ino, record, found)
            })?;
            self.count_found(count)?;
        }
        listed.end()
    }

    fn begin_dir(&mut self, at: Ino, attrs: &EntryAttrs, xattrs: XattrSet) {
        self.device = attrs.id.0;
        let meta = meta(self.tree, attrs, xattrs);
        self.tree.set_meta(at, meta);
    }

    fn next_listing(&mut self, pool: &Pool<'s, ListingBuffers>) -> Option<((Ino, u32), listing::DirListing)> {
        let root = self.root;
        let options = self.options;
        let records = &self.records;
        self.ahead.next(pool, |(_, record), names| {
            let path = records.dir_path(*record);
            pool.submit(move |scratch| listing::list(root, options, (&path, None), names, scratch))
        })
    }

    /// Counts entries; fails if the scan was cancelled.
    fn count_found(&self, entries: usize) -> Result<()> {
        count(self.options, entries)
    }

    fn add_entry(&mut self, dir: Ino, record: u32, found: FoundEntry) -> Result<()> {
        let FoundEntry { name, attrs, target, xattrs } = found;
        if attrs.kind() == FileType::Directory {
            return self.add_dir(dir, record, &name, &attrs, xattrs);
        }
        let kind = entry_kind(&attrs, &name, target)?;
        // The name found first has the file.
        if attrs.linked
            && let Some(first) = self.links.get(&attrs.id)
        {
            return self.tree.link(dir, &name, *first, ConflictPolicy::Replace);
        }
        let kind = match kind {
            // An empty file is never opened.
            Kind::File { .. } if attrs.size > 0 => {
                let key = self.records.add_file(record, &name, &attrs)?;
                file_kind(&attrs, self.contents.clone(), key)
            }
            kind => kind,
        };
        let meta = meta(self.tree, &attrs, xattrs);
        let ino = self.tree.add(dir, &name, meta, kind, ConflictPolicy::Replace)?;
        // `notes_all` is for lists that name files of the source by other paths.
        if attrs.linked || self.notes_all {
            self.links.insert(attrs.id, ino);
        }
        Ok(())
    }

    fn add_dir(&mut self, dir: Ino, record: u32, name: &[u8], attrs: &EntryAttrs, xattrs: XattrSet) -> Result<()> {
        // A mount point has the device of what is mounted there.
        let stays = !self.options.one_file_system || attrs.id.0 == self.device;
        if !stays && self.options.no_mount_points {
            return Ok(());
        }
        let meta = meta(self.tree, attrs, xattrs);
        let ino = self.tree.add(dir, name, meta, Kind::Dir, ConflictPolicy::Replace)?;
        // Otherwise it stays empty.
        if stays {
            let record = self.records.add_dir(record, name)?;
            self.ahead.waiting.push_back((ino, record));
        }
        Ok(())
    }
}

/// Counts entries; fails if the scan was cancelled.
fn count(options: &Options, entries: usize) -> Result<()> {
    let Some(progress) = &options.progress else { return Ok(()) };
    Progress::add(&progress.entries, entries as u64);
    Error::unless_cancelled(progress)
}

/// Returns the type of an entry; a file gets its length, but no data.
fn entry_kind(attrs: &EntryAttrs, name: &[u8], target: Box<[u8]>) -> Result<Kind> {
    Ok(match attrs.kind() {
        FileType::Directory => Kind::Dir,
        FileType::RegularFile => Kind::File { size: attrs.size, data: FileData::Empty },
        FileType::Symlink => Kind::Symlink(target),
        FileType::CharacterDevice => Kind::Char(device(attrs)),
        FileType::BlockDevice => Kind::Block(device(attrs)),
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::Unknown => return Err(Error::Unsupported(format!("the type of `{}`", name.escape_ascii()))),
    })
}

fn file_kind(attrs: &EntryAttrs, from: Arc<dyn Contents>, key: u64) -> Kind {
    let data = if attrs.size == 0 { FileData::Empty } else { FileData::Source { from, key } };
    Kind::File { size: attrs.size, data }
}

fn device(attrs: &EntryAttrs) -> DeviceNumber {
    DeviceNumber { major: fs::major(attrs.rdev), minor: fs::minor(attrs.rdev) }
}

fn meta(tree: &mut Tree, attrs: &EntryAttrs, xattrs: XattrSet) -> InodeAttributes {
    let EntryAttrs { mode, uid, gid, mtime, .. } = *attrs;
    InodeAttributes {
        mode: u16::try_from(mode & 0o7777).unwrap_or(0),
        uid,
        gid,
        mtime,
        xattrs: tree.xattrs.intern(xattrs),
    }
}

fn changed(path: &Path, why: impl Into<String>) -> Error {
    Error::Changed { path: path.to_owned(), why: why.into() }
}
