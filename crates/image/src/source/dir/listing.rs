//! Reads one directory: names, attributes, link targets and extended attributes. Runs on the workers.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, RawDir, Stat};
use rustix::io::Errno;

use super::root::Root;
use super::{Options, changed};
use crate::tree::XattrSet;
use crate::{Error, Result};

/// Largest list of names and largest value Linux has.
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

/// Entries of one directory in byte order, and what could not be read.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) entries: Vec<Found>,
    pub(super) errors: Vec<Error>,
    /// Names not looked at yet: a wide directory is work for several jobs.
    pub(super) rest: Vec<Box<[u8]>>,
}

/// Most entries one job looks at.
pub(super) const BATCH: usize = 1024;

/// Reads the directory at `path`; looks only at `names` if they are known already.
pub(super) fn list(
    root: &Root,
    options: &Options,
    path: &[u8],
    names: Option<Vec<Box<[u8]>>>,
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
    names: Option<Vec<Box<[u8]>>>,
    scratch: &mut Scratch,
) -> Result<()> {
    let dir = root.open_dir(path).map_err(|errno| gone_or("cannot open the directory", &root.name(path), errno))?;
    let mut names = match names {
        Some(names) => names,
        None => {
            let found = read_names(dir.as_fd(), scratch);
            let mut names = found.map_err(|errno| Error::sys("cannot list", root.name(path), errno))?;
            names.sort_unstable();
            names
        }
    };
    listing.rest = names.split_off(names.len().min(BATCH));
    listing.entries.reserve_exact(names.len());
    let mut full = path.to_vec();
    for name in names {
        full.truncate(path.len());
        if !full.is_empty() {
            full.push(b'/');
        }
        full.extend_from_slice(&name);
        match look(root, options, dir.as_fd(), name, &full, scratch) {
            Ok(Some(found)) => listing.entries.push(found),
            Ok(None) => {}
            Err(error) => listing.errors.push(error),
        }
    }
    Ok(())
}

fn read_names(dir: BorrowedFd<'_>, scratch: &mut Scratch) -> std::result::Result<Vec<Box<[u8]>>, Errno> {
    let mut names = Vec::new();
    let mut entries = RawDir::new(dir, &mut scratch.dents);
    while let Some(entry) = entries.next() {
        match entry?.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(name.into()),
        }
    }
    Ok(names)
}

/// Looks at one entry; `None` if it is excluded.
fn look(
    root: &Root,
    options: &Options,
    dir: BorrowedFd<'_>,
    name: Box<[u8]>,
    path: &[u8],
    scratch: &mut Scratch,
) -> Result<Option<Found>> {
    let stat = fs::statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| gone_or("cannot read the attributes", &root.name(path), errno))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let excluded = !options.exclude.is_empty() && options.exclude.matches(path, kind == FileType::Directory);
    if excluded || options.leave_out.contains(&(stat.st_dev, stat.st_ino)) {
        return Ok(None);
    }
    let target = match kind {
        FileType::Symlink => fs::readlinkat(dir, &*name, Vec::new())
            .map_err(|errno| gone_or("cannot read the link", &root.name(path), errno))?
            .into_bytes()
            .into_boxed_slice(),
        _ => Box::default(),
    };
    let xattrs = match options.xattrs {
        true => xattrs(dir, &name, &root.name(path), scratch)?,
        false => XattrSet::new(),
    };
    Ok(Some(Found { name, stat, target, xattrs }))
}

/// The extended attributes of `name` in the open directory `dir`, all the system shows.
///
/// There is no such call relative to a directory that all kernels have, and an absolute path would be
/// limited in length and might lead elsewhere by now: the path goes through the directory's entry in /proc.
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

/// What was listed a moment ago and is not there, or not of its type, has changed; all else is the system's error.
fn gone_or(what: &'static str, path: &Path, errno: Errno) -> Error {
    match errno {
        Errno::NOENT | Errno::NODATA => changed(path, "vanished while its directory was read"),
        Errno::LOOP | Errno::NOTDIR => changed(path, "was a directory when listed and is none any more"),
        errno => Error::sys(what, path, errno),
    }
}
