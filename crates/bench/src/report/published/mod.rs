//! Published figures. Hardware, data and versions differ from those here, so only orders of magnitude and rankings are
//! comparable.
//!
//! Each document has a module that selects the figures comparable with something measured here, and states where its
//! text contradicts its figures. Functions named `beside_..` add columns to tables of the chapters. The figures are in
//! `figures.tsv`.

pub(super) mod codecs;
pub(super) mod dumps;
mod figures;
pub(super) mod images;
pub(super) mod packing;

use super::model::{ReportChapter, ReportSection};
use crate::results::BenchResults;

/// Returns a section for each chapter that has comparable published figures.
pub(super) fn sections(results: &BenchResults) -> Vec<ReportSection> {
    let parts = [
        (ReportChapter::Codecs, "codecs", codecs::section(results)),
        (ReportChapter::Building, "packing", packing::section(results)),
        (ReportChapter::Reading, "images", images::section(results)),
        (ReportChapter::Splitting, "splitting", dumps::section(results)),
    ];
    let mut sections = Vec::new();
    for (chapter, about, section) in parts {
        let title = format!("How do these figures of {about} compare with those of other hardware?");
        sections.extend(section.map(|section| ReportSection { chapter, title, ..section }));
    }
    sections
}

#[cfg(test)]
mod tests;
