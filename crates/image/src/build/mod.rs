//! Building an image: the part shared by every format.
//!
//! A build scans its sources into a tree, reads and hashes file data on workers (`BlockFeed`), has the
//! format's `BlockWriter` write it in order, then has the format write its metadata (`ImageFormat::finish`),
//! and commits the output. A format implements `ImageFormat` for its options; this module does not know
//! which formats exist.

mod any;
mod census;
mod cut;
mod feed;
mod format;
mod holes;
mod older;
pub(crate) mod option;
mod options;
mod order;
mod plan;
pub(crate) mod shard;
mod stream;
mod summary;
mod sums;
mod unread;
mod writes;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use packfs_blocks::pipeline::{self, Window};
use packfs_blocks::progress::Phase;
use packfs_blocks::stages::Stage;
use packfs_blocks::{Output, Progress};
use packfs_codec::{Choice, Codec, Encoder};

pub use self::any::AnyOptions;
pub(crate) use self::census::TreeCensus;
pub(crate) use self::cut::{FileBlock, FileSegment};
pub(crate) use self::feed::{BATCH_FILES, BATCH_LEN, BatchPart, BlockFeed, CutOptions, FedBlocks};
pub(crate) use self::format::{BlockWriter, BuildTools, FailedFiles, FormatOptions, ImageFormat, WrittenMetadata};
use self::holes::HoleCounter;
pub(crate) use self::older::{NotedUnit, OlderUnit, ReusableUnits, ReuseLedger, UnitKey, UnitOrigin, UnitStretch};
pub use self::older::{ReusedData, ReusedImage};
pub use self::option::{BuildOption, COMPRESSION_OPTIONS, LAYOUT_OPTIONS, OptionDraft, ValueForm};
pub use self::options::SharedOptions;
use self::order::FileOrderer;
pub use self::order::Order;
pub use self::plan::Plan;
pub(crate) use self::plan::referenced;
pub use self::shard::{
    FailedShard, Images, Job, Jobs, MergedScans, PlanSummary, PlannedSet, Planner, RunningShard, Shards, Status, Task,
};
pub(crate) use self::shard::{ShardData, WriterStart};
pub(crate) use self::summary::DataCounts;
pub use self::summary::{BuildSummary, FormatDetails};
use self::sums::FileDigester;
pub(crate) use self::sums::{FileDigest, FileDigests};
pub(crate) use self::unread::{UnreadFile, UnreadRange};
pub(crate) use self::writes::PendingWrites;
use crate::source::{Contents, Store};
use crate::tree::{DataHandling, FileData, FileRecipe, Ino, Inode, Kind, Tree};
use crate::{Error, Result};
use packfs_tree::Finding;
pub(crate) use packfs_tree::encoding::{FieldDecoder, FieldEncoder};
pub use packfs_tree::{FileRank, RecipeTable};

/// Number of bytes at the beginning of an image of any format that hold its superblock.
const SUPERBLOCK_END: u64 = 4096;
/// Number of files that stay on additional devices and are read for their digests at a time: small files need many jobs
/// in flight to keep workers busy, and each takes up to 1 MiB. Not measured.
const REFERRING: usize = 256;
/// Number of files that are looked at together. Those that follow in the order of data lie anywhere in a tree, so the
/// processor loads them at the same time instead of one after the other (docs/design/million-files.md). Other numbers
/// were not measured.
pub(crate) const AHEAD: usize = 32;

