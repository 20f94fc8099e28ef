//! Cutting a build into shards, which can be packed apart from each other.
//!
//! The ordered list of files is cut into ranges ([`cuts`]). Each range is packed by a data writer of its own, which begins
//! without any knowledge of the others: at a cut, blocks in flight, the open fragment block and the streams of the packed
//! inode are finished, and dedup of blocks starts anew. Files that equal a file of an earlier shard are found beforehand
//! ([`equal`]) and are not packed again. The data of a shard lies at a multiple of [`ALIGN`] bytes and depends on nothing
//! before it, so it can be packed into a file of its own and moved to its place later.

mod blob;
mod cuts;
mod equal;
mod file;
mod job;
mod mark;
mod merge;
mod options;
mod set;
mod state;
mod status;
mod steps;

use std::ops::Range;

use packfs_blocks::{Output, Progress};
use packfs_tree::encoding::FieldEncoder;

pub use self::cuts::Shards;
pub(super) use self::cuts::weight;
pub use self::job::{Job, PlanSummary};
pub use self::merge::MergedScans;
use self::merge::{merge, merges};
pub use self::set::{Jobs, PlannedSet, Planner, Task};
pub use self::state::{FailedShard, RunningShard};
pub use self::status::{Images, Status};
use super::order::FileOrderer;
use super::{AnyOptions, BuildConductor, BuildTools, FileDigest, ImageFormat, SharedOptions};
use crate::tree::{FileData, Ino, Kind, Tree};
use crate::{Error, OnError, Result};

/// Shards begin at a multiple of this many bytes of the image: positions within a page, which matter to EROFS, do not
/// change when a shard is moved, and file systems can share whole blocks.
const ALIGN: u64 = 4096;

/// Position of the data that one writer writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterStart {
    /// Byte of the output at which position 0 lies.
    pub(crate) base: u64,
    /// Position of the first byte of data.
    pub(crate) pos: u64,
    /// True if other shards come before or after it.
    pub(crate) is_cut: bool,
}

/// Data of one shard or of several: what a format's data writer returns.
pub(crate) trait ShardData: Sized {
    /// Returns the position after the last byte of data.
    fn end(&self) -> u64;

    /// Adds `by` bytes, a multiple of [`ALIGN`], to all positions.
    fn shift(&mut self, by: u64);

    /// Appends the data of the next shard, of which the positions are shifted already. Its files get the next numbers.
    fn append(&mut self, next: Self) -> Result<()>;

    /// Appends the data to `to`, for [`ImageFormat::decode`].
    fn encode(&self, to: &mut dyn FieldEncoder) -> Result<()>;

    /// Returns the number of files.
    fn files(&self) -> usize;

    /// Receives the digests of all files, by number.
    fn put_sums(&mut self, _sums: Vec<FileDigest>) {}
}

/// Joins shards in their order.
struct ShardJoiner<D> {
    all: Option<D>,
    /// End of the shards so far.
    end: u64,
    /// Bytes by which the positions of the next shard are to be shifted.
    shift: u64,
}

impl<D: ShardData> ShardJoiner<D> {
    fn new(shift: u64) -> Self {
        ShardJoiner { all: None, end: shift, shift }
    }

    /// Makes what lies between the shards so far and the next one zeros: a device has old bytes there.
    fn clear_gap(&self, format: &impl ImageFormat, output: &Output) -> Result<()> {
        if self.end == self.shift {
            return Ok(());
        }
        let begin = format.options().offset + self.end;
        let cleared = output.leave_zeros_at(begin, self.shift - self.end);
        cleared.map_err(Error::io("cannot write", output.target()))
    }

    fn add(&mut self, mut next: D) -> Result<()> {
        next.shift(self.shift);
        self.end = next.end();
        self.shift = self.end.next_multiple_of(ALIGN);
        match &mut self.all {
            Some(all) => all.append(next),
            none => {
                *none = Some(next);
                Ok(())
            }
        }
    }
}

/// Returns the place of the first shard of an image, and the bytes by which its positions are to be shifted.
fn first_place<F: ImageFormat>(format: &F, is_cut: bool) -> (WriterStart, u64) {
    let start = format.data_start();
    let shift = start - start % ALIGN;
    (WriterStart { base: format.options().offset + shift, pos: start - shift, is_cut }, shift)
}

