//! What a report consists of, without a word about how it is shown.

use serde::Serialize;

use crate::units::three;

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
