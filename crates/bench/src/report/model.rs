//! The contents of a report, independent of the output format.

use packfs_blocks::units::count;
use serde::Serialize;

use crate::stats::SampleSummary;
use crate::units::three_digits;

/// A report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchReport {
    /// Heading; empty for a general one.
    pub title: String,
    /// Paragraphs about the machine, the data and the date.
    pub about: Vec<String>,
    /// Sections, sorted by chapter.
    pub sections: Vec<ReportSection>,
}

/// A section of a report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReportSection {
    /// Chapter of the section.
    pub chapter: ReportChapter,
    /// Heading.
    pub title: String,
    /// Paragraphs.
    pub sentences: Vec<String>,
    /// The sentence at the beginning of the report, if this section is among the most important ones.
    pub finding: Option<String>,
    /// True if the page folds it, because another section answers the same question under more common conditions.
    pub folded: bool,
    /// Charts.
    pub charts: Vec<ReportChart>,
    /// Tables.
    pub tables: Vec<ReportTable>,
    /// Details of method and computation, folded on the page.
    pub notes: Vec<String>,
}

impl ReportSection {
    /// Returns false for a section of charts only, which makes no sense without them.
    pub(super) fn has_words(&self) -> bool {
        self.charts.is_empty() || !(self.sentences.is_empty() && self.tables.is_empty() && self.notes.is_empty())
    }
}

/// Chapters in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ReportChapter {
    /// Changes against earlier results.
    Changes,
    /// The choice of settings.
    Settings,
    /// Codecs, measured on blocks.
    Codecs,
    /// Building images.
    Building,
    /// Reading images.
    Reading,
    /// Splitting and joining dumps.
    Splitting,
    /// Sessions, settings and failures.
    #[default]
    Method,
}

impl ReportChapter {
    /// Returns the heading.
    pub fn title(self) -> &'static str {
        match self {
            ReportChapter::Changes => "Changes",
            ReportChapter::Settings => "Settings",
            ReportChapter::Codecs => "Codecs",
            ReportChapter::Building => "Building",
            ReportChapter::Reading => "Reading",
            ReportChapter::Splitting => "Splitting",
            ReportChapter::Method => "Method and raw data",
        }
    }
}

/// Maximum number of findings at the beginning.
const MAX_FINDINGS: usize = 5;

/// A table with a name that is valid as a file name.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportTable {
    /// ID of letters, digits and dashes.
    pub id: String,
    /// Caption.
    pub title: String,
    /// Columns.
    pub columns: Vec<TableColumn>,
    /// Rows, with a value for each column.
    pub rows: Vec<Vec<TableValue>>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Name with the unit.
    pub name: String,
    /// True for wide displays only: a terminal omits it.
    pub wide: bool,
    /// True if the figures are published ones, from other hardware and data.
    pub published: bool,
}

impl TableColumn {
    /// Creates a column for all displays.
    pub(super) fn of(name: &str) -> Self {
        TableColumn { name: name.to_owned(), wide: false, published: false }
    }

    /// Creates a column for wide displays only.
    pub(super) fn wide(name: &str) -> Self {
        TableColumn { name: name.to_owned(), wide: true, published: false }
    }

    /// Creates a column of published figures.
    pub(super) fn published(name: &str) -> Self {
        TableColumn { name: format!("published {name}"), wide: true, published: true }
    }
}

impl From<&str> for TableColumn {
    fn from(name: &str) -> Self {
        TableColumn::of(name)
    }
}

/// One value of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableValue {
    /// Text.
    Text(String),
    /// A shell command with a button that copies it.
    Command(String),
    /// A number, shown with three digits.
    Number(f64),
    /// A whole number, shown with all digits.
    Whole(u64),
    /// No value.
    None,
}

/// A chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportChart {
    /// ID of letters, digits and dashes.
    pub id: String,
    /// Caption.
    pub title: String,
    /// Horizontal axis.
    pub x: ChartAxis,
    /// Vertical axis.
    pub y: ChartAxis,
    /// Form of the chart.
    pub kind: ChartForm,
    /// Series.
    pub series: Vec<ChartSeries>,
    /// Range of values that is noise; shaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<[f64; 2]>,
}

/// Form of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChartForm {
    /// Bars, one for each name.
    Bars,
    /// Points joined by lines.
    Lines,
    /// Points with names.
    Points,
    /// A dot with its range for each name, around 1, largest first.
    Ratios,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChartAxis {
    /// Quantity with its unit.
    pub title: String,
    /// True if the scale is logarithmic at first.
    pub log: bool,
}

/// A series of a chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChartSeries {
    /// Name.
    pub name: String,
    /// Origin of its values.
    pub role: SeriesRole,
    /// True if its marks are hollow, to distinguish a second kind by the same program.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hollow: bool,
    /// True if the report recommends it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recommended: bool,
    /// Values.
    pub points: Vec<ChartPoint>,
}

/// Origin of the values of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesRole {
    /// Measured here.
    Measured,
    /// An ideal, a front or another reference line.
    Guide,
    /// Predicted by a model fitted to the measured series of the same name.
    Model,
    /// Published figures, from other hardware and data.
    Published,
}

/// A value of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChartPoint {
    /// Horizontal position.
    pub x: ChartX,
    /// Vertical position.
    pub y: f64,
    /// Smallest and largest sample, horizontally.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_range: Option<[f64; 2]>,
    /// Smallest and largest sample, vertically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y_range: Option<[f64; 2]>,
    /// Number of samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<usize>,
    /// Spread of the samples in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// Command that repeats the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A horizontal position.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ChartX {
    /// On a numeric scale.
    Number(f64),
    /// One of several names.
    Name(String),
}

