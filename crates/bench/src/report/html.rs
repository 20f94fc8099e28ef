//! A report as one page that needs no network: tables, charts, and the library that draws them.

use std::fmt::Write as _;

use super::model::{Chart, Report, Section, Table};

/// plotly.js, the bundle with bars and lines only; see `assets/README.md`.
pub(super) const LIBRARY: &str = include_str!("../../assets/plotly-basic.min.js");
pub(super) const STYLE: &str = include_str!("../../assets/report.css");
pub(super) const SCRIPT: &str = include_str!("../../assets/report.js");

/// The whole report.
pub fn html(report: &Report) -> String {
    let mut body = String::new();
    for section in &report.sections {
        put_section(&mut body, section);
    }
    let charts: Vec<&Chart> = report.sections.iter().flat_map(|section| &section.charts).collect();
    // Charts are numbers and names: nothing of them can fail to become JSON.
    let data = serde_json::to_string(&charts).unwrap_or_else(|_| "[]".into());
    // In a page nothing may look like the end of a script.
    let data = data.replace('<', "\\u003c");
    format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>What packfs measured</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{STYLE}</style>\n\
         </head>\n\
         <body>\n\
         <main>\n\
         <h1>What packfs measured</h1>\n\
         {body}</main>\n\
         <script type=\"application/json\" id=\"charts\">{data}</script>\n\
         <script>{LIBRARY}</script>\n\
         <script>\n{SCRIPT}</script>\n\
         </body>\n\
         </html>\n"
    )
}

fn put_section(out: &mut String, section: &Section) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<section>\n<h2>{}</h2>", escape(&section.title));
    for sentence in &section.sentences {
        let _ = writeln!(out, "<p>{}</p>", escape(sentence));
    }
    if !section.charts.is_empty() {
        out.push_str("<div class=\"charts\">\n");
        for chart in &section.charts {
            let (id, title) = (escape(&chart.id), escape(&chart.title));
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
    out.push_str("</section>\n");
}

fn put_table(out: &mut String, table: &Table) {
    let numeric = table.numeric();
    let class = |at: usize| if numeric.get(at) == Some(&true) { " class=\"number\"" } else { "" };
    let _ = write!(out, "<div class=\"scroll\"><table><caption>{}</caption>\n<thead><tr>", escape(&table.title));
    for (at, column) in table.columns.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(at), escape(&column.name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, value) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(at), escape(&value.show()));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
