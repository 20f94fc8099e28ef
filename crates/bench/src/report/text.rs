//! The report for a terminal: sentences, and the table columns that fit.

use std::fmt::Write as _;

use super::model::{BenchReport, ReportTable};

/// Maximum number of characters in a line of text.
const LINE_WIDTH: usize = 120;

/// Returns all sentences and tables for a terminal.
pub fn text(report: &BenchReport) -> String {
    let mut out: String = report.about.iter().map(|sentence| wrapped(sentence)).collect();
    for section in report.sections.iter().filter(|section| section.has_words()) {
        // Writing to a String cannot fail.
        let _ = write!(out, "{}{}\n\n", if out.is_empty() { "" } else { "\n" }, section.title);
        for sentence in &section.sentences {
            out.push_str(&wrapped(sentence));
        }
        if !section.sentences.is_empty() && !section.tables.is_empty() {
            out.push('\n');
        }
        for (at, table) in section.tables.iter().enumerate() {
            out.push_str(if at > 0 { "\n" } else { "" });
            out.push_str(&table_text(table));
        }
        for (at, note) in section.notes.iter().enumerate() {
            out.push_str(if at == 0 && !section.tables.is_empty() { "\n" } else { "" });
            out.push_str(&wrapped(note));
        }
    }
    out
}

fn table_text(table: &ReportTable) -> String {
    let numeric = table.numeric();
    let columns: Vec<usize> = (0..table.columns.len()).filter(|at| !table.columns[*at].wide).collect();
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|at| table.columns[*at].name.clone()).collect()];
    lines.extend(table.rows.iter().map(|row| columns.iter().map(|at| row[*at].shown()).collect()));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).zip(&columns).map(|((text, width), at)| match numeric[*at] {
            true => format!("{text:>width$}"),
            false => format!("{text:<width$}"),
        });
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

/// Breaks a paragraph into lines.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if used > 0 && used + 1 + len > LINE_WIDTH {
            out.push('\n');
            used = 0;
        }
        if used > 0 {
            out.push(' ');
        }
        out.push_str(word);
        used += len + usize::from(used > 0);
    }
    out + "\n"
}
