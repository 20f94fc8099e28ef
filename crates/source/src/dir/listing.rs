//! Reads one directory: names, attributes, link targets and extended attributes. Runs on the workers.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::Digest;
use rustix::fs::{self, AtFlags, FileType, RawDir};
use rustix::io::Errno;

use super::attrs::EntryAttrs;
use super::root::ScanRoot;
use super::share::TaskShare;
use super::{Options, changed};
use crate::tree::{XattrSet, acl, push_name};
use crate::{Error, Result};

/// Largest list of names and largest value that Linux supports.
const XATTR_MAX: usize = 1 << 16;
/// Buffer for the names of a directory, one system call each time it is full. Other sizes were not measured.
const GETDENTS_LEN: usize = 1 << 15;
/// Directory of the files that this process has open.
const PROC_FDS: &str = "/proc/self/fd";

/// Buffers of one worker.
#[derive(Debug)]
pub(super) struct ListingBuffers {
    dents: Vec<MaybeUninit<u8>>,
    names: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
}

impl ListingBuffers {
    pub(super) fn new() -> Self {
        let dents = vec![MaybeUninit::uninit(); GETDENTS_LEN];
        // As large as the kernel returns them, so that nothing is asked for twice.
        ListingBuffers { dents, names: vec![0; XATTR_MAX], value: vec![0; XATTR_MAX], path: Vec::new() }
    }
}

/// An entry as the system describes it.
#[derive(Debug)]
pub(super) struct FoundEntry {
    pub(super) name: Box<[u8]>,
    pub(super) attrs: EntryAttrs,
    /// Of a symbolic link; empty otherwise.
    pub(super) target: Box<[u8]>,
    pub(super) xattrs: XattrSet,
}

impl FoundEntry {
    /// Makes a directory whose attributes are of no interest.
    fn directory(name: &[u8]) -> FoundEntry {
        let target = Box::default();
        let xattrs = XattrSet::new();
        FoundEntry { name: name.into(), attrs: EntryAttrs::DIRECTORY, target, xattrs }
    }
}

/// Entries of one directory in byte order, and errors of those that could not be read.
#[derive(Debug, Default)]
pub(super) struct DirListing {
    pub(super) entries: Vec<FoundEntry>,
    pub(super) errors: Vec<Error>,
    /// Names not read yet: a large directory is work for several jobs.
    pub(super) rest: Option<NameBatch>,
    /// Number and digest of all names of the directory, if other tasks list it as well.
    pub(super) names: Option<(u64, Digest)>,
    /// True if it has the first entries of its directory.
    pub(super) is_first: bool,
}

/// Number of entries that one job reads at most. Each worker has several jobs, with 200 bytes for each entry.
const BATCH: usize = 256;

/// The names of one directory in byte order, shared by all jobs of a large directory.
#[derive(Debug, Default)]
struct DirNames {
    /// The names, each terminated by a NUL.
    bytes: Vec<u8>,
    /// Offset of each name, and the type that the directory tells.
    starts: Vec<(usize, FileType)>,
}

impl DirNames {
    fn push(&mut self, name: &CStr, kind: FileType) {
        self.starts.push((self.bytes.len(), kind));
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
    }

    fn sort(&mut self) {
        let DirNames { bytes, starts } = self;
        // In byte order, so that the tree does not depend on the file system.
        starts.sort_unstable_by_key(|(start, _)| name_at(bytes, *start));
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
pub(super) struct NameBatch {
    names: Arc<DirNames>,
    range: Range<usize>,
}

impl NameBatch {
    fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], FileType)> {
        let names = &self.names;
        names.starts[self.range.clone()].iter().map(|(start, kind)| (name_at(&names.bytes, *start), *kind))
    }

    /// Splits off the first names, as many as one job reads; `None` if none are left.
    pub(super) fn split_first(&mut self) -> Option<NameBatch> {
        if self.range.is_empty() {
            return None;
        }
        let middle = self.range.end.min(self.range.start + BATCH);
        let first = NameBatch { names: Arc::clone(&self.names), range: self.range.start..middle };
        self.range.start = middle;
        Some(first)
    }

