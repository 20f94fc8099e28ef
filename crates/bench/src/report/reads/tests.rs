//! Tests from a mock with known times to sentences, tables and charts.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::executor::Executor;
use crate::format::Format;
use crate::read::{Cell, File, Image as Made, Order, Pattern, Program, Readers, Tree, Work, cells};
use crate::record::{Contents, Line, Machine, Session};
use crate::report::{Chart, Report, csv, html, markdown, text};
use crate::run::{self, Plan};
use crate::sample::Timing;
use crate::sample::Trial;
use crate::{Error, Result};

/// Larger blocks take less time, EROFS takes half the time of SquashFS, and each run takes slightly longer than the one
/// before.
struct Mock {
    runs: u64,
}

impl Executor<Cell> for Mock {
    fn run(&mut self, cell: &Cell, _: Duration) -> Result<Trial> {
        self.runs += 1;
        let image = &cell.image;
        if image.block == 4096 && cell.work == Work::Fio(Pattern::Random) {
            return Err(Error::Program { program: "fio".into(), why: "exit status 1: no luck".into() });
        }
        let base = match cell.work {
            Work::Data(Order::Sequential) | Work::Tar(_) => 100,
            Work::Data(_) | Work::Fio(_) => 200,
            Work::Metadata(_) => 30,
            Work::Extract(_) => 300,
        };
        let format = if image.format == Format::Erofs { 1 } else { 2 };
        let block = if image.block == 65_536 { 1 } else { 2 };
        let wall = 1_000_000 * (base * format * block + self.runs % 2);
        let bytes = match cell.work {
            Work::Metadata(_) => 0,
            Work::Fio(_) => 1 << 20,
            _ => image.tree.bytes(),
        };
        Ok(Trial {
            time: Timing { wall, cpu: wall / 2, passes: 1 },
            bytes,
            made: image.len,
            peak_memory: None,
            stages: Default::default(),
        })
    }
}

fn image(tool: &str, format: Format, block: usize, len: u64) -> Arc<Made> {
    let file = |path: &str, len| File { path: path.into(), len, data: len };
    Arc::new(Made {
        path: "image".into(),
        len,
        format,
        source: if tool.is_empty() { "found.sqfs".into() } else { "root".into() },
        tool: tool.into(),
        codec: if block == 0 { "none".into() } else { "lz4hc:12".into() },
        block,
        features: if tool == "mkfs.erofs" && block > 0 { "fragments".into() } else { String::new() },
        mounts: !tool.is_empty(),
        tree: Arc::new(Tree::new(vec![file("a", 1_000_000), file("b", 9_000_000)])),
    })
}

fn report(images: &[Arc<Made>], readers: &Readers) -> Report {
    let mut lines = Vec::new();
    let mut mock = Mock { runs: 0 };
    let settings = [("EROFS decompression", "by work queues"), ("SquashFS decompressors", "one for a mount")];
    lines.push(Line::Session(Session {
        session: "one".into(),
        time: 1_795_305_600,
        machine: Machine { kernel: "Linux 6.18.0 x86_64".into(), ..Machine::default() },
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        runs: 3,
        ..Session::default()
    }));
    let plan = Plan {
        cells: cells(images, readers),
        runs: 3,
        seed: 1,
        least: Duration::ZERO,
        session: "one".into(),
        done: Default::default(),
        stop: Default::default(),
    };
    let mut record = |line: &Line| {
        lines.push(line.clone());
        Ok(())
    };
    run::run(&plan, &mut mock, &mut record, &mut |_| {}).unwrap();
    Report::of(&Results::of(&[Contents { lines, ..Contents::default() }]))
}

fn matrix() -> Report {
    let images = [
        image("packfs", Format::Squashfs, 0, 10_100_000),
        image("packfs", Format::Erofs, 0, 10_200_000),
        image("packfs", Format::Squashfs, 4096, 6_000_000),
        image("packfs", Format::Erofs, 4096, 5_900_000),
        image("packfs", Format::Squashfs, 65_536, 5_000_000),
        image("packfs", Format::Erofs, 65_536, 4_900_000),
        image("mkfs.erofs", Format::Erofs, 65_536, 4_950_000),
    ];
    let programs = vec![Program::packfs("packfs".into())];
    report(&images, &Readers { fio: Some("fio".into()), programs })
}

fn own(report: Report) -> Report {
    Report {
        sections: report.sections.into_iter().filter(|section| section.chapter == Chapter::Reading).collect(),
        ..Report::default()
    }
}

fn charts(report: &Report) -> Vec<&Chart> {
    report.sections.iter().flat_map(|section| &section.charts).collect()
}

#[test]
fn a_matrix_of_images_in_markdown() {
    insta::assert_snapshot!(markdown(&own(matrix())));
}

#[test]
fn a_matrix_of_images_for_a_terminal() {
    insta::assert_snapshot!(text(&own(matrix())));
}

#[test]
fn a_matrix_of_images_in_csv() {
    let report = own(matrix());
    let files: Vec<String> = report.tables().map(|table| format!("# {}\n{}", table.id, csv(table))).collect();
    insta::assert_snapshot!(files.join("\n"));
}

#[test]
fn charts_of_a_matrix_of_images() {
    let report = matrix();
    let shown = |chart: &&Chart| {
        let line = |series: &crate::report::Series| {
            let points = series
                .points
                .iter()
                .map(|point| format!("{} {}", serde_json::to_string(&point.x).unwrap(), crate::units::three(point.y)));
            let points: Vec<String> = points.collect();
            format!("    {} ({:?}): {}", series.name, series.role, points.join(", "))
        };
        let lines: Vec<String> = chart.series.iter().map(line).collect();
        format!("{}: {}, {} by {}\n{}", chart.id, chart.title, chart.y.title, chart.x.title, lines.join("\n"))
    };
    let all: Vec<String> = charts(&report).iter().map(shown).collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn tables_are_full_and_names_are_distinct() {
    let report = matrix();
    let mut ids: Vec<&String> = report.tables().map(|table| &table.id).collect();
    assert!(report.tables().all(|table| table.rows.iter().all(|row| row.len() == table.columns.len())));
    ids.extend(charts(&report).iter().map(|chart| &chart.id));
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(html(&report).contains("read-root-"));
}

/// A single image of unknown origin, read by programs only.
#[test]
fn one_image_without_a_kernel() {
    let programs = vec![Program::packfs("packfs".into())];
    let readers = Readers { programs, ..Readers::default() };
    let report = report(&[image("", Format::Squashfs, 131_072, 4_000_000)], &readers);
    insta::assert_snapshot!(text(&own(report.clone())));
    let charts = charts(&report);
    assert_eq!(charts.iter().map(|chart| chart.id.as_str()).filter(|id| id.ends_with("program-speeds")).count(), 1);
    assert!(charts.iter().all(|chart| chart.kind == crate::report::ChartForm::Bars));
}
