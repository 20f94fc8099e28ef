//! Splits one stream into a set of parts.
//!
//! The calling thread is the conductor (`conduct`): it submits extents of the input to the pool,
//! where they are read and compressed (`chunk`), packs the results in order into segments
//! (`segment`), and puts these into one queue (`queue`). One thread per part takes from it whenever
//! its part is free (`part`): a fast disk takes more, and a slow one delays nothing. Segments that
//! a failing part could not store go back to the queue, or are made again from the input.

mod behind;
mod chunk;
mod conduct;
mod disks;
mod open;
mod options;
mod parity;
mod part;
mod pipe;
mod plan;
mod queue;
mod report;
mod resume;
mod segment;
mod serve;
mod work;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use packfs_blocks::io::{FileSystem, SystemFiles};
use packfs_blocks::name::display;
use packfs_blocks::progress::Phase;
use packfs_blocks::system;
use packfs_blocks::{Progress, pipeline, threads};

use self::chunk::ChunkWorker;
use self::conduct::{SplitConductor, SplitStop};
use self::open::OpenedPart;
use self::part::PartWriter;
use self::plan::MemoryPlan;
use self::queue::SegmentQueue;
use self::serve::serve;
use self::work::SplitWork;
use crate::format::{PartState, UNKNOWN};
use crate::input::Input;
use crate::part::{ManifestEntry, PartFooter, PartSuperblock};
use crate::{Error, Result};

pub use disks::shared_disks;
pub use options::SplitOptions;
pub use report::{ChunkBytes, PartReport, SplitReport, SplitTimes};

/// Splits `input` over `parts`.
///
/// A report that is not [clean](SplitReport::is_clean) lists problems that did not stop the run. An
/// error is returned if the run could not begin or could not continue; data written so far stays
/// readable.
///
/// [`Progress::cancel`] ends the run with [`Error::Cancelled`] at the next chunk. Data packed until
/// then is written to the parts and made durable, so that [`SplitOptions::resume`] continues from
/// there. A read or write that hangs is waited for.
///
/// ```
/// use packfs_blocks::Progress;
/// use packfs_dump::{Input, SplitOptions, split};
/// # let dir = tempfile::tempdir()?;
/// # let at = |name: &str| dir.path().join(name);
/// std::fs::write(at("memory"), vec![7; 1 << 20])?;
/// let parts = [at("a.part"), at("b.part")];
/// let report = split(Input::open(&at("memory"))?, &parts, &SplitOptions::default(), &Progress::default())?;
/// assert!(report.is_clean() && report.bytes == 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn split(input: Input, parts: &[PathBuf], options: &SplitOptions, progress: &Progress) -> Result<SplitReport> {
    split_on(&SystemFiles, input, parts, options, progress)
}

/// Returns the error with which [`split`] would refuse the parts or options, if it would. Nothing is written.
pub fn check(input: &Input, parts: &[PathBuf], options: &SplitOptions) -> Result<()> {
    // A codec that this build lacks, and invalid options, are detected before anything is touched.
    options.codec.encoder(options.chunk as usize)?;
    MemoryPlan::new(options, parts.len())?;
    open::check(parts, options, input).map(drop)
}

/// As [`split`], with parts written through `files`.
fn split_on(
    files: &dyn FileSystem,
    input: Input,
    parts: &[PathBuf],
    options: &SplitOptions,
    progress: &Progress,
) -> Result<SplitReport> {
    let begun = Instant::now();
    Error::unless_cancelled(progress)?;
    // A codec that this build lacks, and invalid options, are detected before anything is touched.
    options.codec.encoder(options.chunk as usize)?;
    let plan = MemoryPlan::new(options, parts.len())?;
    // Also before the parts are opened, which replaces those that exist.
    let superblock = new_set(&input, parts.len(), options, &plan)?;
    let opened = open::open(files, parts, options, &input)?;
    let resumed = if options.resume { resume::examine(&opened, &superblock)? } else { None };
    if resumed.is_some() && input.size().is_none() {
        return Err(Error::NotResumable("the input is a stream, which cannot be read again".to_owned()));
    }
    let work = SplitWork::new(&opened, superblock, resumed, &input, options, plan)?;
    if work.is_finished() {
        // The run that wrote it may have been killed before it did this.
        opened.iter().try_for_each(OpenedPart::flush)?;
        return Ok(work.report_of_finished(&opened));
    }
    progress.total.store(work.superblock.size.unwrap_or(0), std::sync::atomic::Ordering::Relaxed);
    Progress::add(&progress.done, work.resumed_bytes);
    progress.enter(Phase::Data);
    let parts = work.begin(opened)?;
    let report = run(input, &work, parts, options, progress, begun);
    progress.enter(Phase::Done);
    report
}

