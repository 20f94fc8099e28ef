//! What a report consists of, without a word about how it is shown.

use serde::Serialize;

/// What results have to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its parts, in order.
    pub sections: Vec<Section>,
}

/// One part of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Sentences, each a paragraph.
    pub sentences: Vec<String>,
    /// Charts.
    pub charts: Vec<Chart>,
    /// Tables.
    pub tables: Vec<Table>,
}

/// A table with a name that a file may have.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Letters, digits and dashes.
    pub id: String,
    /// Its caption.
    pub title: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows of as many values as there are columns.
    pub rows: Vec<Vec<Value>>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, with its unit.
    pub name: String,
    /// Whether it is for wide displays only: a terminal leaves it out.
    pub wide: bool,
}

impl Column {
    pub(super) fn of(name: &str) -> Self {
        Column { name: name.to_owned(), wide: false }
    }

    pub(super) fn wide(name: &str) -> Self {
        Column { name: name.to_owned(), wide: true }
    }
}

impl From<&str> for Column {
    fn from(name: &str) -> Self {
        Column::of(name)
    }
}

/// One value of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Words.
    Text(String),
    /// A number, shown with three figures.
    Number(f64),
    /// A whole number, shown as it is.
    Whole(u64),
    /// Nothing, as there is nothing to say.
    None,
}

/// A chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// Letters, digits and dashes.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// How values are drawn.
    pub kind: Kind,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How values are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A bar for each, side by side.
    Bars,
    /// Points joined by lines.
    Lines,
    /// Points alone, named.
    Points,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// What it measures, with its unit.
    pub title: String,
    /// Whether equal distances are equal factors, to begin with.
    pub log: bool,
}

/// One series of a chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Across.
    pub x: Vec<X>,
    /// Upwards.
    pub y: Vec<f64>,
    /// Whether it is a guide (an ideal, a front) rather than something measured.
    pub guide: bool,
}

/// A place across.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum X {
    /// On a scale.
    Number(f64),
    /// In a row of names.
    Name(String),
}

impl Report {
    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.sections.iter().flat_map(|section| &section.tables)
    }
}

impl Table {
    /// Which columns hold numbers.
    pub(super) fn numeric(&self) -> Vec<bool> {
        let is_number = |value: &Value| !matches!(value, Value::Text(_));
        (0..self.columns.len()).map(|at| self.rows.iter().all(|row| row.get(at).is_none_or(is_number))).collect()
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Value::None, Value::Number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl Value {
    /// As people read it.
    pub(super) fn show(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Number(number) => three(*number),
            Value::Whole(number) => number.to_string(),
            Value::None => String::new(),
        }
    }
}

/// A number with three figures: `0.0123`, `12.3`, `12300`.
pub(super) fn three(number: f64) -> String {
    let decimals = |number: f64| match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    let shown = format!("{number:.*}", decimals(number));
    // Rounding may carry into another figure: 9.996 is 10.0, not 10.00.
    match shown.parse::<f64>() {
        Ok(0.0) => "0".into(),
        Ok(rounded) => format!("{rounded:.*}", decimals(rounded)),
        Err(_) => shown,
    }
}

/// A block size as users write it: `128K`.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_figures() {
        let cases = [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (0.5, "0.500"),
            (0.999_61, "1.00"),
            (1.234, "1.23"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (99.96, "100"),
            (1234.6, "1235"),
            (-3.5, "-3.50"),
            (-1e-15, "0"),
        ];
        for (number, text) in cases {
            assert_eq!(three(number), text, "{number}");
        }
        assert_eq!([size(512), size(8192), size(131_072), size(1 << 20)], ["512", "8K", "128K", "1M"]);
    }
}
