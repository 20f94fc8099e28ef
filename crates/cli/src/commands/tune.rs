//! `packfs tune`.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use packfs_bench::record;
use packfs_bench::report::{BenchReport, html, text};
use packfs_bench::sample::PassTiming;
use packfs_bench::tune::choose::{TuneChoice, choose, front};
use packfs_bench::tune::predict::ImagePrediction;
use packfs_bench::tune::real::TuneMachine;
use packfs_bench::tune::{TuneCandidate, TuneEvent, TunePlan, TuneResult, sample, tune};
use packfs_image::source::{self, LazySpool, open};
use packfs_image::{OnError, Tree};
use serde::Serialize;

use super::bench::session;
use super::sources;
use crate::args::{TrialBuild, TrialBuilds, TuneArgs};
use crate::output::display::StepDisplay;
use crate::output::failure::CommandOutcome;
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::target;
use crate::output::{self, json, say, units, warnings};
use crate::resources;

pub(super) fn run(args: &TuneArgs) -> Result<CommandOutcome> {
    sources::refuse_mistaken(&args.source)?;
    output::require_stdout()?;
    let TrialBuilds { all: ways, refused } = args.trial_builds()?;
    let chart = args.chart.as_deref().map(|path| target::create(path, target::READABLE, args.force)).transpose()?;
    let candidates = ways.iter().map(|way| way.candidate.clone()).collect();
    let effort = TrialEffort { sample: args.sample, seed: args.seed, quiet: args.talk.quiet, refused };
    let tried = try_candidates(&args.source, candidates, &effort, args.jobs)?;
    let TrialOutcome { predictions, bytes, inodes, left_out } = tried;
    let choice = choose(&predictions, args.goal, &args.limits());
    let command = |at: usize| build_command(&ways, &predictions[at], !left_out.is_empty());
    let tuning = TuneResult {
        source: sources::name(&args.source),
        bytes,
        inodes,
        goal: args.goal,
        limits: args.limits(),
        command: match choice {
            TuneChoice::Best(at) | TuneChoice::Nearest(at) => command(at),
            TuneChoice::Nothing => anyhow::bail!("none of the settings could be tried"),
        },
        choice,
        predictions,
    };
    // The file first: it has to be complete even if standard output is not read to its end.
    if let Some(file) = chart {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        target::fill(file, &html(&BenchReport::of_tuning(&tuning).made_on(&record::MachineRecord::this(), now)))?;
    }
    print_tuning(args, &tuning, &left_out)?;
    let as_asked = matches!(choice, TuneChoice::Best(_)) && left_out.is_empty();
    Ok(if as_asked { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// Effort of a trial, and messages meanwhile.
#[derive(Debug)]
pub(super) struct TrialEffort {
    pub(super) sample: u64,
    pub(super) seed: u64,
    pub(super) quiet: bool,
    /// Reasons why some ways are not tried, told once the source is read.
    pub(super) refused: Vec<String>,
}

/// Result of trying.
#[derive(Debug)]
pub(super) struct TrialOutcome {
    pub(super) predictions: Vec<ImagePrediction>,
    pub(super) bytes: u64,
    pub(super) inodes: u64,
    /// Files that could not be read, with the reasons.
    pub(super) left_out: Vec<String>,
}

/// Lists a source and tries candidates on it.
pub(super) fn try_candidates(
    source: &Path,
    candidates: Vec<TuneCandidate>,
    effort: &TrialEffort,
    jobs: Option<usize>,
) -> Result<TrialOutcome> {
    // Before there are temporary files, which it removes.
    let stop = session::stop_flag()?;
    let mut left_out = Vec::new();
    let (tree, scan) = list_source(source, jobs.unwrap_or_else(resources::cores), effort.quiet, &mut left_out)
        .with_context(|| sources::name(source))?;
    let (bytes, inodes) = sample::measure(&tree);
    let plan = TunePlan { candidates, sample: effort.sample, bytes, inodes, scan, stop: Arc::clone(&stop) };
    if !effort.quiet {
        effort.refused.iter().for_each(|why| say(format_args!("packfs: not tried: {why}")));
        let ways = units::of(plan.candidates.len() as u64, "setting");
        let entries = units::of(inodes, "entry");
        let bytes = units::bytes(bytes);
        let about = units::span(Duration::from_secs_f64(plan.forecast().ceil()));
        say(format_args!("packfs: trying {ways} on samples of {bytes} in {entries}; this takes about {about}"));
    }
    if !effort.quiet {
        warnings::print(&tree.warnings);
    }
    let predictions = predict_images(&tree, &plan, effort, stop, &mut left_out)?;
    for why in &left_out {
        say(format_args!("packfs: left out: {why}"));
    }
    Ok(TrialOutcome { predictions, bytes, inodes, left_out })
}

pub(super) fn predict_images(
    tree: &Tree,
    plan: &TunePlan,
    effort: &TrialEffort,
    stop: Arc<AtomicBool>,
    left_out: &mut Vec<String>,
) -> Result<Vec<ImagePrediction>> {
    let mut machine = TuneMachine::new(tree, effort.seed, &sources::temporary_directory(), stop)?;
    let display = StepDisplay::new("trying", effort.quiet);
    let begun = Instant::now();
    let predictions = tune(plan, &mut machine, &mut |event| match event {
        TuneEvent::Step { settings, done, of } => {
            display.show(done / of, time_left(begun.elapsed(), done, of).as_slice(), settings);
        }
        TuneEvent::Failed(settings, why) => display.say(format_args!("packfs: {settings} is left out: {why}")),
    });
    display.finish();
    left_out.extend(machine.left_out().into_iter().map(ToOwned::to_owned));
    Ok(predictions?)
}

/// Time left if the rest takes as much longer than forecast as the steps so far, of at least a twentieth.
fn time_left(elapsed: Duration, done: f64, of: f64) -> Option<String> {
    let seconds = elapsed.as_secs_f64() * (of - done) / done;
    let left = Duration::try_from_secs_f64(seconds.ceil()).ok().filter(|_| done * 20.0 >= of)?;
    Some(format!("{} left", units::span(left)))
}

/// Returns the source as a tree whose contents can be read repeatedly, and the time it took to list it.
fn list_source(path: &Path, threads: usize, quiet: bool, left_out: &mut Vec<String>) -> Result<(Tree, PassTiming)> {
    let meter = ProgressMeter::start(quiet);
    let options = open::SourceReadOptions::default().set(|all| {
        all.scan.threads = threads;
        all.scan.progress = Some(Arc::clone(meter.progress()));
        all.scan.on_error = OnError::Skip;
    });
    let begun = Instant::now();
    let mut tree = Tree::default();
    let mut copies = LazySpool::new(&sources::temporary_directory());
    let mut source = source::open(path.as_os_str(), &options)?;
    source.scan(&mut tree, &mut copies)?;
    left_out.extend(source.left_out().iter().map(ToString::to_string));
    copies.serve(&mut tree)?;
    let took = begun.elapsed();
    Ok((tree, PassTiming::of(took, took)))
}

/// Returns the words of the command that builds the predicted image.
fn build_command(ways: &[TrialBuild], prediction: &ImagePrediction, skip: bool) -> Vec<OsString> {
    let way = ways.iter().find(|way| way.candidate.settings == prediction.settings);
    let mut words = way.map_or_else(Vec::new, |way| way.command.clone());
    if skip {
        words.extend(["--on-error".into(), "skip".into()]);
    }
    words
}

/// Predictions for a source, and the choice among them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TuneReport<'a> {
    /// Name of the source.
    source: &'a str,
    /// Bytes of files outside holes.
    bytes: u64,
    /// Number of entries.
    inodes: u64,
    /// Goal of the choice: `size`, `speed`, `read` or `balanced`.
    goal: String,
    /// True if the choice is within the limits; false if no setting is, and the choice is the closest to them.
    within_limits: bool,
    /// The chosen prediction.
    choice: &'a ImagePrediction,
    /// Words of the command that builds the chosen image.
    command: Vec<String>,
    /// All predictions.
    predictions: Vec<RankedPrediction<'a>>,
    /// Reasons why files were left out.
    left_out: &'a [String],
}

impl JsonDocument for TuneReport<'_> {
    const KIND: &'static str = "tune";
}

/// A prediction, compared with all others.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RankedPrediction<'a> {
    #[serde(flatten)]
    prediction: &'a ImagePrediction,
    /// True if no other prediction is better in size, build time and read speed.
    front: bool,
}

fn print_tuning(args: &TuneArgs, tuning: &TuneResult, left_out: &[String]) -> Result<()> {
    if !args.json {
        super::print(&text(&BenchReport::of_tuning(tuning).brief()))?;
        return Ok(());
    }
    let front = front(&tuning.predictions);
    let entries =
        tuning.predictions.iter().zip(front).map(|(prediction, front)| RankedPrediction { prediction, front });
    let Some((choice, within_limits)) = tuning.chosen() else { return Ok(()) };
    json::print(&TuneReport {
        source: &tuning.source,
        bytes: tuning.bytes,
        inodes: tuning.inodes,
        goal: tuning.goal.to_string(),
        within_limits,
        choice,
        command: tuning.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        predictions: entries.collect(),
        left_out,
    })
}
