//! What others published, beside what was measured here: other hardware, other data and other versions, so the
//! comparison is one of orders of magnitude, and of who is ahead of whom. A document a file; of each the figures that
//! something measured here can be compared with, and what is wrong with what it says of its own figures.

mod codecs;
mod dumps;
mod images;
mod packing;

use super::model::{Chart, Section, Table};
use crate::results::Results;

/// What is said of one document.
#[derive(Default)]
struct Part {
    sentences: Vec<String>,
    charts: Vec<Chart>,
    tables: Vec<Table>,
}

/// The published figures, if anything here can be compared with them.
pub(super) fn section(results: &Results) -> Option<Section> {
    let parts = [codecs::part(results), packing::part(results), dumps::part(results), images::part(results)];
    let mut all = Part::default();
    for part in parts.into_iter().flatten() {
        all.sentences.extend(part.sentences);
        all.charts.extend(part.charts);
        all.tables.extend(part.tables);
    }
    let Part { sentences, charts, tables } = all;
    let title = "Published figures beside these".into();
    (!tables.is_empty()).then_some(Section { title, sentences, charts, tables })
}

/// The name of a codec without its level and options. `raw` and `none` are one.
fn codec_name(codec: &str) -> &str {
    match codec.split(':').next() {
        Some("raw") => "none",
        Some(name) => name,
        None => codec,
    }
}

#[cfg(test)]
mod tests;
