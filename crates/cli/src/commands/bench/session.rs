//! What all kinds of measurements have in common: a session in a file of results, a display, and Ctrl-C.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use packfs_bench::executor::Executor;
use packfs_bench::record::{Contents, Line, Log, Machine, Session};
use packfs_bench::results::Results;
use packfs_bench::run::{self, Event, Plan};
use packfs_bench::subject::Subject;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::args::Measuring;
use crate::output::failure::Usage;
use crate::output::{say, units};

/// What came of it.
pub(super) struct Measured {
    pub(super) session: Session,
    /// Cells that failed.
    pub(super) failed: usize,
    output: PathBuf,
}

impl Measured {
    /// The results of the session, of earlier runs of it too.
    pub(super) fn results(&self) -> Result<Results> {
        let mut contents = Contents::read(&self.output)?;
        // What others measured in this file is for its report.
        contents.lines.retain(|line| line.session() == self.session.session);
        Ok(Results::of(&[contents]))
    }
}

/// Measures cells and appends every sample to the file of results. `about` says what is known of the session beyond
/// the machine and the program; what is measured in less than `least` is measured again.
pub(super) fn measure<S: Subject>(
    cells: Vec<S>,
    executor: &mut dyn Executor<S>,
    about: Session,
    least: Duration,
    how: &Measuring,
) -> Result<Measured> {
    let output = &how.output;
    if how.runs == 0 {
        return Err(Usage("--runs 0 measures nothing; accepted: 1 or more".into()).into());
    }
    let session = begun(about, how)?;
    let (mut log, contents) = Log::open(output)?;
    if contents.torn {
        say(format_args!("packfs: {}: the last line was torn off, and is removed", output.display()));
    }
    let (session, done) = match resumed::<S>(how, &contents, &session) {
        Some(resumed) => resumed,
        None => {
            log.append(&Line::Session(session.clone()))?;
            (session, BTreeMap::new())
        }
    };
    let (name, stop) = (session.session.clone(), stop()?);
    let plan = Plan { cells, runs: how.runs, seed: how.seed, least, session: name, done, stop };
    let mut display = Bar::new(how.talk.quiet);
    let mut record = |line: &Line| log.append(line);
    let failed = run::run(&plan, executor, &mut record, &mut |event| display.show(&event));
    display.finish();
    let failed = failed.with_context(|| format!("what was measured is in {}", output.display()))?;
    Ok(Measured { session, failed, output: output.clone() })
}

/// Set by Ctrl-C and the like: the measurement being made is given up, and whatever was made for it removed. A second
/// time ends the program at once.
pub(super) fn stop() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("cannot watch for signals")?;
    }
    Ok(stop)
}

/// Says where the samples are, and what can be made of them.
pub(super) fn say_where(how: &Measuring) {
    if !how.talk.quiet {
        let file = how.output.display();
        say(format_args!("packfs: the samples are in {file}; packfs bench report {file} -o report.html makes a page"));
    }
}

/// What is wrong with what was asked for is wrong usage.
pub(super) fn usage(error: packfs_bench::Error) -> anyhow::Error {
    match error {
        packfs_bench::Error::Usage(text) => Usage(text).into(),
        error => error.into(),
    }
}

fn begun(about: Session, how: &Measuring) -> Result<Session> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?.as_secs();
    Ok(Session {
        session: format!("{now}-{}", std::process::id()),
        time: now,
        program: env!("CARGO_PKG_VERSION").into(),
        machine: Machine::this(),
        seed: how.seed,
        runs: how.runs,
        ..about
    })
}

/// The session to go on with, and what it has done.
fn resumed<S: Subject>(
    how: &Measuring,
    contents: &Contents,
    now: &Session,
) -> Option<(Session, BTreeMap<S::Key, u32>)> {
    let alike = |session: &&Session| {
        (&session.machine, &session.program, session.seed, &session.settings)
            == (&now.machine, &now.program, now.seed, &now.settings)
            && now.libraries.iter().all(|(codec, library)| session.libraries.get(codec) == Some(library))
    };
    let sessions: Vec<&Session> = contents.sessions().filter(|_| how.resume).collect();
    let session = sessions.into_iter().rfind(alike)?;
    Some((session.clone(), contents.done::<S>(&session.session)))
}

/// Live progress: a bar on a terminal, elsewhere a word beforehand about how long it will take.
struct Bar {
    bar: Option<ProgressBar>,
    quiet: bool,
    begun: Instant,
}

impl Bar {
    fn new(quiet: bool) -> Self {
        let live = stderr().is_terminal() && !quiet;
        let bar = live.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("measuring [{bar:12}] {pos} of {len}, {wide_msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
        });
        Bar { bar, quiet, begun: Instant::now() }
    }

    fn show<S: Subject>(&mut self, event: &Event<'_, S>) {
        match event {
            Event::Step { number, of, cell } => {
                let Some(bar) = &self.bar else { return };
                bar.set_length(*of as u64);
                bar.set_position(*number as u64);
                bar.set_message(cell.key().to_string());
            }
            Event::Left(left) if !left.is_zero() && !self.quiet => {
                let warm_up = units::span(self.begun.elapsed());
                self.say(format_args!("packfs: warmed up in {warm_up}; about {} to go", units::span(*left)));
            }
            Event::Left(_) => {}
            Event::Failed(failure) => {
                self.say(format_args!("packfs: {} is left out: {}", failure.key, failure.why));
            }
        }
    }

    fn say(&self, line: impl Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(line)),
            None => say(line),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
