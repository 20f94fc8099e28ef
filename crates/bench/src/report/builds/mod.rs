//! What is said of images built: tables and charts S0a to S0d, S0f, S1a and S1b, and the sizes of S4a and S4h, by the
//! names that the tables of the benchmark documents have in this project.

mod charts;
mod lines;
mod sentences;
mod tables;

use self::lines::{groups, sets};
use super::model::Section;
use crate::results::Results;

/// For each source and format a section of sizes and comparisons, and one of times for each choice of blocks and
/// features.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    let mut sections = Vec::new();
    for set in sets(results) {
        sections.push(Section {
            title: sentences::set_title(&set),
            sentences: sentences::of_set(results, &set),
            charts: charts::of_set(&set),
            tables: tables::of_set(results, &set),
        });
        for group in groups(&set) {
            sections.push(Section {
                title: sentences::group_title(&group),
                sentences: sentences::of_group(results, &group),
                charts: charts::of_group(results, &group),
                tables: tables::of_group(results, &group),
            });
        }
    }
    sections
}

#[cfg(test)]
mod tests;
