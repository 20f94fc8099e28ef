//! What is said of dumps split over several outputs: the tables of the nsplit mail (S2a to S2c: seconds by outputs and
//! codecs, one for each kind of disks), what follows from them, uneven and failing disks (S2d), and restoring.

mod charts;
mod group;
mod sentences;
mod tables;

use self::group::{groups, restored, uneven};
use super::model::Section;
use crate::results::Results;

/// A section for each set of data and kind of disks, one for disks that differ, and one for restoring.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    let mut sections: Vec<Section> = groups(results)
        .iter()
        .map(|group| Section {
            title: group.title(),
            sentences: sentences::of_group(group),
            charts: charts::of_group(group),
            tables: tables::of_group(group),
        })
        .collect();
    if let Some(first) = sections.first_mut() {
        first.sentences.insert(0, sentences::method());
    }
    let (uneven, restored) = (uneven(results), restored(results));
    if !uneven.is_empty() {
        sections.push(Section {
            title: "Splitting over disks that differ".into(),
            sentences: sentences::uneven(&uneven),
            charts: charts::uneven(&uneven),
            tables: vec![tables::uneven(&uneven)],
        });
    }
    if !restored.is_empty() {
        sections.push(Section {
            title: "Restoring dumps".into(),
            sentences: sentences::restored(&restored),
            charts: charts::restored(&restored),
            tables: vec![tables::restored(&restored)],
        });
    }
    sections
}

#[cfg(test)]
mod tests;
