//! The chapter on reading: by the kernel, as on the EROFS project's page (S4a to S4k), and by programs (S0e).

mod charts;
mod group;
mod sentences;
mod tables;
#[cfg(test)]
mod tests;

use self::group::{PATTERNS, ReadGroup, groups};
use super::model::{ReportChapter, ReportChart, ReportSection, ReportTable};
use crate::results::BenchResults;

/// Returns a section for each source and question.
pub(super) fn sections(results: &BenchResults) -> Vec<ReportSection> {
    if results.reads.is_empty() {
        return Vec::new();
    }
    let mut sections: Vec<ReportSection> = groups(results).iter().flat_map(questions).collect();
    if let Some(first) = sections.first_mut() {
        first.notes = sentences::method(results);
    }
    sections
}

/// Returns the sections for which something was measured.
fn questions(group: &ReadGroup<'_>) -> Vec<ReportSection> {
    let about = &group.title;
    let ask = |title: String, sentences: Vec<String>, charts: Vec<Option<ReportChart>>, tables: Vec<ReportTable>| {
        ReportSection {
            chapter: ReportChapter::Reading,
            title,
            sentences,
            charts: charts.into_iter().flatten().collect(),
            tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
            ..ReportSection::default()
        }
    };
    let ask_kernel = |title: String, works: &[&str], patterns: &[&str]| {
        let mut sentences = Vec::new();
        let mut charts = Vec::new();
        for work in works {
            sentences.extend(sentences::of_work(group, work));
            charts.push(charts::of_work(group, work));
        }
        for pattern in patterns {
            sentences.extend(sentences::of_pattern(group, pattern));
            charts.push(charts::of_pattern(group, pattern));
        }
        ask(title, sentences, charts, Vec::new())
    };
    let random = ["full random data", "small random data"];
    let metadata = ["sequential metadata", "small random metadata", "full random metadata"];
    let mut sections = vec![
        ask(
            format!("How large are images of {about}?"),
            sentences::smallest(group).into_iter().collect(),
            vec![charts::sizes(group)],
            vec![tables::sizes(group)],
        ),
        ask_kernel(format!("How fast is {about} read from beginning to end?"), &["sequential data"], &PATTERNS[..1]),
        ReportSection {
            finding: sentences::finding(group),
            ..ask_kernel(format!("What do larger clusters cost in random reads of {about}?"), &random, &PATTERNS[1..])
        },
        ask_kernel(format!("How fast are names and attributes of {about} looked up?"), &metadata, &[]),
        ask(
            format!("Which program reads images of {about} fastest?"),
            sentences::programs(group),
            vec![charts::programs(group)],
            vec![tables::programs(group)],
        ),
        ReportSection {
            folded: true,
            ..ask(
                format!("All readings of {about} by the kernel and fio"),
                Vec::new(),
                Vec::new(),
                vec![tables::times(group), tables::speeds(group), tables::fio(group)],
            )
        },
    ];
    sections.retain(|section| !section.charts.is_empty() || !section.tables.is_empty());
    sections
}
