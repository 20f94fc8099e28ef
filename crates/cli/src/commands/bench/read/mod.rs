//! `packfs bench read`: finds or makes images and readers, measures, and shows the results.

mod images;
mod makers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Result;
use packfs_bench::executor::MeasuredCell;
use packfs_bench::program;
use packfs_bench::read::{
    self, FIO, KernelConfig, MeasuredImage, ReadCell, ReadKey, ReadMachine, ReadTool, ReadTools, ReadWork,
    SMALL_READ_FILES, try_mount,
};
use packfs_bench::record::BenchSession;
use packfs_bench::results::TrialRow;
use packfs_image::name::display;
use serde::Serialize;

use crate::args::{BenchReadArgs, MeasuringArgs};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::{say, units};

use super::estimate::{ExpectedCost, START};
use super::session::fail_if_stopped;
use super::{estimate, peers, session};

/// Kinds of reads of `--quick`: sequential, random, attributes, and a whole image by a program.
const QUICK: [&str; 4] = ["sequential data", "small random data", "small random metadata", "tar"];

pub(super) fn run(args: &BenchReadArgs) -> Result<CommandOutcome> {
    let runs = if args.quick { 1 } else { args.measuring.runs };
    let measuring = MeasuringArgs { runs, ..args.measuring.clone() };
    let stop = session::stop_flag()?;
    session::check_output(&args.measuring)?;
    let parent = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    // Removed on every return path.
    let scratch = session::create_scratch(Some(&parent), args.matrix.as_deref())?;
    let own = peers::own_path()?;
    let mut about = BenchSession::default();
    let (mut images, mut left_out) = match &args.matrix {
        Some(source) => makers::make_images(args, source, scratch.path(), &stop, &mut about)?,
        None => images::describe_all(&args.images)?,
    };
    let mounts = try_mounts(&mut images, &mut about, &stop)?;
    left_out += mounts.failed;
    let images: Vec<Arc<MeasuredImage>> = images::share_trees(images).into_iter().map(Arc::new).collect();
    let readers = find_readers(args, &own, &images, &mut about);
    let mut cells = read::cells(&images, &readers);
    cells.retain(|cell| !args.quick || QUICK.contains(&cell.key().work.as_str()));
    if cells.is_empty() {
        return Err(
            UsageError("nothing to measure: no image was built, or no reader is available for it".into()).into()
        );
    }
    let mut machine = ReadMachine { seed: args.measuring.seed, fio: readers.fio, scratch: scratch.path().to_owned() };
    let expected = ExpectedCost::of(&cells, |cell| expected_seconds(cell, mounts.seconds));
    let measured = session::measure_cells(cells, &mut machine, about, Duration::ZERO, expected, &measuring)?;
    let outcome = measured.show(|results| &results.reads, entry, &args.measuring)?;
    Ok(if left_out > 0 { CommandOutcome::Findings } else { outcome })
}

/// Roughly what a reading takes on one processor: all data at a speed usual for the codec, or opening the files, after
/// `mounting` by the kernel.
fn expected_seconds(cell: &ReadCell, mounting: f64) -> f64 {
    let tree = &cell.image.tree;
    let files = cell.image.tree.files().len();
    // Rough values: they serve only for the estimate that is printed before the first step.
    let slow = ["xz", "lzma"].iter().any(|name| cell.image.codec.starts_with(name));
    let speed = if slow { 60e6 } else { 400e6 };
    let each = 30e-6;
    let small = SMALL_READ_FILES.min(files) as f64 / files.max(1) as f64;
    let (share, opened) = match cell.key().work.as_str() {
        "small random data" => (small, small),
        "small random metadata" => (0.0, small),
        work if work.ends_with("metadata") => (0.0, 1.0),
        _ => (1.0, 1.0),
    };
    // The kernel's caches are dropped and the image is mounted for each of its readings.
    let start = if matches!(cell.work, ReadWork::Data(_) | ReadWork::Metadata(_) | ReadWork::Fio(_)) {
        mounting
    } else {
        START
    };
    start + share * tree.data() as f64 / speed + opened * each * files as f64
}

/// Result of trying to mount images.
#[derive(Default)]
struct MountTrials {
    /// Images that were left out although this user can mount others.
    failed: usize,
    /// Seconds of mounting one image and dropping the caches, on average.
    seconds: f64,
}

