//! Tests from a mock with known times to sentences, tables and charts.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::executor::CellExecutor;
use crate::format::ImageFormat;
use crate::read::{
    FioPattern, ImageFile, ImageFiles, MeasuredImage as Made, ReadCell, ReadOrder, ReadTool, ReadTools, ReadWork, cells,
};
use crate::record::{BenchSession, MachineRecord, RecordLine, ResultsFile};
use crate::report::{BenchReport, ReportChart, csv, html, markdown, text};
use crate::run::{self, RunPlan};
use crate::sample::PassTiming;
use crate::sample::TrialSample;
use crate::{Error, Result};

/// Larger blocks take less time, EROFS takes half the time of SquashFS, and each run takes slightly longer than the one
/// before.
struct Mock {
    runs: u64,
}

impl CellExecutor<ReadCell> for Mock {
    fn run(&mut self, cell: &ReadCell, _: Duration) -> Result<TrialSample> {
        self.runs += 1;
        let image = &cell.image;
        if image.block == 4096 && cell.work == ReadWork::Fio(FioPattern::Random) {
            return Err(Error::Program { program: "fio".into(), why: "exit status 1: no luck".into() });
        }
        let base = match cell.work {
            ReadWork::Data(ReadOrder::Sequential) | ReadWork::Tar(_) => 100,
            ReadWork::Data(_) | ReadWork::Fio(_) => 200,
            ReadWork::Metadata(_) => 30,
            ReadWork::Extract(_) => 300,
        };
        let format = if image.format == ImageFormat::Erofs { 1 } else { 2 };
        let block = if image.block == 65_536 { 1 } else { 2 };
        let wall = 1_000_000 * (base * format * block + self.runs % 2);
        let bytes = match cell.work {
            ReadWork::Metadata(_) => 0,
            ReadWork::Fio(_) => 1 << 20,
            _ => image.tree.bytes(),
        };
        Ok(TrialSample {
            time: PassTiming { wall, cpu: wall / 2, passes: 1 },
            bytes,
            made: image.len,
            peak_memory: None,
            stages: Default::default(),
        })
    }
}

fn image(tool: &str, format: ImageFormat, block: usize, len: u64) -> Arc<Made> {
    let file = |path: &str, len| ImageFile { path: path.into(), len, data: len };
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
        tree: Arc::new(ImageFiles::new(vec![file("a", 1_000_000), file("b", 9_000_000)])),
    })
}

fn report(images: &[Arc<Made>], readers: &ReadTools) -> BenchReport {
    let mut lines = Vec::new();
    let mut mock = Mock { runs: 0 };
    let settings = [("EROFS decompression", "by work queues"), ("SquashFS decompressors", "one for a mount")];
    lines.push(RecordLine::Session(BenchSession {
        session: "one".into(),
        time: 1_795_305_600,
        machine: MachineRecord { kernel: "Linux 6.18.0 x86_64".into(), ..MachineRecord::default() },
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        runs: 3,
        ..BenchSession::default()
    }));
    let plan = RunPlan {
        cells: cells(images, readers),
        runs: 3,
        seed: 1,
        min_time: Duration::ZERO,
        session: "one".into(),
        done: Default::default(),
        stop: Default::default(),
    };
    let mut record = |line: &RecordLine| {
        lines.push(line.clone());
        Ok(())
    };
    run::run(&plan, &mut mock, &mut record, &mut |_| {}).unwrap();
    BenchReport::of(&BenchResults::of(&[ResultsFile { lines, ..ResultsFile::default() }]))
}

fn matrix() -> BenchReport {
    let images = [
        image("packfs", ImageFormat::Squashfs, 0, 10_100_000),
        image("packfs", ImageFormat::Erofs, 0, 10_200_000),
        image("packfs", ImageFormat::Squashfs, 4096, 6_000_000),
        image("packfs", ImageFormat::Erofs, 4096, 5_900_000),
        image("packfs", ImageFormat::Squashfs, 65_536, 5_000_000),
        image("packfs", ImageFormat::Erofs, 65_536, 4_900_000),
        image("mkfs.erofs", ImageFormat::Erofs, 65_536, 4_950_000),
    ];
    let tools = vec![ReadTool::packfs("packfs".into())];
    report(&images, &ReadTools { fio: Some("fio".into()), tools })
}

fn own(report: BenchReport) -> BenchReport {
    BenchReport {
        sections: report.sections.into_iter().filter(|section| section.chapter == ReportChapter::Reading).collect(),
        ..BenchReport::default()
    }
}

fn charts(report: &BenchReport) -> Vec<&ReportChart> {
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
    let shown = |chart: &&ReportChart| {
        let line = |series: &crate::report::ChartSeries| {
            let points = series.points.iter().map(|point| {
                format!("{} {}", serde_json::to_string(&point.x).unwrap(), crate::units::three_digits(point.y))
            });
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
    let tools = vec![ReadTool::packfs("packfs".into())];
    let readers = ReadTools { tools, ..ReadTools::default() };
    let report = report(&[image("", ImageFormat::Squashfs, 131_072, 4_000_000)], &readers);
    insta::assert_snapshot!(text(&own(report.clone())));
    let charts = charts(&report);
    assert_eq!(charts.iter().map(|chart| chart.id.as_str()).filter(|id| id.ends_with("program-speeds")).count(), 1);
    assert!(charts.iter().all(|chart| chart.kind == crate::report::ChartForm::Bars));
}
