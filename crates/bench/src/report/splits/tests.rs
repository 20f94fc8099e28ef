//! Tests from cells that a mock measures to tables, charts and sentences.

use std::sync::Arc;
use std::time::Duration;

use super::super::{BenchReport, csv, markdown};
use crate::executor::CellExecutor;
use crate::record::{BenchSession, RecordLine, ResultsFile};
use crate::results::BenchResults;
use crate::run::{RunPlan, run};
use crate::sample::PassTiming;
use crate::sample::TrialSample;
use crate::split::{
    DiskProfile, SplitCell, SplitMatrix, SplitProgram, SplitSource, SplitTool, SplitWork, seconds_shared,
};
use crate::{Error, Result};

/// Takes as long as the disks do, plus 100 ms. The processor limits LZO, and the slowest disk limits a peer. Each run
/// takes slightly longer than the one before.
struct Mock {
    runs: u64,
}

impl CellExecutor<SplitCell> for Mock {
    fn run(&mut self, cell: &SplitCell, _: Duration) -> Result<TrialSample> {
        self.runs += 1;
        if cell.tool.program == SplitProgram::Nsplit && cell.profile.fails() {
            return Err(Error::Program { program: "nsplit".into(), why: "was ended by signal 13".into() });
        }
        let made = match cell.codec.as_str() {
            "lzo" => cell.source.bytes / 2,
            _ => cell.source.bytes,
        };
        let disks = cell.profile.disks(cell.outputs).unwrap_or_default();
        let seconds = match (cell.work, cell.tool.program) {
            (SplitWork::Split, SplitProgram::Packfs) => seconds_shared(&disks, made),
            (SplitWork::Split, _) => crate::split::seconds_in_ranges(&disks, made),
            (SplitWork::Join, _) => 0.5,
            (SplitWork::Check, _) => 0.25,
        };
        let seconds = if cell.codec == "lzo" { seconds.max(0.7) } else { seconds };
        let took = Duration::from_millis(100) + Duration::from_secs_f64(seconds) + Duration::from_micros(self.runs);
        let wall = u64::try_from(took.as_nanos()).unwrap();
        let time = PassTiming { wall, cpu: wall / 10, passes: 1 };
        let stages = [("wait_for_parts".to_owned(), seconds * 0.75)].into();
        let made = if cell.work == SplitWork::Split { made } else { 0 };
        Ok(TrialSample { time, bytes: cell.source.bytes, made, peak_memory: Some(90 << 20), stages })
    }
}

fn cells() -> Vec<SplitCell> {
    let source = SplitSource {
        name: "noise".into(),
        path: "noise".into(),
        bytes: 200_000_000,
        digest: "89abcdef01234567".into(),
        is_core: false,
    };
    let tool = |program| SplitTool { program, path: "tool".into() };
    let profiles: Vec<DiskProfile> =
        ["50", "50,50,50,200", "50,50@20"].iter().map(|profile| profile.parse().unwrap()).collect();
    let matrix = SplitMatrix {
        sources: vec![Arc::new(source)],
        tools: vec![tool(SplitProgram::Packfs), tool(SplitProgram::Nsplit)],
        codecs: vec!["raw".into(), "lzo".into()],
        profiles,
        outputs: vec![1, 2, 4],
    };
    matrix.cells()
}

fn results() -> BenchResults {
    let mut lines =
        vec![RecordLine::Session(BenchSession { session: "one".into(), runs: 3, ..BenchSession::default() })];
    let plan = RunPlan {
        cells: cells(),
        runs: 3,
        seed: 1,
        min_time: Duration::ZERO,
        session: "one".into(),
        done: Default::default(),
        stop: Arc::default(),
    };
    let mut record = |line: &RecordLine| {
        lines.push(line.clone());
        Ok(())
    };
    let failed = run(&plan, &mut Mock { runs: 0 }, &mut record, &mut |_| {}).unwrap();
    assert_eq!(failed, 2, "nsplit with raw and lzo, where a disk fails");
    BenchResults::of(&[ResultsFile { lines, ..ResultsFile::default() }])
}

#[test]
fn splits_in_markdown() {
    let report = BenchReport { sections: super::sections(&results()), ..BenchReport::default() };
    insta::assert_snapshot!(markdown(&report));
}

#[test]
fn splits_in_csv() {
    let report = BenchReport { sections: super::sections(&results()), ..BenchReport::default() };
    let files: Vec<String> = report.tables().map(|table| format!("# {}\n{}", table.id, csv(table))).collect();
    insta::assert_snapshot!(files.join("\n"));
}

#[test]
fn splits_as_charts() {
    let sections = super::sections(&results());
    let charts: Vec<_> = sections.iter().flat_map(|section| &section.charts).collect();
    for chart in &charts {
        assert!(
            chart.series.iter().all(|series| series.points.iter().all(|point| point.y.is_finite())),
            "{}",
            chart.id
        );
        assert!(chart.id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{}", chart.id);
    }
    insta::assert_snapshot!(
        charts.iter().map(|chart| serde_json::to_string(chart).unwrap() + "\n").collect::<String>()
    );
}

/// The times of one of the mail's tables give this sentence.
#[test]
fn longer_times_over_more_outputs_are_told() {
    let mut results = results();
    for row in results.splits.iter_mut().filter(|row| row.key.codec == "raw" && row.key.outputs == 4) {
        row.time.median = 3.0;
    }
    let sections = super::sections(&results);
    let told =
        "More outputs took longer: raw over 4 (3.00 s; over 2 2.10 s), nsplit raw over 4 (3.00 s; over 2 2.10 s).";
    assert!(sections[0].sentences.iter().any(|sentence| sentence == told), "{:#?}", sections[0].sentences);
}
