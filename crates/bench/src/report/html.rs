//! The report as a page that needs no network: tables, charts, and the scripts that draw them.

use std::fmt::Write as _;

use packfs_blocks::page::{LOOK, escape_html};

use super::model::{BenchReport, ReportChart, ReportSection, ReportTable, TableColumn, TableValue};
use super::shape::slug;
use crate::units::short_codec;

const STYLE: &str = include_str!("../../assets/page.css");

/// Scripts in the order of their dependencies; see `assets/README.md`.
const SCRIPTS: [&str; 6] = [
    include_str!("../../assets/looks.js"),
    include_str!("../../assets/scales.js"),
    include_str!("../../assets/labels.js"),
    include_str!("../../assets/plots.js"),
    include_str!("../../assets/rows.js"),
    include_str!("../../assets/page.js"),
];

/// Returns the styles of all pages and of this one.
pub(super) fn style() -> String {
    [LOOK, STYLE].concat()
}

/// Returns all scripts, concatenated.
pub(super) fn script() -> String {
    SCRIPTS.concat()
}

/// Explanation of the charts; the script adds the colours and shapes.
const CHART_KEY: &str = "<details class=\"notes\"><summary>How to read the charts</summary>\n\
    <p>A codec has one colour and a program one shape in all charts. Whiskers reach from the smallest to the largest \
    sample. Dashed lines are models and ideals; hollow marks on dotted lines were published for other hardware. lzo-fast \
    is lzo:algorithm=lzo1x_1. Point at a mark, or use the arrow keys, to see its value, spread and command. The field \
    Highlight emphasises a codec or program in all charts.</p>\n<div id=\"key\"></div>\n</details>\n";

/// Number of sentences above the charts of a section: without a limit, eight of them kept readers from the first chart.
const SENTENCES_ABOVE_CHARTS: usize = 2;

/// Tables with more rows are folded; one of 216 rows hid the figures to compare it with.
const MAX_UNFOLDED_ROWS: usize = 40;

/// Returns the report as HTML.
pub fn html(report: &BenchReport) -> String {
    let mut body = String::new();
    put_head(&mut body, report);
    if report.sections.iter().any(|section| !section.charts.is_empty()) {
        body.push_str(CHART_KEY);
    }
    for (at, section) in report.sections.iter().enumerate() {
        if at == 0 || report.sections[at - 1].chapter != section.chapter {
            // Writing to a String cannot fail.
            let _ = writeln!(body, "<h2 id=\"{}\">{}</h2>", chapter_id(section), section.chapter.title());
        }
        put_section(&mut body, &section_id(report, at), section);
    }
    let title = escape_html(report.heading());
    let contents = contents(report);
    let charts: Vec<&ReportChart> = report.sections.iter().flat_map(|section| &section.charts).collect();
    // Charts contain only numbers and names, so serialising cannot fail.
    let data = serde_json::to_string(&charts).unwrap_or_else(|_| "[]".into());
    // Nothing in the page may look like the end of a script.
    let data = data.replace('<', "\\u003c");
    let style = style();
    let script = script();
    format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{style}</style>\n\
         </head>\n\
         <body>\n\
         {contents}<main>\n\
         {body}</main>\n\
         <script type=\"application/json\" id=\"charts\">{data}</script>\n\
         <div id=\"tip\" role=\"status\" hidden></div>\n\
         <script>\n{script}</script>\n\
         </body>\n\
         </html>\n"
    )
}

/// Writes the heading and the findings, with links to their sections.
fn put_head(out: &mut String, report: &BenchReport) {
    let _ = writeln!(out, "<h1>{}</h1>", escape_html(report.heading()));
    for sentence in &report.about {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escape_html(sentence));
    }
    let findings = report.findings();
    if !findings.is_empty() {
        out.push_str("<ul class=\"findings\">\n");
        for (at, sentence) in findings {
            let section = &report.sections[at];
            let target = section.charts.first().map_or_else(|| section_id(report, at), |chart| chart.id.clone());
            let chapter = section.chapter.title();
            let target = escape_html(&target);
            let _ = writeln!(out, "<li>{} <a href=\"#{target}\">{chapter}</a></li>", escape_html(sentence));
        }
        out.push_str("</ul>\n");
    }
}

/// Returns the list of chapters and sections, which stays visible.
fn contents(report: &BenchReport) -> String {
    let has_charts = report.sections.iter().any(|section| !section.charts.is_empty());
    let search = "<label>Highlight <input id=\"search\" type=\"search\" placeholder=\"zstd, mksquashfs\"></label>\n";
    let search = if has_charts { search } else { "" };
    let mut out = format!("<nav aria-label=\"Contents\">\n{search}<details open><summary>Contents</summary>\n<ul>\n");
    for (at, section) in report.sections.iter().enumerate() {
        if at == 0 || report.sections[at - 1].chapter != section.chapter {
            let close = if at == 0 { "" } else { "</ul></li>\n" };
            let id = chapter_id(section);
            let title = section.chapter.title();
            let _ = write!(out, "{close}<li><a href=\"#{id}\">{title}</a>\n<ul>\n");
        }
        if !section.folded {
            let _ =
                writeln!(out, "<li><a href=\"#{}\">{}</a></li>", section_id(report, at), escape_html(&section.title));
        }
    }
    out.push_str(if report.sections.is_empty() { "" } else { "</ul></li>\n" });
    out + "</ul>\n</details>\n</nav>\n"
}

