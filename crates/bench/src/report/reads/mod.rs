//! What is said of reading images: by the kernel, as the EROFS project's page has it (S4a to S4k), and by programs
//! (S0e).

mod charts;
mod group;
mod sentences;
mod tables;
#[cfg(test)]
mod tests;

use self::group::groups;
use super::model::Section;
use crate::results::Results;

/// One section for what is to be known of all, and one for each source.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    if results.reads.is_empty() {
        return Vec::new();
    }
    let mut sections = vec![Section {
        title: "Reading images".into(),
        sentences: sentences::method(results),
        charts: Vec::new(),
        tables: Vec::new(),
    }];
    for group in groups(results) {
        sections.push(Section {
            title: format!("Reading {}", group.title),
            sentences: sentences::findings(&group),
            charts: charts::of_group(&group),
            tables: tables::of_group(&group),
        });
    }
    sections
}
