//! Code shared by all kinds of measurements: a session in a results file, a display, and Ctrl-C.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use packfs_bench::Error;
use packfs_bench::executor::{CellExecutor, MeasuredCell};
use packfs_bench::program;
use packfs_bench::record::{AnyKey, BenchSession, MachineRecord, RecordLine, RecordedKey, ResultsFile, ResultsLog};
use packfs_bench::report::{BenchReport, text};
use packfs_bench::results::BenchResults;
use packfs_bench::run::{self, RunEvent, RunPlan};
use packfs_bench::scratch::{self, ScratchDir};
use packfs_blocks::threads;
use packfs_image::Part;
use packfs_image::name::display;
use rustix::fs::{Access, access};
use serde::Serialize;
use signal_hook::flag;
use signal_hook::iterator::Signals;

use super::estimate::{self, ExpectedCost};
use crate::args::MeasuringArgs;
use crate::output::display::StepDisplay;
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::interrupt;
use crate::output::json::JsonDocument;
use crate::output::{self, json, say, units};

/// Result of measuring.
pub(super) struct SessionResults {
    pub(super) session: BenchSession,
    /// Results of the requested cells, including those of earlier runs of the session.
    pub(super) results: BenchResults,
    /// Number of cells that failed.
    pub(super) failed: usize,
}

/// Results of a measurement.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct BenchDocument<'a, E> {
    /// The session that measured.
    session: &'a BenchSession,
    /// Results of each cell, which is one combination of settings that was measured.
    results: Vec<E>,
}

impl<E: Serialize> JsonDocument for BenchDocument<'_, E> {
    const KIND: &'static str = "bench";
}

impl SessionResults {
    /// Shows the results, as text or as JSON with an entry for each row.
    pub(super) fn show<'r, R, E: Serialize>(
        &'r self,
        rows: fn(&'r BenchResults) -> &'r [R],
        entry: fn(&'r R) -> E,
        how: &MeasuringArgs,
    ) -> Result<CommandOutcome> {
        if how.json {
            let results = rows(&self.results).iter().map(entry).collect();
            json::print(&BenchDocument { session: &self.session, results })?;
        } else {
            super::super::print(&text(&BenchReport::of(&self.results)))?;
            if !how.talk.quiet {
                let file = display(&how.output);
                let page = format_args!("packfs bench report {file} -o report.html makes a page");
                say(format_args!("packfs: the samples are in {file}; {page}"));
            }
        }
        Ok(if self.failed > 0 { CommandOutcome::Findings } else { CommandOutcome::Done })
    }
}

/// Measures cells and appends every sample to the results file. `about` adds facts about the
/// session beyond the machine and the program; a measurement shorter than `least` is repeated.
/// `expected` is printed first.
pub(super) fn measure_cells<S: MeasuredCell>(
    cells: Vec<S>,
    executor: &mut dyn CellExecutor<S>,
    about: BenchSession,
    least: Duration,
    expected: ExpectedCost,
    how: &MeasuringArgs,
) -> Result<SessionResults> {
    let output = &how.output;
    let session = begin_session(about, how)?;
    let (mut log, contents) = ResultsLog::open(output)?;
    if contents.has_torn_line {
        say(format_args!("packfs: {}: the last line is incomplete, and is removed", display(output)));
    }
    let (session, done) = match find_session::<S>(how, &contents, &session) {
        Some(resumed) => resumed,
        None => {
            log.append(&RecordLine::Session(session.clone()))?;
            (session, BTreeMap::new())
        }
    };
    let name = session.session.clone();
    let stop = stop_flag()?;
    let plan = RunPlan { cells, runs: how.runs, seed: how.seed, min_time: least, session: name, done, stop };
    let mut shown = SessionDisplay::new(expected, plan.cells.len(), how);
    let mut record = |line: &RecordLine| log.append(line);
    let failed = run::run(&plan, executor, &mut record, &mut |event| shown.show(&event));
    shown.steps.finish();
    let failed = match failed {
        Err(Error::Interrupted) => return Err(explain_interruption(how)),
        failed => failed.with_context(|| format!("the samples measured so far are in {}", display(output)))?,
    };
    let mut contents = ResultsFile::read(output)?;
    // Other samples in this file, of this or other sessions, only matter for the report.
    let keys: BTreeSet<AnyKey> = plan.cells.iter().map(|cell| cell.key().into_any()).collect();
    let asked = |line: &RecordLine| line.key().is_none_or(|key| keys.contains(&key));
    contents.lines.retain(|line| line.session() == session.session && asked(line));
    Ok(SessionResults { results: BenchResults::of(&[contents]), session, failed })
}

/// An interruption, with the place of the samples and the way to continue.
fn explain_interruption(how: &MeasuringArgs) -> anyhow::Error {
    let next = if how.resumable { "; the same command with --resume continues" } else { "" };
    let samples = format!("the samples so far are in {}{next}", display(&how.output));
    anyhow::Error::from(Error::Interrupted).context(samples)
}

/// Returns a flag that Ctrl-C and similar signals set. The current measurement is then abandoned,
/// the measured program ended, and temporary files removed. A second signal of any kind removes
/// them and ends this program immediately. Call it before there is anything to remove, as it takes
/// effect with the first call.
pub(in crate::commands) fn stop_flag() -> Result<Arc<AtomicBool>> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(stop) = STOP.get() {
        return Ok(Arc::clone(stop));
    }
    let stop = Arc::clone(STOP.get_or_init(Arc::default));
    watch_signals(&stop).context("cannot watch for signals")?;
    Ok(stop)
}

