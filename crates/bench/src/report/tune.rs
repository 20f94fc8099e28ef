//! The report of tuning: the choice with its command, the front, and all candidates.

use std::ffi::OsString;

use super::commands::shell_line;
use super::model::{
    BenchReport, ChartForm, ChartSeries, ChartX, ReportChapter, ReportChart, ReportSection, TableColumn, TableValue,
};
use super::sessions::date;
use super::shape::{axis, guide, series, table};
use crate::metrics;
use crate::record::MachineRecord;
use crate::results::BenchResults;
use crate::tune::choose::{TuneGoal, front, most_different};
use crate::tune::predict::ImagePrediction;
use crate::tune::{TuneResult, TuneSettings};
use crate::units::{short_size, three_digits};

impl BenchReport {
    /// Creates the report of a tuning run.
    pub fn of_tuning(tuning: &TuneResult) -> Self {
        let mut sections = vec![choice_section(tuning)];
        sections.extend(candidates_section(&tuning.predictions, tuning.choice.index()));
        BenchReport { title: format!("packfs tune {}", tuning.source), sections, ..BenchReport::default() }
    }

    /// Adds the machine and the time (in seconds since 1970) to the heading.
    pub fn made_on(mut self, machine: &MachineRecord, time: u64) -> Self {
        let MachineRecord { cpu, processors, kernel, .. } = machine;
        let word = if *processors == 1 { "processor" } else { "processors" };
        let version = env!("CARGO_PKG_VERSION");
        self.about.push(format!("{cpu}, {processors} {word}; {kernel}; packfs {version}; {}.", date(time)));
        self
    }

