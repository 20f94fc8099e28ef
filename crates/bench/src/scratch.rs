//! A directory for images while they are measured. It is always removed.

use packfs_image::name::display;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Error, Result};

/// Directory whose files stay in memory, on Linux.
const MEMORY: &str = "/dev/shm";

/// Tries to remove a directory that a program which is just ending may still write to, and the time between them.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Directories in use, for [`remove_all`].
static IN_USE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory of its own; removed with all that is in it when dropped.
#[derive(Debug)]
pub struct Scratch(TempDir);

/// Removes all directories in use: for when this process is to end at once. From any thread.
pub fn remove_all() {
    let in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    for dir in in_use.iter() {
        for _ in 0..TRIES {
            // Nobody is left to tell if this fails.
            let _ = std::fs::remove_dir_all(dir);
            if !dir.exists() {
                break;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Scratch {
    /// One in `parent`; without, in memory if there is a place for that, else where temporary files go. It must not be
    /// within what is packed.
    pub fn new(parent: Option<&Path>, packed: Option<&Path>) -> Result<Self> {
        let memory = Some(Path::new(MEMORY)).filter(|path| path.is_dir());
        let parent = parent.or(memory).map_or_else(std::env::temp_dir, Path::to_owned);
        let within = |packed: &Path| Some(parent.canonicalize().ok()?.starts_with(packed.canonicalize().ok()?));
        if packed.and_then(within) == Some(true) {
            let text = "images cannot be made within what is packed; --scratch names another directory";
            return Err(Error::Usage(format!("{}: {text}", display(&parent))));
        }
        Scratch::within(&parent, "packfs-bench-")
    }

    /// One in `parent` whose name begins with `prefix`.
    pub fn within(parent: &Path, prefix: &str) -> Result<Self> {
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let made = tempfile::Builder::new().prefix(prefix).tempdir_in(parent).map_err(Error::io(parent))?;
        in_use.push(made.path().to_owned());
        Ok(Scratch(made))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The directory that it is in.
    pub fn parent(&self) -> PathBuf {
        self.path().parent().unwrap_or(Path::new("/")).to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Until it is gone it stays in use: a signal may come in between.
        let _ = std::fs::remove_dir_all(self.path());
        IN_USE.lock().unwrap_or_else(PoisonError::into_inner).retain(|dir| dir != self.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_gone_with_all_that_is_in_it_and_never_within_the_source() {
        let dir = tempfile::tempdir().unwrap();
        let (source, other) = (dir.path().join("source"), dir.path().join("other"));
        std::fs::create_dir_all(source.join("sub")).unwrap();
        std::fs::create_dir(&other).unwrap();
        let scratch = Scratch::new(Some(&other), Some(&source)).unwrap();
        std::fs::write(scratch.path().join("image"), "data").unwrap();
        assert_eq!(scratch.parent(), other);
        drop(scratch);
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
        let error = Scratch::new(Some(&source.join("sub")), Some(&source)).unwrap_err().to_string();
        assert!(error.contains("--scratch names another"), "{error}");
        assert!(Scratch::new(Some(&dir.path().join("missing")), None).is_err());
    }
}