/// Makes the superblock of a new set.
fn new_set(input: &Input, parts: usize, options: &SplitOptions, plan: &MemoryPlan) -> Result<PartSuperblock> {
    let mut set = [0; 16];
    system::fill_random(&mut set).map_err(Error::io("cannot read", "/dev/urandom"))?;
    let small = |n: usize| Error::option("memory", n, "more than a part can name");
    let superblock = PartSuperblock {
        part: 0,
        parts: u16::try_from(parts).map_err(|_| small(parts))?,
        parity: options.parity,
        set,
        size: input.size(),
        footer: None,
        input: input.fingerprint()?,
        chunk: options.chunk,
        segment: u32::try_from(plan.segment).map_err(|_| small(plan.segment))?,
        codec: options.codec.clone(),
    };
    if superblock.size == Some(UNKNOWN) || superblock.to_raw().is_none() {
        return Err(Error::option("codec", &options.codec, "its settings are too long for a part"));
    }
    Ok(superblock)
}

fn run(
    mut input: Input,
    work: &SplitWork,
    mut parts: Vec<PartWriter>,
    options: &SplitOptions,
    progress: &Progress,
    begun: Instant,
) -> Result<SplitReport> {
    let queue = SegmentQueue::new(parts.len(), work.plan.queue);
    let mut report = work.report();
    let mut stop = None;
    let counters: Vec<_> = parts.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
    progress.files.set(counters.clone());
    std::thread::scope(|scope| -> Result<()> {
        // Also on a panic and an error, so that the part threads being joined do not wait for work.
        let _home = QuitGuard(&queue);
        for (n, (part, bytes)) in parts.iter_mut().zip(counters).enumerate() {
            let queue = &queue;
            let path = part.path.clone();
            // A slow disk must not hold up the others, so each part needs a thread of its own.
            threads::named(format!("packfs-part-{n}"))
                .start_in(scope, move || serve(n, part, queue, &[&progress.written, &bytes]))
                .map_err(Error::io("cannot write", path))?;
        }
        pipeline::scope(options.threads, ChunkWorker::new, |pool| {
            let mut conductor = SplitConductor::new(pool, work, options, &queue, progress, begun);
            stop = conductor.conduct(&mut input).err();
            conductor.report_to(&mut report);
        });
        let changed = match &stop {
            None => input.changed(),
            Some(_) => None,
        };
        report.input_error = changed.or_else(|| stop.as_ref().and_then(SplitStop::of_input));
        report.complete = stop.is_none() && report.input_error.is_none() && report.suspect.is_empty();
        progress.enter(Phase::Flush);
        queue.finish(Arc::new(foot(&report, work, &queue)));
        Ok(())
    })?;
    sync_directories(&parts);
    report.times.to_disk = begun.elapsed().as_secs_f64();
    // By number, as they may have been given in another order.
    parts.sort_by_key(|part| part.superblock.part);
    for part in parts.iter().filter(|part| options.direct && !part.is_direct()) {
        report.notes.push(format!("{}: cannot be written directly; written through the cache", display(&part.path)));
    }
    let paths: Vec<_> = parts.iter().map(|part| part.path.clone()).collect();
    report.notes.extend(shared_disks(&paths));
    report.parts = parts.iter().map(PartWriter::report).collect();
    match stop {
        Some(SplitStop::Error(error)) => Err(error),
        Some(SplitStop::NoPart) => Err(no_part_left(&report)),
        Some(SplitStop::Input { .. }) | None => Ok(report),
    }
}

/// Returns the contents of all footers.
fn foot(report: &SplitReport, work: &SplitWork, queue: &SegmentQueue) -> PartFooter {
    let mut manifest = vec![ManifestEntry::default(); work.left.len()];
    for (extent, start) in queue.extents().iter().zip(&work.left) {
        let state = if extent.failed { PartState::Retired } else { PartState::Complete };
        if let Some(entry) = manifest.get_mut(usize::from(start.number)) {
            *entry = ManifestEntry { state: Some(state), segments: extent.segments, len: extent.len };
        }
    }
    PartFooter { complete: report.complete, size: report.bytes, index: 0, indexes: 0, manifest }
}

fn no_part_left(report: &SplitReport) -> Error {
    let why = report
        .parts
        .iter()
        .map(|part| format!("{}: {}", display(&part.path), part.error.as_deref().unwrap_or("not reached")));
    Error::NoPartLeft { why: why.collect::<Vec<_>>().join("; ") }
}

struct QuitGuard<'q>(&'q SegmentQueue);

impl Drop for QuitGuard<'_> {
    fn drop(&mut self) {
        self.0.quit();
    }
}

/// Makes the names of the parts durable.
fn sync_directories(parts: &[PartWriter]) {
    // Where a link leads: a file that was replaced has a new name there.
    let parent = |part: &PartWriter| Some(part.path.canonicalize().ok()?.parent()?.to_owned());
    let directories: BTreeSet<_> = parts.iter().filter(|part| part.is_file()).filter_map(parent).collect();
    for directory in directories {
        // The parts themselves are durable; some file systems refuse this for directories.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
}

#[cfg(test)]
mod tests;
