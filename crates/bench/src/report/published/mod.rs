//! Figures of others beside those measured here: other hardware, other data and other versions, so the
//! comparison is one of orders of magnitude, and of who is ahead of whom. A document a file; of each the figures that
//! something measured here can be compared with, and what is wrong with what it says of its own figures. `beside`
//! functions put them into the tables of the chapters, in columns of their own. The figures themselves are data, in
//! `figures.tsv`.

pub(super) mod codecs;
pub(super) mod dumps;
mod figures;
pub(super) mod images;
pub(super) mod packing;
mod part;

use self::part::Part;
use super::model::{Chapter, Section};
use crate::results::Results;

/// The published figures that anything here can be compared with, each document in the chapter it belongs to.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    let parts = [
        (Chapter::Codecs, "codecs", codecs::part(results)),
        (Chapter::Building, "packing", packing::part(results)),
        (Chapter::Reading, "images", images::part(results)),
        (Chapter::Splitting, "splitting", dumps::part(results)),
    ];
    let section = |(chapter, about, part): (Chapter, &str, Option<Part>)| {
        let Part { sentences, charts, tables } = part?;
        let title = format!("How do these figures of {about} compare with those of other hardware?");
        Some(Section { chapter, title, sentences, charts, tables, ..Section::default() })
    };
    parts.into_iter().filter_map(section).collect()
}

#[cfg(test)]
mod tests;
