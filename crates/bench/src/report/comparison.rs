//! The report of `--against`: changes first, then every cell.

use super::leaders::listed;
use super::model::{BenchReport, ReportChapter, ReportSection, ReportTable, TableColumn, TableValue};
use super::ratios::charts;
use super::shape::{distinct, spread_percent, table};
use crate::compare::{ChangeVerdict, CompareMetric, MetricChange, ResultsComparison};
use crate::record::BenchSession;
use crate::stats::least_probability;
use crate::units::{three_digits, whole_part};

impl BenchReport {
    /// Creates the report of a comparison.
    pub fn of_comparison(comparison: &ResultsComparison) -> Self {
        let mut sections = vec![changes_section(comparison)];
        sections.extend(cells_section(comparison));
        BenchReport { title: "Results compared with earlier ones".into(), sections, ..BenchReport::default() }
    }
}

/// Returns the section of changes, the worst first.
fn changes_section(comparison: &ResultsComparison) -> ReportSection {
    let mut changes: Vec<&MetricChange> =
        comparison.with(ChangeVerdict::Worse).chain(comparison.with(ChangeVerdict::Better)).collect();
    // A logarithm, so that half and double count alike; without a factor, a change is greater than any other.
    let distance = |change: &MetricChange| change.factor().map_or(f64::INFINITY, |factor| factor.ln().abs());
    changes.sort_by(|a, b| {
        let better = |change: &MetricChange| change.verdict == ChangeVerdict::Better;
        better(a).cmp(&better(b)).then(distance(b).total_cmp(&distance(a)))
    });
    let mut sentences = vec![[summary(comparison), greatest(&changes)].concat()];
    sentences.extend(means(comparison));
    sentences.extend(chance(comparison));
    sentences.extend(too_few(comparison));
    sentences.extend(differing_machines(comparison));
    sentences.extend(unmatched(comparison));
    let tables = if changes.is_empty() { Vec::new() } else { vec![changes_table("changes", "Changes", &changes)] };
    let title = "What changed".into();
    let finding = sentences.first().cloned();
    let charts = charts(comparison);
    ReportSection {
        chapter: ReportChapter::Changes,
        title,
        sentences,
        charts,
        tables,
        finding,
        ..ReportSection::default()
    }
}

/// Returns the section of all common cells.
fn cells_section(comparison: &ResultsComparison) -> Option<ReportSection> {
    let changes: Vec<&MetricChange> = comparison.changes.iter().collect();
    (!changes.is_empty()).then(|| ReportSection {
        chapter: ReportChapter::Changes,
        title: "Every cell compared".into(),
        notes: vec![
            "Medians before and after, with the spread of each side. p is the probability that chance alone causes such a \
             difference, by the Mann-Whitney U test; it is blank for sizes that are the same in every run. ~ marks a \
             difference that is not significant, or below the threshold."
                .into(),
        ],
        tables: vec![changes_table("compared", "Every cell compared", &changes)],
        ..ReportSection::default()
    })
}