impl From<(ChartX, f64)> for ChartPoint {
    fn from((x, y): (ChartX, f64)) -> Self {
        ChartPoint { x, y, x_range: None, y_range: None, runs: None, spread: None, command: None }
    }
}

impl ChartPoint {
    /// Adds the samples of a value that is proportional to the time.
    pub(super) fn costing(self, time: &SampleSummary) -> Self {
        let y_range = value_range(self.y, time, |sample| sample / time.median);
        ChartPoint { y_range, ..self.sampled(time) }
    }

    /// Adds the samples of a value that is inversely proportional to the time, such as a speed.
    pub(super) fn gaining(self, time: &SampleSummary) -> Self {
        let y_range = value_range(self.y, time, |sample| time.median / sample);
        ChartPoint { y_range, ..self.sampled(time) }
    }

    /// Same as [`costing`](Self::costing), horizontally.
    pub(super) fn costing_across(self, time: &SampleSummary) -> Self {
        let x_range = self.x.number().and_then(|x| value_range(x, time, |sample| sample / time.median));
        ChartPoint { x_range, ..self.sampled(time) }
    }

    /// Same as [`gaining`](Self::gaining), horizontally.
    pub(super) fn gaining_across(self, time: &SampleSummary) -> Self {
        let x_range = self.x.number().and_then(|x| value_range(x, time, |sample| time.median / sample));
        ChartPoint { x_range, ..self.sampled(time) }
    }

    fn sampled(self, time: &SampleSummary) -> Self {
        ChartPoint { runs: Some(time.count), spread: time.spread().map(|spread| 100.0 * spread), ..self }
    }

    /// Adds the command that repeats the measurement.
    pub(super) fn with_command(self, command: Option<String>) -> Self {
        ChartPoint { command, ..self }
    }
}

/// Returns the least and the greatest of the values of the fastest and the slowest sample; `None` for a single sample.
fn value_range(value: f64, time: &SampleSummary, factor: impl Fn(f64) -> f64) -> Option<[f64; 2]> {
    let ends = [factor(time.min) * value, factor(time.max) * value];
    let is_known = time.count > 1 && ends.iter().all(|end| end.is_finite());
    // The longest time gives the highest cost, but the lowest speed.
    is_known.then(|| [ends[0].min(ends[1]), ends[0].max(ends[1])])
}

impl ChartX {
    fn number(&self) -> Option<f64> {
        match self {
            ChartX::Number(number) => Some(*number),
            ChartX::Name(_) => None,
        }
    }
}

impl BenchReport {
    /// Returns the heading.
    pub fn heading(&self) -> &str {
        if self.title.is_empty() { "What packfs measured" } else { &self.title }
    }

    /// Returns the most important findings with the numbers of their sections: the first of each chapter, then further
    /// ones up to the maximum, in the order of the sections.
    pub fn findings(&self) -> Vec<(usize, &str)> {
        let sections = self.sections.iter().enumerate();
        let all: Vec<(usize, &str)> =
            sections.filter_map(|(at, section)| Some((at, section.finding.as_deref()?))).collect();
        let chapter = |at: usize| self.sections[at].chapter;
        let rank_in_chapter =
            |at: usize| all.iter().filter(|(other, _)| *other < at && chapter(*other) == chapter(at)).count();
        let mut ranked = all.clone();
        ranked.sort_by_key(|(at, _)| (rank_in_chapter(*at), *at));
        ranked.truncate(MAX_FINDINGS);
        ranked.sort_by_key(|(at, _)| *at);
        ranked
    }

    /// Sorts the sections by chapter.
    pub(super) fn sorted_by_chapter(mut self) -> Self {
        self.sections.sort_by_key(|section| section.chapter);
        self
    }

    /// Returns all tables.
    pub fn tables(&self) -> impl Iterator<Item = &ReportTable> {
        self.sections.iter().flat_map(|section| &section.tables)
    }
}

impl ReportTable {
    /// Adds columns of published figures for the rows. Columns without any figure are omitted.
    pub(super) fn with_published<R>(
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
            self.columns.push(TableColumn::published(name.as_ref()));
            self.rows.iter_mut().zip(column()).for_each(|(row, figure)| row.push(figure.into()));
        }
        self
    }

    /// Returns which columns contain numbers.
    pub(super) fn numeric(&self) -> Vec<bool> {
        // Blanks do not decide: a column of numbers may have gaps.
        let is_number = |value: &TableValue| !matches!(value, TableValue::Text(_) | TableValue::Command(_));
        (0..self.columns.len()).map(|at| self.rows.iter().all(|row| row.get(at).is_none_or(is_number))).collect()
    }
}

impl From<Option<f64>> for TableValue {
    fn from(number: Option<f64>) -> Self {
        number.map_or(TableValue::None, TableValue::Number)
    }
}

impl From<&str> for TableValue {
    fn from(text: &str) -> Self {
        TableValue::Text(text.to_owned())
    }
}

impl TableValue {
    /// Formats the value for people.
    pub(super) fn shown(&self) -> String {
        match self {
            TableValue::Text(text) | TableValue::Command(text) => text.clone(),
            TableValue::Number(number) => three_digits(*number),
            TableValue::Whole(number) => count(*number),
            TableValue::None => String::new(),
        }
    }
}
