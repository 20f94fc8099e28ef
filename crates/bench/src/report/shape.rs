//! Parts of tables and charts that all kinds of measurements use.

use super::model::{Axis, Chart, Column, Point, Role, Series, Table, Value, X};
use crate::build::Kind;
use crate::results::TrialRow;
use crate::stats::Summary;

pub(super) fn table<const N: usize>(
    id: &str,
    title: &str,
    columns: [impl Into<Column>; N],
    rows: Vec<Vec<Value>>,
) -> Table {
    Table { id: id.into(), title: title.into(), columns: columns.map(Into::into).into(), rows }
}

/// A table of what was timed as a whole. At the end of each row stands what it cost, and how sure that is.
pub(super) fn timed<'r, const N: usize, K: 'r>(
    id: &str,
    title: &str,
    columns: [Column; N],
    rows: impl IntoIterator<Item = ([Value; N], &'r TrialRow<K>)>,
) -> Table {
    let costs = [Column::wide("CPU s"), Column::of("peak MiB"), Column::of("spread %"), Column::wide("runs")];
    let row = |(values, row): ([Value; N], &TrialRow<K>)| {
        let costs = [
            Value::Number(row.cpu),
            row.peak_memory.map_or(Value::None, |bytes| Value::Whole(bytes >> 20)),
            spread(&row.time),
            Value::Whole(row.time.count as u64),
        ];
        values.into_iter().chain(costs).collect()
    };
    let columns = columns.into_iter().chain(costs).collect();
    Table { id: id.into(), title: title.into(), columns, rows: rows.into_iter().map(row).collect() }
}

/// A spread in percent; blank where one sample has none.
pub(super) fn spread(summary: &Summary) -> Value {
    summary.spread().map(|spread| 100.0 * spread).into()
}

/// Letters, digits and dashes of some text.
pub(super) fn slug(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(plain).collect()
}

/// A codec, and whose it is unless it is packfs's.
pub(super) fn whose(tool: &str, codec: &str) -> String {
    if tool == Kind::Packfs.name() { codec.to_owned() } else { format!("{tool} {codec}") }
}

/// Returns as much of a digest as tells data of one name apart.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..4).unwrap_or(digest)
}

pub(super) fn axis(title: &str, log: bool) -> Axis {
    Axis { title: title.into(), log }
}

pub(super) fn series<P: Into<Point>>(name: &str, points: impl IntoIterator<Item = P>) -> Series {
    let points = points.into_iter().map(Into::into).collect();
    Series { name: name.into(), role: Role::Measured, hollow: false, points }
}

/// An ideal, a front or another line to compare with.
pub(super) fn guide<P: Into<Point>>(name: &str, points: impl IntoIterator<Item = P>) -> Series {
    Series { role: Role::Guide, ..series(name, points) }
}

/// The model of the measured series of the same name.
pub(super) fn modelled(name: &str, points: impl IntoIterator<Item = (X, f64)>) -> Series {
    Series { role: Role::Model, ..series(name, points) }
}

/// Figures of others.
pub(super) fn published(name: &str, points: impl IntoIterator<Item = (X, f64)>) -> Series {
    Series { role: Role::Published, ..series(name, points) }
}

/// True if a chart shows anything measured.
pub(super) fn has_points(chart: &Chart) -> bool {
    chart.series.iter().any(|series| series.role == Role::Measured && !series.points.is_empty())
}

pub(super) fn name(text: &str) -> X {
    X::Name(text.to_owned())
}

/// Every value once, in the order of its first occurrence.
pub(super) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut seen, value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
        seen
    })
}
