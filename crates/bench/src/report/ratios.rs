//! Charts of a comparison: a row for each cell with the new value divided by the old, sorted. A shaded band marks the
//! noise.

use super::model::{ChartForm, ChartPoint, ChartSeries, ReportChart};
use super::shape::{axis, name_x, series};
use crate::compare::{ChangeVerdict, CompareMetric, MetricChange, ResultsComparison};
use crate::stats::SampleSummary;
use crate::units::three_digits;

/// Maximum number of rows in a chart; the smallest changes are omitted.
const MAX_ROWS: usize = 30;

/// Returns a chart for each common quantity, unless it never changes.
pub(super) fn charts(comparison: &ResultsComparison) -> Vec<ReportChart> {
    CompareMetric::ALL.into_iter().filter_map(|metric| chart(comparison, metric)).collect()
}

/// A change with its factor, which is not 0: a logarithmic scale has no place for that.
struct RatioRow<'c> {
    change: &'c MetricChange,
    factor: f64,
}

impl RatioRow<'_> {
    fn is_significant(&self) -> bool {
        matches!(self.change.verdict, ChangeVerdict::Worse | ChangeVerdict::Better)
    }
}

fn chart(comparison: &ResultsComparison, metric: CompareMetric) -> Option<ReportChart> {
    let changes = comparison.changes.iter().filter(|change| change.metric == metric);
    let row = |change| Some(RatioRow { change, factor: change.factor().filter(|factor| *factor > 0.0)? });
    let mut rows: Vec<RatioRow<'_>> = changes.filter_map(row).collect();
    // Exactly 1 is what sizes give that did not change.
    if rows.iter().all(|row| row.factor == 1.0) {
        return None;
    }
    let band = noise_band(comparison, &rows);
    // Significant changes first, then the largest.
    let distance = |row: &RatioRow<'_>| row.factor.ln().abs();
    rows.sort_by(|a, b| b.is_significant().cmp(&a.is_significant()).then_with(|| distance(b).total_cmp(&distance(a))));
    let all = rows.len();
    rows.truncate(MAX_ROWS);
    let shown = match rows.len() {
        len if len < all => format!("; the {len} of {all} cells that changed most"),
        _ => String::new(),
    };
    let names = cell_names(&rows);
    let noise = three_digits(100.0 * (band[1] - 1.0));
    // Sizes do not vary from run to run, so only the threshold counts for them.
    let band_meaning = if metric == CompareMetric::Size { "the threshold" } else { "noise" };
    let series_of = |name: &str, significant: bool| {
        let named = rows.iter().zip(&names).filter(|(row, _)| row.is_significant() == significant);
        ChartSeries { hollow: !significant, ..series(name, named.map(|(row, name)| point(row, name))) }
    };
    let both = [series_of("a difference", true), series_of("may be chance", false)];
    Some(ReportChart {
        id: format!("ratios-{}", metric.name()),
        title: format!("Change of {}{shown}; shaded: {} ({noise} %)", quantity(metric), band_meaning),
        x: axis("cell", false),
        y: axis("new / old; below 1 is better", true),
        kind: ChartForm::Ratios,
        series: both.into_iter().filter(|series| !series.points.is_empty()).collect(),
        band: Some(band),
    })
}

/// Returns names of cells. A number distinguishes cells whose names are equal, such as samples of the same data.
fn cell_names(rows: &[RatioRow<'_>]) -> Vec<String> {
    let names: Vec<String> = rows.iter().map(|row| row.change.key.to_string()).collect();
    let numbered = |(at, name): (usize, &String)| match names[..at].iter().filter(|other| *other == name).count() {
        0 => name.clone(),
        before => format!("{name} ({})", before + 1),
    };
    names.iter().enumerate().map(numbered).collect()
}

/// Returns the range of factors that are noise: the usual spread of a cell, and at least the threshold.
fn noise_band(comparison: &ResultsComparison, rows: &[RatioRow<'_>]) -> [f64; 2] {
    let sides = rows.iter().flat_map(|row| [&row.change.old, &row.change.new]);
    let mut spreads: Vec<f64> = sides.filter_map(SampleSummary::spread).collect();
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

/// Returns the point of a change, with the extremes of the factor over all samples.
fn point(row: &RatioRow<'_>, name: &str) -> ChartPoint {
    let old = &row.change.old;
    let new = &row.change.new;
    let range = [new.min / old.max, new.max / old.min];
    let is_known = (old.count > 1 || new.count > 1) && range[0] > 0.0 && range.iter().all(|end| end.is_finite());
    let spread = old.spread().into_iter().chain(new.spread()).reduce(f64::max);
    ChartPoint {
        y_range: is_known.then_some(range),
        runs: Some(new.count.min(old.count)),
        spread: spread.map(|spread| 100.0 * spread),
        ..ChartPoint::from((name_x(name), row.factor))
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::distinct;
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
        assert_eq!(chart.series.iter().map(|series| series.points.len()).sum::<usize>(), MAX_ROWS);
        assert!(chart.title.contains("the 30 of 104 cells that changed most"), "{}", chart.title);
        assert_eq!(chart.series[0].points.len(), 2, "what counts is among them");
        let names = distinct(chart.series.iter().flat_map(|series| &series.points).map(|point| &point.x));
        assert_eq!(names.len(), MAX_ROWS, "each has a row of its own");
    }
}