fn watch_signals(stop: &Arc<AtomicBool>) -> io::Result<()> {
    let ends = interrupt::ending_signals();
    for &signal in &ends {
        flag::register(signal, Arc::clone(stop))?;
    }
    let mut signals = Signals::new(ends)?;
    let end = move || {
        let mut signals = signals.forever();
        // Ctrl-C in a terminal also reaches the measured program; a signal to this process alone does not.
        signals.next().inspect(|_| program::end_all());
        if let Some(second) = signals.next() {
            program::kill_all();
            scratch::remove_all();
            std::process::exit(128 + second);
        }
    };
    threads::named("packfs-signals").start(end)?;
    Ok(())
}

/// Fails if samples cannot be written to their file, or results not be printed, before long preparations.
pub(super) fn check_output(how: &MeasuringArgs) -> Result<()> {
    output::require_stdout()?;
    let output = &how.output;
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let reached = match OpenOptions::new().append(true).open(output) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => access(folder, Access::WRITE_OK).map_err(Into::into),
        opened => opened.map(drop),
    };
    reached.with_context(|| format!("{}: cannot write there; -o names another file", display(output)))
}

/// Fails if the flag is set, to end preparations.
pub(super) fn fail_if_stopped(stop: &AtomicBool) -> Result<()> {
    if stop.load(Relaxed) { Err(packfs_bench::Error::Interrupted.into()) } else { Ok(()) }
}

/// Makes a working directory, below the requested one or where [`ScratchDir`] puts it, and outside of
/// the packed files.
pub(super) fn create_scratch(parent: Option<&Path>, packed: Option<&Path>) -> Result<ScratchDir> {
    let made = ScratchDir::new(parent, packed).map_err(usage_error);
    match parent {
        Some(parent) => made.map_err(|error| match error.is::<UsageError>() {
            true => error,
            false => {
                error.context(format!("{}: cannot work there; --scratch names another directory", display(parent)))
            }
        }),
        None => made,
    }
}

/// Turns errors about the request into usage errors.
pub(super) fn usage_error(error: packfs_bench::Error) -> anyhow::Error {
    match error {
        packfs_bench::Error::Usage(text) => UsageError(text).into(),
        error => error.into(),
    }
}

/// Returns the cells of a part of the matrix.
pub(super) fn cells_of_part<C>(part: Option<Part>, cells: Vec<C>) -> Vec<C> {
    let part = part.unwrap_or_default();
    (0..).zip(cells).filter(|(number, _)| part.holds(*number)).map(|(_, cell)| cell).collect()
}

/// Returns the ending of the name of a session that measures a part. Parts may begin on several machines in the same second,
/// in processes of the same number.
pub(super) fn name_ending(part: Option<Part>) -> String {
    part.map_or_else(String::new, |part| format!("-{}.{}", part.index(), part.count()))
}

