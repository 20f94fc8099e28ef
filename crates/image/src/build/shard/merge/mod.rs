//! Merges the parts of a scan into a plan in bounded memory, because a tree of 10^9 entries fits few machines. The plan
//! has the bytes that a build with the tree in memory would write.
//!
//! | step | reads | writes |
//! |---|---|---|
//! | `names` | the parts, side by side | entries in the order of their inodes; inodes of files with several names, by sorting |
//! | `files` | the entries | files in the order of their data, by sorting |
//! | `equal` | the files, and their contents if lengths are equal | those that equal an earlier one, by sorting |
//! | `lists` | the files | the list of each shard; the numbers of data by inode, by sorting |
//! | `tree` | the entries twice, inodes and their lists of entries | the tree |
//!
//! Everything between the steps is in temporary files beside the plan. In memory are the buffers of a few sorts, a buffer
//! for each part, and distinct sets of extended attributes. Options that look at several entries at once need the tree;
//! [`merges`] tells which do not. Why there are two ways: `docs/decisions/0053-scans-in-parts.md`.

mod attributes;
mod equal;
mod files;
mod lists;
mod names;
mod sort;
mod spool;
#[cfg(test)]
mod tests;
mod tree;

use std::io;
use std::path::{Path, PathBuf};

use packfs_blocks::io::Scratch;
use packfs_blocks::progress::Phase;
use packfs_blocks::{Output, Progress, pipeline};

use self::attributes::{EntryAttributes, EntryChecks, SAMPLE};
use self::equal::EqualFiles;
use self::names::{EntryCollector, NameInode};
use self::sort::ExternalSorter;
use super::job::{ShardLists, WrittenPlan};
use super::{AnyOptions, cuts};
use crate::build::order::FileOrderer;
use crate::build::{ImageFormat, order_of};
use crate::source::dir;
use crate::tree::{ROOT, TreeTransform};
use crate::{Error, Result, Warnings};

/// One sort gets this part of the memory of a build: up to four are in use at a time, and half is left for the rest.
const SORT_SHARE: u64 = 8;
/// Least memory of a sort in bytes; little in tests, so that small trees have several runs.
const SORT_MEMORY_MIN: usize = if cfg!(test) { 4 << 10 } else { 1 << 20 };
/// Largest memory of a sort in bytes. Four take 128 of the 512 MiB in which every step of a build in shards
/// has to fit (docs/design/many-entries-in-shards.md).
const SORT_MEMORY_MAX: usize = 32 << 20;

/// A directory whose entries are taken from parts of a scan, and changes to them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MergedScans {
    /// The directory.
    pub source: PathBuf,
    /// Options of the scan, with its parts.
    pub scan: dir::Options,
    /// Changes to attributes.
    pub transform: TreeTransform,
    /// True to move times outside of what SquashFS holds to its ends.
    pub clip_times: bool,
    /// Warnings so far.
    pub warnings: Warnings,
}

impl MergedScans {
    /// Makes a source of `scan.parts` without changes.
    pub fn new(source: impl Into<PathBuf>, scan: dir::Options) -> MergedScans {
        MergedScans {
            source: source.into(),
            scan,
            transform: TreeTransform::default(),
            clip_times: false,
            warnings: Warnings::default(),
        }
    }

    /// Changes options.
    #[must_use]
    pub fn set(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// What all steps of a merge share.
#[derive(Debug)]
struct MergeContext<'p> {
    scratch: Scratch,
    /// Bytes of memory for one sort.
    memory: usize,
    source: &'p Path,
    output: &'p Output,
    progress: &'p Progress,
}

impl MergeContext<'_> {
    fn new_sorter(&self) -> ExternalSorter {
        ExternalSorter::new(&self.scratch, self.memory)
    }

    /// Names the plan in an error about temporary files, which lie beside it.
    fn io<T>(&self, result: io::Result<T>) -> Result<T> {
        result.map_err(Error::io("cannot use a temporary file", self.output.target()))
    }
}

/// Returns true if [`merge`] can write plans with these options.
pub(crate) fn merges<F: ImageFormat>(format: &F) -> bool {
    format.checks_alone(SAMPLE)
}

/// Writes a plan from parts of a scan to an output.
pub(crate) fn merge<F: ImageFormat>(
    out: &Output,
    all: &AnyOptions,
    format: &F,
    progress: &Progress,
    merged: &MergedScans,
) -> Result<(WrittenPlan, Warnings)> {
    let options = format.options();
    let shards = options.shards.ok_or_else(|| Error::Misuse("a plan needs a number of shards".into()))?;
    super::check(options, shards)?;
    if !merges(format) {
        return Err(Error::Unsupported("a plan with these options needs the whole tree in memory".into()));
    }
    let memory = options.budget(SORT_SHARE, SORT_MEMORY_MIN, SORT_MEMORY_MAX);
    let context = MergeContext { scratch: out.scratch(), memory, source: &merged.source, output: out, progress };
    pipeline::scope(
        options.threads,
        || format.worker(),
        |pool| {
            progress.enter(Phase::Scan);
            let mut collector = EntryCollector::new(&context);
            dir::stream(&merged.source, &merged.scan, &mut collector)?;
            let mut scanned = collector.finish()?;
            let limits = format.limits();
            let attributes = EntryAttributes::new(merged, &limits, std::mem::take(&mut scanned.xattrs));
            let mut checks = EntryChecks::new(&attributes, limits, merged.warnings.clone());
            let small_max = format.small_max().unwrap_or(u64::MAX);
            let orderer = FileOrderer { order: order_of(format), small_max, shards: Some(shards), pool, progress };
            let (root, walk) = scanned.walk(&context)?;
            // A walk has no path for the root.
            checks.check_entry(&root, NameInode { ino: ROOT, links: 1, is_first: true }, Vec::new)?;
            let files = files::arrange_files(&context, &orderer, &scanned, walk, &mut checks)?;
            let warnings = checks.finish(format)?;
            let ranges = lists::cut_shards(&context, &files, shards)?;
            let equal_files = if options.dedup {
                EqualFiles::find(&context, &orderer, &files, &ranges)?
            } else {
                EqualFiles::none(&context)?
            };
            let mut lists = ShardLists::new(out, 0);
            let data_numbers = lists::write_lists(&context, &mut lists, &files, &ranges, &equal_files)?;
            let tree = tree::write_tree(&context, lists.at, &scanned, &attributes, &data_numbers)?;
            let laid = lists.finish(all, &format.made_by()?, &tree, equal_files.count)?;
            Ok::<_, Error>((laid, warnings))
        },
    )
}
