//! `packfs update`: makes the next image from an old one, and fetches only what that lacks.

mod destination;

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

use anyhow::{Context, Result, bail};
use packfs_blocks::hex::to_hex;
use packfs_blocks::io::Storage;
use packfs_blocks::mutex;
use packfs_blocks::progress::Phase;
use packfs_blocks::{Progress, ReadAt, threads};
use packfs_delta::zsync::{BlockReceiver, UpdatePlan, ZsyncIndex, find_blocks, find_kept_blocks, verify};
use packfs_delta::{Error as DeltaError, PatchEffort};
use packfs_image::name::display;
use serde::Serialize;

use self::destination::UpdateDestination;
use super::build::delta_index::index_options;
use super::delta::patch_effort;
use super::remote::{self, FetchRanges};
use super::{open, seal};
use crate::args::UpdateArgs;
use crate::output::failure::CommandOutcome;
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{interrupt, json, say, target, units};

/// Number of requests at a time: as many as readers of remote images make.
const CONNECTIONS: usize = 16;

pub(super) fn run(args: &UpdateArgs) -> Result<CommandOutcome> {
    let old = seal::open_image(&args.from)?;
    target::refuse_old_device(&args.from, &args.output, "meanwhile")?;
    let destination = UpdateDestination::find(&args.output, args.force)?;
    let meter = ProgressMeter::start(args.talk.quiet);
    let effort = patch_effort(&args.effort, &meter);
    let index_bytes = open::bytes(&args.index, 0, &args.remote)?;
    let index_name = || open::name(&args.index);
    let index = ZsyncIndex::read(&*index_bytes).with_context(index_name)?;
    let destination = destination.open(index.file_len())?;
    let remains = format!("{}; the same command goes on from there", destination.remains());
    interrupt::explain_end(remains.clone());
    let found = find_all_blocks(&index, &*old, destination.storage(), &effort);
    let found = found.and_then(|plan| Ok((open_image(args, &index, &plan)?, plan)));
    let (fetcher, plan) = match found {
        Ok(found) => found,
        Err(error) => {
            // Nothing was written yet: what was there stays, and a new file goes.
            destination.remove_empty();
            return Err(error);
        }
    };
    let update = PlannedUpdate { index: &index, plan: &plan, target: destination.storage(), effort: &effort };
    let fetched_bytes = match update.write(&*old, fetcher.as_deref()) {
        Ok(fetched_bytes) => fetched_bytes,
        Err(error) if matches!(error.downcast_ref(), Some(DeltaError::WrongResult(_))) => {
            let advice = destination.discard();
            return Err(error.context(format!("{}: {advice}", display(&args.output))));
        }
        Err(error) => return Err(error.context(remains)),
    };
    destination.complete()?;
    let spent = meter.finish();
    let requests = fetcher.map_or(0, |fetcher| fetcher.requests());
    if args.json {
        json::print(&UpdateReport {
            path: json::encode_path(&args.output),
            new_bytes: index.file_len(),
            block_size: index.block_size(),
            blocks: index.blocks() as u64,
            reused_blocks: plan.copied_blocks() as u64,
            kept_blocks: plan.kept_blocks() as u64,
            fetched_bytes,
            requests,
            index_bytes: index_bytes.len(),
            sha256: index.sha256().map(|digest| to_hex(&digest)),
        })?;
    }
    if !args.talk.quiet {
        say(format_args!(
            "{}: {}, {} of it fetched in {}, in {}",
            display(&args.output),
            units::bytes(index.file_len()),
            units::bytes(fetched_bytes),
            units::of(requests, "request"),
            units::span(spent.time)
        ));
    }
    Ok(CommandOutcome::Done)
}

/// Returns the address of the new image: that of the command line, or the one in the index.
fn image_address(args: &UpdateArgs, index: &ZsyncIndex) -> Result<String> {
    if let Some(address) = &args.image_url {
        return Ok(address.clone());
    }
    let name = open::name(&args.index);
    let Some(location) = index.url() else {
        bail!("{name}: it has no address of the image: give one with --image-url");
    };
    match args.index.to_str() {
        Some(address) if remote::is_address(&args.index) => remote::join_address(address, location),
        _ if remote::is_address(Path::new(location)) => Ok(location.to_owned()),
        _ => bail!("{name}: the image is at `{location}` beside the index, which is a file here: give --image-url"),
    }
}

/// Opens the new image where it is; `None` if nothing of it has to be fetched.
fn open_image(args: &UpdateArgs, index: &ZsyncIndex, plan: &UpdatePlan) -> Result<Option<Box<dyn FetchRanges>>> {
    if plan.missing_ranges().is_empty() {
        return Ok(None);
    }
    let fetcher = remote::open_ranges(&image_address(args, index)?, &args.remote)?;
    if fetcher.len() != index.file_len() {
        bail!(
            "{}: it has {} bytes, but the index {} is that of a file of {}: one of them was replaced",
            fetcher.name(),
            fetcher.len(),
            open::name(&args.index),
            index.file_len()
        );
    }
    Ok(Some(fetcher))
}