fn begin_session(about: BenchSession, how: &MeasuringArgs) -> Result<BenchSession> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is set before 1970")?.as_secs();
    Ok(BenchSession {
        session: format!("{now}-{}{}", std::process::id(), about.session),
        time: now,
        program: env!("CARGO_PKG_VERSION").into(),
        machine: MachineRecord::this(),
        seed: how.seed,
        runs: how.runs,
        ..about
    })
}

/// Returns the session to resume, and its results so far.
fn find_session<S: MeasuredCell>(
    how: &MeasuringArgs,
    contents: &ResultsFile,
    now: &BenchSession,
) -> Option<(BenchSession, BTreeMap<S::Key, u32>)> {
    let alike = |session: &&BenchSession| {
        (&session.machine, &session.program, session.seed, &session.settings)
            == (&now.machine, &now.program, now.seed, &now.settings)
            && now.libraries.iter().all(|(codec, library)| session.libraries.get(codec) == Some(library))
    };
    let sessions: Vec<&BenchSession> = contents.sessions().filter(|_| how.resume).collect();
    let session = sessions.into_iter().rfind(alike)?;
    Some((session.clone(), contents.sample_counts::<S::Key>(&session.session)))
}

/// Live progress on a terminal; elsewhere the number of steps in advance, and a line of progress every minute.
struct SessionDisplay {
    steps: StepDisplay,
    quiet: bool,
    runs: u32,
    expected: ExpectedCost,
    /// Cells of the whole matrix, those of earlier runs included.
    cells: usize,
    begun: Instant,
    /// Time of the latest line of progress without a terminal.
    told: Instant,
}

/// Interval between lines of progress without a terminal.
const LINES: Duration = Duration::from_secs(60);

impl SessionDisplay {
    fn new(expected: ExpectedCost, cells: usize, how: &MeasuringArgs) -> Self {
        let quiet = how.talk.quiet;
        let now = Instant::now();
        let steps = StepDisplay::new("measuring", quiet);
        SessionDisplay { steps, quiet, runs: how.runs, expected, cells, begun: now, told: now }
    }

    fn show<S: MeasuredCell>(&mut self, event: &RunEvent<'_, S>) {
        match event {
            RunEvent::Begun { cells, steps } if *cells > 0 && !self.quiet => {
                let cells = units::of(*cells as u64, "cell");
                let runs = units::of(self.runs.into(), "run");
                let cost = self.expected.words(self.expected.time(*steps, self.cells));
                let text = format_args!("packfs: measuring {cells}: a warm-up and {runs} each, {steps} steps{cost}");
                self.steps.say(text);
            }
            RunEvent::Begun { .. } => {}
            RunEvent::Step { number, steps, round, left, cell } => {
                // Before the first step has shown how long one takes, the estimate says it.
                let guess = || (self.expected.round > 0.0).then(|| self.expected.time(*steps, self.cells));
                let left = left.or_else(guess).map(estimate::whole_seconds);
                let left = left.map(|left| format!("{} left", units::span(left)));
                let round = if *round == 0 { "warm-up".to_owned() } else { format!("run {round}") };
                let figures: Vec<String> = left.into_iter().chain([format!("{number} of {steps} done")]).collect();
                if !self.steps.is_live() && !self.quiet && self.told.elapsed() >= LINES {
                    self.told = Instant::now();
                    self.steps.say(format_args!("packfs: {}", figures.join(", ")));
                }
                let share = *number as f64 / *steps as f64;
                self.steps.show(share, &figures, format_args!("{round}: {}", cell.key()));
            }
            RunEvent::WarmedUp(left) if !left.is_zero() && !self.quiet => {
                let warm_up = units::span(self.begun.elapsed());
                self.steps.say(format_args!("packfs: warmed up in {warm_up}; about {} to go", units::span(*left)));
            }
            RunEvent::WarmedUp(_) => {}
            RunEvent::Failed(failure) => {
                self.steps.say(format_args!("packfs: {} is left out: {}", failure.key, failure.why));
            }
        }
    }
}
