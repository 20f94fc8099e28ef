//! The steps of a build in shards that are separate processes: plan, pack each shard, assemble.

use std::path::Path;

use packfs_blocks::progress::Phase;
use packfs_blocks::{Output, Progress, pipeline};

use super::blob::{self, ShardBlob};
use super::job::{self, Job, NoStream, WrittenPlan};
use super::mark;
use super::{
    ALIGN, AnyOptions, MergedScans, PlanSummary, ShardJoiner, ShardLayout, WriterStart, check, first_place,
    only_readable, state,
};
use crate::build::order::FileOrderer;
use crate::build::{
    BuildConductor, BuildSummary, BuildTools, FormatOptions, ImageFormat, Plan, TreeCensus, commit, order_of,
    output_error,
};
use crate::source::Store;
use crate::tree::{DataHandling, FileRecipe};
use crate::{Error, Result};
use packfs_tree::encoding::FieldDecoder;

/// Mode of plans and shards: they hold the contents of files that others may not read.
pub(super) const PRIVATE: u32 = 0o600;

/// Writes a plan to byte `start` of the output and what follows; `all` are the options of `format`.
pub(crate) fn plan<F: ImageFormat>(
    (out, start): (&Output, u64),
    all: &AnyOptions,
    format: &F,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<(WrittenPlan, crate::Warnings)> {
    let options = format.options();
    let shards = options.shards.ok_or_else(|| Error::Misuse("a plan needs a number of shards".into()))?;
    check(options, shards)?;
    pipeline::scope(
        options.threads,
        || format.worker(),
        |pool| {
            progress.enter(Phase::Scan);
            // A plan that lies in its source must not list itself.
            let mut store = NoStream { own_files: out.own_files().to_vec() };
            let Plan { mut tree, order } = fill(&mut store)?;
            format.check(&mut tree)?;
            let how = order_of(format);
            let small_max = format.small_max().unwrap_or(u64::MAX);
            let orderer = FileOrderer { order: how, small_max, shards: Some(shards), pool, progress };
            let (mut files, _) = orderer.arrange(&tree, &order)?;
            only_readable(&mut tree, &mut files)?;
            let layout = ShardLayout::of(&orderer, options.dedup, &tree, &files, shards)?;
            let planned = job::write((out, start), all, &format.made_by()?, &mut tree, &layout)?;
            Ok::<_, Error>((planned, tree.warnings))
        },
    )
}

/// Packs a shard into a file in `dir`, unless a sound one is there already; returns whether it was packed now.
pub(crate) fn pack<F: ImageFormat>(dir: &Path, format: &F, job: &Job, shard: u32, progress: &Progress) -> Result<bool> {
    job.check_made_by(&format.made_by()?)?;
    let files = job.files(shard)?;
    let place = match shard {
        0 => WriterStart { base: 0, ..first_place(format, job.shards() > 1).0 },
        _ => WriterStart { base: 0, pos: 0, is_cut: true },
    };
    let target = blob::path(dir, shard);
    let mark = mark::of_shard(dir, shard);
    if is_sound(dir, format, (job, shard), place.pos, progress)? {
        // The mark may be out of date, because the shard was copied or touched.
        let _ = mark::write(&mark, job.id(), &target);
        return Ok(false);
    }
    let output = Output::create(&target, PRIVATE, true).map_err(output_error("cannot create", &target))?;
    let out = &output;
    pipeline::scope(
        format.options().threads,
        || format.worker(),
        |pool| {
            progress.enter(Phase::Data);
            job::expect(progress, job.bytes(shard));
            let done = put(format, BuildTools { pool, output: out, blob: None, progress }, place, &files)?;
            let mut content = Vec::new();
            super::ShardData::encode(&done, &mut content)?;
            let end = super::ShardData::end(&done);
            blob::finish(pool, out, (job, shard), (place.pos, end), &content)
        },
    )?;
    // A shard without a mark is finished, too. A shard with the mark of another file is not.
    let _ = std::fs::remove_file(&mark);
    end(output, progress)?;
    // Only `status` reads marks, and a shard without one counts as packed.
    let _ = mark::write(&mark, job.id(), &target);
    Ok(true)
}

/// Returns true if a shard is packed and its data is as it was; false if there is none, or a damaged one. Reading a
/// shard takes a small part of the time to pack it, and only a task that is repeated does it.
fn is_sound<F: ImageFormat>(
    dir: &Path,
    format: &F,
    (job, shard): (&Job, u32),
    start: u64,
    progress: &Progress,
) -> Result<bool> {
    let Ok(blob) = ShardBlob::open(dir, job, shard) else { return Ok(false) };
    progress.enter(Phase::Read);
    let read = pipeline::scope(format.options().threads, || format.worker(), |pool| blob.verify(pool, start, progress));
    match read {
        Ok(()) => Ok(true),
        Err(Error::Cancelled) => Err(Error::Cancelled),
        Err(_) => Ok(false),
    }
}

/// Packs the files of a shard.
fn put<'env, F: ImageFormat>(
    format: &'env F,
    tools: BuildTools<'_, 'env, F::WorkerState>,
    place: WriterStart,
    files: &[job::ShardFile],
) -> Result<F::DataPositions> {
    let mut conductor = BuildConductor::new(format, tools, place)?;
    for (from, key, size) in files {
        conductor.put_file(from, *key, *size, (DataHandling::empty(), FileRecipe::default()))?;
    }
    conductor.finish().map(|(done, _)| done)
}

