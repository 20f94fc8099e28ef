//! The steps of a build in shards that are separate processes: plan, pack each shard, assemble.

use std::path::Path;

use packfs_blocks::progress::Phase;
use packfs_blocks::{Output, Progress, pipeline};

use super::blob::{self, Blob};
use super::job::{self, Job, NoStream};
use super::wire::Get;
use super::{AnyOptions, Joining, Layout, Place, Planned, check, first_place, only_readable, state};
use crate::build::order::Orderer;
use crate::build::{Census, Conductor, Format, Plan, Summary, Tools, commit, order_of, output_error};
use crate::source::Store;
use crate::tree::{Handling, Recipe};
use crate::{Error, Result};

/// Mode of plans and shards: they hold the contents of files that others may not read.
pub(super) const PRIVATE: u32 = 0o600;

/// Writes a plan to `target`; `all` are the options of `format`.
pub(crate) fn plan<F: Format>(
    target: &Path,
    all: &AnyOptions,
    format: &F,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<(Planned, crate::Warnings)> {
    let options = format.options();
    let shards = options.shards.ok_or_else(|| Error::Misuse("a plan needs a number of shards".into()))?;
    check(options, shards)?;
    let output = Output::create(target, PRIVATE, options.force).map_err(output_error("cannot create", target))?;
    let out = &output;
    let planned = pipeline::scope(
        options.threads,
        || format.worker(),
        |pool| {
            progress.enter(Phase::Scan);
            let mut store = NoStream { own_files: out.own_files().to_vec() };
            let Plan { mut tree, order } = fill(&mut store)?;
            format.check(&mut tree)?;
            let how = order_of(format);
            let orderer = Orderer { order: how, small_max: format.small_max().unwrap_or(u64::MAX), pool, progress };
            let (mut files, _) = orderer.arrange(&tree, &order)?;
            only_readable(&mut tree, &mut files)?;
            let layout = Layout::of(&orderer, options.dedup, &tree, &files, shards)?;
            let planned = job::write(out, all, &format.made_by()?, &mut tree, &layout)?;
            Ok::<_, Error>((planned, tree.warnings))
        },
    )?;
    Error::unless_cancelled(progress)?;
    progress.enter(Phase::Flush);
    commit(output)?;
    progress.enter(Phase::Done);
    Ok(planned)
}

/// Packs a shard into a file in `dir`, unless that is done already; returns whether it was packed now.
pub(crate) fn pack<F: Format>(dir: &Path, format: &F, job: &Job, shard: u32, progress: &Progress) -> Result<bool> {
    job.check_made_by(&format.made_by()?)?;
    let files = job.files(shard)?;
    if Blob::open(dir, job, shard).is_ok() {
        return Ok(false);
    }
    let target = blob::path(dir, shard);
    let output = Output::create(&target, PRIVATE, true).map_err(output_error("cannot create", &target))?;
    let out = &output;
    pipeline::scope(
        format.options().threads,
        || format.worker(),
        |pool| {
            progress.enter(Phase::Data);
            job::expect(progress, job.bytes(shard));
            let place = match shard {
                0 => Place { base: 0, ..first_place(format, job.shards() > 1).0 },
                _ => Place { base: 0, pos: 0, is_cut: true },
            };
            let mut conductor = Conductor::new(format, Tools { pool, output: out, progress }, place)?;
            for (from, key, size) in &files {
                conductor.put_file(from, *key, *size, (Handling::empty(), Recipe::default()))?;
            }
            let (done, _) = conductor.finish()?;
            let mut content = Vec::new();
            super::Joined::encode(&done, &mut content)?;
            let end = super::Joined::end(&done);
            blob::finish(pool, out, (job, shard), (place.pos, end), &content)
        },
    )?;
    Error::unless_cancelled(progress)?;
    progress.enter(Phase::Flush);
    commit(output)?;
    progress.enter(Phase::Done);
    Ok(true)
}

/// Makes the image of which all shards are in `dir`.
pub(crate) fn assemble<F: Format>(
    target: &Path,
    dir: &Path,
    format: &F,
    job: &Job,
    progress: &Progress,
) -> Result<Summary> {
    let options = format.options();
    job.check_made_by(&format.made_by()?)?;
    let blobs = (0..job.shards()).map(|shard| Blob::open(dir, job, shard)).collect::<Result<Vec<_>>>()?;
    let output = Output::create(target, 0o666, options.force).map_err(output_error("cannot create", target))?;
    let output = output.clearing(options.offset, crate::build::SUPERBLOCK_END);
    let out = &output;
    let (summary, _) = pipeline::scope(
        options.threads,
        || format.worker(),
        |pool| {
            let tools = Tools { pool, output: out, progress };
            progress.enter(Phase::Data);
            job::expect(progress, blobs.iter().map(|blob| blob.data_len).sum());
            let tree = job.tree()?;
            let (place, shift) = first_place(format, blobs.len() > 1);
            let mut joining = Joining { all: None, shift };
            for (shard, blob) in blobs.iter().enumerate() {
                let start = if shard == 0 { place.pos } else { 0 };
                let to = options.offset + joining.shift + start;
                let content = blob.copy(pool, out, (start, to), progress)?;
                let mut from = Get::new("index of a shard", &content);
                let done = format.decode(&mut from, out.scratch())?;
                from.end()?;
                from.check(super::Joined::end(&done) == blob.data_len, "the data has another length")?;
                joining.add(done)?;
            }
            progress.enter(Phase::Metadata);
            let data = joining.all.ok_or_else(|| Error::Misuse("a plan without shards".into()))?;
            if super::Joined::files(&data) != job.packed_files() {
                return Err(Error::Misuse("the shards have not the files of the plan".into()));
            }
            let census = Census::of(&tree);
            let written = format.finish(tools, &tree, &census, data)?;
            Ok::<_, Error>(Summary::new(&census, order_of(format), written, Vec::new(), tree.warnings))
        },
    )?;
    Error::unless_cancelled(progress)?;
    progress.enter(Phase::Flush);
    commit(output)?;
    progress.enter(Phase::Done);
    Ok(summary)
}

impl Job {
    /// Packs a shard into a file in `dir`. Returns false if that was done before. A task that takes longer than a second
    /// leaves its state there while it works, for [`Job::status`].
    ///
    /// # Errors
    /// [`Error::Changed`] names a file that is no longer as the plan has it.
    pub fn pack(&self, dir: &Path, shard: u32, progress: &Progress) -> Result<bool> {
        state::told(dir, self, shard, progress, || match self.options() {
            AnyOptions::Squashfs(options) => crate::squashfs::pack_shard(dir, options, self, shard, progress),
            AnyOptions::Erofs(options) => crate::erofs::pack_shard(dir, options, self, shard, progress),
        })
    }

    /// Makes the image at `target` from all shards in `dir`. It has the bytes of a build with the same options.
    ///
    /// # Errors
    /// [`Error::Damaged`] names a shard whose bytes are not those that were packed. Nothing gets the name of the image then.
    pub fn assemble(&self, dir: &Path, target: &Path, progress: &Progress) -> Result<Summary> {
        match self.options() {
            AnyOptions::Squashfs(options) => crate::squashfs::assemble(target, dir, options, self, progress),
            AnyOptions::Erofs(options) => crate::erofs::assemble(target, dir, options, self, progress),
        }
    }
}

impl AnyOptions {
    /// Writes a plan of a build in [`shards`](super::Options::shards) to `target`; otherwise as [`AnyOptions::build`]. Sources
    /// have to be directories. Returns its figures, and warnings about the sources.
    pub fn plan(
        &self,
        target: &Path,
        progress: &Progress,
        fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
    ) -> Result<(Planned, crate::Warnings)> {
        match self {
            AnyOptions::Squashfs(options) => crate::squashfs::plan(target, self, options, progress, fill),
            AnyOptions::Erofs(options) => crate::erofs::plan(target, self, options, progress, fill),
        }
    }
}
