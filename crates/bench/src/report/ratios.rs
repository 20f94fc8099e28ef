//! Charts of a comparison: a row for each cell with the new value divided by the old, sorted. A shaded band marks the
//! noise.

use super::model::{ChartForm, ChartPoint, ChartSeries, ChartX, ReportChart};
use super::shape::{axis, distinct, series};
use crate::compare::{ChangeVerdict, CompareMetric, MetricChange, ResultsComparison};
use crate::units::three;

/// Maximum number of rows in a chart; the smallest changes are omitted.
const ROWS: usize = 30;

/// Returns a chart for each common quantity, unless it never changes.
pub(super) fn charts(comparison: &ResultsComparison) -> Vec<ReportChart> {
    CompareMetric::ALL.into_iter().filter_map(|metric| chart(comparison, metric)).collect()
}

fn chart(comparison: &ResultsComparison, metric: CompareMetric) -> Option<ReportChart> {
    let of = comparison.changes.iter().filter(|change| change.metric == metric);
    // A logarithmic scale has no place for 0.
    let mut changes: Vec<(&MetricChange, f64)> =
        of.filter_map(|change| Some((change, change.factor().filter(|factor| *factor > 0.0)?))).collect();
    // Exactly 1 is what sizes give that did not change.
    if changes.iter().all(|(_, factor)| *factor == 1.0) {
        return None;
    }
    let band = band(comparison, &changes);
    // Significant changes first, then the largest.
    changes.sort_by(|a, b| rank(a).cmp(&rank(b)).then(b.1.ln().abs().total_cmp(&a.1.ln().abs())));
    let all = changes.len();
    changes.truncate(ROWS);
    let shown = match changes.len() {
        len if len < all => format!("; the {len} of {all} cells that changed most"),
        _ => String::new(),
    };
    let names = names(&changes);
    let noise = three(100.0 * (band[1] - 1.0));
    let of = |name: &str, hollow: bool, counts: bool| {
        let points = changes.iter().zip(&names).filter(|(one, _)| (rank(one) == 0) == counts).map(point);
        ChartSeries { hollow, ..series(name, points) }
    };
    let both = [of("a difference", false, true), of("may be chance", true, false)];
    Some(ReportChart {
        id: format!("ratios-{}", metric.name()),
        title: format!("Change of {}{shown}; shaded: {} ({noise} %)", quantity(metric), meaning(metric)),
        x: axis("cell", false),
        y: axis("new / old; below 1 is better", true),
        kind: ChartForm::Ratios,
        series: both.into_iter().filter(|series| !series.points.is_empty()).collect(),
        band: Some(band),
    })
}

/// Returns names of cells. A number distinguishes cells whose names are equal, such as samples of the same data.
fn names(changes: &[(&MetricChange, f64)]) -> Vec<String> {
    let names: Vec<String> = changes.iter().map(|(change, _)| change.key.to_string()).collect();
    let numbered = |(at, name): (usize, &String)| match names[..at].iter().filter(|other| *other == name).count() {
        0 => name.clone(),
        before => format!("{name} ({})", before + 1),
    };
    names.iter().enumerate().map(numbered).collect()
}

fn rank((change, _): &(&MetricChange, f64)) -> u8 {
    u8::from(!matches!(change.verdict, ChangeVerdict::Worse | ChangeVerdict::Better))
}

/// Returns the range of factors that are noise: the usual spread of a cell, and at least the threshold.
fn band(comparison: &ResultsComparison, changes: &[(&MetricChange, f64)]) -> [f64; 2] {
    let mut spreads: Vec<f64> =
        changes.iter().flat_map(|(change, _)| [change.old.spread(), change.new.spread()]).flatten().collect();
    spreads.sort_by(f64::total_cmp);
    // The median, because one noisy cell would widen the band for all.
    let usual = spreads.get(spreads.len() / 2).copied().unwrap_or(0.0);
    let noise = 1.0 + usual.max(comparison.rules.threshold);
    [1.0 / noise, noise]
}

/// Returns the quantity in a title.
fn quantity(metric: CompareMetric) -> &'static str {
    match metric {
        CompareMetric::Encode => "compression time",
        CompareMetric::Decode => "decompression time",
        CompareMetric::Memory => "peak memory",
        CompareMetric::Time | CompareMetric::Size => metric.name(),
    }
}

/// Returns the meaning of the band.
fn meaning(metric: CompareMetric) -> &'static str {
    if metric == CompareMetric::Size { "the threshold" } else { "noise" }
}

/// Returns the point of a change, with the extremes of the factor over all samples.
fn point(((change, factor), name): (&(&MetricChange, f64), &String)) -> ChartPoint {
    let old = &change.old;
    let new = &change.new;
    let range = [new.min / old.max, new.max / old.min];
    let known = (old.count > 1 || new.count > 1) && range[0] > 0.0 && range.iter().all(|end| end.is_finite());
    ChartPoint {
        y_range: known.then_some(range),
        runs: Some(new.count.min(old.count)),
        spread: distinct([old, new].into_iter())
            .iter()
            .filter_map(|side| side.spread())
            .reduce(f64::max)
            .map(|one| 100.0 * one),
        ..ChartPoint::from((ChartX::Name(name.clone()), *factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::sample;

    #[test]
    fn rows_show_what_changed_and_by_how_much() {
        let charts = charts(&sample());
        let ids: Vec<&str> = charts.iter().map(|chart| chart.id.as_str()).collect();
        // Memory never changes.
        assert_eq!(ids, ["ratios-time", "ratios-size"]);
        let names = |series: &ChartSeries| -> Vec<String> {
            let name = |point: &ChartPoint| format!("{:?} {:.3}", point.x, point.y);
            series.points.iter().map(name).collect()
        };
        let [counts, chance] = charts[0].series.as_slice() else { panic!() };
        let told = names(counts);
        assert!(told.len() == 2 && told[0].contains("zstd") && told[0].contains("0.669"), "{told:?}");
        assert!(told[1].contains("lz4") && told[1].contains("1.099"), "{told:?}");
        // xz took twice as long, but two runs are too few.
        assert!(names(chance)[0].contains("xz") && chance.hollow, "{:?}", names(chance));
        let [low, high] = counts.points[1].y_range.unwrap();
        assert!((low - 110.0 / 102.0).abs() < 1e-9 && (high - 112.0 / 100.0).abs() < 1e-9, "{low} {high}");
        let [low, high] = charts[0].band.unwrap();
        assert!(low < 1.0 && (1.01..1.05).contains(&high) && (low * high - 1.0).abs() < 1e-12, "{low} {high}");
        assert_eq!(charts[1].band, Some([1.0 / 1.01, 1.01]));
    }

    #[test]
    fn of_many_cells_those_that_changed_most_are_shown() {
        let mut comparison = sample();
        let time = comparison.changes.iter().find(|change| change.verdict == ChangeVerdict::Same).unwrap().clone();
        comparison.changes.extend((0..100).map(|_| time.clone()));
        let chart = &charts(&comparison)[0];
        assert_eq!(chart.series.iter().map(|series| series.points.len()).sum::<usize>(), ROWS);
        assert!(chart.title.contains("the 30 of 104 cells that changed most"), "{}", chart.title);
        assert_eq!(chart.series[0].points.len(), 2, "what counts is among them");
        let names = distinct(chart.series.iter().flat_map(|series| &series.points).map(|point| &point.x));
        assert_eq!(names.len(), ROWS, "each has a row of its own");
    }
}
