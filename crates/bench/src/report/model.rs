//! The contents of a report, whatever form it is shown in.

use serde::Serialize;

use crate::stats::Summary;
use crate::units::three;

/// A report on results.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Its heading; without one a general one is shown.
    pub title: String,
    /// The machine, the data and the date, where all of it has one.
    pub about: Vec<String>,
    /// Its parts; those of one chapter follow each other.
    pub sections: Vec<Section>,
}

/// One part of a report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// The chapter it belongs to.
    pub chapter: Chapter,
    /// Its heading.
    pub title: String,
    /// Sentences, each a paragraph.
    pub sentences: Vec<String>,
    /// The sentence that stands at the beginning of the report, if this section has one of those that matter most.
    pub finding: Option<String>,
    /// True if the page folds it: the same question as another section's, under other conditions.
    pub folded: bool,
    /// Charts.
    pub charts: Vec<Chart>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Details of measurement and computation, folded on the page.
    pub notes: Vec<String>,
}

impl Section {
    /// Returns false for a section of nothing but charts, which has nothing to say without them.
    pub(super) fn has_words(&self) -> bool {
        self.charts.is_empty() || !(self.sentences.is_empty() && self.tables.is_empty() && self.notes.is_empty())
    }
}

/// Chapters, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Chapter {
    /// Against earlier results.
    Changes,
    /// The choice of settings.
    Settings,
    /// Codecs on blocks.
    Codecs,
    /// Images built.
    Building,
    /// Images read.
    Reading,
    /// Dumps split and joined.
    Splitting,
    /// Sessions, settings and failures.
    #[default]
    Method,
}

impl Chapter {
    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Chapter::Changes => "Changes",
            Chapter::Settings => "Settings",
            Chapter::Codecs => "Codecs",
            Chapter::Building => "Building",
            Chapter::Reading => "Reading",
            Chapter::Splitting => "Splitting",
            Chapter::Method => "Method and raw data",
        }
    }
}

/// The most findings that stand at the beginning.
const FINDINGS: usize = 5;

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
    /// True if it is for wide displays only: a terminal leaves it out.
    pub wide: bool,
    /// True if others published its figures, from other hardware and data.
    pub published: bool,
}

impl Column {
    pub(super) fn of(name: &str) -> Self {
        Column { name: name.to_owned(), wide: false, published: false }
    }

    pub(super) fn wide(name: &str) -> Self {
        Column { name: name.to_owned(), wide: true, published: false }
    }

    /// A column of figures that others published, beside those measured here.
    pub(super) fn published(name: &str) -> Self {
        Column { name: format!("published {name}"), wide: true, published: true }
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
    /// Its caption.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// Form in which values are drawn.
    pub kind: Kind,
    /// Its series.
    pub series: Vec<Series>,
    /// Values that are noise: shaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<[f64; 2]>,
}

/// Form in which values are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A bar for each, side by side.
    Bars,
    /// Points joined by lines.
    Lines,
    /// Points alone, named.
    Points,
    /// A dot and its range for each, around 1, the largest first.
    Ratios,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// The quantity, with its unit.
    pub title: String,
    /// True if equal distances are equal factors, to begin with.
    pub log: bool,
}

/// One series of a chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Origin of its values.
    pub role: Role,
    /// True if its marks are hollow: the second of two kinds that the same program makes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hollow: bool,
    /// Its values.
    pub points: Vec<Point>,
}

/// Origin of the values of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Measured here.
    Measured,
    /// An ideal, a front or another line to compare with.
    Guide,
    /// Computed by a model that was fitted to the measured series of the same name.
    Model,
    /// Published by others, from other hardware and data.
    Published,
}

/// One value of a series, with what is known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Across.
    pub x: X,
    /// Upwards.
    pub y: f64,
    /// Least and greatest sample, across.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_range: Option<[f64; 2]>,
    /// Least and greatest sample, upwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y_range: Option<[f64; 2]>,
    /// Number of samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<usize>,
    /// Spread of the samples in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// Command that does the measured work again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
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

