//! The chapter on splitting: seconds by outputs and codecs for each kind of disks, as in the nsplit mail (S2a to S2c),
//! derived values, uneven and failing disks (S2d), and restoring.

mod charts;
mod group;
mod sentences;
mod tables;

use self::group::{groups, restored, uneven};
use super::model::{ReportChapter, ReportSection};
use crate::results::BenchResults;

/// Returns a section for each data set and kind of disks, one for uneven disks, and one for restoring.
pub(super) fn sections(results: &BenchResults) -> Vec<ReportSection> {
    let mut sections: Vec<ReportSection> = groups(results)
        .iter()
        .map(|group| ReportSection {
            chapter: ReportChapter::Splitting,
            title: group.question(),
            sentences: sentences::of_group(group),
            charts: charts::of_group(group),
            tables: vec![tables::times(group), tables::details(group)],
            finding: sentences::finding(group),
            ..ReportSection::default()
        })
        .collect();
    if let Some(first) = sections.first_mut() {
        first.notes = vec![sentences::METHOD.into()];
    }
    let uneven = uneven(results);
    let restored = restored(results);
    if !uneven.is_empty() {
        sections.push(ReportSection {
            chapter: ReportChapter::Splitting,
            title: "What do disks that differ or fail cost?".into(),
            sentences: sentences::uneven(&uneven),
            charts: charts::uneven(&uneven),
            tables: vec![tables::uneven(&uneven)],
            notes: vec![sentences::UNEVEN_COLUMNS.into()],
            ..ReportSection::default()
        });
    }
    if !restored.is_empty() {
        sections.push(ReportSection {
            chapter: ReportChapter::Splitting,
            title: "How fast are dumps joined and checked?".into(),
            sentences: sentences::restored(&restored),
            charts: charts::restored(&restored),
            tables: vec![tables::restored(&restored)],
            notes: vec![sentences::RESTORE_METHOD.into()],
            ..ReportSection::default()
        });
    }
    sections
}

#[cfg(test)]
mod tests;