fn summary(comparison: &ResultsComparison) -> String {
    let count = |metrics: &[CompareMetric], verdict: ChangeVerdict| {
        comparison.with(verdict).filter(|change| metrics.contains(&change.metric)).count()
    };
    let cells = distinct(comparison.changes.iter().map(|change| &change.key)).len();
    if cells == 0 {
        return "The results have no cell in common: nothing can be compared.".into();
    }
    let timed = [CompareMetric::Time, CompareMetric::Encode, CompareMetric::Decode];
    let parts: Vec<String> = [
        (count(&timed, ChangeVerdict::Worse), "slower"),
        (count(&timed, ChangeVerdict::Better), "faster"),
        (count(&[CompareMetric::Size], ChangeVerdict::Worse), "larger"),
        (count(&[CompareMetric::Size], ChangeVerdict::Better), "smaller"),
        (count(&[CompareMetric::Memory], ChangeVerdict::Worse), "with more memory"),
        (count(&[CompareMetric::Memory], ChangeVerdict::Better), "with less memory"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect();
    let cells = if cells == 1 { "1 cell was compared".to_owned() } else { format!("{cells} cells were compared") };
    match parts.as_slice() {
        [] => format!("{cells}: no significant difference."),
        parts => format!("{cells}: {}.", parts.join(", ")),
    }
}

/// Names the greatest change for the worse, or else for the better. `changes` begin with it.
fn greatest(changes: &[&MetricChange]) -> String {
    let named = changes.first().and_then(|change| Some((change, change.factor()?)));
    named.map_or(String::new(), |(change, factor)| {
        format!(" The greatest change: {}, {} {}.", change.key, change.metric.name(), signed_percent(factor))
    })
}

/// Describes the geometric means of all common cells.
fn means(comparison: &ResultsComparison) -> Option<String> {
    let phrase = |metric: CompareMetric| {
        let (mean, count) = comparison.mean(metric)?;
        Some(format!("{} {} ({count})", metric.name(), signed_percent(mean)))
    };
    let means: Vec<String> = CompareMetric::ALL.into_iter().filter_map(phrase).collect();
    (!means.is_empty())
        .then(|| format!("On average over all cells (geometric mean, number of cells): {}.", means.join(", ")))
}

/// Describes how many differences chance alone would show.
fn chance(comparison: &ResultsComparison) -> Option<String> {
    // What has too few samples cannot become significant, not even by chance.
    let tested =
        comparison.changes.iter().filter(|one| one.p.is_some() && one.verdict != ChangeVerdict::TooFew).count();
    (tested > 0).then(|| {
        let alpha = comparison.rules.alpha;
        let threshold = comparison.rules.threshold;
        format!(
            "A difference counts if it is significant (p below {alpha}) and at least {} %. Of {tested} tests, about {} \
             would be significant by chance.",
            three_digits(100.0 * threshold),
            three_digits(alpha * tested as f64)
        )
    })
}

fn too_few(comparison: &ResultsComparison) -> Option<String> {
    let count = comparison.with(ChangeVerdict::TooFew).count();
    let alpha = comparison.rules.alpha;
    // The fewest runs whose clearest outcome is significant; for a very small alpha there are none.
    let enough = (2..100).find(|runs| least_probability(*runs, *runs) < alpha)?;
    (count > 0).then(|| {
        let (what, verb) = if count == 1 { ("quantity differs", "has") } else { ("quantities differ", "have") };
        format!(
            "{count} {what} but {verb} too few samples for a test: measure with --runs {enough} or more on both sides."
        )
    })
}

/// Properties of a machine that affect results.
const FACTS: [&str; 4] = ["processor", "number of processors", "kernel", "governor"];

fn machine_fact(session: &BenchSession, name: &str) -> String {
    let machine = &session.machine;
    match name {
        "processor" => machine.cpu.clone(),
        "number of processors" => machine.processors.to_string(),
        "kernel" => machine.kernel.clone(),
        _ => machine.governor.clone().unwrap_or_default(),
    }
}

/// Warns if the two sides were measured on different machines.
fn differing_machines(comparison: &ResultsComparison) -> Option<String> {
    let facts =
        |name: &str, sessions: &[BenchSession]| distinct(sessions.iter().map(|session| machine_fact(session, name)));
    let differ = FACTS.into_iter().filter(|name| facts(name, &comparison.old) != facts(name, &comparison.new));
    let names: Vec<String> = differ.map(str::to_owned).collect();
    (!names.is_empty() && !comparison.changes.is_empty())
        .then(|| format!("Warning: the two sides were measured on different machines ({} differs).", listed(&names)))
}

fn unmatched(comparison: &ResultsComparison) -> Option<String> {
    let old = comparison.only_old.len();
    let new = comparison.only_new.len();
    let cells = if old == 1 { "cell" } else { "cells" };
    (old + new > 0).then(|| format!("Not compared: {old} {cells} only in the old results, {new} only in the new ones."))
}

/// Formats a factor as a change: `+3.10 %`.
fn signed_percent(factor: f64) -> String {
    let change = three_digits(100.0 * (factor - 1.0));
    // A change that rounds to 0 has no direction, so it has no sign.
    let sign = if factor > 1.0 && change != "0" { "+" } else { "" };
    format!("{sign}{change} %")
}

fn verdict_words(change: &MetricChange) -> &'static str {
    match (change.verdict, change.metric) {
        (ChangeVerdict::Same, _) => "~",
        (ChangeVerdict::TooFew, _) => "too few samples",
        (ChangeVerdict::Worse, CompareMetric::Size) => "larger",
        (ChangeVerdict::Better, CompareMetric::Size) => "smaller",
        (ChangeVerdict::Worse, CompareMetric::Memory) => "more memory",
        (ChangeVerdict::Better, CompareMetric::Memory) => "less memory",
        (ChangeVerdict::Worse, _) => "slower",
        (ChangeVerdict::Better, _) => "faster",
    }
}

fn changes_table(id: &str, title: &str, changes: &[&MetricChange]) -> ReportTable {
    let row = |change: &&MetricChange| {
        let (scale, unit) = match change.metric {
            CompareMetric::Size => (1.0, "bytes"),
            CompareMetric::Memory => (1e-6, "MB"),
            _ => (1e3, "ms"),
        };
        let value = |median: f64| match change.metric {
            // To the byte, because sizes have no spread that would hide the last digits.
            CompareMetric::Size => TableValue::Whole(whole_part(median.round())),
            _ => TableValue::Number(scale * median),
        };
        vec![
            TableValue::Text(change.key.to_string()),
            change.metric.name().into(),
            unit.into(),
            value(change.old.median),
            spread_percent(&change.old),
            value(change.new.median),
            spread_percent(&change.new),
            change.factor().map_or(TableValue::None, |factor| TableValue::Text(signed_percent(factor))),
            change.p.into(),
            TableValue::Text(format!("{}+{}", change.old.count, change.new.count)),
            verdict_words(change).into(),
        ]
    };
    let columns = [
        TableColumn::of("cell"),
        TableColumn::of("what"),
        TableColumn::of("unit"),
        TableColumn::of("old"),
        TableColumn::of("old spread %"),
        TableColumn::of("new"),
        TableColumn::of("new spread %"),
        TableColumn::of("change"),
        TableColumn::of("p"),
        TableColumn::wide("runs"),
        TableColumn::of("verdict"),
    ];
    table(id, title, columns, changes.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{csv, markdown, text};
    use super::*;
    use crate::compare::CompareRules;
    use crate::compare::tests::sample;

    #[test]
    fn a_comparison_in_markdown() {
        insta::assert_snapshot!(markdown(&BenchReport::of_comparison(&sample())));
    }

    #[test]
    fn a_comparison_for_a_terminal() {
        insta::assert_snapshot!(text(&BenchReport::of_comparison(&sample())));
    }

    #[test]
    fn nothing_in_common_is_told() {
        let report = BenchReport::of_comparison(&ResultsComparison::of(&[], &[], CompareRules::default()));
        assert!(markdown(&report).contains("no cell in common") && report.tables().next().is_none());
        assert!(report.tables().map(csv).all(|table| table.is_empty()));
    }
}
