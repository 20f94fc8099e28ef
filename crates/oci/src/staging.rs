//! Directories for what is not complete yet. A killed program leaves one; the next that writes to the same place
//! removes it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use packfs_blocks::system;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// A directory that vanishes when it is dropped. The process holds a lock on it, by which others know that it is used.
#[derive(Debug)]
pub(crate) struct StagingDir {
    path: PathBuf,
    _lock: File,
}

impl StagingDir {
    /// Makes a directory in `parent`, whose name begins with `prefix`; removes those that nobody uses any longer.
    pub(crate) fn create(parent: &Path, prefix: &str) -> Result<Self> {
        remove_abandoned(parent, prefix);
        // The process ID keeps programs apart, the number those parts of one program that write to the same place.
        for number in 0.. {
            let path = parent.join(format!("{prefix}{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    if let Some(lock) = lock_new(&path)? {
                        return Ok(StagingDir { path, _lock: lock });
                    }
                }
                // A thousand leftovers are no accident: then the error is better than an endless search.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 1000 => {}
                // The directory, and not the name in it, is what the user knows.
                Err(error) => return Err(Error::io("cannot write to the directory", parent)(error)),
            }
        }
        unreachable!("the loop returns")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        // Nothing depends on it: the next run tries again.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Locks a new directory; returns `None` if another process has taken it for a leftover before that.
fn lock_new(path: &Path) -> Result<Option<File>> {
    let lock = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::io("cannot open", path))?,
    };
    // File systems without locks have no others that remove it, either.
    if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    Ok(has_name(&lock, path).then_some(lock))
}

/// Returns true if an open directory is the one of a name, which another may have got meanwhile.
fn has_name(dir: &File, path: &Path) -> bool {
    let (Ok(opened), Ok(named)) = (dir.metadata(), std::fs::metadata(path)) else { return false };
    system::identity(&opened) == system::identity(&named)
}

/// Removes directories of programs that were killed: those that nobody has locked.
fn remove_abandoned(parent: &Path, prefix: &str) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_staging(&entry.file_name(), prefix)) {
        let path = entry.path();
        let Ok(dir) = File::open(&path) else { continue };
        // A lock that is free belongs to a program that has ended: the kernel drops locks with the process. It is held until
        // the directory is gone, so that whoever made it notices.
        let is_abandoned = flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok() && has_name(&dir, &path);
        // A symbolic link of this name is not ours; removing through it could reach anything.
        if is_abandoned && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Returns true for the name of a staging directory.
pub(crate) fn is_staging(name: &OsStr, prefix: &str) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix(prefix));
    // Only digits and hyphens: user files that happen to begin like this stay.
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abandoned_directories_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        for name in [".x-1-0", ".x-home", "other"] {
            std::fs::create_dir(parent.path().join(name)).unwrap();
        }
        let used = StagingDir::create(parent.path(), ".x-").unwrap();
        let second = StagingDir::create(parent.path(), ".x-").unwrap();
        assert!(used.path().exists() && second.path() != used.path());
        let left: Vec<bool> = [".x-1-0", ".x-home", "other"].map(|name| parent.path().join(name).exists()).into();
        assert_eq!(left, [false, true, true]);
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_another_process_takes_for_a_leftover_is_given_up() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join(".x-1-0");
        assert!(lock_new(&path).unwrap().is_none(), "removed");
        std::fs::create_dir(&path).unwrap();
        let others = File::open(&path).unwrap();
        flock(&others, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(lock_new(&path).unwrap().is_none(), "about to be removed");
        drop(others);
        assert!(lock_new(&path).unwrap().is_some());
    }

    #[test]
    fn many_directories_are_made_at_once() {
        let parent = tempfile::tempdir().unwrap();
        let make = || {
            for _ in 0..200 {
                let made = StagingDir::create(parent.path(), ".x-").unwrap();
                std::fs::write(made.path().join("file"), "bytes").unwrap();
                assert_eq!(std::fs::read(made.path().join("file")).unwrap(), b"bytes");
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(make);
            }
        });
    }
}
