//! Parts of tables and charts that all chapters use.

use super::model::{
    ChartAxis, ChartPoint, ChartSeries, ChartX, ReportChart, ReportTable, SeriesRole, TableColumn, TableValue,
};
use crate::build::BuildProgram;
use crate::results::TrialRow;
use crate::stats::SampleSummary;

/// Creates a table.
pub(super) fn table<const N: usize>(
    id: &str,
    title: &str,
    columns: [impl Into<TableColumn>; N],
    rows: Vec<Vec<TableValue>>,
) -> ReportTable {
    ReportTable { id: id.into(), title: title.into(), columns: columns.map(Into::into).into(), rows }
}

/// Creates a table of trials. Each row ends with the costs and the spread.
pub(super) fn trial_table<'r, const N: usize, K: 'r>(
    id: &str,
    title: &str,
    columns: [TableColumn; N],
    rows: impl IntoIterator<Item = ([TableValue; N], &'r TrialRow<K>)>,
) -> ReportTable {
    let costs = [
        TableColumn::wide("CPU s"),
        TableColumn::of("peak MiB"),
        TableColumn::of("spread %"),
        TableColumn::wide("runs"),
    ];
    let row = |(values, row): ([TableValue; N], &TrialRow<K>)| {
        let costs = [
            TableValue::Number(row.cpu),
            row.peak_memory.map_or(TableValue::None, |bytes| TableValue::Whole(bytes >> 20)),
            spread_percent(&row.time),
            TableValue::Whole(row.time.count as u64),
        ];
        values.into_iter().chain(costs).collect()
    };
    let columns = columns.into_iter().chain(costs).collect();
    ReportTable { id: id.into(), title: title.into(), columns, rows: rows.into_iter().map(row).collect() }
}

/// Formats a spread in percent; blank for a single sample.
pub(super) fn spread_percent(summary: &SampleSummary) -> TableValue {
    summary.spread().map(|spread| 100.0 * spread).into()
}

/// Converts text to letters, digits and dashes, because IDs become anchors and names of CSV files.
pub(super) fn slug(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(plain).collect()
}

/// Returns the codec, with the program unless that is packfs.
pub(super) fn tool_and_codec(tool: &str, codec: &str) -> String {
    if tool == BuildProgram::Packfs.name() { codec.to_owned() } else { format!("{tool} {codec}") }
}

/// Formats features, which keys join by commas, for sentences and charts.
pub(super) fn listed_features(features: &str) -> String {
    features.replace(',', " and ")
}

/// Returns the part of a digest that distinguishes data sets with the same name.
pub(super) fn short_digest(digest: &str) -> &str {
    digest.get(..4).unwrap_or(digest)
}

/// Creates an axis; `log` is true for a logarithmic scale.
pub(super) fn axis(title: &str, log: bool) -> ChartAxis {
    ChartAxis { title: title.into(), log }
}

/// Creates a measured series.
pub(super) fn series<P: Into<ChartPoint>>(name: &str, points: impl IntoIterator<Item = P>) -> ChartSeries {
    let points = points.into_iter().map(Into::into).collect();
    ChartSeries { name: name.into(), role: SeriesRole::Measured, hollow: false, recommended: false, points }
}

/// Creates a reference line: an ideal or a front.
pub(super) fn guide<P: Into<ChartPoint>>(name: &str, points: impl IntoIterator<Item = P>) -> ChartSeries {
    ChartSeries { role: SeriesRole::Guide, ..series(name, points) }
}

/// Creates a series of published figures.
pub(super) fn published_series(name: &str, points: impl IntoIterator<Item = (ChartX, f64)>) -> ChartSeries {
    ChartSeries { role: SeriesRole::Published, ..series(name, points) }
}

/// Returns true if a chart has measured points.
pub(super) fn has_points(chart: &ReportChart) -> bool {
    chart.series.iter().any(|series| series.role == SeriesRole::Measured && !series.points.is_empty())
}

/// Creates the horizontal position of a name.
pub(super) fn name_x(text: &str) -> ChartX {
    ChartX::Name(text.to_owned())
}

/// Returns every value once, in the order of first occurrence.
pub(super) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    // By comparison, not hashing: some values contain floats, and a report has few of them.
    values.fold(Vec::new(), |mut seen, value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
        seen
    })
}
