//! What others published, beside what was measured here: other hardware, other data and other versions, so the
//! comparison is one of orders of magnitude, and of who is ahead of whom. A document a file; of each the figures that
//! something measured here can be compared with, and what is wrong with what it says of its own figures. The figures
//! themselves are data, in `figures.tsv`.

mod codecs;
mod dumps;
mod figures;
mod images;
mod packing;
mod part;

use self::part::Part;
use super::model::Section;
use crate::results::Results;

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

#[cfg(test)]
mod tests;