impl From<(X, f64)> for Point {
    fn from((x, y): (X, f64)) -> Self {
        Point { x, y, x_range: None, y_range: None, runs: None, spread: None, command: None }
    }
}

impl Point {
    /// Adds the samples of a value that grows with the time.
    pub(super) fn costing(self, time: &Summary) -> Self {
        let y_range = range(self.y, time, |sample| sample / time.median);
        Point { y_range, ..self.sampled(time) }
    }

    /// Adds the samples of a value that falls as the time grows, such as a speed.
    pub(super) fn gaining(self, time: &Summary) -> Self {
        let y_range = range(self.y, time, |sample| time.median / sample);
        Point { y_range, ..self.sampled(time) }
    }

    /// [`costing`](Self::costing), across.
    pub(super) fn costing_across(self, time: &Summary) -> Self {
        let x_range = self.x.number().and_then(|x| range(x, time, |sample| sample / time.median));
        Point { x_range, ..self.sampled(time) }
    }

    /// [`gaining`](Self::gaining), across.
    pub(super) fn gaining_across(self, time: &Summary) -> Self {
        let x_range = self.x.number().and_then(|x| range(x, time, |sample| time.median / sample));
        Point { x_range, ..self.sampled(time) }
    }

    fn sampled(self, time: &Summary) -> Self {
        Point { runs: Some(time.count), spread: time.spread().map(|spread| 100.0 * spread), ..self }
    }

    /// Adds the command that does the work again.
    pub(super) fn by(self, command: Option<String>) -> Self {
        Point { command, ..self }
    }
}

/// The values of the least and the greatest sample; one sample has no range.
fn range(value: f64, time: &Summary, factor: impl Fn(f64) -> f64) -> Option<[f64; 2]> {
    let ends = [factor(time.min) * value, factor(time.max) * value];
    let known = time.count > 1 && ends.iter().all(|end| end.is_finite());
    known.then(|| [ends[0].min(ends[1]), ends[0].max(ends[1])])
}

impl X {
    fn number(&self) -> Option<f64> {
        match self {
            X::Number(number) => Some(*number),
            X::Name(_) => None,
        }
    }
}

impl Report {
    /// Its heading.
    pub fn heading(&self) -> &str {
        if self.title.is_empty() { "What packfs measured" } else { &self.title }
    }

    /// The findings that matter most, each with the number of its section: the first of each chapter, then the second
    /// ones as long as there is room, in the order of the sections.
    pub fn findings(&self) -> Vec<(usize, &str)> {
        let sections = self.sections.iter().enumerate();
        let all: Vec<(usize, &str)> =
            sections.filter_map(|(at, section)| Some((at, section.finding.as_deref()?))).collect();
        let chapter = |at: usize| self.sections[at].chapter;
        let place = |at: usize| all.iter().filter(|(other, _)| *other < at && chapter(*other) == chapter(at)).count();
        let mut ranked = all.clone();
        ranked.sort_by_key(|(at, _)| (place(*at), *at));
        ranked.truncate(FINDINGS);
        ranked.sort_by_key(|(at, _)| *at);
        ranked
    }

    /// Sorts the sections by chapter.
    pub(super) fn in_order(mut self) -> Self {
        self.sections.sort_by_key(|section| section.chapter);
        self
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.sections.iter().flat_map(|section| &section.tables)
    }
}

impl Table {
    /// Puts published figures beside the rows, in their order. Columns without any figure are left out.
    pub(super) fn beside<R>(
        mut self,
        names: &[impl AsRef<str>],
        rows: impl IntoIterator<Item = R>,
        figures: impl Fn(R) -> Vec<Option<f64>>,
    ) -> Self {
        let figures: Vec<Vec<Option<f64>>> = rows.into_iter().map(figures).collect();
        for (at, name) in names.iter().enumerate() {
            let column = || figures.iter().map(|row| row.get(at).copied().flatten());
            if column().all(|figure| figure.is_none()) {
                continue;
            }
            self.columns.push(Column::published(name.as_ref()));
            self.rows.iter_mut().zip(column()).for_each(|(row, figure)| row.push(figure.into()));
        }
        self
    }

    /// Returns the columns that hold numbers.
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
