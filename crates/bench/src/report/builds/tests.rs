//! Tests from a mock of the programs, through rounds and records, to sentences, tables and charts.

use std::time::Duration;

use super::super::{BenchReport, ChartSeries, ReportChart, SeriesRole, markdown};
use super::*;
use crate::Result;
use crate::build::{BuildKey, BuildMatrix, BuildProgram, BuildTool, ImageFeatures};
use crate::executor::CellExecutor;
use crate::format::ImageFormat;
use crate::record::{BenchSession, MachineRecord, RecordLine, ResultsFile};
use crate::run::{self, RunPlan};
use crate::sample::PassTiming;
use crate::sample::TrialSample;

/// Times follow from the cell: w is divided between threads, c is hidden by it if there are processors, s is constant.
/// No peer has LZ4.
struct Mock;

const PROCESSORS: usize = 2;

/// Milliseconds of s, c and w, and the size of the image.
fn work(codec: &str) -> (u64, u64, u64, u64) {
    match codec {
        "lz4" => (500, 1000, 3000, 55_000_000),
        "none" => (500, 1500, 1000, 98_000_000),
        _ => (500, 1000, 40_000, 40_000_000),
    }
}

impl CellExecutor<BuildKey> for Mock {
    fn run(&mut self, key: &BuildKey, _: Duration) -> Result<TrialSample> {
        let own = key.tool == "packfs";
        if key.codec == "lz4" && !own {
            return Err(crate::Error::Program { program: key.tool.clone(), why: "exit status 1: no lz4".into() });
        }
        let (serial, conducting, shared, made) = work(&key.codec);
        let plain = u64::from(key.features.is_empty());
        let flowing = match key.threads {
            0 => conducting + shared,
            n => conducting.max(shared / n as u64).max((conducting + shared) / PROCESSORS as u64),
        };
        let wall = (serial + flowing) * if own { 1 } else { 2 } + 100 * plain;
        let wait = if key.threads == 0 { 0 } else { flowing - conducting };
        let seconds = |ms: u64| ms as f64 / 1e3;
        let stages = [
            ("read", shared / 10),
            ("hash", shared / 10),
            ("compress", shared - 2 * (shared / 10)),
            ("order", conducting / 2),
            ("write", conducting - conducting / 2),
            ("stream", 0),
            ("wait", wait),
        ];
        let stages = stages.map(|(name, ms)| (name.to_owned(), seconds(ms)));
        Ok(TrialSample {
            time: PassTiming { wall: wall * 1_000_000, cpu: (serial + conducting + shared) * 1_000_000, passes: 1 },
            bytes: 100_000_000,
            made: made + 5_000_000 * plain + if own { 0 } else { 1_000_000 },
            peak_memory: own.then_some(64 << 20),
            stages: if own { stages.into() } else { [].into() },
        })
    }
}

fn sample() -> BenchResults {
    let matrix = BuildMatrix {
        source: "root".into(),
        digest: "00112233".into(),
        formats: vec![ImageFormat::Squashfs],
        codecs: Some(["lz4", "zstd:15", "none"].map(|text| text.parse().unwrap()).into()),
        blocks: vec![131_072],
        jobs: vec![0, 1, 2],
        features: vec![ImageFeatures::ALL, ImageFeatures::default()],
    };
    let tool = |kind: BuildProgram| BuildTool { program: kind, path: kind.name().into(), version: String::new() };
    let (mut cells, _) = matrix.cells(&[tool(BuildProgram::Packfs), tool(BuildProgram::Tar2sqfs)]).unwrap();
    let smaller = BuildMatrix { blocks: vec![4096], jobs: vec![2], features: vec![ImageFeatures::ALL], ..matrix };
    cells.extend(smaller.cells(&[tool(BuildProgram::Packfs)]).unwrap().0);
    let session = "one".to_owned();
    let mut lines = vec![RecordLine::Session(BenchSession {
        session: session.clone(),
        time: 1_795_305_600,
        program: "0.1.0".into(),
        machine: MachineRecord { cpu: "A processor".into(), processors: PROCESSORS, ..MachineRecord::default() },
        settings: [("tar".to_owned(), "110000000".to_owned())].into(),
        runs: 3,
        ..BenchSession::default()
    })];
    let plan = RunPlan {
        cells,
        runs: 3,
        seed: 1,
        min_time: Duration::ZERO,
        session,
        done: Default::default(),
        stop: Default::default(),
    };
    let mut record = |line: &RecordLine| {
        lines.push(line.clone());
        Ok(())
    };
    // LZ4 by the peer, with one thread and with two.
    assert_eq!(run::run(&plan, &mut Mock, &mut record, &mut |_| {}).unwrap(), 2);
    BenchResults::of(&[ResultsFile { lines, ..ResultsFile::default() }])
}

#[test]
fn builds_in_markdown() {
    insta::assert_snapshot!(markdown(&BenchReport::of(&sample())));
}

#[test]
fn charts_tell_what_was_measured_from_what_was_not() {
    let report = BenchReport::of(&sample());
    let charts: Vec<_> = report.sections.iter().flat_map(|section| &section.charts).collect();
    let chart = |id: &str| *charts.iter().find(|chart| chart.id == id).unwrap();
    let speedup = chart("builds-root-0011-squashfs-128k-fragments-dedupe-speedup");
    for series in &speedup.series {
        // Measured with one and two threads, predicted for up to 64.
        let measured = series.role == SeriesRole::Measured;
        assert_eq!(series.points.len(), if measured { 2 } else { 7 }, "{}", series.name);
        let ranged = series.points.iter().all(|point| point.y_range.is_some() && point.command.is_some());
        assert_eq!(ranged, measured, "{}", series.name);
    }
    let shown = |chart: &&ReportChart| {
        let line = |series: &ChartSeries| {
            let values: Vec<f64> = series.points.iter().map(|point| point.y).collect();
            format!("  {} ({:?}): {values:.3?}", series.name, series.role)
        };
        let head = format!("{}: {} [{}] by {}", chart.id, chart.title, chart.y.title, chart.x.title);
        std::iter::once(head).chain(chart.series.iter().map(line)).collect::<Vec<_>>()
    };
    insta::assert_snapshot!(charts.iter().flat_map(shown).collect::<Vec<_>>().join("\n"));
}
