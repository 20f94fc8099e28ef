//! The index for updates of an image that is being built.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::percent::{self, is_unreserved};
use packfs_blocks::{Output, Progress};
use packfs_delta::PatchEffort;
use packfs_delta::zsync::{IndexOptions, ZsyncIndex};
use packfs_image::name::display;

use crate::args::DeltaIndex;
use crate::commands::seal::open_image;
use crate::output::failure::UsageError;
use crate::output::target;

/// Longest name of a file in the index: zsync reads lines of 1 KiB.
const NAME_MAX: usize = 900;

/// An index whose file was created before the image is built.
pub(super) struct PendingIndex {
    output: Output,
    options: IndexOptions,
}

impl PendingIndex {
    /// Prepares the index of an image.
    pub(super) fn prepare(image: &Path, index: &DeltaIndex, force: bool) -> Result<Self> {
        if image.exists() && !image.is_file() {
            let name = display(image);
            return Err(
                UsageError(format!("--delta-index: {name} is not a regular file, beside which it could be")).into()
            );
        }
        let mut path = image.as_os_str().to_owned();
        path.push(".zsync");
        let output = target::create(Path::new(&path), target::READABLE, force)?;
        Ok(PendingIndex { output, options: index_options(image, index.url.clone()) })
    }

    /// Writes the index of the image, which is complete.
    pub(super) fn complete(self, image: &Path, threads: usize, progress: &Arc<Progress>) -> Result<()> {
        let effort = PatchEffort { threads, progress: Arc::clone(progress) };
        let made = open_image(image).and_then(|bytes| Ok(ZsyncIndex::of_file(&*bytes, &self.options, &effort)?));
        made.and_then(|index| target::fill_bytes(self.output, &index.encode()))
            .with_context(|| format!("{}: the image is complete, but has no index", display(image)))
    }
}

/// Returns the options of an image's index; without an address, the image is beside the index.
pub(in crate::commands) fn index_options(image: &Path, url: Option<String>) -> IndexOptions {
    let file_name = image.file_name().unwrap_or(image.as_os_str());
    IndexOptions::default().set(|all| {
        // A name that would break the line is left out, as readers can do without.
        let text = file_name.to_str().filter(|name| !name.contains(char::is_control) && name.len() <= NAME_MAX);
        all.file_name = text.map(str::to_owned);
        all.url = Some(url.unwrap_or_else(|| percent::encode(file_name.as_bytes(), is_unreserved)));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_addresses() {
        for (name, url) in [("root-1.sqfs", "root-1.sqfs"), ("a b:1%.img", "a%20b%3A1%25.img"), ("ü", "%C3%BC")] {
            assert_eq!(index_options(Path::new(name), None).url.as_deref(), Some(url));
        }
    }
}