/// Tries which images can be mounted, and says why others cannot.
fn try_mounts(images: &mut [MeasuredImage], about: &mut BenchSession, stop: &AtomicBool) -> Result<MountTrials> {
    if !rustix::process::geteuid().is_root() {
        say("packfs: reading by the kernel is left out: mounting images and dropping caches needs root");
        return Ok(MountTrials::default());
    }
    let config = KernelConfig::running();
    let mut failed = 0;
    let mut mounted = 0;
    let mut took = Duration::ZERO;
    for image in images.iter_mut() {
        fail_if_stopped(stop)?;
        let begun = Instant::now();
        match try_mount(&image.path, image.format) {
            Ok(options) => {
                image.mounts = true;
                took += begun.elapsed();
                mounted += 1;
                about.settings.extend(config.describe(image.format, &options));
            }
            Err(error) if is_forbidden(&error.to_string()) => {
                say(format_args!("packfs: reading by the kernel is left out, as it is not permitted here: {error}"));
                return Ok(MountTrials::default());
            }
            Err(error) => {
                failed += 1;
                say(format_args!("packfs: reading by the kernel is left out: {error}"));
            }
        }
    }
    Ok(MountTrials { failed, seconds: took.as_secs_f64() / f64::from(mounted.max(1)) })
}

/// Returns true if even root is not permitted to mount, as in many containers: then no image can be mounted.
fn is_forbidden(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    ["not permitted", "permission", "superuser"].iter().any(|words| why.contains(words))
}

/// Returns the available readers; names missing ones, and records versions and the chosen files.
fn find_readers(
    args: &BenchReadArgs,
    own: &Path,
    images: &[Arc<MeasuredImage>],
    about: &mut BenchSession,
) -> ReadTools {
    let folder = args.peers.as_ref().and_then(Option::as_ref);
    let (mut tools, missing) = match args.peers {
        Some(_) => ReadTool::peers(folder.map(PathBuf::as_path)),
        None => (Vec::new(), Vec::new()),
    };
    tools.insert(0, ReadTool::packfs(own.to_owned()));
    tools.retain(|tool| images.iter().any(|image| tool.reads(image.format)));
    let mounted = images.iter().any(|image| image.mounts);
    let fio = program::find(FIO, folder.map(PathBuf::as_path)).filter(|_| mounted && !args.quick);
    let missing_fio = (mounted && !args.quick && fio.is_none()).then_some(FIO);
    let missing: Vec<&str> = missing.into_iter().chain(missing_fio).collect();
    peers::say_missing(folder, &missing);
    let versions = tools.iter().map(|tool| (tool.name(), tool.version()));
    let versions = versions.chain(fio.as_deref().map(|fio| (FIO, program::version(fio, "--version"))));
    about.libraries.extend(versions.map(|(name, version)| (name.to_owned(), version)));
    about.settings.extend(describe_files(images, fio.is_some()));
    ReadTools { fio, tools }
}

/// Describes, for each mounted tree, the selection of files that is read.
fn describe_files(images: &[Arc<MeasuredImage>], fio: bool) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for image in images.iter().filter(|image| image.mounts) {
        let files = image.tree.files().len();
        let source = &image.source;
        let small = SMALL_READ_FILES.min(files);
        settings.insert(format!("small random of {source}"), format!("{small} of {files} files"));
        if let Some(file) = image.tree.largest().filter(|_| fio) {
            let path = display(&file.path);
            let len = units::bytes(file.len);
            settings.insert(format!("fio of {source}"), format!("{path}, {len}"));
        }
    }
    settings
}

/// Results of a cell: reads of an image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct ReadResult<'a> {
    #[serde(flatten)]
    key: &'a ReadKey,
    /// Length of the image in bytes.
    image_bytes: u64,
    /// Bytes read from files.
    bytes: u64,
    /// Median elapsed time in seconds.
    seconds: f64,
    /// Median processor time in seconds; for the kernel, only that of the reading thread.
    cpu_seconds: f64,
    /// Millions of bytes per second; null if no data is read.
    speed: Option<f64>,
    /// Spread of the elapsed times, relative to their median; null after a single run.
    spread: Option<f64>,
    /// Largest memory use of any run in bytes; null if unknown.
    peak_memory: Option<u64>,
    /// Number of samples.
    runs: usize,
}

fn entry(row: &TrialRow<ReadKey>) -> ReadResult<'_> {
    ReadResult {
        key: &row.key,
        image_bytes: row.made,
        bytes: row.bytes,
        seconds: row.time.median,
        cpu_seconds: row.cpu,
        speed: row.speed().filter(|speed| *speed > 0.0),
        spread: row.time.spread(),
        peak_memory: row.peak_memory,
        runs: row.time.count,
    }
}
