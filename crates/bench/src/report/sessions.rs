//! Sections common to all kinds of measurements: machine, noise, and failed cells.

use packfs_blocks::calendar::{CivilDate, DAY};

use super::leaders::listed;
use super::model::{ReportSection, ReportTable, TableValue};
use super::shape::{distinct, table};
use crate::corpus::INCOMPRESSIBLE;
use crate::record::{BenchSession, FailedCell};
use crate::results::{BenchResults, SampleSpread};
use crate::units::three_digits;

/// Makes the table of machines and settings.
fn sessions_table(results: &BenchResults) -> ReportTable {
    let row = |session: &BenchSession| {
        let machine = &session.machine;
        vec![
            TableValue::Text(session.session.clone()),
            TableValue::Text(date(session.time)),
            TableValue::Text(session.program.clone()),
            TableValue::Text(machine.cpu.clone()),
            TableValue::Whole(machine.processors as u64),
            TableValue::Text(machine.governor.clone().unwrap_or_else(|| "unknown".into())),
            TableValue::Text(machine.kernel.clone()),
            TableValue::Whole(u64::from(session.runs)),
        ]
    };
    let columns = ["session", "date", "packfs", "processor", "processors", "governor", "kernel", "runs"];
    table("sessions", "Sessions", columns, results.sessions.iter().map(row).collect())
}

/// Formats a date in UTC.
pub(super) fn date(secs: u64) -> String {
    CivilDate::of_day(secs.cast_signed() / DAY).to_string()
}

/// Returns the heading: the data, the machine if there is only one, and the date.
pub(super) fn title(results: &BenchResults) -> String {
    if results.sessions.is_empty() {
        return String::new();
    }
    let machines = distinct(results.sessions.iter().map(|session| session.machine.cpu.as_str()));
    let on = match machines.as_slice() {
        [one] if !one.is_empty() => format!(" on {one}"),
        _ => String::new(),
    };
    format!("{}{on}, {}", listed(&data_names(results)), days(results))
}

/// Returns the names of the data sets; generated data is named only if there is no other.
fn data_names(results: &BenchResults) -> Vec<String> {
    let codecs = results.codecs.iter().map(|row| row.key.data.as_str());
    let builds = results.builds.iter().map(|row| row.key.source.as_str());
    let reads = results.reads.iter().map(|row| row.key.source.as_str());
    let splits = results.splits.iter().map(|row| row.key.data.as_str());
    let mut data = distinct(codecs.chain(builds).chain(reads).chain(splits).map(str::to_owned));
    if data.iter().any(|name| name != INCOMPRESSIBLE) {
        data.retain(|name| name != INCOMPRESSIBLE);
    }
    data
}

fn days(results: &BenchResults) -> String {
    let days = distinct(results.sessions.iter().map(|session| date(session.time)));
    match days.as_slice() {
        // Sessions are sorted by time, so these are the earliest and the latest day.
        [first, .., last] => format!("{first} to {last}"),
        days => days.concat(),
    }
}

/// Describes the machine and the program, and warns if the results are unreliable.
pub(super) fn about(results: &BenchResults) -> Vec<String> {
    if results.sessions.is_empty() {
        return Vec::new();
    }
    let listed = |fact: fn(&BenchSession) -> String| distinct(results.sessions.iter().map(fact)).join(", ");
    let processors = listed(|session| session.machine.processors.to_string());
    let kernels = listed(|session| session.machine.kernel.clone());
    let versions = listed(|session| session.program.clone());
    let word = if processors == "1" { "processor" } else { "processors" };
    let facts = format!("{processors} {word}; {kernels}; packfs {versions}.");
    std::iter::once(facts).chain(warning(&results.spreads())).collect()
}

/// Returns the section about the conditions of the measurement.
pub(super) fn overview(results: &BenchResults) -> ReportSection {
    ReportSection {
        title: "How it was measured".into(),
        sentences: method(results),
        tables: std::iter::once(sessions_table(results)).chain(settings_table(results)).collect(),
        ..ReportSection::default()
    }
}

