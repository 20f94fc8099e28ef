//! Where images are while they are measured: a directory that is gone when its time is over, whatever happens.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Error, Result};

/// Where files stay in memory, on Linux.
const MEMORY: &str = "/dev/shm";

/// A directory of its own; removed with all that is in it when dropped.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    /// One in `parent`; without, in memory if there is a place for that, else where temporary files go. It must not be
    /// within what is packed.
    pub fn new(parent: Option<&Path>, packed: Option<&Path>) -> Result<Self> {
        let memory = Some(Path::new(MEMORY)).filter(|path| path.is_dir());
        let parent = parent.or(memory).map_or_else(std::env::temp_dir, Path::to_owned);
        let within = |packed: &Path| Some(parent.canonicalize().ok()?.starts_with(packed.canonicalize().ok()?));
        if packed.and_then(within) == Some(true) {
            let text = "images cannot be made within what is packed; --scratch names another directory";
            return Err(Error::Usage(format!("{}: {text}", parent.display())));
        }
        let made = tempfile::Builder::new().prefix("packfs-bench-").tempdir_in(&parent);
        made.map(Scratch).map_err(Error::io(parent))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The directory that it is in.
    pub fn parent(&self) -> PathBuf {
        self.path().parent().unwrap_or(Path::new("/")).to_owned()
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