    /// Returns the number of names, and a digest of them.
    fn digest(&self) -> (u64, Digest) {
        let mut hasher = blake3::Hasher::new();
        for (name, _) in self.iter() {
            // With a NUL after each, so that other names cannot make the same bytes.
            hasher.update(name).update(&[0]);
        }
        (self.range.len() as u64, Digest::from(*hasher.finalize().as_bytes()))
    }
}

/// Reads the directory at `path`, or only the entries in `names` if they are known already. With a share, reads only
/// what belongs to it, and the names of directories.
pub(super) fn list(
    root: &ScanRoot,
    options: &Options,
    (path, share): (&[u8], Option<TaskShare>),
    names: Option<NameBatch>,
    scratch: &mut ListingBuffers,
) -> DirListing {
    let mut listing = DirListing::default();
    if let Err(error) = fill_listing(&mut listing, root, options, (path, share), names, scratch) {
        listing.errors.push(error);
    }
    listing
}

fn fill_listing(
    listing: &mut DirListing,
    root: &ScanRoot,
    options: &Options,
    (path, share): (&[u8], Option<TaskShare>),
    names: Option<NameBatch>,
    scratch: &mut ListingBuffers,
) -> Result<()> {
    // Opened again for each job of a large directory: a worker holds one descriptor.
    let dir = root.open_dir(path).map_err(|errno| gone_or("cannot open the directory", &root.name(path), errno))?;
    let batch = match names {
        Some(batch) => Some(batch),
        None => take_names(listing, root, path, dir.as_fd(), share.is_some(), scratch)?,
    };
    let Some(batch) = batch else { return Ok(()) };
    let names = batch.iter();
    listing.entries.reserve_exact(if share.is_some() { 0 } else { names.len() });
    let mut full = path.to_vec();
    for (name, kind) in names {
        // The path of the directory stays, its names come and go.
        full.truncate(path.len());
        push_name(&mut full, name);
        // Another task reads it. Only directories are needed, to descend into them.
        if share.is_some_and(|share| !share.holds(&full)) {
            match kind {
                // Its device is all that another task needs to know of it.
                FileType::Directory if !options.one_file_system => {
                    if !options.exclude.matches(&full, true) {
                        listing.entries.push(FoundEntry::directory(name));
                    }
                    continue;
                }
                FileType::Directory | FileType::Unknown => {}
                _ => continue,
            }
        }
        // An entry that fails does not stop the others.
        match read_entry(root, options, dir.as_fd(), name, &full, scratch) {
            Ok(Some(found)) => listing.entries.push(found),
            Ok(None) => {}
            Err(error) => listing.errors.push(error),
        }
    }
    Ok(())
}

/// Reads the names of a directory that is listed for the first time, and leaves those for later jobs in the listing.
/// Returns the first names; `None` if there are none. With `is_shared`, other tasks list it, too, and compare the names.
fn take_names(
    listing: &mut DirListing,
    root: &ScanRoot,
    path: &[u8],
    dir: BorrowedFd<'_>,
    is_shared: bool,
    scratch: &mut ListingBuffers,
) -> Result<Option<NameBatch>> {
    let names = read_names(dir, scratch).map_err(|errno| Error::sys("cannot list", root.name(path), errno))?;
    let mut rest = NameBatch { range: 0..names.starts.len(), names: Arc::new(names) };
    listing.is_first = true;
    listing.names = is_shared.then(|| rest.digest());
    let Some(first) = rest.split_first() else { return Ok(None) };
    listing.rest = (!rest.range.is_empty()).then_some(rest);
    Ok(Some(first))
}

/// Returns the names in an open directory, sorted.
fn read_names(dir: BorrowedFd<'_>, scratch: &mut ListingBuffers) -> std::result::Result<DirNames, Errno> {
    // Until the end, as names must be sorted.
    let mut names = DirNames::default();
    let mut entries = RawDir::new(dir, &mut scratch.dents);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name(), entry.file_type());
        }
    }
    names.sort();
    Ok(names)
}

