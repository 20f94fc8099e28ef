//! A temporary directory for images, which is always removed.

use packfs_image::name::display;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use packfs_blocks::mutex;
use tempfile::TempDir;

use crate::{Error, Result};

/// A directory in memory that almost every Linux has. What is in it needs no disk, so no disk is measured.
pub(crate) const MEMORY_DIR: &str = "/dev/shm";

/// Number of attempts to remove a directory that an ending program may still write to.
const REMOVAL_ATTEMPTS: u32 = 100;
/// Pause between these attempts: a second in all.
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// Directories in use, for [`remove_all`].
static IN_USE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A temporary directory, removed with its contents when dropped.
#[derive(Debug)]
pub struct ScratchDir(TempDir);

/// Removes all directories in use, before this process ends at once. Can be called from any thread.
pub fn remove_all() {
    let in_use = mutex::lock(&IN_USE);
    for dir in in_use.iter() {
        for _ in 0..REMOVAL_ATTEMPTS {
            // Errors cannot be reported any more.
            let _ = std::fs::remove_dir_all(dir);
            if !dir.exists() {
                break;
            }
            std::thread::sleep(REMOVAL_PAUSE);
        }
    }
}

impl ScratchDir {
    /// Creates a directory in `parent`. Without a parent it is in memory, if possible, else among temporary files. It
    /// must not lie within `packed`.
    pub fn new(parent: Option<&Path>, packed: Option<&Path>) -> Result<Self> {
        let memory = Some(Path::new(MEMORY_DIR)).filter(|path| path.is_dir());
        let parent = parent.or(memory).map_or_else(std::env::temp_dir, Path::to_owned);
        let is_within = |packed: &Path| Some(parent.canonicalize().ok()?.starts_with(packed.canonicalize().ok()?));
        if packed.and_then(is_within) == Some(true) {
            let text = "images cannot be made within what is packed; --scratch names another directory";
            return Err(Error::Usage(format!("{}: {text}", display(&parent))));
        }
        ScratchDir::within(&parent, "packfs-bench-")
    }

    /// Creates a directory in `parent` whose name begins with `prefix`.
    pub fn within(parent: &Path, prefix: &str) -> Result<Self> {
        // Held until the directory is registered, or `remove_all` could miss it.
        let mut in_use = mutex::lock(&IN_USE);
        let made = tempfile::Builder::new().prefix(prefix).tempdir_in(parent).map_err(Error::io(parent))?;
        in_use.push(made.path().to_owned());
        Ok(ScratchDir(made))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the parent directory.
    pub fn parent(&self) -> PathBuf {
        self.path().parent().unwrap_or(Path::new("/")).to_owned()
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // It remains registered until it is removed, because a signal may arrive in between.
        let _ = std::fs::remove_dir_all(self.path());
        mutex::lock(&IN_USE).retain(|dir| dir != self.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_gone_with_all_that_is_in_it_and_never_within_the_source() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        let other = dir.path().join("other");
        std::fs::create_dir_all(source.join("sub")).unwrap();
        std::fs::create_dir(&other).unwrap();
        let scratch = ScratchDir::new(Some(&other), Some(&source)).unwrap();
        std::fs::write(scratch.path().join("image"), "data").unwrap();
        assert_eq!(scratch.parent(), other);
        drop(scratch);
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
        let error = ScratchDir::new(Some(&source.join("sub")), Some(&source)).unwrap_err().to_string();
        assert!(error.contains("--scratch names another"), "{error}");
        assert!(ScratchDir::new(Some(&dir.path().join("missing")), None).is_err());
    }
}
