//! `FileSystem`: how files are created and named, behind a trait so that tests can make each step fail.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::storage::Storage;
use crate::system::{self, FileClaim, claim};

/// Creates, names and removes files.
pub trait FileSystem: Send + Sync + fmt::Debug {
    /// Creates a file without a name in `dir`, which the system removes with its last descriptor.
    /// Fails with [`io::ErrorKind::Unsupported`] if the file system has no such files.
    fn create_unnamed(&self, dir: &Path, mode: u32) -> io::Result<Box<dyn Storage>>;

    /// Creates `path` and [claims](FileClaim) it. Fails with [`io::ErrorKind::AlreadyExists`] if the path exists.
    fn create_new(&self, path: &Path, mode: u32) -> io::Result<Box<dyn Storage>>;

    /// Takes over storage that was opened elsewhere.
    fn adopt(&self, storage: Box<dyn Storage>) -> Box<dyn Storage> {
        storage
    }

    /// Gives a file without a name the name `path`. Never replaces a file.
    fn link(&self, file: &dyn Storage, path: &Path) -> io::Result<()>;

    /// Renames a file, replacing an existing one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames a file; fails with [`io::ErrorKind::AlreadyExists`] if the target exists.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// The file systems of the running system.
///
/// Files that are created under a temporary name are claimed: they hold an advisory lock (`flock`)
/// as long as they are open. The kernel releases it when the process ends, in whatever way, so a
/// temporary file that can be locked is a leftover.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFiles;

impl FileSystem for SystemFiles {
    fn create_unnamed(&self, dir: &Path, mode: u32) -> io::Result<Box<dyn Storage>> {
        Ok(Box::new(system::create_unnamed(dir, mode)?))
    }

    fn create_new(&self, path: &Path, mode: u32) -> io::Result<Box<dyn Storage>> {
        let file = system::create_new(path, mode)?;
        match claim(&file) {
            // Between creation and claim another process took it for a leftover and removed it.
            FileClaim::Taken => Err(io::ErrorKind::AlreadyExists.into()),
            FileClaim::Ours | FileClaim::Unknown => Ok(Box::new(file)),
        }
    }

    fn link(&self, file: &dyn Storage, path: &Path) -> io::Result<()> {
        let file = file.file().ok_or(io::ErrorKind::Unsupported)?;
        // Held until the file has its final name.
        claim(file);
        system::name_file(file, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match system::rename_new(from, to) {
            // The file system lacks the flag, or the system the call.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
                rename_by_link(from, to)
            }
            done => done,
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

/// Renames without replacing where `renameat2` cannot do so.
fn rename_by_link(from: &Path, to: &Path) -> io::Result<()> {
    use io::ErrorKind::{PermissionDenied, TooManyLinks, Unsupported};
    match std::fs::hard_link(from, to) {
        Ok(()) => std::fs::remove_file(from),
        // The file system has no hard links either.
        Err(error) if matches!(error.kind(), PermissionDenied | Unsupported | TooManyLinks) => {
            rename_by_creating(from, to)
        }
        Err(error) => Err(error),
    }
}

/// Renames without replacing where there are no hard links: first creates the name, then replaces that file.
fn rename_by_creating(from: &Path, to: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(to)?;
    std::fs::rename(from, to).inspect_err(|_| {
        // Best effort: an error is already being returned.
        let _ = std::fs::remove_file(to);
    })
}

/// Removes temporary files in `dir`, as recognised by `is_litter`, if the process that made them is gone.
pub(super) fn remove_litter(dir: &Path, is_litter: impl Fn(&OsStr) -> bool) {
    // Files that cannot be listed or opened stay: failing to clean up after others is not an error.
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if !is_litter(&entry.file_name()) || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        if let Ok(file) = system::open_leftover(&entry.path())
            && matches!(claim(&file), FileClaim::Ours)
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
        for rename in [(|from, to| SystemFiles.rename_new(from, to)) as Rename, rename_by_link, rename_by_creating] {
            let dir = tempfile::tempdir().unwrap();
            let from = dir.path().join("from");
            let to = dir.path().join("to");
            std::fs::write(&from, "new").unwrap();
            rename(&from, &to).unwrap();
            assert!(!from.exists() && std::fs::read(&to).unwrap() == b"new");
            std::fs::write(&from, "newer").unwrap();
            assert_eq!(rename(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert!(from.exists() && std::fs::read(&to).unwrap() == b"new");
        }
    }
}
