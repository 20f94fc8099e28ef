//! Extraction: an image's entries made in a directory, on all cores.
//!
//! The conductor walks the image and makes directories; workers make everything else, batches of small
//! files each from open to close, large files in pieces. Hard links come when all files are there, and
//! directories get their attributes last, the deepest first.

mod conduct;
mod content;
mod place;
mod restore;
#[cfg(test)]
mod tests;
mod work;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use packfs_blocks::io::{FileSystem, System};
use packfs_blocks::progress::Phase;
use packfs_blocks::{Progress, pipeline};

use self::conduct::Conductor;
use self::place::Place;
use self::restore::Restore;
use self::work::{Context, Worker};
use super::Walk;
use crate::image::Image;
use crate::source::Exclude;
use crate::{Error, OnError, Result};

/// Whose the extracted entries are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owner {
    /// As the image says if root extracts, otherwise whoever extracts.
    #[default]
    Auto,
    /// As the image says; where that fails, it is reported.
    Restore,
    /// Whoever extracts.
    Extractor,
}

/// How to extract.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// What to extract, see [`Walk::new`]; empty for everything.
    pub paths: Vec<PathBuf>,
    /// Entries to leave out of that.
    pub exclude: Exclude,
    /// How many leading components of each path to cut off; entries with no more than that are not made. The destination
    /// then keeps its own attributes.
    pub strip: usize,
    /// Worker threads; 0 does everything on the calling thread.
    pub threads: usize,
    /// Whether to replace what is there. Without it existing directories are filled but keep their
    /// attributes (an empty destination takes those of the image's root), and anything else that exists
    /// is an error. Directories are never removed.
    pub replace: bool,
    /// Whose the entries will be.
    pub owner: Owner,
    /// Whether to restore extended attributes.
    pub xattrs: bool,
    /// Whether to leave holes where the image has them rather than write zeros.
    pub sparse: bool,
    /// What to do about entries that fail.
    pub on_error: OnError,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            paths: Vec::new(),
            exclude: Exclude::default(),
            strip: 0,
            threads: packfs_blocks::pipeline::cores(),
            replace: false,
            owner: Owner::Auto,
            xattrs: true,
            sparse: true,
            on_error: OnError::Stop,
        }
    }
}

/// What was done.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Directories made or filled.
    pub directories: u64,
    /// Regular files made, without further names of the same file.
    pub files: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// Devices, named pipes and sockets made.
    pub special: u64,
    /// Further names of files made.
    pub hard_links: u64,
    /// Bytes of regular files, holes included.
    pub bytes: u64,
    /// Attributes and entries that the system did not let restore.
    pub not_restored: Vec<NotRestored>,
    /// Entries left out because they failed ([`OnError::Skip`]).
    pub skipped: Vec<Error>,
}

impl Summary {
    /// Whether everything that was asked for is there.
    pub fn is_complete(&self) -> bool {
        self.not_restored.is_empty() && self.skipped.is_empty()
    }

    fn add(&mut self, other: Summary) {
        self.directories += other.directories;
        self.files += other.files;
        self.symlinks += other.symlinks;
        self.special += other.special;
        self.hard_links += other.hard_links;
        self.bytes += other.bytes;
        self.not_restored.extend(other.not_restored);
        self.skipped.extend(other.skipped);
    }

    fn entries(&self) -> u64 {
        self.directories + self.files + self.symlinks + self.special + self.hard_links
    }
}

/// Something that is not as in the image, because the system refused.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotRestored {
    /// The entry, below the destination.
    pub path: PathBuf,
    /// What of it: "owner 0:42", "xattr security.capability", "device 8:1", ...
    pub what: String,
    /// Why.
    pub why: io::Error,
}

impl std::fmt::Display for NotRestored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", crate::name::display(&self.path), self.what, self.why)
    }
}

/// Extracts `image` into the directory `dir`, which is made if it does not exist.
///
/// Nothing is ever written outside `dir`, whatever names and links the image holds and whatever links
/// lie in `dir`. On an error what was extracted so far stays, except for files that were not whole; so it does after
/// [`Progress::cancel`], which stops it at the next block.
pub fn extract(image: &dyn Image, dir: &Path, options: &Options, progress: &Progress) -> Result<Summary> {
    extract_on(Arc::new(System), image, dir, options, progress)
}

/// The same with file data written through `files`.
fn extract_on(
    files: Arc<dyn FileSystem>,
    image: &dyn Image,
    dir: &Path,
    options: &Options,
    progress: &Progress,
) -> Result<Summary> {
    progress.enter(Phase::Read);
    progress.entries_total.store(super::count(image, &options.paths, &options.exclude), Relaxed);
    let mut walk = Walk::new(image, &options.paths)?.excluding(&options.exclude);
    let (place, empty) = Place::open(files, dir, options.replace)?;
    let owner = match options.owner {
        Owner::Auto => place.uid == 0,
        Owner::Restore => true,
        Owner::Extractor => false,
    };
    let restore = Restore { image, place: &place, owner, xattrs: options.xattrs };
    let context = Context::new(restore, options, progress);
    let summary = pipeline::scope(options.threads, Worker::default, |pool| {
        let restore_top = options.strip == 0 && (empty || options.replace);
        Conductor::new(&context, pool, restore_top, options.strip).run(&mut walk)
    })?;
    progress.enter(Phase::Done);
    Ok(summary)
}
