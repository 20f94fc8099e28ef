//! The report: sentences, tables and charts, and their output as HTML, Markdown and CSV.
//!
//! [`BenchReport::of`] determines the contents; all outputs show the same tables.

mod builds;
mod codecs;
mod commands;
mod comparison;
mod csv;
mod html;
mod leaders;
mod markdown;
mod model;
mod published;
mod ratios;
mod reads;
mod sessions;
mod shape;
mod splits;
mod text;
mod tune;

pub use commands::shell_word;
pub use csv::csv;
pub use html::html;
pub use markdown::markdown;
pub use model::{
    BenchReport, ChartAxis, ChartForm, ChartPoint, ChartSeries, ChartX, ReportChapter, ReportChart, ReportSection,
    ReportTable, SeriesRole, TableColumn, TableValue,
};
pub use text::text;

use crate::results::BenchResults;

impl BenchReport {
    /// Creates the report of some results.
    pub fn of(results: &BenchResults) -> Self {
        let mut sections = codecs::sections(results);
        sections.extend(builds::sections(results));
        sections.extend(reads::sections(results));
        sections.extend(splits::sections(results));
        sections.extend(published::sections(results));
        sections.push(sessions::overview(results));
        sections.extend(sessions::failures(results));
        // Sorting by chapter is stable, so within a chapter the order above remains.
        BenchReport { title: sessions::title(results), about: sessions::about(results), sections }.sorted_by_chapter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::sample;

    #[test]
    fn every_row_has_every_column_and_every_series_its_values() {
        let report = BenchReport::of(&sample());
        let mut ids = Vec::new();
        for table in report.tables() {
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.id);
            ids.push(&table.id);
        }
        for chart in report.sections.iter().flat_map(|section| &section.charts) {
            assert!(!chart.series.is_empty(), "{}", chart.id);
            for series in &chart.series {
                assert!(series.points.iter().all(|point| point.y.is_finite()), "{}: {}", chart.id, series.name);
            }
            ids.push(&chart.id);
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "ids are distinct");
        assert!(ids.iter().all(|id| id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')), "{ids:?}");
    }

    #[test]
    fn a_report_in_markdown() {
        insta::assert_snapshot!(markdown(&BenchReport::of(&sample())));
    }

    #[test]
    fn a_report_for_a_terminal() {
        insta::assert_snapshot!(text(&BenchReport::of(&sample())));
    }

    #[test]
    fn a_report_in_csv() {
        let report = BenchReport::of(&sample());
        let files: Vec<String> = report.tables().map(|table| format!("# {}\n{}", table.id, csv(table))).collect();
        insta::assert_snapshot!(files.join("\n"));
    }

    /// The page without the embedded scripts and styles.
    #[test]
    fn a_report_as_a_page() {
        let page = html(&BenchReport::of(&sample()));
        assert!(page.len() < 200_000, "{}", page.len());
        let own = page.replace(&html::style(), "[style]\n").replace(&html::script(), "[script]");
        assert!(!own.contains("<fast>") && own.contains("&lt;fast&gt;"));
        insta::assert_snapshot!(own);
    }

    #[test]
    fn nothing_measured_is_a_report_too() {
        let report = BenchReport::of(&BenchResults::default());
        assert!(markdown(&report).contains("Nothing was measured"));
        assert!(html(&report).contains("Nothing was measured"));
    }
}
