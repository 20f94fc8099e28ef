//! Reads one directory: names, attributes, link targets and extended attributes. Runs on the workers.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType, RawDir, Stat};
use rustix::io::Errno;

use super::root::Root;
use super::{Options, changed};
use crate::tree::XattrSet;
use crate::{Error, Result};

/// Largest list of names and largest value that Linux supports.
const XATTR_MAX: usize = 1 << 16;
const GETDENTS_LEN: usize = 1 << 15;

/// Buffers of one worker.
#[derive(Debug)]
pub(super) struct Scratch {
    dents: Vec<MaybeUninit<u8>>,
    names: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        let dents = vec![MaybeUninit::uninit(); GETDENTS_LEN];
        Scratch { dents, names: vec![0; XATTR_MAX], value: vec![0; XATTR_MAX], path: Vec::new() }
    }
}

/// An entry as the system describes it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: Box<[u8]>,
    pub(super) stat: Stat,
    /// Of a symbolic link; empty otherwise.
    pub(super) target: Box<[u8]>,
    pub(super) xattrs: XattrSet,
}

/// Entries of one directory in byte order, and errors of those that could not be read.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) entries: Vec<Found>,
    pub(super) errors: Vec<Error>,
    /// Names not read yet: a large directory is work for several jobs.
    pub(super) rest: Option<Batch>,
}

/// Number of entries that one job reads at most. Each worker has several jobs, with 200 bytes for each entry.
const BATCH: usize = 256;

/// The names of one directory in byte order, shared by all jobs of a large directory.
#[derive(Debug, Default)]
struct Names {
    /// The names, each terminated by a NUL.
    bytes: Vec<u8>,
    /// Offset of each name.
    starts: Vec<usize>,
}

impl Names {
    fn push(&mut self, name: &CStr) {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
    }

    fn sort(&mut self) {
        let Names { bytes, starts } = self;
        starts.sort_unstable_by_key(|start| name_at(bytes, *start));
        bytes.shrink_to_fit();
        starts.shrink_to_fit();
    }
}

/// Returns the name that begins at `start`.
fn name_at(bytes: &[u8], start: usize) -> &[u8] {
    CStr::from_bytes_until_nul(&bytes[start..]).map_or(b"", CStr::to_bytes)
}

/// Names of a directory for one job to read.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    names: Arc<Names>,
    range: Range<usize>,
}

impl Batch {
    fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.names.starts[self.range.clone()].iter().map(|start| name_at(&self.names.bytes, *start))
    }

    /// Splits off the first names, as many as one job reads.
    fn split_first(&mut self) -> Batch {
        let middle = self.range.end.min(self.range.start + BATCH);
        let first = Batch { names: Arc::clone(&self.names), range: self.range.start..middle };
        self.range.start = middle;
        first
    }

    /// Returns batches of these names, one per job.
    pub(super) fn jobs(mut self) -> impl Iterator<Item = Batch> {
        std::iter::from_fn(move || (!self.range.is_empty()).then(|| self.split_first()))
    }
}

/// Reads the directory at `path`, or only the entries in `names` if they are known already.
pub(super) fn list(
    root: &Root,
    options: &Options,
    path: &[u8],
    names: Option<Batch>,
    scratch: &mut Scratch,
) -> Listing {
    let mut listing = Listing::default();
    if let Err(error) = fill(&mut listing, root, options, path, names, scratch) {
        listing.errors.push(error);
    }
    listing
}

fn fill(
    listing: &mut Listing,
    root: &Root,
    options: &Options,
    path: &[u8],
    names: Option<Batch>,
    scratch: &mut Scratch,
) -> Result<()> {
    let dir = root.open_dir(path).map_err(|errno| gone_or("cannot open the directory", &root.name(path), errno))?;
    let batch = match names {
        Some(batch) => batch,
        None => {
            let found = read_names(dir.as_fd(), scratch);
            let names = found.map_err(|errno| Error::sys("cannot list", root.name(path), errno))?;
            let mut rest = Batch { range: 0..names.starts.len(), names: Arc::new(names) };
            let first = rest.split_first();
            listing.rest = Some(rest);
            first
        }
    };
    let names = batch.iter();
    listing.entries.reserve_exact(names.len());
    let mut full = path.to_vec();
    for name in names {
        full.truncate(path.len());
        if !full.is_empty() {
            full.push(b'/');
        }
        full.extend_from_slice(name);
        match look(root, options, dir.as_fd(), name, &full, scratch) {
            Ok(Some(found)) => listing.entries.push(found),
            Ok(None) => {}
            Err(error) => listing.errors.push(error),
        }
    }
    Ok(())
}

