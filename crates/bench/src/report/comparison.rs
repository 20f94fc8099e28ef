//! The report of `--against`: changes first, then every cell.

use super::leaders::listed;
use super::model::{Chapter, Column, Report, Section, Table, Value};
use super::ratios::charts;
use super::shape::{distinct, spread, table};
use crate::compare::{Change, Comparison, Metric, Verdict};
use crate::record::Session;
use crate::stats::least_probability;
use crate::units::three;

impl Report {
    /// Creates the report of a comparison.
    pub fn of_comparison(comparison: &Comparison) -> Self {
        let mut sections = vec![changed(comparison)];
        sections.extend(all(comparison));
        Report { title: "Results compared with earlier ones".into(), sections, ..Report::default() }
    }
}

/// Returns the section of changes, the worst first.
fn changed(comparison: &Comparison) -> Section {
    let mut changes: Vec<&Change> = comparison.with(Verdict::Worse).chain(comparison.with(Verdict::Better)).collect();
    let far = |change: &Change| change.factor().map_or(f64::INFINITY, |factor| factor.ln().abs());
    changes.sort_by(|a, b| {
        let better = |change: &Change| change.verdict == Verdict::Better;
        better(a).cmp(&better(b)).then(far(b).total_cmp(&far(a)))
    });
    let mut sentences = vec![[summary(comparison), greatest(&changes)].concat()];
    sentences.extend(means(comparison));
    sentences.extend(chance(comparison));
    sentences.extend(too_few(comparison));
    sentences.extend(sessions(comparison));
    sentences.extend(unmatched(comparison));
    let tables = if changes.is_empty() { Vec::new() } else { vec![changes_table("changes", "Changes", &changes)] };
    let title = "What changed".into();
    let finding = sentences.first().cloned();
    let charts = charts(comparison);
    Section { chapter: Chapter::Changes, title, sentences, charts, tables, finding, ..Section::default() }
}

/// Returns the section of all common cells.
fn all(comparison: &Comparison) -> Option<Section> {
    let changes: Vec<&Change> = comparison.changes.iter().collect();
    (!changes.is_empty()).then(|| Section {
        chapter: Chapter::Changes,
        title: "Every cell compared".into(),
        notes: vec![
            "Medians before and after, with the spread of each side. p is the probability that chance alone causes such a \
             difference, by the Mann-Whitney U test; it is blank for sizes that are the same in every run. ~ marks a \
             difference that is not significant, or below the threshold."
                .into(),
        ],
        tables: vec![changes_table("compared", "Every cell compared", &changes)],
        ..Section::default()
    })
}

