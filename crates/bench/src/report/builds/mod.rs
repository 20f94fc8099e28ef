//! The chapter on building. Names such as S0a in comments are this project's numbers for tables of published
//! benchmarks; this chapter has S0a to S0d, S0f, S1a and S1b, and the sizes of S4a and S4h.

mod charts;
mod lines;
mod sentences;
mod tables;

use self::lines::{groups, sets};
use super::model::{ReportChapter, ReportSection};
use crate::results::BenchResults;

/// Returns for each source and format a section of sizes and comparisons, and a section of times for each choice of
/// blocks and features.
pub(super) fn sections(results: &BenchResults) -> Vec<ReportSection> {
    let mut sections = Vec::new();
    for set in sets(results) {
        sections.push(ReportSection {
            chapter: ReportChapter::Building,
            title: sentences::set_title(&set),
            sentences: sentences::of_set(results, &set),
            charts: charts::of_set(&set),
            tables: tables::of_set(results, &set),
            finding: sentences::finding(&set),
            ..ReportSection::default()
        });
        let groups = groups(&set);
        // The choice of blocks and features with the most measurements represents the others. Positions are reversed,
        // so that the first of equal groups wins.
        let first = groups.iter().enumerate().max_by_key(|(at, group)| (group.len(), std::cmp::Reverse(*at)));
        let first = first.map_or(0, |(at, _)| at);
        let order = std::iter::once(first).chain((0..groups.len()).filter(|at| *at != first));
        sections.extend(order.map(|at| {
            let group = &groups[at];
            let heading = sentences::group_title(group);
            ReportSection {
                chapter: ReportChapter::Building,
                title: if at == first { format!("Do more threads help? {heading}") } else { heading },
                sentences: sentences::fastest_and_scaling(group).into_iter().collect(),
                charts: charts::of_group(results, group),
                tables: tables::of_group(results, group),
                notes: sentences::models(results, group),
                folded: at != first,
                ..ReportSection::default()
            }
        }));
    }
    sections
}

#[cfg(test)]
mod tests;
