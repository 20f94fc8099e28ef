//! The chapter on codecs, measured on blocks.

mod charts;
mod sentences;
mod tables;

use super::model::{ReportChapter, ReportChart, ReportSection, ReportTable};
use crate::results::{BenchResults, CodecRow};
use crate::units::three_digits;

/// The most common block size of file systems, in bytes.
pub(super) const USUAL: usize = 128 << 10;

/// Returns the sections: the choice of a codec for each data set (folded for further block sizes), block sizes,
/// threads, incompressible data, and zlib -9 as the baseline.
pub(super) fn sections(results: &BenchResults) -> Vec<ReportSection> {
    if results.codecs.is_empty() {
        return Vec::new();
    }
    let mut sections = choices(results);
    if let Some(first) = sections.first_mut() {
        first.notes = vec![sentences::METHOD.into()];
    }
    let section = |title: &str, sentences: Option<String>, charts: Vec<ReportChart>, table: Option<ReportTable>| {
        let title = title.into();
        let sentences = sentences.into_iter().collect();
        let tables = table.into_iter().collect();
        ReportSection { chapter: ReportChapter::Codecs, title, sentences, charts, tables, ..ReportSection::default() }
    };
    let relative = charts::RelativeCharts::of(results);
    let mut across = vec![
        section("Which block size?", sentences::blocks(results), charts::sizes(results), None),
        section(
            "Do more threads help codecs?",
            sentences::threads(results),
            charts::threads(results),
            tables::threads(results),
        ),
        section(
            "What does data that does not compress cost?",
            sentences::noise(results),
            charts::noise(results).into_iter().collect(),
            None,
        ),
        section(
            "How do codecs compare with zlib -9?",
            sentences::relative(results),
            relative.usual,
            tables::relative(results),
        ),
        ReportSection {
            folded: true,
            ..section("Savings relative to zlib -9 in other block sizes", None, relative.others, None)
        },
    ];
    across.retain(|section| !section.charts.is_empty() || !section.tables.is_empty());
    sections.extend(across);
    sections
}

/// Returns a section for each group. The group of each data set with the usual block size and the fewest threads comes
/// first, and the others are folded.
fn choices(results: &BenchResults) -> Vec<ReportSection> {
    let mut sections: Vec<ReportSection> = Vec::new();
    let mut sets = charts::by_data(results);
    // Of data sets with the same name, the most measured one represents the others.
    sets.sort_by(|a, b| a[0].key.data.cmp(&b[0].key.data).then(b.len().cmp(&a.len())));
    for set in sets {
        let digests = |group: &&Vec<&CodecRow>| group.iter().all(|row| set.iter().any(|one| one.key == row.key));
        let groups = results.groups();
        let mut groups: Vec<&Vec<&CodecRow>> = groups.iter().filter(digests).collect();
        // As a ratio, 64K and 256K are equally far from the usual 128K.
        let distance = |group: &Vec<&CodecRow>| group[0].key.block.max(USUAL) / group[0].key.block.clamp(1, USUAL);
        let nearness = |at: &usize| (groups[*at][0].key.threads, distance(groups[*at]));
        let Some(at) = (0..groups.len()).min_by_key(nearness) else { continue };
        let first = groups.remove(at);
        let section = |group: &Vec<&CodecRow>| ReportSection {
            chapter: ReportChapter::Codecs,
            title: sentences::heading(group),
            sentences: sentences::findings(results, group),
            charts: charts::of_group(results, group),
            tables: vec![tables::of_group(results, group)],
            folded: true,
            ..ReportSection::default()
        };
        let usual = section(first);
        let mut title = format!("Which codec for {}?", usual.title);
        if sections.iter().any(|section| section.title == title) {
            // Another data set with the same name, such as another sample.
            let bytes = first.iter().map(|row| row.sizes.raw).max().unwrap_or(0);
            title = format!(
                "Which codec for {}, other data of this name ({} MB)?",
                usual.title,
                three_digits(bytes as f64 / 1e6)
            );
        }
        sections.push(ReportSection { title, finding: sentences::finding(results, first), folded: false, ..usual });
        sections.extend(groups.into_iter().map(section));
    }
    sections
}