/// Refuses options that do not work with shards.
pub(super) fn check(options: &SharedOptions, shards: Shards) -> Result<()> {
    let refuse = |why: &str| Err(Error::option("shards", shards, why));
    if options.index.is_some() || options.reuse.is_some() {
        return refuse("an image in shards can neither reuse another one nor have an index");
    }
    if options.prefix.is_some() {
        return refuse("an image in shards cannot have a prefix");
    }
    if !options.recipes.is_empty() {
        // The list of a shard has paths only.
        return refuse("files of an image in shards cannot have codecs or cluster sizes of their own");
    }
    if options.on_error == OnError::Skip {
        // The plan has numbered all files, and a shard that lacks one would not fit.
        return refuse("an image in shards cannot leave out files that cannot be read");
    }
    Ok(())
}

/// Files of a tree by shard.
#[derive(Debug)]
struct ShardLayout {
    /// Files to pack, in the order of their data; their indices are the numbers of their data.
    files: Vec<Ino>,
    /// The files of each shard.
    ranges: Vec<Range<usize>>,
    /// Files that equal one of an earlier shard, with the number of its data.
    equal: Vec<(Ino, u32)>,
}

impl ShardLayout {
    /// Cuts the files of `tree`, which are given in order.
    fn of<S>(
        orderer: &FileOrderer<'_, '_, S>,
        dedup: bool,
        tree: &Tree,
        all: &[Ino],
        shards: Shards,
    ) -> Result<ShardLayout> {
        let mut ranges = cuts::ranges(tree, all, shards);
        let known = if dedup { equal::find(orderer, tree, all, &ranges)? } else { Vec::new() };
        let mut known = known.into_iter().peekable();
        let mut numbers = Vec::with_capacity(all.len());
        let mut files = Vec::with_capacity(all.len());
        let mut equal = Vec::new();
        for range in &mut ranges {
            let start = files.len();
            for at in range.clone() {
                if let Some((_, earlier)) = known.next_if(|(file, _)| *file == at) {
                    let number = numbers[earlier];
                    equal.push((all[at], number));
                    numbers.push(number);
                } else {
                    let number = u32::try_from(files.len());
                    numbers.push(number.map_err(|_| Error::TooMany { what: "files", max: 1 << 32 })?);
                    files.push(all[at]);
                }
            }
            *range = start..files.len();
        }
        Ok(ShardLayout { files, ranges, equal })
    }
}

/// Packs `files`, which are in order, shard after shard.
pub(super) fn put<'env, F: ImageFormat>(
    format: &'env F,
    tools: BuildTools<'_, 'env, F::WorkerState>,
    orderer: &FileOrderer<'_, '_, F::WorkerState>,
    tree: &mut Tree,
    files: &[Ino],
    shards: Shards,
) -> Result<F::DataPositions> {
    let layout = ShardLayout::of(orderer, format.options().dedup, tree, files, shards)?;
    let (mut place, shift) = first_place(format, layout.ranges.len() > 1);
    let mut joining = ShardJoiner::new(shift);
    let mut first = 0;
    for range in layout.ranges {
        joining.clear_gap(format, tools.output)?;
        let files = &layout.files[range];
        let conductor = BuildConductor::new(format, tools, place)?;
        // A file that cannot be read ends the build.
        let (done, _) = conductor.put_files(tree, files, first)?;
        first += u32::try_from(files.len()).expect("all of them have numbers");
        joining.add(done)?;
        place = WriterStart { base: format.options().offset + joining.shift, pos: 0, is_cut: true };
    }
    for (ino, number) in layout.equal {
        if let Kind::File { size, .. } = tree.inode(ino).kind {
            tree.set_data(ino, FileData::Stored(number))?;
            Progress::add(&tools.progress.done, size);
            Progress::add(&tools.progress.saved, size);
        }
    }
    joining.all.ok_or_else(|| Error::Misuse("a build of no shards".into()))
}

/// Removes files of no bytes from the list; refuses those that a stream has already stored.
pub(super) fn only_readable(tree: &mut Tree, files: &mut Vec<Ino>) -> Result<()> {
    let mut stored = None;
    tree.walk(|ino, _| {
        if let Kind::File { data: FileData::Stored(_), .. } = tree.inode(ino).kind {
            stored.get_or_insert(ino);
        }
        Ok(())
    })?;
    if let Some(ino) = stored {
        let why = "it can be read only once, and shards need sources that can be read again";
        return Err(Error::limit(tree.path_of(ino), why));
    }
    let is_empty = |ino: &Ino| matches!(tree.inode(*ino).kind, Kind::File { size: 0, .. });
    let empty: Vec<Ino> = files.extract_if(.., |ino| is_empty(ino)).collect();
    empty.into_iter().try_for_each(|ino| tree.set_data(ino, FileData::Empty))
}

#[cfg(test)]
pub(crate) mod far_tests;
#[cfg(test)]
mod steps_tests;
#[cfg(test)]
mod tests;
