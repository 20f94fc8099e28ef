//! `packfs bench codecs`.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use packfs_bench::codecs::Method;
use packfs_bench::corpus::{self, Data};
use packfs_bench::matrix::{Key, Matrix};
use packfs_bench::memory::Shares;
use packfs_bench::real;
use packfs_bench::record::{Contents, Line, Log, Machine, Session};
use packfs_bench::report::{Report, text};
use packfs_bench::results::{Results, Row};
use packfs_bench::run::{Event, Plan, run as measure};
use serde::Serialize;

use crate::args::Codecs;
use crate::output::failure::{Outcome, Usage};
use crate::output::{json, say, units};

pub(super) fn run(args: &Codecs) -> Result<Outcome> {
    if args.runs == 0 {
        return Err(Usage("--runs 0 measures nothing; accepted: 1 or more".into()).into());
    }
    let methods = args.codecs.clone().map_or_else(Method::defaults, |methods| Ok(methods.0))?;
    let matrix = Matrix {
        data: data(args)?,
        blocks: args.blocks.0.clone(),
        sector: args.sector,
        policy: args.policy,
        threads: args.jobs.clone(),
        methods,
    };
    let cells = matrix.cells().map_err(usage)?;
    let session = session(args, &matrix.methods)?;
    let (mut log, contents) = Log::open(&args.output)?;
    if contents.torn {
        say(format_args!("packfs: {}: the last line was torn off, and is removed", args.output.display()));
    }
    let (session, done) = match resumed(args, &contents, &session) {
        Some((session, done)) => (session, done),
        None => {
            log.append(&Line::Session(session.clone()))?;
            (session, BTreeMap::new())
        }
    };
    let least = Duration::from_millis(args.least);
    let keys: Vec<Key> = cells.iter().map(packfs_bench::matrix::Cell::key).collect();
    let plan = Plan { cells, runs: args.runs, seed: args.seed, least, session: session.session.clone(), done };
    let mut display = Display::new(args.talk.quiet);
    let mut record = |line: &Line| log.append(line);
    let failed = measure(&plan, &mut real::Machine::new(), &mut record, &mut |event| display.show(&event));
    display.finish();
    let failed = failed.with_context(|| format!("what was measured is in {}", args.output.display()))?;

    let mut contents = Contents::read(&args.output)?;
    // What others measured in this file is for its report.
    contents.lines.retain(|line| line.session() == session.session);
    let mut results = Results::of(&[contents]);
    results.rows.retain(|row| keys.contains(&row.key));
    show(args, &session, &results)?;
    Ok(if failed > 0 { Outcome::Findings } else { Outcome::Done })
}

/// What is wrong with what was asked for is wrong usage.
fn usage(error: packfs_bench::Error) -> anyhow::Error {
    match error {
        packfs_bench::Error::Usage(text) => Usage(text).into(),
        error => error.into(),
    }
}

fn data(args: &Codecs) -> Result<Vec<Arc<Data>>> {
    let mut sets = Vec::new();
    for path in &args.data {
        let set = Data::read(path, args.sample)?;
        for reason in &set.left_out {
            say(format_args!("packfs: left out: {reason}"));
        }
        sets.push(set);
    }
    let most = usize::try_from(args.sample).unwrap_or(usize::MAX);
    if sets.is_empty() {
        sets.push(Data::memory(most, args.seed, Shares::default()));
    }
    sets.push(Data::incompressible(most, args.seed));
    Ok(corpus::distinct(sets))
}

fn session(args: &Codecs, methods: &[Method]) -> Result<Session> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?.as_secs();
    Ok(Session {
        session: format!("{now}-{}", std::process::id()),
        time: now,
        program: env!("CARGO_PKG_VERSION").into(),
        machine: Machine::this(),
        libraries: methods.iter().map(|method| (method.to_string(), method.library())).collect(),
        seed: args.seed,
        runs: args.runs,
    })
}

/// The session to go on with, and what it has done.
fn resumed(args: &Codecs, contents: &Contents, now: &Session) -> Option<(Session, BTreeMap<Key, u32>)> {
    let alike = |session: &&Session| {
        (&session.machine, &session.program, session.seed) == (&now.machine, &now.program, now.seed)
            && now.libraries.iter().all(|(codec, library)| session.libraries.get(codec) == Some(library))
    };
    let sessions: Vec<&Session> = contents.sessions().filter(|_| args.resume).collect();
    let session = sessions.into_iter().rfind(alike)?;
    Some((session.clone(), contents.done(&session.session)))
}

/// Live progress: a bar on a terminal, elsewhere a word beforehand about how long it will take.
struct Display {
    bar: Option<ProgressBar>,
    quiet: bool,
    begun: Instant,
}

impl Display {
    fn new(quiet: bool) -> Self {
        let live = stderr().is_terminal() && !quiet;
        let bar = live.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("measuring [{bar:12}] {pos} of {len}, {wide_msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
        });
        Display { bar, quiet, begun: Instant::now() }
    }

    fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Step { number, of, cell } => {
                let Some(bar) = &self.bar else { return };
                bar.set_length(*of as u64);
                bar.set_position(*number as u64);
                let block = units::bytes(cell.block as u64);
                bar.set_message(format!("{} on {} in blocks of {block}", cell.method, cell.data.name));
            }
            Event::Left(left) if !left.is_zero() && !self.quiet => {
                let warm_up = units::span(self.begun.elapsed());
                self.say(format_args!("packfs: warmed up in {warm_up}; about {} to go", units::span(*left)));
            }
            Event::Left(_) => {}
            Event::Failed(failure) => {
                let (key, why) = (&failure.key, &failure.why);
                self.say(format_args!("packfs: {} on {} is left out: {why}", key.codec, key.data));
            }
        }
    }

    fn say(&self, line: impl std::fmt::Display) {
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

/// See `docs/guide/json.md`.
#[derive(Serialize)]
struct Document<'a> {
    session: &'a Session,
    results: Vec<Entry<'a>>,
}

/// One cell: its key, its sizes, and its metrics in MB (millions of bytes) a second.
#[derive(Serialize)]
struct Entry<'a> {
    #[serde(flatten)]
    key: &'a Key,
    sizes: &'a packfs_bench::metrics::Sizes,
    ratio: f64,
    encode_speed: Option<f64>,
    decode_speed: Option<f64>,
    encode_savings: Option<f64>,
    decode_savings: Option<f64>,
    encode_spread: f64,
    decode_spread: Option<f64>,
    runs: usize,
}

fn entry(row: &Row) -> Entry<'_> {
    Entry {
        key: &row.key,
        sizes: &row.sizes,
        ratio: row.sizes.ratio(),
        encode_speed: row.encode_speed(),
        decode_speed: row.decode_speed(),
        encode_savings: row.encode_savings(),
        decode_savings: row.decode_savings(),
        encode_spread: row.encode.spread(),
        decode_spread: row.decode.map(|decode| decode.spread()),
        runs: row.encode.count,
    }
}

fn show(args: &Codecs, session: &Session, results: &Results) -> Result<()> {
    if args.json {
        return json::print("bench", &Document { session, results: results.rows.iter().map(entry).collect() });
    }
    super::super::print(&text(&Report::of(results)))?;
    if !args.talk.quiet {
        let file = args.output.display();
        say(format_args!("packfs: the samples are in {file}; packfs bench report {file} -o report.html makes a page"));
    }
    Ok(())
}