/// Reads one entry; returns `None` if it is excluded.
fn read_entry(
    root: &ScanRoot,
    options: &Options,
    dir: BorrowedFd<'_>,
    name: &[u8],
    path: &[u8],
    scratch: &mut ListingBuffers,
) -> Result<Option<FoundEntry>> {
    // Relative to the open directory, which may have been moved by now.
    let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| gone_or("cannot read the attributes", &root.name(path), errno))?;
    let mut attrs = EntryAttrs::of(&stat);
    let kind = attrs.kind();
    // Before anything that costs another call.
    let excluded = !options.exclude.is_empty() && options.exclude.matches(path, kind == FileType::Directory);
    if excluded || options.leave_out.contains(&attrs.id) {
        return Ok(None);
    }
    let target = match kind {
        FileType::Symlink => fs::readlinkat(dir, name, Vec::new())
            .map_err(|errno| gone_or("cannot read the link", &root.name(path), errno))?
            .into_bytes()
            .into_boxed_slice(),
        _ => Box::default(),
    };
    let xattrs = take_xattrs(options.xattrs, &mut attrs, dir, name, &root.name(path), scratch)?;
    Ok(Some(FoundEntry { name: name.into(), attrs, target, xattrs }))
}

/// Reads the extended attributes of `name` in the open directory `dir` if they are wanted. Otherwise, takes from the
/// mode in `attrs` what an ACL denies to the group.
pub(super) fn take_xattrs(
    wanted: bool,
    attrs: &mut EntryAttrs,
    dir: BorrowedFd<'_>,
    name: &[u8],
    shown: &Path,
    scratch: &mut ListingBuffers,
) -> Result<XattrSet> {
    // Not all kernels have calls relative to a directory, and an absolute path is limited in length and may have
    // changed. So the path goes through the directory's entry in /proc.
    scratch.path.clear();
    scratch.path.extend_from_slice(format!("{PROC_FDS}/{}/", dir.as_raw_fd()).as_bytes());
    scratch.path.extend_from_slice(name);
    if wanted {
        return xattrs(shown, scratch);
    }
    // Symbolic links have no ACL, and if only the owner has any bits, there is nothing to take away.
    if attrs.kind() != FileType::Symlink && attrs.mode & u32::from(acl::SHARED_BITS) != 0 {
        attrs.mode &= !u32::from(!mode_limit(shown, scratch)? & acl::SHARED_BITS);
    }
    Ok(XattrSet::new())
}

/// Returns the mode bits that the ACL of the file at the path in `scratch` does not deny.
fn mode_limit(shown: &Path, scratch: &mut ListingBuffers) -> Result<u16> {
    match fs::lgetxattr(scratch.path.as_slice(), acl::ACCESS, scratch.value.as_mut_slice()) {
        Ok(len) => Ok(acl::mode_limit(&scratch.value[..len])),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(u16::MAX),
        // If attributes are left out because /proc is not mounted, the mode stays unchanged.
        Err(Errno::NOENT) if !Path::new(PROC_FDS).exists() => Ok(u16::MAX),
        Err(errno) => Err(gone_or("cannot read the access control list", shown, errno)),
    }
}

/// Reads all extended attributes that the system shows of the file at the path in `scratch`.
fn xattrs(shown: &Path, scratch: &mut ListingBuffers) -> Result<XattrSet> {
    let ListingBuffers { names, value, path, .. } = scratch;
    let len = match fs::llistxattr(path.as_slice(), names.as_mut_slice()) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(XattrSet::new()),
        Ok(len) => len,
        Err(Errno::NOENT) if !Path::new(PROC_FDS).exists() => {
            let why = "they are read through /proc, which is not mounted: mount it, or leave attributes out";
            let source = std::io::Error::new(std::io::ErrorKind::NotFound, why);
            return Err(Error::io("cannot list the extended attributes", shown)(source));
        }
        Err(errno) => return Err(gone_or("cannot list the extended attributes", shown, errno)),
    };
    let mut set = XattrSet::new();
    // The list has all names, each with a NUL.
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
