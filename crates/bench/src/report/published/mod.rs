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

use self::part::ReportPart;
use super::model::{ReportChapter, ReportSection};
use crate::results::BenchResults;

/// Returns a section for each chapter that has comparable published figures.
pub(super) fn sections(results: &BenchResults) -> Vec<ReportSection> {
    let parts = [
        (ReportChapter::Codecs, "codecs", codecs::part(results)),
        (ReportChapter::Building, "packing", packing::part(results)),
        (ReportChapter::Reading, "images", images::part(results)),
        (ReportChapter::Splitting, "splitting", dumps::part(results)),
    ];
    let section = |(chapter, about, part): (ReportChapter, &str, Option<ReportPart>)| {
        let ReportPart { sentences, charts, tables } = part?;
        let title = format!("How do these figures of {about} compare with those of other hardware?");
        Some(ReportSection { chapter, title, sentences, charts, tables, ..ReportSection::default() })
    };
    parts.into_iter().filter_map(section).collect()
}

#[cfg(test)]
mod tests;
