//! Extraction: creates an image's entries in a directory, on all cores.
//!
//! The conductor walks the image and makes directories; workers make everything else: batches of
//! small files, each file from open to close, and large files in pieces. Hard links follow once all
//! files exist, and directories get their attributes last, the deepest first.

mod attributes;
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

use packfs_blocks::io::{FileSystem, SystemFiles};
use packfs_blocks::progress::Phase;
use packfs_blocks::{Progress, pipeline};

use self::conduct::ExtractConductor;
use self::place::ExtractTarget;
use self::restore::AttributeRestorer;
use self::work::{ExtractContext, ExtractWorker};
use super::{PartDealer, Selection, Walk};
use crate::image::{Image, Stat};
use crate::{Error, Fs, OnError, Part, Result};

packfs_blocks::options!(ExtractOptions);

impl Fs {
    /// Extracts everything into the directory `target`, which is created if it does not exist, with
    /// the default options; see [`extract`] for other options, parts and progress.
    pub fn extract(&self, target: impl AsRef<Path>) -> Result<ExtractSummary> {
        extract(self.image(), target.as_ref(), &ExtractOptions::default(), &Progress::default())
    }
}

/// Owner of the extracted entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owner {
    /// The image's owner if root extracts, otherwise the user who extracts.
    #[default]
    Auto,
    /// The image's owner; failures are reported.
    Restore,
    /// The user who extracts.
    Extractor,
}

/// Options of an extraction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExtractOptions {
    /// Entries to take.
    pub select: Selection,
    /// Number of leading components to remove from each path; entries with no more components than
    /// that are not created. The destination then keeps its own attributes.
    pub strip: usize,
    /// Number of worker threads; with 0, everything runs on the calling thread.
    pub threads: usize,
    /// Part of the entries to extract. Parts may be extracted in any order and at once, also by several machines; all of
    /// them give the whole. Existing directories then get the attributes of the image, as another part may have made
    /// them.
    pub part: Part,
    /// True to replace existing entries. Otherwise existing directories are filled but keep their
    /// attributes (an empty destination takes those of the image's root), and any other existing
    /// entry is an error. Directories are never removed.
    pub replace: bool,
    /// Owner of the entries.
    pub owner: Owner,
    /// True to give the destination the attributes of the image's root also if only some entries are selected, under the
    /// conditions of a whole image: it is empty, or [`replace`](Self::replace) is set.
    pub root_attributes: bool,
    /// True to restore extended attributes.
    pub xattrs: bool,
    /// True to restore times.
    pub times: bool,
    /// True to leave the image's holes as holes instead of writing zeros.
    pub sparse: bool,
    /// Action for entries that fail.
    pub on_error: OnError,
}

impl Default for ExtractOptions {
    fn default() -> Self {
        ExtractOptions {
            select: Selection::default(),
            strip: 0,
            threads: packfs_blocks::pipeline::cores(),
            part: Part::WHOLE,
            replace: false,
            owner: Owner::Auto,
            root_attributes: false,
            xattrs: true,
            times: true,
            sparse: true,
            on_error: OnError::Stop,
        }
    }
}

/// Result of an extraction.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ExtractSummary {
    /// Number of directories created or filled.
    pub directories: u64,
    /// Number of regular files created, not counting additional names of the same file.
    pub files: u64,
    /// Number of symbolic links created.
    pub symlinks: u64,
    /// Number of devices, named pipes and sockets created.
    pub special: u64,
    /// Number of additional names created.
    pub hard_links: u64,
    /// Number of bytes in regular files, including holes.
    pub bytes: u64,
    /// Attributes and entries that the system refused to restore.
    pub not_restored: Vec<NotRestored>,
    /// Entries left out because they failed ([`OnError::Skip`]).
    pub skipped: Vec<Error>,
    /// Inode numbers of those among them that may have several names.
    lost_inodes: Vec<u64>,
}

impl ExtractSummary {
    /// Notes that an entry is left out.
    fn skip(&mut self, error: Error, stat: &Stat) {
        self.skipped.push(error);
        self.lost_inodes.extend((stat.nlink > 1).then_some(stat.ino));
    }

    /// Returns true if everything requested was extracted.
    pub fn is_complete(&self) -> bool {
        self.not_restored.is_empty() && self.skipped.is_empty()
    }

    fn add(&mut self, other: ExtractSummary) {
        self.directories += other.directories;
        self.files += other.files;
        self.symlinks += other.symlinks;
        self.special += other.special;
        self.hard_links += other.hard_links;
        self.bytes += other.bytes;
        self.not_restored.extend(other.not_restored);
        self.skipped.extend(other.skipped);
        self.lost_inodes.extend(other.lost_inodes);
    }

    fn entries(&self) -> u64 {
        self.directories + self.files + self.symlinks + self.special + self.hard_links
    }
}

/// Something that differs from the image because the system refused it.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotRestored {
    /// The entry, below the destination.
    pub path: PathBuf,
    /// Attribute or entry: "owner 0:42", "xattr security.capability", "device 8:1", ...
    pub what: String,
    /// The system's error.
    pub why: io::Error,
}

impl std::fmt::Display for NotRestored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", crate::name::display(&self.path), self.what, self.why)
    }
}

/// Extracts `image` into the directory `dir`, which is created if it does not exist.
///
/// Nothing is ever written outside `dir`, whatever names and links the image or `dir` contains.
/// After an error, everything extracted so far stays, except incomplete files. The same holds after
/// [`Progress::cancel`], which stops the extraction at the next block.
pub fn extract(image: &dyn Image, dir: &Path, options: &ExtractOptions, progress: &Progress) -> Result<ExtractSummary> {
    extract_on(Arc::new(SystemFiles), image, dir, options, progress)
}

/// As [`extract`], with file data written through `files`.
fn extract_on(
    files: Arc<dyn FileSystem>,
    image: &dyn Image,
    dir: &Path,
    options: &ExtractOptions,
    progress: &Progress,
) -> Result<ExtractSummary> {
    progress.enter(Phase::Read);
    progress.entries_total.store(super::count(image, &options.select), Relaxed);
    let deal = PartDealer::new(image, &options.select, options.part)?;
    let mut walk = Walk::over(image, &options.select)?;
    let is_shared = options.part != Part::WHOLE;
    let (place, empty) = ExtractTarget::open(files, dir, options.replace, is_shared)?;
    let owner = match options.owner {
        Owner::Auto => place.uid == 0,
        Owner::Restore => true,
        Owner::Extractor => false,
    };
    let restore = AttributeRestorer { image, place: &place, owner, xattrs: options.xattrs, times: options.times };
    let context = ExtractContext::new(restore, options, progress);
    let summary = pipeline::scope(options.threads, ExtractWorker::default, |pool| {
        let restore_top = options.strip == 0 && (empty || options.replace || is_shared);
        let mut conductor = ExtractConductor::new(&context, pool, restore_top, (options.strip, deal));
        if options.root_attributes {
            conductor.root()?;
        }
        conductor.run(&mut walk)
    })?;
    progress.enter(Phase::Done);
    Ok(summary)
}