/// Returns the names in an open directory, sorted.
fn read_names(dir: BorrowedFd<'_>, scratch: &mut Scratch) -> std::result::Result<Names, Errno> {
    let mut names = Names::default();
    let mut entries = RawDir::new(dir, &mut scratch.dents);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name());
        }
    }
    names.sort();
    Ok(names)
}

/// Reads one entry; returns `None` if it is excluded.
fn look(
    root: &Root,
    options: &Options,
    dir: BorrowedFd<'_>,
    name: &[u8],
    path: &[u8],
    scratch: &mut Scratch,
) -> Result<Option<Found>> {
    let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| gone_or("cannot read the attributes", &root.name(path), errno))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let excluded = !options.exclude.is_empty() && options.exclude.matches(path, kind == FileType::Directory);
    if excluded || options.leave_out.contains(&(stat.st_dev, stat.st_ino)) {
        return Ok(None);
    }
    let target = match kind {
        FileType::Symlink => fs::readlinkat(dir, name, Vec::new())
            .map_err(|errno| gone_or("cannot read the link", &root.name(path), errno))?
            .into_bytes()
            .into_boxed_slice(),
        _ => Box::default(),
    };
    let xattrs = match options.xattrs {
        true => xattrs(dir, name, &root.name(path), scratch)?,
        false => XattrSet::new(),
    };
    Ok(Some(Found { name: name.into(), stat, target, xattrs }))
}

/// Reads the extended attributes of `name` in the open directory `dir`, all that the system shows.
///
/// Not all kernels have such a call relative to a directory, and an absolute path is limited in
/// length and may have changed. So the path goes through the directory's entry in /proc.
pub(super) fn xattrs(dir: BorrowedFd<'_>, name: &[u8], shown: &Path, scratch: &mut Scratch) -> Result<XattrSet> {
    let Scratch { names, value, path, .. } = scratch;
    path.clear();
    path.extend_from_slice(format!("/proc/self/fd/{}/", dir.as_raw_fd()).as_bytes());
    path.extend_from_slice(name);
    let len = match fs::llistxattr(path.as_slice(), names.as_mut_slice()) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(XattrSet::new()),
        Ok(len) => len,
        Err(Errno::NOENT) if !Path::new("/proc/self/fd").exists() => {
            let why = "they are read through /proc, which is not mounted: mount it, or leave attributes out";
            let source = std::io::Error::new(std::io::ErrorKind::NotFound, why);
            return Err(Error::io("cannot list the extended attributes", shown)(source));
        }
        Err(errno) => return Err(gone_or("cannot list the extended attributes", shown, errno)),
    };
    let mut set = XattrSet::new();
    for key in names[..len].split(|byte| *byte == 0).filter(|key| !key.is_empty()) {
        let len = fs::lgetxattr(path.as_slice(), key, value.as_mut_slice())
            .map_err(|errno| gone_or("cannot read an extended attribute", shown, errno))?;
        set.push((key.into(), value[..len].into()));
    }
    Ok(set)
}

/// Converts an error: an entry that has vanished or changed its type since it was listed has
/// changed; any other is the system's error.
fn gone_or(what: &'static str, path: &Path, errno: Errno) -> Error {
    match errno {
        Errno::NOENT | Errno::NODATA => changed(path, "vanished while its directory was read"),
        Errno::LOOP | Errno::NOTDIR => changed(path, "was a directory when listed and no longer is one"),
        errno => Error::sys(what, path, errno),
    }
}
