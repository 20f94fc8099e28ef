//! What is said of codecs on blocks.

mod charts;
mod sentences;
mod tables;

use super::model::Section;
use crate::results::Results;

/// A section for each data set, block size, rule and number of threads, and one for what lies across.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    if results.codecs.is_empty() {
        return Vec::new();
    }
    let sentences = vec![sentences::method()];
    let mut sections = vec![Section { title: "Codecs".into(), sentences, charts: Vec::new(), tables: Vec::new() }];
    sections.extend(results.groups().iter().map(|group| Section {
        title: sentences::heading(group),
        sentences: sentences::findings(results, group),
        charts: charts::of_group(results, group),
        tables: vec![tables::of_group(results, group)],
    }));
    let across = Section {
        title: "Across data, blocks and threads".into(),
        sentences: Vec::new(),
        charts: charts::across(results),
        tables: [tables::relative(results), tables::threads(results)].into_iter().flatten().collect(),
    };
    if !across.charts.is_empty() || !across.tables.is_empty() {
        sections.push(across);
    }
    sections
}