/// Finds the blocks that are in their places already, and those of the old image.
fn find_all_blocks(
    index: &ZsyncIndex,
    old: &dyn ReadAt,
    target: &dyn Storage,
    effort: &PatchEffort,
) -> Result<UpdatePlan> {
    let progress = &effort.progress;
    progress.enter(Phase::Read);
    let kept_len = target.len()?.min(index.file_len());
    // What there is, is read to find blocks; the whole new file is written, and read for its digest.
    Progress::add(&progress.total, old.len() + kept_len + 2 * index.file_len());
    let mut plan = index.plan();
    // Before the old file is searched: what is in its place needs no copy.
    find_kept_blocks(index, target, &mut plan, effort)?;
    find_blocks(index, old, &mut plan, effort)?;
    Ok(plan)
}

/// An update whose blocks are found.
struct PlannedUpdate<'u> {
    index: &'u ZsyncIndex,
    plan: &'u UpdatePlan,
    target: &'u dyn Storage,
    effort: &'u PatchEffort,
}

impl PlannedUpdate<'_> {
    /// Writes the new image and proves it; returns the number of bytes that were fetched.
    fn write(&self, old: &dyn ReadAt, fetcher: Option<&dyn FetchRanges>) -> Result<u64> {
        let PlannedUpdate { index, plan, target, effort } = *self;
        effort.progress.enter(Phase::Data);
        target.set_len(index.file_len()).context("cannot write the new file")?;
        plan.copy_blocks(old, target, effort)?;
        let fetched_bytes = match fetcher {
            Some(fetcher) => self.fetch(fetcher, &plan.missing_ranges())?,
            None => 0,
        };
        effort.progress.enter(Phase::Read);
        verify(index, target, effort)?;
        Ok(fetched_bytes)
    }

    /// Fetches ranges, several at a time; returns the number of bytes that came.
    fn fetch(&self, fetcher: &dyn FetchRanges, ranges: &[Range<u64>]) -> Result<u64> {
        let fetched = FetchState::default();
        let work = || {
            while !fetched.failed.load(Relaxed)
                && let Some(range) = ranges.get(fetched.next.fetch_add(1, Relaxed))
            {
                if let Err(error) = self.fetch_range(fetcher, range, &fetched.bytes) {
                    fetched.failed.store(true, Relaxed);
                    // The first error is told: those after it have the same cause, or follow from it.
                    mutex::lock(&fetched.error).get_or_insert(error);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..CONNECTIONS.min(ranges.len()) {
                // With fewer threads, it only takes longer.
                if threads::named("packfs-update").start_in(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        match mutex::into_inner(fetched.error) {
            Some(error) => Err(error),
            None => Ok(fetched.bytes.into_inner()),
        }
    }

    fn fetch_range(&self, fetcher: &dyn FetchRanges, range: &Range<u64>, fetched: &AtomicU64) -> Result<()> {
        let mut receiver = BlockReceiver::new(self.index, self.target, range.clone());
        fetcher.fetch(range.clone(), &mut |bytes| {
            receiver.take(bytes);
            Progress::add(fetched, bytes.len() as u64);
            Progress::add(&self.effort.progress.done, bytes.len() as u64);
        })?;
        receiver.finish().map_err(|error| match error {
            // The caller names the new file.
            DeltaError::Write { .. } => error.into(),
            _ => anyhow::Error::new(error).context(fetcher.name().to_owned()),
        })
    }
}

/// State that the fetching threads share.
#[derive(Default)]
struct FetchState {
    /// Number of the next range.
    next: AtomicUsize,
    bytes: AtomicU64,
    failed: AtomicBool,
    error: Mutex<Option<anyhow::Error>>,
}

/// Prediction of an update.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UpdateSize {
    /// Length of the new image in bytes.
    pub(super) new_bytes: u64,
    /// Bytes of it that are fetched.
    pub(super) fetched_bytes: u64,
    /// Number of requests for them, that of opening included.
    pub(super) requests: u64,
    /// Length of the index in bytes, which is fetched as well.
    pub(super) index_bytes: u64,
}

impl UpdateSize {
    /// Predicts what `packfs update` fetches, with an index as `packfs build` makes it.
    pub(super) fn predict(
        old: &dyn ReadAt,
        new: &dyn ReadAt,
        name: &Path,
        effort: &PatchEffort,
    ) -> packfs_delta::Result<Self> {
        let index = ZsyncIndex::of_file(new, &index_options(name, None), effort)?;
        let mut plan = index.plan();
        find_blocks(&index, old, &mut plan, effort)?;
        let ranges = plan.missing_ranges().len() as u64;
        Ok(UpdateSize {
            new_bytes: new.len(),
            fetched_bytes: plan.missing_bytes(),
            requests: if ranges == 0 { 0 } else { ranges + 1 },
            index_bytes: index.encode().len() as u64,
        })
    }
}

/// Result of an update.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UpdateReport {
    /// Path of the new image.
    path: String,
    /// Length of the new image in bytes.
    new_bytes: u64,
    /// Bytes of a block.
    block_size: u32,
    /// Number of blocks of the new image.
    blocks: u64,
    /// Number of blocks that the old image has.
    reused_blocks: u64,
    /// Number of blocks that an earlier attempt left in their places.
    kept_blocks: u64,
    /// Bytes of the new image that were fetched.
    fetched_bytes: u64,
    /// Number of requests for them, that of opening and repeated ones included.
    requests: u64,
    /// Length of the index in bytes.
    index_bytes: u64,
    /// SHA-256 digest of the new image in hexadecimal digits; null if the index has only its SHA-1.
    sha256: Option<String>,
}

impl JsonDocument for UpdateReport {
    const KIND: &'static str = "update";
}
