//! Published figures beside the measured ones. Hardware, data and versions differ, so only orders of magnitude and
//! rankings can be compared.
//!
//! Each document has a file, with the figures that something measured here compares with, and the places where its text
//! contradicts its figures. `beside` functions add columns to the tables of the chapters. The figures themselves are in
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
