//! `packfs bench build`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use packfs_bench::build::{BuildKey, BuildMatrix, BuildProgram, BuildRunner, BuildSource};
use packfs_bench::record::BenchSession;
use packfs_bench::results::TrialRow;
use packfs_image::name::display;
use serde::Serialize;

use crate::args::BenchBuildArgs;
use crate::output::display::StepDisplay;
use crate::output::failure::CommandOutcome;
use crate::output::{say, units};
use crate::resources;

use super::estimate::{self, ExpectedCost, START};
use super::peers;
use super::session::{self, usage_error};

/// Number of bytes generated if there is no source to pack.
const MADE: u64 = 64 << 20;

pub(super) fn run(args: &BenchBuildArgs) -> Result<CommandOutcome> {
    // From here on there is something to clean up.
    let stop = session::stop_flag()?;
    session::check_output(&args.measuring)?;
    let scratch = session::create_scratch(args.scratch.as_deref(), args.source.as_deref())?;
    let source = open_source(args, scratch.path())?;
    let tools = peers::find_tools(args.peers.as_ref())?;
    let matrix = BuildMatrix {
        source: source.name.clone(),
        digest: source.digest.clone(),
        formats: args.formats.clone(),
        codecs: args.codecs.clone().map(|choices| choices.0),
        blocks: args.blocks.0.clone(),
        jobs: thread_counts(args),
        features: args.features.clone(),
    };
    let (cells, left_out) = matrix.cells(&tools).map_err(usage_error)?;
    let cells = session::cells_of_part(args.shard, cells);
    if !args.measuring.talk.quiet {
        left_out.iter().for_each(|why| say(format_args!("packfs: left out: {why}")));
    }
    let libraries = tools.iter().map(|tool| (tool.program.name().to_owned(), tool.version.clone())).collect();
    // The whole source is packed once: without a word that would look like nothing.
    let steps = StepDisplay::new("preparing", args.measuring.talk.quiet);
    let once = format!("packing {} of {} once, into the page cache", units::bytes(source.bytes), source.name);
    match steps.is_live() {
        true => steps.show(0.0, &[], &once),
        false if !args.measuring.talk.quiet => say(format_args!("packfs: preparing: {once}")),
        false => {}
    }
    let builder = BuildRunner::new(tools, &source, scratch.path()).map_err(usage_error);
    steps.finish();
    // An interrupted program fails, too.
    session::fail_if_stopped(&stop)?;
    let mut builder = builder?;
    let settings = BTreeMap::from([
        ("files".to_owned(), source.bytes.to_string()),
        ("tar".to_owned(), builder.tar_bytes.to_string()),
        ("images".to_owned(), format!("in {}", display(&scratch.parent()))),
    ]);
    let about =
        BenchSession { session: session::name_ending(args.shard), libraries, settings, ..BenchSession::default() };
    let expected = expected_cost(&cells, &source, builder.tar_bytes, &scratch.parent());
    let measured = session::measure_cells(cells, &mut builder, about, Duration::ZERO, expected, &args.measuring)?;
    measured.show(|results| &results.builds, entry, &args.measuring)
}

/// Each build compresses the source and proves what it made; there is one image at a time.
fn expected_cost(cells: &[BuildKey], source: &BuildSource, tar: u64, scratch: &Path) -> ExpectedCost {
    let rates = estimate::measure_rates(&source.path, cells.iter().map(|cell| cell.codec.as_str()));
    let tar = if cells.iter().any(|cell| cell.tool == BuildProgram::Tar2sqfs.name()) { tar } else { 0 };
    let seconds = |key: &BuildKey| {
        let rate = rates.get(&key.codec);
        let threads = key.threads.clamp(1, resources::cores()) as f64;
        START + source.bytes as f64 * (rate.encode + rate.decode) / threads
    };
    ExpectedCost::of(cells, seconds).with_scratch(rates.largest(source.bytes) + tar, scratch)
}

fn open_source(args: &BenchBuildArgs, scratch: &Path) -> Result<BuildSource> {
    let path = match &args.source {
        Some(path) => path.clone(),
        None => {
            let made = scratch.join("made");
            BuildSource::generate(&made, MADE, args.measuring.seed)?;
            made
        }
    };
    BuildSource::of(&path).map_err(usage_error)
}

fn thread_counts(args: &BenchBuildArgs) -> Vec<usize> {
    let asked = args.jobs.clone();
    if asked.is_empty() { (0..=resources::cores()).collect() } else { asked }
}

/// Results of a cell: builds of an image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct BuildResult<'a> {
    #[serde(flatten)]
    key: &'a BuildKey,
    /// Sum of all file lengths in bytes.
    file_bytes: u64,
    /// Length of the image in bytes.
    image_bytes: u64,
    /// Median elapsed time in seconds.
    seconds: f64,
    /// Spread of the elapsed times, relative to their median; null after a single run.
    spread: Option<f64>,
    /// Median processor time in seconds.
    cpu_seconds: f64,
    /// Millions of file bytes per second; null if the time was too short to measure.
    speed: Option<f64>,
    /// Length of the image divided by that of the files; null if there are no file bytes.
    ratio: Option<f64>,
    /// Largest memory use of any run in bytes; null if unknown.
    peak_memory: Option<u64>,
    /// Median seconds of each stage, as in `packfs build --json`; empty for other programs.
    stages: &'a BTreeMap<String, f64>,
    /// Number of samples.
    runs: usize,
}

fn entry(row: &TrialRow<BuildKey>) -> BuildResult<'_> {
    BuildResult {
        key: &row.key,
        file_bytes: row.bytes,
        image_bytes: row.made,
        seconds: row.time.median,
        spread: row.time.spread(),
        cpu_seconds: row.cpu,
        speed: row.speed(),
        ratio: row.ratio(),
        peak_memory: row.peak_memory,
        stages: &row.stages,
        runs: row.time.count,
    }
}
