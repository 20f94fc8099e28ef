//! Pieces that tables and charts of all kinds are made of.

use super::model::{Axis, Column, Series, Table, Value, X};

pub(super) fn table<const N: usize>(
    id: &str,
    title: &str,
    columns: [impl Into<Column>; N],
    rows: Vec<Vec<Value>>,
) -> Table {
    Table { id: id.into(), title: title.into(), columns: columns.map(Into::into).into(), rows }
}

/// Letters, digits and dashes of some text.
pub(super) fn slug(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(plain).collect()
}

pub(super) fn axis(title: &str, log: bool) -> Axis {
    Axis { title: title.into(), log }
}

pub(super) fn series(name: &str, points: impl IntoIterator<Item = (X, f64)>) -> Series {
    let (x, y) = points.into_iter().unzip();
    Series { name: name.into(), x, y, guide: false }
}

/// A series of what was not measured: an ideal, a model.
pub(super) fn guide(name: &str, points: impl IntoIterator<Item = (X, f64)>) -> Series {
    Series { guide: true, ..series(name, points) }
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
