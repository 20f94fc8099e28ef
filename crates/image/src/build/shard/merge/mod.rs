//! Plans from the parts of a scan, in bounded memory: the same bytes as a plan of the tree, which is never in memory.
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
//! for each part, and distinct sets of extended attributes.

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

use self::attributes::{Attributes, Checks, SAMPLE};
use self::equal::Known;
use self::names::{Collector, Number};
use self::sort::Sorter;
use super::job::{Laid, Lists};
use super::{AnyOptions, cuts};
use crate::build::order::Orderer;
use crate::build::{Format, order_of};
use crate::source::dir;
use crate::tree::{ROOT, Transform};
use crate::{Error, Result, Warnings};

/// Part of the memory that one sort uses: up to four are in use at the same time.
const SHARE: u64 = 8;
/// Memory of a sort, in bytes.
const LEAST: usize = if cfg!(test) { 4 << 10 } else { 1 << 20 };
const MOST: usize = 32 << 20;

/// A directory whose entries are taken from parts of a scan, and changes to them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Merged {
    /// The directory.
    pub source: PathBuf,
    /// Options of the scan, with its parts.
    pub scan: dir::Options,
    /// Changes to attributes.
    pub transform: Transform,
    /// True to move times outside of what SquashFS holds to its ends.
    pub clip_times: bool,
    /// Warnings so far.
    pub warnings: Warnings,
}

impl Merged {
    /// Makes a source of `scan.parts` without changes.
    pub fn new(source: impl Into<PathBuf>, scan: dir::Options) -> Merged {
        let (transform, clip_times, warnings) = (Transform::default(), false, Warnings::default());
        Merged { source: source.into(), scan, transform, clip_times, warnings }
    }

    /// Changes options.
    #[must_use]
    pub fn set(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// Where and how a merge works.
#[derive(Debug)]
struct Place<'p> {
    scratch: Scratch,
    /// Bytes of memory for one sort.
    memory: usize,
    source: &'p Path,
    output: &'p Output,
    progress: &'p Progress,
}

impl Place<'_> {
    fn sorter(&self) -> Sorter {
        Sorter::new(&self.scratch, self.memory)
    }

    /// Names the plan in an error about temporary files, which lie beside it.
    fn io<T>(&self, result: io::Result<T>) -> Result<T> {
        result.map_err(Error::io("cannot use a temporary file", self.output.target()))
    }
}

/// Returns true if [`merge`] can write plans with these options.
pub(crate) fn merges<F: Format>(format: &F) -> bool {
    format.checks_alone(SAMPLE)
}

/// Writes a plan from parts of a scan to an output.
pub(crate) fn merge<F: Format>(
    out: &Output,
    all: &AnyOptions,
    format: &F,
    progress: &Progress,
    merged: &Merged,
) -> Result<(Laid, Warnings)> {
    let options = format.options();
    let shards = options.shards.ok_or_else(|| Error::Misuse("a plan needs a number of shards".into()))?;
    super::check(options, shards)?;
    if !merges(format) {
        return Err(Error::Unsupported("a plan with these options needs the whole tree in memory".into()));
    }
    let memory = options.budget(SHARE, LEAST, MOST);
    let place = Place { scratch: out.scratch(), memory, source: &merged.source, output: out, progress };
    pipeline::scope(
        options.threads,
        || format.worker(),
        |pool| {
            progress.enter(Phase::Scan);
            let mut collector = Collector::new(&place);
            dir::stream(&merged.source, &merged.scan, &mut collector)?;
            let mut names = collector.finish()?;
            let limits = format.limits();
            let attributes = Attributes::new(merged, &limits, std::mem::take(&mut names.xattrs));
            let mut checks = Checks::new(&attributes, limits, merged.warnings.clone());
            let small_max = format.small_max().unwrap_or(u64::MAX);
            let orderer = Orderer { order: order_of(format), small_max, shards: Some(shards), pool, progress };
            let (root, walk) = names.walk(&place)?;
            checks.entry(&root, Number { ino: ROOT, links: 1, is_first: true }, Vec::new)?;
            let files = files::arrange(&place, &orderer, &names, walk, &mut checks)?;
            let warnings = checks.finish(format)?;
            let ranges = lists::ranges(&place, &files, shards)?;
            let known = match options.dedup {
                true => Known::find(&place, &orderer, &files, &ranges)?,
                false => Known::none(&place)?,
            };
            let mut lists = Lists::new(out, 0);
            let numbers = lists::write(&place, &mut lists, &files, &ranges, &known)?;
            let tree = tree::write(&place, lists.at, &names, &attributes, &numbers)?;
            let laid = lists.finish(all, &format.made_by()?, &tree, known.count)?;
            Ok::<_, Error>((laid, warnings))
        },
    )
}
