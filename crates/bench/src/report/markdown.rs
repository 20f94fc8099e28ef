//! The report as Markdown: sentences and tables.

use std::fmt::Write as _;

use super::model::{BenchReport, ReportTable};

/// Returns the report as Markdown.
pub fn markdown(report: &BenchReport) -> String {
    let mut out = format!("# {}\n", escape(report.heading()));
    for sentence in &report.about {
        // Writing to a String cannot fail.
        let _ = write!(out, "\n{}\n", escape(sentence));
    }
    for section in report.sections.iter().filter(|section| section.has_words()) {
        // Writing to a String cannot fail.
        let _ = write!(out, "\n## {}\n\n", escape(&section.title));
        for sentence in &section.sentences {
            let _ = write!(out, "{}\n\n", escape(sentence));
        }
        for (at, table) in section.tables.iter().enumerate() {
            let _ = write!(out, "{}{}", if at > 0 { "\n" } else { "" }, table_markdown(table));
        }
        for (at, note) in section.notes.iter().enumerate() {
            let _ = writeln!(out, "{}{}", if at > 0 || !section.tables.is_empty() { "\n" } else { "" }, escape(note));
        }
    }
    out
}

fn table_markdown(table: &ReportTable) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rules = table.numeric().into_iter().map(|numeric| if numeric { "--:" } else { "---" }.to_owned());
    let mut out = row(table.columns.iter().map(|column| escape(&column.name)).collect());
    out.push_str(&row(rules.collect()));
    for cells in &table.rows {
        out.push_str(&row(cells.iter().map(|value| escape(&value.shown())).collect()));
    }
    out
}

fn escape(text: &str) -> String {
    // `|` would end the cell, `<` begin HTML, and a line break end the row.
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