/// Describes the conditions of the measurement and their effect.
fn method(results: &BenchResults) -> Vec<String> {
    let spreads = results.spreads();
    if spreads.is_empty() {
        return vec!["Nothing was measured.".into()];
    }
    let samples: usize = spreads.iter().map(|spread| spread.count).sum();
    let mut sentences = vec![format!(
        "{} measured, with {samples} {} in total, in rounds of random order. Values are medians; MB are millions of \
         bytes; the spread is 1.4826 times the median absolute deviation.",
        counted_cells(spreads.len(), "was", "were"),
        if samples == 1 { "sample" } else { "samples" }
    )];
    sentences.extend(repeated(results));
    sentences
}

/// Formats a number of cells with its verb: `1 cell was`, `2 cells were`.
fn counted_cells(count: usize, one: &str, more: &str) -> String {
    if count == 1 { format!("1 cell {one}") } else { format!("{count} cells {more}") }
}

/// Returns a warning if samples vary too much.
fn warning(spreads: &[SampleSpread]) -> Option<String> {
    let wide = |few: bool| spreads.iter().filter(move |spread| spread.is_wide && (spread.count < 3) == few);
    let worst = wide(false).filter_map(|spread| spread.worst).reduce(f64::max);
    let varied = worst.map(|worst| {
        format!(
            "{} by more than 5 % (up to {} %): smaller differences mean nothing. Measure again on an idle machine.",
            counted_cells(wide(false).count(), "varies", "vary"),
            three_digits(100.0 * worst)
        )
    });
    let few = wide(true).count();
    let few = (few > 0).then(|| {
        format!(
            "{} fewer than three samples, so the noise is unknown. Measure with --runs 3 or more.",
            counted_cells(few, "has", "have")
        )
    });
    let warnings: Vec<String> = varied.into_iter().chain(few).collect();
    (!warnings.is_empty()).then(|| format!("Warning: {}", warnings.join(" ")))
}

/// Describes how well sessions agree.
fn repeated(results: &BenchResults) -> Option<String> {
    let apart = &results.disagreements;
    let farthest = apart.iter().max_by(|a, b| a.factor.ln().abs().total_cmp(&b.factor.ln().abs()));
    let more = farthest.map_or(String::new(), |one| {
        let cell = &one.cell;
        let factor = three_digits(one.factor);
        format!(
            " The largest difference: {cell} is {factor} times as fast in the later session. Possible causes are other \
             work on the machine, another machine, frequency or version; see the table of sessions."
        )
    });
    (results.repeated > 0).then(|| {
        format!(
            "{} measured in more than one session; the medians of {} differ by more than 5 %.{more}",
            counted_cells(results.repeated, "was", "were"),
            apart.len()
        )
    })
}

/// Makes the table of other settings that affect results.
fn settings_table(results: &BenchResults) -> Option<ReportTable> {
    let mut rows = Vec::new();
    for session in &results.sessions {
        let settings = session.settings.iter();
        rows.extend(
            settings.map(|(name, value)| [&session.session, name, value].map(|text| text.as_str().into()).into()),
        );
    }
    (!rows.is_empty()).then(|| table("settings", "Settings", ["session", "setting", "value"], rows))
}

/// Returns the section of failed cells.
pub(super) fn failures(results: &BenchResults) -> Option<ReportSection> {
    let row = |failure: &FailedCell| vec![TableValue::Text(failure.key.to_string()), failure.why.as_str().into()];
    let rows: Vec<Vec<TableValue>> = results.failures.iter().map(row).collect();
    (!rows.is_empty()).then(|| ReportSection {
        title: "What could not be measured".into(),
        tables: vec![table("failures", "Failures", ["cell", "reason"], rows)],
        ..ReportSection::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (secs, day) in [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_305_600, "2026-11-22")] {
            assert_eq!(date(secs), day);
        }
    }
}