fn chapter_id(section: &ReportSection) -> String {
    format!("chapter-{}", slug(section.chapter.title()))
}

/// Returns the anchor of a section, made of the words of its title; a number distinguishes equal titles.
fn section_id(report: &BenchReport, at: usize) -> String {
    let words = |section: &ReportSection| {
        let slug = slug(&section.title);
        slug.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
    };
    let id = words(&report.sections[at]);
    match report.sections[..at].iter().filter(|other| words(other) == id).count() {
        0 => id,
        before => format!("{id}-{}", before + 1),
    }
}

fn put_section(out: &mut String, id: &str, section: &ReportSection) {
    let title = escape_html(&section.title);
    let _ = match section.folded {
        true => writeln!(out, "<details class=\"more\" id=\"{id}\"><summary>{title}</summary>\n<section>"),
        false => writeln!(out, "<section id=\"{id}\">\n<h3>{title}</h3>"),
    };
    // The answer is above the charts, further sentences below them.
    let answer = if section.charts.is_empty() { section.sentences.len() } else { SENTENCES_ABOVE_CHARTS };
    let (answer, more) = section.sentences.split_at(answer.min(section.sentences.len()));
    for sentence in answer {
        let _ = writeln!(out, "<p>{}</p>", escape_html(sentence));
    }
    if !section.charts.is_empty() {
        out.push_str("<div class=\"charts\">\n");
        for chart in &section.charts {
            let id = escape_html(&chart.id);
            let title = escape_html(&chart.title);
            let _ = writeln!(
                out,
                "<figure><figcaption>{title}</figcaption><div class=\"chart\" id=\"{id}\"></div></figure>"
            );
        }
        out.push_str("</div>\n");
    }
    for table in &section.tables {
        put_table(out, table);
    }
    put_folded(out, "More findings", more);
    put_folded(out, "How this was measured", &section.notes);
    out.push_str(if section.folded { "</section>\n</details>\n" } else { "</section>\n" });
}

fn put_folded(out: &mut String, summary: &str, sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    let _ = writeln!(out, "<details class=\"notes\"><summary>{summary}</summary>");
    for sentence in sentences {
        let _ = writeln!(out, "<p>{}</p>", escape_html(sentence));
    }
    out.push_str("</details>\n");
}

/// Writes a table. Columns without values are omitted, wide ones are shown on request, and long tables are folded.
fn put_table(out: &mut String, table: &ReportTable) {
    let numeric = table.numeric();
    let filled = |at: &usize| table.rows.iter().any(|row| !matches!(row.get(*at), None | Some(TableValue::None)));
    let columns: Vec<usize> = columns_in_order(&table.columns).into_iter().filter(filled).collect();
    // Published columns are wide for terminals only: on the page they stand beside what they are compared with.
    let extra = |at: usize| table.columns[at].wide && !table.columns[at].published;
    let class = |at: usize| {
        let classes = [(numeric[at], "number"), (table.columns[at].published, "published"), (extra(at), "extra")];
        let classes: Vec<&str> = classes.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
        if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) }
    };
    let title = escape_html(&table.title);
    let folded = table.rows.len() > MAX_UNFOLDED_ROWS;
    if folded {
        let _ =
            writeln!(out, "<details class=\"notes\"><summary>Table of {} rows: {title}</summary>", table.rows.len());
    }
    out.push_str("<div class=\"table\">\n");
    if columns.iter().any(|at| extra(*at)) {
        let _ = writeln!(out, "<label><input type=\"checkbox\"> all {} columns</label>", columns.len());
    }
    // Focusable and named, so that wide tables can be scrolled by keyboard and are announced by screen readers.
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{title}\"><table><caption>{title}</caption>\n\
         <thead><tr>"
    );
    for at in &columns {
        let _ = write!(out, "<th{}>{}</th>", class(*at), escape_html(&table.columns[*at].name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for at in &columns {
            let _ = match row.get(*at) {
                // The script adds a button, which would do nothing without it.
                Some(TableValue::Command(command)) => {
                    write!(out, "<td><code class=\"command\">{}</code></td>", escape_html(command))
                }
                value => {
                    let shown = value.map(TableValue::shown).unwrap_or_default();
                    write!(out, "<td{}>{}</td>", class(*at), escape_html(short_codec(&shown)))
                }
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n</div>\n");
    if columns.iter().any(|at| table.columns[*at].published) {
        out.push_str(
            "<p class=\"other\">Columns in italics are published figures, from other hardware and data.</p>\n",
        );
    }
    out.push_str(if folded { "</details>\n" } else { "" });
}

/// Returns the columns in an order in which published figures follow the measured ones of the same name.
fn columns_in_order(columns: &[TableColumn]) -> Vec<usize> {
    let (published, measured): (Vec<usize>, Vec<usize>) = (0..columns.len()).partition(|at| columns[*at].published);
    let measured_column = |figure: &usize| {
        let is_suffix = |at: &&usize| columns[*figure].name.ends_with(&format!(" {}", columns[**at].name));
        // The longest match, because a name that ends in " in MB/s" also ends in " MB/s".
        measured.iter().filter(is_suffix).max_by_key(|at| columns[**at].name.len())
    };
    let mut order = Vec::new();
    for at in &measured {
        order.push(*at);
        order.extend(published.iter().filter(|figure| measured_column(figure) == Some(at)));
    }
    order.extend(published.iter().filter(|figure| measured_column(figure).is_none()));
    order
}
