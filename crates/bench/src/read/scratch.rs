//! A directory that is there as long as it is needed.

use std::path::Path;

use crate::{Error, Result};

/// A directory of its own below another. It is removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// Makes one.
    pub fn new(parent: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("packfs-bench-").tempdir_in(parent);
        dir.map(Scratch).map_err(Error::io(parent))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(dir.path()).unwrap();
        std::fs::create_dir_all(scratch.path().join("a/b")).unwrap();
        std::fs::write(scratch.path().join("a/b/c"), "text").unwrap();
        drop(scratch);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(Scratch::new(&dir.path().join("missing")).unwrap_err().to_string().contains("missing"));
    }
}
