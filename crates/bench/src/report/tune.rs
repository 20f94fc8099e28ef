//! The report of tuning: the choice with its command, the front, and all candidates.

use super::commands::word;
use super::model::{Chapter, Chart, ChartForm, Column, Report, Section, Series, Value, X};
use super::sessions::date;
use super::shape::{axis, guide, series, table};
use crate::metrics;
use crate::record::Machine;
use crate::results::Results;
use crate::tune::choose::{Goal, front};
use crate::tune::predict::Prediction;
use crate::tune::{Settings, Tuning};
use crate::units::{size, three};

impl Report {
    /// Creates the report of a tuning run.
    pub fn of_tuning(tuning: &Tuning) -> Self {
        let mut sections = vec![chosen(tuning)];
        sections.extend(tried(&tuning.predictions));
        Report { title: format!("packfs tune {}", tuning.source), sections, ..Report::default() }
    }

    /// Adds the machine and the time (in seconds since 1970) to the heading.
    pub fn made_on(mut self, machine: &Machine, time: u64) -> Self {
        let Machine { cpu, processors, kernel, .. } = machine;
        let word = if *processors == 1 { "processor" } else { "processors" };
        let version = env!("CARGO_PKG_VERSION");
        self.about.push(format!("{cpu}, {processors} {word}; {kernel}; packfs {version}; {}.", date(time)));
        self
    }
}

impl Report {
    /// Creates the report of `bench --quick`: codecs, and ways to build an image.
    pub fn of_quick(results: &Results, predictions: &[Prediction]) -> Self {
        let mut report = Report::of(results);
        report.sections.extend(tried(predictions));
        report.in_order()
    }
}

impl Report {
    /// Returns the part that fits a terminal: the sentences, the command, and the front.
    pub fn brief(mut self) -> Self {
        for section in &mut self.sections {
            section.notes.clear();
            section.tables.retain(|table| ["tune-command", "tune-front"].contains(&table.id.as_str()));
        }
        self.sections.retain(|section| !section.sentences.is_empty() || !section.tables.is_empty());
        self
    }
}

fn chosen(tuning: &Tuning) -> Section {
    let mut sentences = Vec::new();
    if let Some((best, within)) = tuning.chosen() {
        if !within {
            sentences.push(format!("No settings are within the limits ({}).", limits(tuning)));
        }
        let what = match tuning.goal {
            Goal::Size => "The smallest image",
            Goal::Speed => "The shortest build",
            Goal::Read => "The fastest reads",
            Goal::Balanced => "The best balance of size, build time and read speed",
        };
        let what = if within { what } else { "The nearest to them" };
        let how = if best.measured { "Measured" } else { "Predicted" };
        sentences.push(format!(
            "{what}: {}. {how}: {} MB ({} % of the files), built in {} s ({} s of processor time), read at {} MB/s by one \
             thread, and {} ms for 4 KiB at a random place.",
            words(&best.settings),
            three(best.size as f64 / 1e6),
            three(100.0 * best.size as f64 / (tuning.bytes as f64).max(1.0)),
            three(best.seconds),
            three(best.cpu_seconds),
            three(best.read_speed),
            three(best.random_read)
        ));
    }
    // A table, because a sentence would be wrapped.
    let command = vec![vec![Value::Text(shell(tuning))]];
    let tables = vec![table("tune-command", "The command that builds it", ["command"], command)];
    let title = format!("Packing {}", tuning.source);
    Section { chapter: Chapter::Settings, title, sentences, tables, ..Section::default() }
}

/// Describes settings in a sentence.
fn words(settings: &Settings) -> String {
    let format = if settings.format == "erofs" { "EROFS" } else { "SquashFS" };
    let blocks = if settings.format == "erofs" { "clusters" } else { "blocks" };
    format!("{format} with {} in {blocks} of {}", settings.codec, size(settings.block as usize))
}

