//! Published figures. Hardware, data and versions differ from those here, so only orders of magnitude and rankings are
//! comparable.
//!
//! Each document has a module that selects the figures comparable with something measured here, and states where its
//! text contradicts its figures. `beside` functions add columns to tables of the chapters. The figures themselves are in
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

/// Returns a section for each chapter that has comparable published figures.
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