/// Puts what was written under its name.
pub(super) fn end(output: Output, progress: &Progress) -> Result<()> {
    Error::unless_cancelled(progress)?;
    progress.enter(Phase::Flush);
    commit(output)?;
    progress.enter(Phase::Done);
    Ok(())
}

/// Makes the image of a plan of one shard, without a shard in between; replaces a file at `target`.
pub(crate) fn whole<F: ImageFormat>(target: &Path, format: &F, job: &Job, progress: &Progress) -> Result<BuildSummary> {
    job.check_made_by(&format.made_by()?)?;
    let files = job.files(0)?;
    let options = format.options();
    let output = Output::create(target, 0o666, true).map_err(output_error("cannot create", target))?;
    let output = output.clearing(options.offset, crate::build::SUPERBLOCK_END);
    let out = &output;
    let summary = pipeline::scope(
        options.threads,
        || format.worker(),
        |pool| {
            let tools = BuildTools { pool, output: out, blob: None, progress };
            progress.enter(Phase::Data);
            job::expect(progress, job.bytes(0));
            let place = WriterStart { base: options.offset, pos: format.data_start(), is_cut: false };
            let data = put(format, tools, place, &files)?;
            describe(format, tools, job, data)
        },
    )?;
    end(output, progress)?;
    Ok(summary)
}

/// Writes the metadata of an image of which the data is written.
fn describe<'env, F: ImageFormat>(
    format: &'env F,
    tools: BuildTools<'_, 'env, F::WorkerState>,
    job: &Job,
    data: F::DataPositions,
) -> Result<BuildSummary> {
    tools.progress.enter(Phase::Metadata);
    if super::ShardData::files(&data) != job.packed_files() {
        return Err(Error::Misuse("the shards do not have the files of the plan".into()));
    }
    let tree = job.tree()?;
    let census = TreeCensus::of(&tree);
    let written = format.finish(tools, &tree, &census, data)?;
    Ok(BuildSummary::new(&census, order_of(format), written, Vec::new(), tree.warnings).0)
}

