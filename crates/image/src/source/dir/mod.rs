//! A directory or a single file of the running system as a source.
//!
//! Directories are read in parallel, one job each, or several for a large one. The conductor adds
//! the listings to the tree in breadth-first order, whatever the order in which they finish. Each
//! worker uses one file descriptor.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::pipeline::{self, Pool, Ticket};
use rustix::fs::{self, FileType, Stat};

use super::{Contents, Exclude, Source, Store};
use crate::tree::{Conflict, Data, Device, Ino, Kind, Meta, ROOT, Time, XattrSet};
use crate::{Error, OnError, Result, Tree};

mod files;
mod listing;
mod root;
mod single;
#[cfg(test)]
mod tests;

pub(crate) use files::reopen;
use files::{Files, Records};
use listing::{Batch, Found, Listing, Scratch};
use root::Root;
pub(super) use single::{Links, Single, Singles};

/// Options of a scan.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Worker threads; 0 scans on the calling thread. The tree is the same for any number.
    pub threads: usize,
    /// True to stay on one file system: mount points become empty directories.
    pub one_file_system: bool,
    /// True to leave out mount points as well.
    pub no_mount_points: bool,
    /// Entries to leave out.
    pub exclude: Exclude,
    /// True to read extended attributes. All that the system shows are taken; a format that cannot
    /// store one refuses it.
    pub xattrs: bool,
    /// Action for entries that cannot be read.
    pub on_error: OnError,
    /// Device and inode numbers of files to leave out. [`Dir`] and [`PackList`](super::PackList)
    /// add those of the image being written, and of the one it replaces.
    pub leave_out: Vec<(u64, u64)>,
    /// Counts the entries found; cancelling it stops the scan.
    pub progress: Option<Arc<Progress>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: packfs_blocks::pipeline::cores(),
            one_file_system: false,
            no_mount_points: false,
            exclude: Exclude::default(),
            xattrs: true,
            on_error: OnError::Stop,
            leave_out: Vec::new(),
            progress: None,
        }
    }
}

/// A directory, or a file that becomes the only entry of the root.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
    options: Options,
    left_out: Vec<Error>,
}

impl Dir {
    /// Makes a source that scans `path`; nothing is opened yet. Symbolic links on the way to `path`
    /// are followed, those below it are not.
    pub fn new(path: impl Into<PathBuf>, options: Options) -> Self {
        Dir { path: path.into(), options, left_out: Vec::new() }
    }

    /// Adds everything below the scanned directory to the directory `at` of the tree, which takes its attributes.
    pub(super) fn scan_into(&mut self, tree: &mut Tree, at: Ino) -> Result<()> {
        let root =
            Root::open(&self.path).map_err(|errno| Error::sys("cannot open the directory", &self.path, errno))?;
        let files = Arc::new(Files::new(root));
        let options = &self.options;
        let mut scan = Scan {
            tree,
            options,
            contents: files.clone(),
            root: &files.root,
            records: Records::default(),
            links: HashMap::new(),
            device: 0,
            errors: Vec::new(),
            waiting: VecDeque::new(),
            running: VecDeque::new(),
        };
        pipeline::scope(options.threads, Scratch::new, |pool| scan.run(pool, at))?;
        self.left_out = std::mem::take(&mut scan.errors);
        let records = scan.records;
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
        let mut singles = Singles::new(self.options.xattrs)?;
        let (meta, size, data) = singles.find_regular(tree, &self.path)?;
        singles.finish();
        tree.add(ROOT, name, meta, Kind::File { size, data }, Conflict::Replace).map(|_| ())
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

/// A directory to read, or a part of one.
struct Job {
    ino: Ino,
    record: u32,
    /// The names to read, if they are known.
    names: Option<Batch>,
}

/// Number of jobs in flight per worker: enough to keep workers busy, few enough to bound the listings in memory.
const JOBS_PER_WORKER: usize = 8;

/// A running scan: the state of the conductor.
struct Scan<'s> {
    tree: &'s mut Tree,
    options: &'s Options,
    contents: Arc<Files>,
    root: &'s Root,
    records: Records,
    links: HashMap<(u64, u64), Ino>,
    device: u64,
    errors: Vec<Error>,
    waiting: VecDeque<Job>,
    /// Jobs in flight, each with its directory.
    running: VecDeque<(Ino, u32, Ticket<Listing>)>,
}

impl<'s> Scan<'s> {
    fn run(&mut self, pool: &Pool<'s, Scratch>, at: Ino) -> Result<()> {
        let stat = fs::fstat(self.root.fd())
            .map_err(|errno| Error::sys("cannot read the attributes", self.root.name(b""), errno))?;
        let xattrs = match self.options.xattrs {
            true => listing::xattrs(self.root.fd(), b".", &self.root.name(b""), &mut Scratch::new())?,
            false => XattrSet::new(),
        };
        self.device = stat.st_dev;
        let meta = meta(self.tree, &stat, xattrs);
        self.tree.set_meta(at, meta);
        self.waiting.push_back(Job { ino: at, record: Records::ROOT, names: None });
        loop {
            self.submit(pool);
            let Some((ino, record, listing)) = self.running.pop_front() else { return Ok(()) };
            let listing = listing.wait();
            let rest = listing.rest.into_iter().flat_map(Batch::jobs);
            self.waiting.extend(rest.map(|names| Job { ino, record, names: Some(names) }));
            for error in listing.errors {
                match self.options.on_error {
                    OnError::Stop => return Err(error),
                    OnError::Skip => self.errors.push(error),
                }
            }
            if let Some(progress) = &self.options.progress {
                Progress::add(&progress.entries, listing.entries.len() as u64);
                Error::unless_cancelled(progress)?;
            }
            for found in listing.entries {
                self.place(ino, record, found)?;
            }
        }
    }

