//! `FileSystem`: how files come to be and get their names, behind a trait so that tests can make each step fail.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::storage::Storage;

/// Creating, naming and removing files.
pub trait FileSystem: Send + Sync + fmt::Debug {
    /// Creates a file without a name in `dir`, which the system removes with its last descriptor. Fails with
    /// [`io::ErrorKind::Unsupported`] where the file system has no such files.
    fn create_unnamed(&self, dir: &Path, mode: u32) -> io::Result<Box<dyn Storage>>;

    /// Creates `path` and [claims](System) it. Fails with [`io::ErrorKind::AlreadyExists`] if there is anything.
    fn create_new(&self, path: &Path, mode: u32) -> io::Result<Box<dyn Storage>>;

    /// Takes over what was opened elsewhere.
    fn adopt(&self, storage: Box<dyn Storage>) -> Box<dyn Storage> {
        storage
    }

    /// Gives a file without a name the name `path`. Never replaces.
    fn link(&self, file: &dyn Storage, path: &Path) -> io::Result<()>;

    /// Renames, and replaces what is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames; fails with [`io::ErrorKind::AlreadyExists`] if there is anything.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// The file systems of the running system.
///
/// Files that are created under a temporary name are claimed: an advisory lock (`flock`) is held as long as they are
/// open. The kernel releases it when the process ends, however it ends, so a file that can be locked is litter.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl FileSystem for System {
    fn create_unnamed(&self, dir: &Path, mode: u32) -> io::Result<Box<dyn Storage>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(dir, flags, Mode::from_raw_mode(mode)) {
            Ok(fd) => Ok(Box::new(File::from(fd))),
            // Kernels and file systems that do not know the flag see a directory opened for writing.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn create_new(&self, path: &Path, mode: u32) -> io::Result<Box<dyn Storage>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)?;
        match claim(&file) {
            // Between creation and claim somebody took it for litter.
            Claim::Taken => Err(io::ErrorKind::AlreadyExists.into()),
            Claim::Ours | Claim::Unknown => Ok(Box::new(file)),
        }
    }

    fn link(&self, file: &dyn Storage, path: &Path) -> io::Result<()> {
        let file = file.file().ok_or(io::ErrorKind::Unsupported)?;
        // Until it has its last name.
        claim(file);
        match rustix::fs::linkat(file.as_fd(), c"", CWD, path, AtFlags::EMPTY_PATH) {
            Err(errno) if errno != Errno::EXIST => {
                // Without CAP_DAC_READ_SEARCH the descriptor has to be named through /proc.
                let name = format!("/proc/self/fd/{}", file.as_raw_fd());
                Ok(rustix::fs::linkat(CWD, name, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
            }
            done => Ok(done?),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // The file system lacks the flag, or the kernel the call.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_by_link(from, to),
            done => Ok(done?),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

/// Renames without replacing where `renameat2` cannot.
fn rename_by_link(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty()) {
        Ok(()) => std::fs::remove_file(from),
        // No hard links either.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => rename_by_creating(from, to),
        Err(errno) => Err(errno.into()),
    }
}

/// Renames without replacing where there are no hard links: whoever creates the name may replace what it made.
fn rename_by_creating(from: &Path, to: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(to)?;
    std::fs::rename(from, to).inspect_err(|_| {
        // Best effort on a way out that already has its error.
        let _ = std::fs::remove_file(to);
    })
}

/// Result of claiming a file.
enum Claim {
    Ours,
    /// Another process has it, or has removed it.
    Taken,
    /// The file system has no locks.
    Unknown,
}

fn claim(file: &File) -> Claim {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if file.metadata().is_ok_and(|found| found.nlink() > 0) => Claim::Ours,
        Ok(()) | Err(Errno::WOULDBLOCK) => Claim::Taken,
        Err(_) => Claim::Unknown,
    }
}

/// Removes the files in `dir` that `is_litter` takes for temporary ones, if the process that made them is gone.
pub(super) fn remove_litter(dir: &Path, is_litter: impl Fn(&OsStr) -> bool) {
    // What cannot be listed or opened stays as it is: cleaning up after others is no condition of anything.
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if !is_litter(&entry.file_name()) || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(entry.path());
        if let Ok(file) = opened
            && matches!(claim(&file), Claim::Ours)
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renaming_without_replacing_never_replaces() {
        type Rename = fn(&Path, &Path) -> io::Result<()>;
        for rename in [(|from, to| System.rename_new(from, to)) as Rename, rename_by_link, rename_by_creating] {
            let dir = tempfile::tempdir().unwrap();
            let (from, to) = (dir.path().join("from"), dir.path().join("to"));
            std::fs::write(&from, "new").unwrap();
            rename(&from, &to).unwrap();
            assert!(!from.exists() && std::fs::read(&to).unwrap() == b"new");
            std::fs::write(&from, "newer").unwrap();
            assert_eq!(rename(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert!(from.exists() && std::fs::read(&to).unwrap() == b"new");
        }
    }
}