/// Returns where the data of shards of these lengths ends if the first is shifted by `shift`, as [`ShardJoiner`] does
/// it.
fn joined_len(shift: u64, lens: impl Iterator<Item = u64>) -> u64 {
    // Lengths come from files, so their sum may not fit in 64 bits.
    let mut lens = lens.map(u128::from);
    let first = u128::from(shift) + lens.next().unwrap_or(0);
    let all = lens.fold(first, |end, len| end.next_multiple_of(ALIGN.into()) + len);
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// Names the shard that cannot be joined because it is missing or damaged, and notes that for [`Job::status`].
fn unusable(error: Error, dir: &Path, shard: u32) -> Error {
    match &error {
        // Assembly may have no permission to write to the directory.
        Error::Damaged { .. } => drop(mark::write_doubt(&mark::of_shard(dir, shard))),
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {}
        _ => return error,
    }
    Error::Shard { shard, source: Box::new(error) }
}

/// Makes the image of which all shards are in `dir`.
pub(crate) fn assemble<F: ImageFormat>(
    target: &Path,
    dir: &Path,
    format: &F,
    job: &Job,
    progress: &Progress,
) -> Result<BuildSummary> {
    let options = format.options();
    job.check_made_by(&format.made_by()?)?;
    let open = |shard| ShardBlob::open(dir, job, shard).map_err(|error| unusable(error, dir, shard));
    // All of them, so that a missing one is found before anything is written.
    let blobs = (0..job.shards()).map(open).collect::<Result<Vec<_>>>()?;
    let (place, shift) = first_place(format, blobs.len() > 1);
    // Before anything is copied.
    format.check_len(joined_len(shift, blobs.iter().map(|blob| blob.data_len)))?;
    let output = Output::create(target, 0o666, options.force).map_err(output_error("cannot create", target))?;
    let output = output.clearing(options.offset, crate::build::SUPERBLOCK_END);
    let out = &output;
    let summary = pipeline::scope(
        options.threads,
        || format.worker(),
        |pool| {
            let tools = BuildTools { pool, output: out, blob: None, progress };
            progress.enter(Phase::Data);
            job::expect(progress, blobs.iter().map(|blob| blob.data_len).sum());
            let mut joining = ShardJoiner::new(shift);
            for (shard, blob) in (0..).zip(&blobs) {
                joining.clear_gap(format, out)?;
                let start = if shard == 0 { place.pos } else { 0 };
                let to = options.offset + joining.shift + start;
                let copied = blob.copy(pool, out, (start, to), !job.trusting, progress);
                let content = copied.map_err(|error| unusable(error, dir, shard))?;
                let mut from = FieldDecoder::new("index of a shard", &content);
                let done = format.decode(&mut from, out.scratch())?;
                from.end()?;
                from.check(super::ShardData::end(&done) == blob.data_len, "the data has another length")?;
                joining.add(done)?;
            }
            let data = joining.all.ok_or_else(|| Error::Misuse("a plan without shards".into()))?;
            describe(format, tools, job, data)
        },
    )?;
    end(output, progress)?;
    Ok(summary)
}

impl Job {
    /// Packs a shard into a file in `dir`. Returns false if that was done before: then all its data is read and
    /// compared with its checksums, and a damaged shard is packed again. A task that takes longer than a second leaves
    /// its state there while it works, for [`Job::status`].
    ///
    /// # Errors
    /// [`Error::Changed`] names a file that is no longer as the plan has it.
    pub fn pack(&self, dir: &Path, shard: u32, progress: &Progress) -> Result<bool> {
        state::told(dir, self, shard, progress, || match self.options() {
            AnyOptions::Squashfs(options) => pack(dir, &options.checked()?, self, shard, progress),
            AnyOptions::Erofs(options) => pack(dir, &options.checked()?, self, shard, progress),
        })
    }

    /// Makes the image at `target` of a plan of one shard.
    pub(super) fn whole(&self, target: &Path, progress: &Progress) -> Result<BuildSummary> {
        match self.options() {
            AnyOptions::Squashfs(options) => whole(target, &options.checked()?, self, progress),
            AnyOptions::Erofs(options) => whole(target, &options.checked()?, self, progress),
        }
    }

    /// Makes the image at `target` from all shards in `dir`. It has the bytes of a build with the same options.
    ///
    /// # Errors
    /// [`Error::Shard`] names a shard that is missing, or whose bytes are not those that were packed. Nothing gets the
    /// name of the image then, and [`Job::status`] counts a damaged shard as such.
    pub fn assemble(&self, dir: &Path, target: &Path, progress: &Progress) -> Result<BuildSummary> {
        match self.options() {
            AnyOptions::Squashfs(options) => assemble(target, dir, &options.checked()?, self, progress),
            AnyOptions::Erofs(options) => assemble(target, dir, &options.checked()?, self, progress),
        }
    }
}

impl AnyOptions {
    /// Writes a plan of a build in [`shards`](super::SharedOptions::shards) to `target`; otherwise as
    /// [`AnyOptions::build`]. Sources have to be directories. Returns its figures, and warnings about the sources.
    pub fn plan(
        &self,
        target: &Path,
        progress: &Progress,
        fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
    ) -> Result<(PlanSummary, crate::Warnings)> {
        let force = self.common().force;
        let output = Output::create(target, PRIVATE, force).map_err(output_error("cannot create", target))?;
        let (laid, warned) = self.plan_at((&output, 0), progress, fill)?;
        end(output, progress)?;
        Ok((laid.figures, warned))
    }

    /// As [`AnyOptions::plan`], from parts of a scan and in memory that does not depend on the number of entries: about
    /// half of [`memory`](super::SharedOptions::memory), at most 128 MiB, besides 0.3 MiB for each part and all
    /// distinct sets of extended attributes. The rest is in temporary files beside `target`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] unless [`AnyOptions::merges`].
    pub fn plan_merged(
        &self,
        target: &Path,
        progress: &Progress,
        merged: &MergedScans,
    ) -> Result<(PlanSummary, crate::Warnings)> {
        let force = self.common().force;
        let output = Output::create(target, PRIVATE, force).map_err(output_error("cannot create", target))?;
        let (laid, warned) = match self {
            AnyOptions::Squashfs(options) => super::merge(&output, self, &options.checked()?, progress, merged),
            AnyOptions::Erofs(options) => super::merge(&output, self, &options.checked()?, progress, merged),
        }?;
        end(output, progress)?;
        Ok((laid.figures, warned))
    }

    /// Returns true if [`AnyOptions::plan_merged`] can write plans with these options: not if all times of the tree are to
    /// fit compact inodes of EROFS, extended attributes are shared by more than a hundred inodes only, or digests of inodes
    /// have a name that attributes of files may have.
    pub fn merges(&self) -> bool {
        let merges = match self {
            AnyOptions::Squashfs(options) => options.checked().map(|format| super::merges(&format)),
            AnyOptions::Erofs(options) => options.checked().map(|format| super::merges(&format)),
        };
        // Wrong options are reported when they are used.
        merges.unwrap_or(false)
    }

    /// Writes a plan to byte `start` of an output and what follows.
    pub(super) fn plan_at(
        &self,
        to: (&Output, u64),
        progress: &Progress,
        fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
    ) -> Result<(WrittenPlan, crate::Warnings)> {
        match self {
            AnyOptions::Squashfs(options) => plan(to, self, &options.checked()?, progress, fill),
            AnyOptions::Erofs(options) => plan(to, self, &options.checked()?, progress, fill),
        }
    }
}