    /// Submits jobs to keep the workers busy.
    fn submit(&mut self, pool: &Pool<'s, Scratch>) {
        while self.running.len() <= pool.threads() * JOBS_PER_WORKER
            && let Some(Job { ino, record, names }) = self.waiting.pop_front()
        {
            let (root, options, path) = (self.root, self.options, self.records.dir_path(record));
            let listing = pool.submit(move |scratch| listing::list(root, options, &path, names, scratch));
            self.running.push_back((ino, record, listing));
        }
    }

    fn place(&mut self, dir: Ino, record: u32, found: Found) -> Result<()> {
        let Found { name, stat, target, xattrs } = found;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return self.place_dir(dir, record, &name, &stat, xattrs),
            FileType::RegularFile => Kind::File { size: 0, data: Data::Empty },
            FileType::Symlink => Kind::Symlink(target),
            FileType::CharacterDevice => Kind::Char(device(&stat)),
            FileType::BlockDevice => Kind::Block(device(&stat)),
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::Unknown => return Err(Error::Unsupported(format!("the type of `{}`", name.escape_ascii()))),
        };
        let id = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 1
            && let Some(first) = self.links.get(&id)
        {
            return self.tree.link(dir, &name, *first, Conflict::Replace);
        }
        let kind = match kind {
            Kind::File { .. } => {
                let key = self.records.add_file(record, &name, &stat)?;
                file_kind(&stat, self.contents.clone(), key)
            }
            kind => kind,
        };
        let meta = meta(self.tree, &stat, xattrs);
        let ino = self.tree.add(dir, &name, meta, kind, Conflict::Replace)?;
        if stat.st_nlink > 1 {
            self.links.insert(id, ino);
        }
        Ok(())
    }

    fn place_dir(&mut self, dir: Ino, record: u32, name: &[u8], stat: &Stat, xattrs: XattrSet) -> Result<()> {
        let stays = !self.options.one_file_system || stat.st_dev == self.device;
        if !stays && self.options.no_mount_points {
            return Ok(());
        }
        let meta = meta(self.tree, stat, xattrs);
        let ino = self.tree.add(dir, name, meta, Kind::Dir(BTreeMap::new()), Conflict::Replace)?;
        if stays {
            let record = self.records.add_dir(record, name)?;
            self.waiting.push_back(Job { ino, record, names: None });
        }
        Ok(())
    }
}

fn file_kind(stat: &Stat, from: Arc<dyn Contents>, key: u64) -> Kind {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let data = if size == 0 { Data::Empty } else { Data::Source { from, key } };
    Kind::File { size, data }
}

fn device(stat: &Stat) -> Device {
    Device { major: fs::major(stat.st_rdev), minor: fs::minor(stat.st_rdev) }
}

fn meta(tree: &mut Tree, stat: &Stat, xattrs: XattrSet) -> Meta {
    Meta {
        mode: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: Time { secs: stat.st_mtime, nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0) },
        xattrs: tree.xattrs.intern(xattrs),
    }
}

fn changed(path: &Path, why: impl Into<String>) -> Error {
    Error::Changed { path: path.to_owned(), why: why.into() }
}
