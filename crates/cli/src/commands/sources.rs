//! From the SOURCE arguments to a tree.

use std::path::Path;
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_image::source::{self, Source, dir, tar};

pub(super) fn open(path: &Path, progress: &Arc<Progress>, threads: usize) -> packfs_image::Result<Box<dyn Source>> {
    if path == Path::new("-") {
        return tar::open(None, tar::TarOptions::default());
    }
    if path.is_dir() {
        let options = dir::Options { threads, progress: Some(Arc::clone(progress)), ..dir::Options::default() };
        return Ok(Box::new(source::Dir::new(path, options)));
    }
    tar::open(Some(path), tar::TarOptions::default())
}