    /// Creates the report of `bench --quick`: codecs, and ways to build an image.
    pub fn of_quick(results: &BenchResults, predictions: &[ImagePrediction]) -> Self {
        let mut report = BenchReport::of(results);
        report.sections.extend(candidates_section(predictions, None));
        report.sorted_by_chapter()
    }

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

fn choice_section(tuning: &TuneResult) -> ReportSection {
    let mut sentences = Vec::new();
    if let Some((best, within)) = tuning.chosen() {
        if !within {
            sentences.push(format!("No settings are within the limits ({}).", describe_limits(tuning)));
        }
        let best_at = match tuning.goal {
            TuneGoal::Size => "The smallest image",
            TuneGoal::Speed => "The shortest build",
            TuneGoal::Read => "The fastest reads",
            TuneGoal::Balanced => "The best balance of size, build time and read speed",
        };
        let subject = if within { best_at } else { "The nearest to them" };
        let origin = if best.measured { "Measured" } else { "Predicted" };
        sentences.push(format!(
            "{subject}: {}. {origin}: {} MB ({} % of the files), built in {} s ({} s of processor time), read at {} \
             MB/s by one thread, and {} ms for 4 KiB at a random place.",
            describe_settings(&best.settings),
            three_digits(best.size as f64 / 1e6),
            three_digits(100.0 * best.size as f64 / (tuning.bytes as f64).max(1.0)),
            three_digits(best.seconds),
            three_digits(best.cpu_seconds),
            three_digits(best.read_speed),
            three_digits(best.random_read)
        ));
    }
    // A table, because a sentence would be wrapped.
    let command = vec![vec![TableValue::Command(shell_line(tuning.command.iter().map(OsString::as_os_str)))]];
    let tables = vec![table("tune-command", "The command that builds it", ["command"], command)];
    let title = format!("Packing {}", tuning.source);
    ReportSection { chapter: ReportChapter::Settings, title, sentences, tables, ..ReportSection::default() }
}

/// Describes settings in a sentence.
fn describe_settings(settings: &TuneSettings) -> String {
    let format = if settings.format == "erofs" { "EROFS" } else { "SquashFS" };
    let blocks = if settings.format == "erofs" { "clusters" } else { "blocks" };
    format!("{format} with {} in {blocks} of {}", settings.codec, short_size(settings.block as usize))
}

fn describe_limits(tuning: &TuneResult) -> String {
    let limits = &tuning.limits;
    // To the byte, because small limits would vanish in MB.
    let size = limits.size.map(|most| format!("at most {most} B"));
    let time = limits.seconds.map(|most| format!("at most {} s", three_digits(most)));
    let read = limits.read.map(|least| format!("at least {} MB/s", three_digits(least)));
    [size, time, read].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Maximum number of settings in the table of those worth considering: more would not help the choice.
const MAX_CONSIDERED: usize = 10;

/// Returns the section of all candidates: those worth considering as a table and charts, then everything on the page.
/// The recommended one is marked.
fn candidates_section(predictions: &[ImagePrediction], recommended: Option<usize>) -> Option<ReportSection> {
    let on = front(predictions);
    let best: Vec<usize> = (0..predictions.len()).filter(|at| on[*at]).collect();
    let first_by = |cost: &dyn Fn(&ImagePrediction) -> f64| {
        best.iter().copied().min_by(|a, b| cost(&predictions[*a]).total_cmp(&cost(&predictions[*b])))
    };
    let smallest = first_by(&|one| one.size as f64)?;
    let fastest_built = first_by(&|one| one.seconds)?;
    let fastest_read = first_by(&|one| -one.read_speed)?;
    let kept: Vec<usize> = [smallest, fastest_built, fastest_read].into_iter().chain(recommended).collect();
    let mut considered = most_different(predictions, &best, &kept, MAX_CONSIDERED);
    // Because of limits, or of sizes that count as equal, others may beat the recommended one.
    considered.extend(recommended.filter(|at| !on[*at]));
    let mut rest: Vec<usize> = (0..predictions.len()).filter(|at| !considered.contains(at)).collect();
    considered.sort_by_key(|at| predictions[*at].size);
    rest.sort_by_key(|at| predictions[*at].size);

    let mut sentences = vec![summary(predictions, best.len(), [smallest, fastest_built, fastest_read])];
    if predictions.iter().any(|one| !one.measured) {
        sentences.push(METHOD.into());
    }
    let rows = |of: &[usize]| of.iter().map(|at| row(&predictions[*at])).collect();
    let mut worthwhile = table("tune-front", "Settings worth considering", columns(), rows(&considered));
    if let Some(recommended) = recommended {
        let marks =
            considered.iter().map(|at| if *at == recommended { "recommended".into() } else { TableValue::None });
        worthwhile.columns.push(TableColumn::of("choice"));
        worthwhile.rows.iter_mut().zip(marks).for_each(|(row, mark)| row.push(mark));
    }
    let mut tables = vec![worthwhile];
    if !rest.is_empty() {
        tables.push(table("tune-rest", "The other settings", columns(), rows(&rest)));
    }
    let charts = CandidateCharts { predictions, recommended };
    let charts = vec![
        charts.size_against("tune-time", "Size and build time", "seconds to build", |one| (one.seconds, false)),
        charts.size_against("tune-read", "Size and read speed", "MB/s of one thread", |one| (one.read_speed, true)),
        charts.size_against("tune-random", "Size and time of a small read", "milliseconds for 4 KiB", |one| {
            (one.random_read, false)
        }),
    ];
    let title = "Which settings are worth considering?".into();
    Some(ReportSection {
        chapter: ReportChapter::Settings,
        title,
        sentences,
        charts,
        tables,
        ..ReportSection::default()
    })
}

/// Describes the settings that no other beats, and the extremes among them: the smallest, the fastest to build and the
/// fastest to read.
fn summary(predictions: &[ImagePrediction], unbeaten: usize, extremes: [usize; 3]) -> String {
    let [smallest, fastest_built, fastest_read] = extremes.map(|at| &predictions[at]);
    let shown =
        if unbeaten > MAX_CONSIDERED { format!("; the {MAX_CONSIDERED} shown differ most") } else { String::new() };
    format!(
        "{unbeaten} of {} settings are worth considering: no other is smaller, faster to build and faster to read at the \
         same time{shown}. The smallest is {} ({} MB), the fastest to build {} ({} s), the fastest to read {} ({} MB/s).",
        predictions.len(),
        smallest.settings,
        three_digits(smallest.size as f64 / 1e6),
        fastest_built.settings,
        three_digits(fastest_built.seconds),
        fastest_read.settings,
        three_digits(fastest_read.read_speed)
    )
}

/// How predictions are made.
const METHOD: &str = "\
    Sizes and times are predictions from builds of a sample, and of everything with a fast codec. Times assume an \
    idle machine; reads are those of packfs, from memory.";

fn columns() -> [TableColumn; 9] {
    let of = TableColumn::of;
    [
        of("format"),
        of("codec"),
        of("block"),
        of("MB"),
        of("build s"),
        TableColumn::wide("CPU s"),
        of("read MB/s"),
        of("4K read ms"),
        TableColumn::wide("tried MB"),
    ]
}

fn row(one: &ImagePrediction) -> Vec<TableValue> {
    vec![
        one.settings.format.as_str().into(),
        one.settings.codec.as_str().into(),
        short_size(one.settings.block as usize).as_str().into(),
        TableValue::Number(one.size as f64 / 1e6),
        TableValue::Number(one.seconds),
        TableValue::Number(one.cpu_seconds),
        TableValue::Number(one.read_speed),
        TableValue::Number(one.random_read),
        TableValue::Number(one.tried as f64 / 1e6),
    ]
}

/// Predictions, for charts with a point for each.
struct CandidateCharts<'p> {
    predictions: &'p [ImagePrediction],
    recommended: Option<usize>,
}

impl CandidateCharts<'_> {
    /// Makes a chart with a named point for each candidate, and a line along the front. `value` returns the horizontal
    /// position, and whether more is better.
    fn size_against(&self, id: &str, title: &str, x: &str, value: fn(&ImagePrediction) -> (f64, bool)) -> ReportChart {
        let all = self.predictions;
        let point = |one: &ImagePrediction| (value(one).0, one.size as f64 / 1e6);
        // The front takes a cost, where less is better, and a gain, where more is better.
        let cost = |one: &ImagePrediction| (one.size as f64, if value(one).1 { value(one).0 } else { -value(one).0 });
        let on = metrics::front(&all.iter().map(cost).collect::<Vec<_>>());
        let mut line: Vec<(f64, f64)> = all.iter().zip(&on).filter(|(_, on)| **on).map(|(one, _)| point(one)).collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut drawn = vec![guide("Pareto front", line.into_iter().map(|(x, y)| (ChartX::Number(x), y)))];
        for (at, one) in all.iter().enumerate() {
            let (x, y) = point(one);
            // packfs makes both formats, so EROFS has hollow marks, as in other charts.
            let hollow = one.settings.format == "erofs";
            let recommended = self.recommended == Some(at);
            drawn.push(ChartSeries {
                hollow,
                recommended,
                ..series(&one.settings.to_string(), [(ChartX::Number(x), y)])
            });
        }
        ReportChart {
            band: None,
            id: id.into(),
            title: title.into(),
            x: axis(x, true),
            y: axis("MB", false),
            kind: ChartForm::Points,
            series: drawn,
        }
    }
}