fn limits(tuning: &Tuning) -> String {
    let limits = &tuning.limits;
    // To the byte, because small limits would vanish in MB.
    let size = limits.size.map(|most| format!("at most {most} B"));
    let time = limits.seconds.map(|most| format!("at most {} s", three(most)));
    let read = limits.read.map(|least| format!("at least {} MB/s", three(least)));
    [size, time, read].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the command, quoted for a shell.
fn shell(tuning: &Tuning) -> String {
    tuning.command.iter().map(|one| word(&one.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// Returns the section of all candidates: the front as table and charts, then everything on the page.
pub(super) fn tried(predictions: &[Prediction]) -> Option<Section> {
    let on = front(predictions);
    let mut best: Vec<&Prediction> = predictions.iter().zip(&on).filter(|(_, on)| **on).map(|(one, _)| one).collect();
    best.sort_by_key(|one| one.size);
    let (least, most) = (best.first()?, best.iter().max_by(|a, b| a.read_speed.total_cmp(&b.read_speed))?);
    let fastest = best.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let summary = format!(
        "{} of {} settings are worth considering: no other is smaller, faster to build and faster to read at the same \
         time. The smallest is {} ({} MB), the fastest to build {} ({} s), the fastest to read {} ({} MB/s).",
        best.len(),
        predictions.len(),
        least.settings,
        three(least.size as f64 / 1e6),
        fastest.settings,
        three(fastest.seconds),
        most.settings,
        three(most.read_speed)
    );
    let mut tables =
        vec![table("tune-front", "Settings worth considering", columns(), best.iter().map(|one| row(one)).collect())];
    let mut sentences = vec![summary];
    if predictions.iter().any(|one| !one.measured) {
        sentences.push(method());
    }
    let mut all: Vec<&Prediction> = predictions.iter().zip(&on).filter(|(_, on)| !**on).map(|(one, _)| one).collect();
    all.sort_by_key(|one| one.size);
    let rest = table("tune-rest", "The other settings", columns(), all.iter().map(|one| row(one)).collect());
    tables.extend((!all.is_empty()).then_some(rest));
    let charts = vec![
        against("tune-time", "Size and build time", predictions, "seconds to build", |one| (one.seconds, false)),
        against("tune-read", "Size and read speed", predictions, "MB/s of one thread", |one| (one.read_speed, true)),
        against("tune-random", "Size and time of a small read", predictions, "milliseconds for 4 KiB", |one| {
            (one.random_read, false)
        }),
    ];
    let title = "Which settings are worth considering?".into();
    Some(Section { chapter: Chapter::Settings, title, sentences, charts, tables, ..Section::default() })
}

fn method() -> String {
    "Sizes and times are predictions from builds of a sample, and of everything with a fast codec. Times assume an idle \
     machine; reads are those of packfs, from memory."
        .into()
}

fn columns() -> [Column; 9] {
    let of = Column::of;
    [
        of("format"),
        of("codec"),
        of("block"),
        of("MB"),
        of("build s"),
        Column::wide("CPU s"),
        of("read MB/s"),
        of("4K read ms"),
        Column::wide("tried MB"),
    ]
}

fn row(one: &Prediction) -> Vec<Value> {
    vec![
        one.settings.format.as_str().into(),
        one.settings.codec.as_str().into(),
        size(one.settings.block as usize).as_str().into(),
        Value::Number(one.size as f64 / 1e6),
        Value::Number(one.seconds),
        Value::Number(one.cpu_seconds),
        Value::Number(one.read_speed),
        Value::Number(one.random_read),
        Value::Number(one.tried as f64 / 1e6),
    ]
}

/// Chart with a named point for each candidate, and a line along the front.
fn against(id: &str, title: &str, all: &[Prediction], x: &str, value: fn(&Prediction) -> (f64, bool)) -> Chart {
    let point = |one: &Prediction| (value(one).0, one.size as f64 / 1e6);
    // The front takes a cost, where less is better, and a gain, where more is better.
    let cost = |one: &Prediction| (one.size as f64, if value(one).1 { value(one).0 } else { -value(one).0 });
    let on = metrics::front(&all.iter().map(cost).collect::<Vec<_>>());
    let mut line: Vec<(f64, f64)> = all.iter().zip(&on).filter(|(_, on)| **on).map(|(one, _)| point(one)).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut drawn = vec![guide("Pareto front", line.into_iter().map(|(x, y)| (X::Number(x), y)))];
    for one in all {
        let (x, y) = point(one);
        // packfs makes both formats, so EROFS has hollow marks, as in other charts.
        let hollow = one.settings.format == "erofs";
        drawn.push(Series { hollow, ..series(&one.settings.to_string(), [(X::Number(x), y)]) });
    }
    Chart {
        band: None,
        id: id.into(),
        title: title.into(),
        x: axis(x, true),
        y: axis("MB", false),
        kind: ChartForm::Points,
        series: drawn,
    }
}