/// Builds an image at `target` from the sources that `fill` scans; sources that can be read only
/// once pass their data to the store given to `fill`. The target appears whole, or not at all.
pub(crate) fn build<F: ImageFormat>(
    target: &Path,
    format: &F,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<BuildSummary> {
    let force = format.options().force;
    let output = Output::create(target, 0o666, force).map_err(output_error("cannot create", target))?;
    build_to(output, format, progress, fill)
}

/// Builds an image into `output` and commits it.
pub(crate) fn build_to<F: ImageFormat>(
    output: Output,
    format: &F,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<BuildSummary> {
    let options = format.options();
    options.shards.map_or(Ok(()), |shards| shard::check(options, shards))?;
    let output = output.clearing(options.offset, SUPERBLOCK_END);
    options.prefix.as_ref().map_or(Ok(()), |file| put_prefix(&output, file, options.offset))?;
    let index = format.units().begin_index(options.force)?;
    let blob = format.begin_blob()?;
    refuse_own_name(&output, [("index", index.as_ref()), ("blob", blob.as_ref())])?;
    let own_files =
        [Some(&output), index.as_ref(), blob.as_ref()].into_iter().flatten().flat_map(Output::own_files).copied();
    let own_files: Vec<_> = own_files.collect();
    let out = &output;
    let (mut summary, ledger) = pipeline::scope(
        options.threads,
        || format.worker(),
        |pool| {
            let tools = BuildTools { pool, output: out, blob: blob.as_ref(), progress };
            let base = if blob.is_some() { 0 } else { options.offset };
            let place = WriterStart { base, pos: format.data_start(), is_cut: false };
            let mut conductor = BuildConductor { own_files, ..BuildConductor::new(format, tools, place)? };
            progress.enter(Phase::Scan);
            let mut plan = progress.stages.time(Stage::Scan, || fill(&mut conductor))?;
            Error::unless_cancelled(progress)?;
            format.units().warn(&mut plan.tree.warnings)?;
            format.check(&mut plan.tree)?;
            progress.enter(Phase::Data);
            let how = order_of(format);
            let small_max = format.small_max().unwrap_or(u64::MAX);
            let shards = options.shards;
            let orderer = FileOrderer { order: how, small_max, shards, pool, progress };
            let (data, failed) =
                progress.stages.time(Stage::Data, || put_data(format, tools, conductor, &orderer, &mut plan))?;
            let mut tree = plan.tree;
            let left_out = plan::leave_out(&mut tree, &failed);
            progress.enter(Phase::Metadata);
            let census = TreeCensus::of(&tree);
            let written = progress.stages.time(Stage::Metadata, || format.finish(tools, &tree, &census, data))?;
            Ok::<_, Error>(BuildSummary::new(&census, how, written, left_out, tree.warnings))
        },
    )?;
    if let (Some(reused), Some(reuse)) = (&summary.reused, &options.reuse) {
        reused.warn(&reuse.image, &mut summary.warnings)?;
    }
    if let Some(index) = &index {
        format.units().write_index(index, ledger, &output, (options.offset, summary.padded_bytes()))?;
    }
    Error::unless_cancelled(progress)?;
    progress.enter(Phase::Flush);
    progress.stages.time(Stage::Flush, || {
        // The index first: an image without one cannot be reused, and one of another image only costs a warning.
        index.map_or(Ok(()), commit)?;
        blob.map_or(Ok(()), commit)?;
        commit(output)
    })?;
    progress.enter(Phase::Done);
    Ok(summary)
}

/// Fails if another output of the build, given with its option, has the name of the image.
fn refuse_own_name(image: &Output, others: [(&'static str, Option<&Output>); 2]) -> Result<()> {
    let same = others.iter().find(|(_, other)| other.is_some_and(|other| is_same(other, image)));
    same.map_or(Ok(()), |(option, _)| {
        Err(Error::option(option, crate::name::display(image.target()), "the image itself has this name"))
    })
}

/// Packs the data of all files in the order that `orderer` decides, in one row or in shards. A file of a shard that
/// cannot be read ends the build.
fn put_data<'p, 'env, F: ImageFormat>(
    format: &'env F,
    tools: BuildTools<'p, 'env, F::WorkerState>,
    conductor: BuildConductor<'p, 'env, F::WorkerState, impl BlockWriter<DataPositions = F::DataPositions>>,
    orderer: &FileOrderer<'_, '_, F::WorkerState>,
    Plan { tree, order }: &mut Plan,
) -> Result<(F::DataPositions, FailedFiles)> {
    let progress = tools.progress;
    let (mut files, len) = orderer.arrange(tree, order)?;
    // Files of streams were packed during the scan.
    progress.total.store(progress.done.load(Ordering::Relaxed) + len, Ordering::Relaxed);
    let Some(shards) = format.options().shards else { return conductor.put_files(tree, &files, 0) };
    // Each shard has a writer of its own.
    drop(conductor);
    shard::only_readable(tree, &mut files)?;
    Ok((shard::put(format, tools, orderer, tree, &files, shards)?, FailedFiles::new()))
}

/// Copies the first bytes of a file in front of an image at `offset`.
fn put_prefix(output: &Output, path: &Path, offset: u64) -> Result<()> {
    let file = File::open(path).map_err(Error::io("cannot open", path))?;
    let len = file.metadata().map_err(Error::io("cannot read", path))?.len();
    output.copy_from(&file, 0, len.min(offset), 0).map_err(Error::io("cannot copy", path))
}

/// Returns all that the compressed bytes of a codec depend on besides its options. `encoder` makes an encoder of up to
/// `len` bytes.
pub(crate) fn made_by(
    codec: &Choice,
    len: usize,
    encoder: impl FnOnce() -> packfs_codec::Result<Box<dyn Encoder>>,
) -> Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    if codec.codec() == Codec::None {
        return Ok(format!("packfs {version}"));
    }
    let trial = older::trial(&mut *encoder()?, len)?;
    Ok(format!("packfs {version} with {}, trial {trial}", codec.codec().library()))
}

/// Makes the error of a new image that breaks a rule of a check. `path` is the file whose data cannot be read, or the
/// image.
pub(crate) fn unreadable(path: PathBuf, finding: &Finding) -> Error {
    let why = format!("this part of the new image cannot be read ({finding}): a defect of packfs; please report it");
    Error::Damaged { path, why }
}

/// Puts an output under its name.
fn commit(output: Output) -> Result<()> {
    let target = output.target().to_owned();
    output.commit().map_err(output_error("cannot finish", &target))
}

/// Returns the order asked for, or the usual one of the format. Where no file shares a block with others, data lies by path.
fn order_of<F: ImageFormat>(format: &F) -> Order {
    let usual = || format.small_max().map_or(Order::Path, |_| F::USUAL_ORDER);
    format.options().order.unwrap_or_else(usual)
}

/// Returns true if two outputs have the same name in the same directory, however their paths are written.
fn is_same(one: &Output, other: &Output) -> bool {
    let place = |output: &Output| {
        let target = output.target();
        let dir = output.target().parent()?;
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        Some(dir.canonicalize().ok()?.join(target.file_name()?))
    };
    one.target() == other.target() || place(one).is_some_and(|place_of_one| Some(place_of_one) == place(other))
}

/// Converts the error of beginning or finishing an output. A target may also appear meanwhile.
pub(crate) fn output_error(what: &'static str, target: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Exists { path: target.to_owned() },
        _ => Error::io(what, target)(e),
    }
}

/// Moves file data from sources to the writer: fetches blocks from the feed and passes them on.
struct BuildConductor<'p, 'env, K, W> {
    feed: BlockFeed<'p, 'env, K>,
    writer: W,
    passing: BlockObservers,
    /// Files being written and those they replace.
    own_files: Vec<(u64, u64)>,
    progress: &'env Progress,
}

impl<K, W: BlockWriter> Store for BuildConductor<'_, '_, K, W> {
    fn put(&mut self, from: &mut dyn Read, size: u64, data: &[(u64, u64)]) -> Result<u32> {
        self.feed.check_stream()?;
        let how = (DataHandling::empty(), FileRecipe::default());
        let file = self.writer.add_file(size, how, &|| data.iter().map(|(_, len)| len).sum())?;
        if size == 0 {
            return Ok(file);
        }
        let BuildConductor { feed, writer, passing, progress, .. } = self;
        Error::unless_cancelled(progress)?;
        progress.stages.time(Stage::Put, || {
            let mut stream = feed.stream(file, from, size, data)?;
            while let Some(fed) = stream.next()? {
                passing.hand_on(fed, writer, progress)?;
            }
            Ok(file)
        })
    }

    fn own_files(&self) -> &[(u64, u64)] {
        &self.own_files
    }
}

impl<'p, 'env> BuildConductor<'p, 'env, (), ()> {
    /// Makes a conductor with a new writer of `format`.
    fn new<F: ImageFormat>(
        format: &'env F,
        tools: BuildTools<'p, 'env, F::WorkerState>,
        place: WriterStart,
    ) -> Result<BuildConductor<'p, 'env, F::WorkerState, impl BlockWriter<DataPositions = F::DataPositions>>> {
        let BuildTools { pool, progress, .. } = tools;
        let cutting = format.cutting();
        let holes = HoleCounter::new(cutting.block_len, cutting.whole_holes_are_free);
        let passing = BlockObservers { holes, sums: cutting.sums.clone().map(FileDigester::new) };
        let feed = BlockFeed::new(pool, cutting, &progress.stages);
        Ok(BuildConductor { feed, writer: format.writer(tools, place)?, passing, own_files: Vec::new(), progress })
    }
}

impl<K, W: BlockWriter> BuildConductor<'_, '_, K, W> {
    /// Writes the data of `files`, which get the numbers from `first` on in the tree.
    fn put_files(mut self, tree: &mut Tree, files: &[Ino], first: u32) -> Result<(W::DataPositions, FailedFiles)> {
        for device in &tree.devices {
            self.writer.add_device(device)?;
        }
        let mut referring = Window::new(REFERRING);
        for ahead in files.chunks(AHEAD) {
            tree.touch(ahead);
            for &ino in ahead {
                let Inode { kind: Kind::File { size, data }, handling, recipe, .. } = tree.inode(ino) else { continue };
                let FileData::Source { from, key } = data else { continue };
                let referred = match tree.staying_data(&data)? {
                    Some((device, staying)) if size > 0 => self.writer.refer(size, device, &staying)?,
                    _ => None,
                };
                if let (Some(file), Some(sums)) = (referred, &self.passing.sums) {
                    if referring.is_full() {
                        referring.pop().transpose()?;
                    }
                    let summed = sums.summed.clone();
                    let from = Arc::clone(from);
                    referring.push(self.feed.pool.submit(move |_: &mut K| summed.unpacked(file, &*from, key, size)), 1);
                }
                let stored = match (size, referred) {
                    (0, _) => FileData::Empty,
                    (_, Some(file)) => FileData::Stored(first + file),
                    _ => FileData::Stored(first + self.put_file(from, key, size, (handling, recipe))?),
                };
                tree.set_data(ino, stored)?;
            }
        }
        while let Some(summed) = referring.pop() {
            summed?;
        }
        self.finish()
    }

    /// Reads a file of `size` bytes, not 0; returns its number.
    fn put_file(
        &mut self,
        from: &Arc<dyn Contents>,
        key: u64,
        size: u64,
        how: (DataHandling, FileRecipe),
    ) -> Result<u32> {
        Error::unless_cancelled(self.progress)?;
        let file = self.writer.add_file(size, how, &|| data_len(&**from, key))?;
        self.feed.file(file, from, key, size);
        while let Some(fed) = self.feed.next() {
            self.passing.hand_on(fed, &mut self.writer, self.progress)?;
        }
        Ok(file)
    }

    /// Writes everything that is still in flight.
    fn finish(mut self) -> Result<(W::DataPositions, FailedFiles)> {
        while let Some(fed) = self.feed.rest() {
            self.passing.hand_on(fed, &mut self.writer, self.progress)?;
        }
        let (mut done, failed) = self.writer.finish()?;
        if let Some(sums) = self.passing.sums {
            let files = done.files();
            done.put_sums(sums.finish(files));
        }
        Ok((done, failed))
    }
}

/// Everything that takes note of blocks between feed and writer.
struct BlockObservers {
    holes: HoleCounter,
    /// Digests of whole files, if the format stores them.
    sums: Option<FileDigester>,
}

impl BlockObservers {
    /// Passes the feed's blocks to the writer, unless the build was cancelled.
    fn hand_on(&mut self, fed: FedBlocks, writer: &mut impl BlockWriter, progress: &Progress) -> Result<()> {
        Error::unless_cancelled(progress)?;
        self.holes.count(&fed)?;
        if let Some(sums) = &mut self.sums {
            progress.stages.time(Stage::Hash, || sums.take(&fed));
        }
        writer.take(fed)
    }
}

/// Returns the number of bytes of a file that are not in holes. A file that cannot be read counts
/// as all data: reading it will report the error.
fn data_len(from: &dyn Contents, key: u64) -> u64 {
    let Ok(mut file) = from.open(key) else { return u64::MAX };
    let mut at = 0;
    let mut len = 0;
    loop {
        match file.next_data(at) {
            Ok(Some((start, end))) if end > at => {
                len += end - start;
                at = end;
            }
            Ok(None) => return len,
            _ => return u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests;