fn summary(comparison: &Comparison) -> String {
    let count = |metrics: &[Metric], verdict: Verdict| {
        comparison.with(verdict).filter(|change| metrics.contains(&change.metric)).count()
    };
    let cells = distinct(comparison.changes.iter().map(|change| &change.key)).len();
    if cells == 0 {
        return "The results have no cell in common: nothing can be compared.".into();
    }
    let timed = [Metric::Time, Metric::Encode, Metric::Decode];
    let parts: Vec<String> = [
        (count(&timed, Verdict::Worse), "slower"),
        (count(&timed, Verdict::Better), "faster"),
        (count(&[Metric::Size], Verdict::Worse), "larger"),
        (count(&[Metric::Size], Verdict::Better), "smaller"),
        (count(&[Metric::Memory], Verdict::Worse), "with more memory"),
        (count(&[Metric::Memory], Verdict::Better), "with less memory"),
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
fn greatest(changes: &[&Change]) -> String {
    let named = changes.first().and_then(|change| Some((change, change.factor()?)));
    named.map_or(String::new(), |(change, factor)| {
        format!(" The greatest change: {}, {} {}.", change.key, change.metric.name(), percent(factor))
    })
}

/// Describes the geometric means of all common cells.
fn means(comparison: &Comparison) -> Option<String> {
    let of = |metric: Metric| {
        let (mean, count) = comparison.mean(metric)?;
        Some(format!("{} {} ({count})", metric.name(), percent(mean)))
    };
    let means: Vec<String> = Metric::ALL.into_iter().filter_map(of).collect();
    (!means.is_empty())
        .then(|| format!("On average over all cells (geometric mean, number of cells): {}.", means.join(", ")))
}

/// Describes how many differences chance alone would show.
fn chance(comparison: &Comparison) -> Option<String> {
    let tested = comparison.changes.iter().filter(|one| one.p.is_some() && one.verdict != Verdict::TooFew).count();
    (tested > 0).then(|| {
        let alpha = comparison.rules.alpha;
        let threshold = comparison.rules.threshold;
        format!(
            "A difference counts if it is significant (p below {alpha}) and at least {} %. Of {tested} tests, about {} \
             would be significant by chance.",
            three(100.0 * threshold),
            three(alpha * tested as f64)
        )
    })
}

fn too_few(comparison: &Comparison) -> Option<String> {
    let count = comparison.with(Verdict::TooFew).count();
    let alpha = comparison.rules.alpha;
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

fn fact(session: &Session, name: &str) -> String {
    let machine = &session.machine;
    match name {
        "processor" => machine.cpu.clone(),
        "number of processors" => machine.processors.to_string(),
        "kernel" => machine.kernel.clone(),
        _ => machine.governor.clone().unwrap_or_default(),
    }
}

/// Describes other differences between the two sides.
fn sessions(comparison: &Comparison) -> Option<String> {
    let of = |name: &str, sessions: &[Session]| distinct(sessions.iter().map(|session| fact(session, name)));
    let differ = FACTS.into_iter().filter(|name| of(name, &comparison.old) != of(name, &comparison.new));
    let names: Vec<String> = differ.map(str::to_owned).collect();
    (!names.is_empty() && !comparison.changes.is_empty())
        .then(|| format!("Warning: the two sides were measured on different machines ({} differs).", listed(&names)))
}

fn unmatched(comparison: &Comparison) -> Option<String> {
    let old = comparison.only_old.len();
    let new = comparison.only_new.len();
    let cells = if old == 1 { "cell" } else { "cells" };
    (old + new > 0).then(|| format!("Not compared: {old} {cells} only in the old results, {new} only in the new ones."))
}

/// Formats a factor as a change: `+3.10 %`.
fn percent(factor: f64) -> String {
    let change = three(100.0 * (factor - 1.0));
    let sign = if factor > 1.0 && change != "0" { "+" } else { "" };
    format!("{sign}{change} %")
}

fn verdict(change: &Change) -> &'static str {
    match (change.verdict, change.metric) {
        (Verdict::Same, _) => "~",
        (Verdict::TooFew, _) => "too few samples",
        (Verdict::Worse, Metric::Size) => "larger",
        (Verdict::Better, Metric::Size) => "smaller",
        (Verdict::Worse, Metric::Memory) => "more memory",
        (Verdict::Better, Metric::Memory) => "less memory",
        (Verdict::Worse, _) => "slower",
        (Verdict::Better, _) => "faster",
    }
}

/// Formats a size to the byte, because it has no spread that would hide the last digits.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes are whole and positive")]
fn whole(bytes: f64) -> Value {
    Value::Whole(bytes.round() as u64)
}

fn changes_table(id: &str, title: &str, changes: &[&Change]) -> Table {
    let row = |change: &&Change| {
        let (scale, unit) = match change.metric {
            Metric::Size => (1.0, "bytes"),
            Metric::Memory => (1e-6, "MB"),
            _ => (1e3, "ms"),
        };
        let value =
            |median: f64| if change.metric == Metric::Size { whole(median) } else { Value::Number(scale * median) };
        vec![
            Value::Text(change.key.to_string()),
            change.metric.name().into(),
            unit.into(),
            value(change.old.median),
            spread(&change.old),
            value(change.new.median),
            spread(&change.new),
            change.factor().map_or(Value::None, |factor| Value::Text(percent(factor))),
            change.p.into(),
            Value::Text(format!("{}+{}", change.old.count, change.new.count)),
            verdict(change).into(),
        ]
    };
    let columns = [
        Column::of("cell"),
        Column::of("what"),
        Column::of("unit"),
        Column::of("old"),
        Column::of("old spread %"),
        Column::of("new"),
        Column::of("new spread %"),
        Column::of("change"),
        Column::of("p"),
        Column::wide("runs"),
        Column::of("verdict"),
    ];
    table(id, title, columns, changes.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{csv, markdown, text};
    use super::*;
    use crate::compare::Rules;
    use crate::compare::tests::sample;

    #[test]
    fn a_comparison_in_markdown() {
        insta::assert_snapshot!(markdown(&Report::of_comparison(&sample())));
    }

    #[test]
    fn a_comparison_for_a_terminal() {
        insta::assert_snapshot!(text(&Report::of_comparison(&sample())));
    }

    #[test]
    fn nothing_in_common_is_told() {
        let report = Report::of_comparison(&Comparison::of(&[], &[], Rules::default()));
        assert!(markdown(&report).contains("no cell in common") && report.tables().next().is_none());
        assert!(report.tables().map(csv).all(|table| table.is_empty()));
    }
}
