//! The destination directory: every name is created relative to an open directory, and no symbolic
//! link below the destination is ever followed, whoever created it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Storage;
use packfs_blocks::io::FileSystem;
use rustix::fs::{self, AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::tree::{components, path_of};
use crate::{Error, Result};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Number of times that something is tried in a directory that other parts finish meanwhile. Each part does so once, so
/// this is the number of parts that may do it at the same time.
const ATTEMPTS: usize = 10_000;

/// Below Linux's limit of 4,096 for one path.
const MAX_PATH: usize = 4000;

/// Destination of an extraction.
#[derive(Debug)]
pub(super) struct ExtractTarget {
    files: Arc<dyn FileSystem>,
    root: OwnedFd,
    shown: PathBuf,
    replace: bool,
    /// True if others extract into it at the same time.
    pub(super) shared: bool,
    /// Permission bits that new files do not receive.
    umask: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// An open directory of the destination.
#[derive(Debug)]
pub(super) struct TargetDir {
    fd: OwnedFd,
    /// Path below the destination.
    path: Box<[u8]>,
    /// True if new entries belong to the running user and group, and get the requested mode minus
    /// the umask. False below set-group-ID directories and default ACLs.
    plain: bool,
    /// True if it has an access control list that new entries inherit.
    has_default_acl: bool,
}

impl ExtractTarget {
    /// Opens `dir`, which is created if it does not exist. Also returns whether it is empty.
    pub(super) fn open(files: Arc<dyn FileSystem>, dir: &Path, replace: bool, shared: bool) -> Result<(Self, bool)> {
        std::fs::create_dir_all(dir).map_err(Error::io("cannot create directory", dir))?;
        let empty = std::fs::read_dir(dir).map_err(Error::io("cannot read directory", dir))?.next().is_none();
        // The user's directory may be reached through links; below it, links are not followed.
        let open = fs::open(dir, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty());
        let root = open.map_err(|e| Error::io("cannot open directory", dir)(e.into()))?;
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        Ok((ExtractTarget { files, root, shown: dir.to_owned(), replace, shared, umask: umask(), uid, gid }, empty))
    }

    /// Returns the storage for the data of a new file.
    pub(super) fn storage(&self, file: OwnedFd) -> Box<dyn Storage> {
        self.files.adopt(Box::new(File::from(file)))
    }

    /// Returns true if existing directories get the attributes of the image.
    pub(super) fn fills(&self) -> bool {
        self.replace || self.shared
    }

    /// Returns the name of `path` below the destination for messages.
    pub(super) fn shown(&self, path: &[u8]) -> PathBuf {
        self.shown.join(path_of(path))
    }

    /// Makes an error about `path` below the destination.
    pub(super) fn failed(&self, what: &'static str, path: &[u8]) -> impl FnOnce(Errno) -> Error {
        let path = self.shown(path);
        move |errno| match errno {
            Errno::EXIST => Error::Exists { path },
            errno => Error::Io { what, path, source: errno.into() },
        }
    }

    /// Opens the directory at `path`.
    pub(super) fn open_dir(&self, path: &[u8]) -> Result<TargetDir> {
        let fd = self.descend(path).map_err(self.failed("cannot open directory", path))?;
        let has_default_acl = has_default_acl(&fd);
        // Not examined further: assuming the worst costs only a call or two for each entry.
        Ok(TargetDir { fd, path: path.into(), plain: false, has_default_acl })
    }

    /// Makes the directory `name` in `parent`, or opens the existing one. Also returns whether it is new.
    pub(super) fn make_dir(&self, parent: &TargetDir, name: &[u8]) -> Result<(TargetDir, bool)> {
        let path = parent.join(name);
        let (fd, new) = self.make_and_open(parent, name).map_err(self.failed("cannot create directory", &path))?;
        // What others do to a directory is not known.
        let plain = !self.shared && ((new && parent.plain) || self.is_plain(&fd));
        let has_default_acl = !plain && has_default_acl(&fd);
        Ok((TargetDir { fd, path: path.into(), plain, has_default_acl }, new))
    }

    fn make_and_open(&self, parent: &TargetDir, name: &[u8]) -> rustix::io::Result<(OwnedFd, bool)> {
        let open = || fs::openat(&parent.fd, name, DIRECTORY, Mode::empty());
        // Private until it is filled and gets its own mode.
        let make = || self.enter(parent, || fs::mkdirat(&parent.fd, name, Mode::RWXU));
        match make() {
            Err(Errno::EXIST) => match open() {
                // Something else exists there, or a link to a directory, which does not count either.
                Err(Errno::NOTDIR | Errno::LOOP) => self.new_entry(parent, name, make)?,
                found => return found.map(|fd| (fd, false)),
            },
            done => done?,
        }
        Ok((open()?, true))
    }

    /// Runs `make`, which creates `name` in `dir` and never replaces anything. If replacing is
    /// allowed, an existing entry (a link itself, not its target; never a directory) is removed
    /// first.
    pub(super) fn new_entry<T>(
        &self,
        dir: &TargetDir,
        name: &[u8],
        make: impl Fn() -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        match self.enter(dir, &make) {
            Err(Errno::EXIST) if self.replace => {
                self.enter(dir, || fs::unlinkat(&dir.fd, name, AtFlags::empty()))?;
                make()
            }
            done => done,
        }
    }

    /// Runs `change`, which creates or removes something in `dir`. An earlier extraction or another part may have given the
    /// directory the mode of the image, which does not let this user do that; it gets it again when this one finishes it.
    fn enter<T>(&self, dir: &TargetDir, change: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
        for _ in 0..ATTEMPTS {
            match change() {
                // Directories of other users cannot be changed, which is no other reason than before.
                Err(Errno::ACCESS) if self.fills() && self.uid != 0 => {
                    fs::fchmod(&dir.fd, Mode::RWXU).map_err(|_| Errno::ACCESS)?;
                }
                done => return done,
            }
        }
        Err(Errno::ACCESS)
    }

    /// Returns the mode that a file created with `mode` in `dir` gets, if that is certain.
    pub(super) fn mode_of_new(&self, dir: &TargetDir, mode: u16) -> Option<u16> {
        dir.plain.then_some(mode & !self.umask)
    }

    /// Opens `path` component by component, or as many components at once as the kernel checks for links.
    fn descend(&self, path: &[u8]) -> rustix::io::Result<OwnedFd> {
        let mut fd: Option<OwnedFd> = None;
        let mut rest = path;
        while rest.len() > MAX_PATH {
            // No component is as long as MAX_PATH, so there is a slash.
            let cut = rest.iter().take(MAX_PATH).rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
            let (head, tail) = rest.split_at(cut);
            fd = Some(open_below(fd.as_ref().unwrap_or(&self.root).as_fd(), head)?);
            rest = tail.strip_prefix(b"/").unwrap_or(tail);
        }
        let last = if rest.is_empty() { b"." } else { rest };
        open_below(fd.as_ref().unwrap_or(&self.root).as_fd(), last)
    }

    fn is_plain(&self, dir: &OwnedFd) -> bool {
        const SET_GROUP_ID: u32 = 0o2000;
        let usual = |found: fs::Stat| found.st_gid == self.gid && found.st_mode & SET_GROUP_ID == 0;
        fs::fstat(dir).is_ok_and(usual) && !has_default_acl(dir)
    }
}

/// Returns false if new entries of a directory certainly inherit no access control list.
fn has_default_acl(dir: &OwnedFd) -> bool {
    let found = fs::fgetxattr(dir, c"system.posix_acl_default", &mut [0u8; 0][..]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

impl TargetDir {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns true if new entries belong to the running user and group.
    pub(super) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Returns true if new entries may inherit an access control list.
    pub(super) fn has_default_acl(&self) -> bool {
        self.has_default_acl
    }

    /// Returns the path of `name` in this directory, or the directory's own path if `name` is empty.
    pub(super) fn join(&self, name: &[u8]) -> Vec<u8> {
        let slash: &[u8] = if self.path.is_empty() || name.is_empty() { b"" } else { b"/" };
        [&self.path, slash, name].concat()
    }
}

fn open_below(from: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match fs::openat2(from, path, DIRECTORY, Mode::empty(), resolve) {
        // Kernels before 5.6, and sandboxes that do not allow the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let mut fd = from.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
            for name in components(path) {
                fd = fs::openat(&fd, name, DIRECTORY, Mode::empty())?;
            }
            Ok(fd)
        }
        done => done,
    }
}

/// Returns the process's umask. The system call for it also changes it for all threads, so it is
/// read from /proc; if that is missing, every mode is set explicitly.
fn umask() -> u16 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u16::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o7777)
}
