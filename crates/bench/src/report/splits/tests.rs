//! Tests from cells that a mock measures to tables, charts and sentences.

use std::sync::Arc;
use std::time::Duration;

use super::super::{Report, csv, markdown};
use crate::executor::Executor;
use crate::record::{Contents, Line, Session};
use crate::results::Results;
use crate::run::{Plan, run};
use crate::sample::Timing;
use crate::sample::Trial;
use crate::split::{Cell, Matrix, Profile, Program, Source, Tool, Work, shared};
use crate::{Error, Result};

/// Takes as long as the disks do, plus 100 ms. The processor limits LZO, and the slowest disk limits a peer. Each run
/// takes slightly longer than the one before.
struct Mock {
    runs: u64,
}

impl Executor<Cell> for Mock {
    fn run(&mut self, cell: &Cell, _: Duration) -> Result<Trial> {
        self.runs += 1;
        if cell.tool.program == Program::Nsplit && cell.profile.fails() {
            return Err(Error::Program { program: "nsplit".into(), why: "was ended by signal 13".into() });
        }
        let made = match cell.codec.as_str() {
            "lzo" => cell.source.bytes / 2,
            _ => cell.source.bytes,
        };
        let disks = cell.profile.disks(cell.outputs).unwrap_or_default();
        let seconds = match (cell.work, cell.tool.program) {
            (Work::Split, Program::Packfs) => shared(&disks, made),
            (Work::Split, _) => crate::split::ranges(&disks, made),
            (Work::Join, _) => 0.5,
            (Work::Check, _) => 0.25,
        };
        let seconds = if cell.codec == "lzo" { seconds.max(0.7) } else { seconds };
        let took = Duration::from_millis(100) + Duration::from_secs_f64(seconds) + Duration::from_micros(self.runs);
        let wall = u64::try_from(took.as_nanos()).unwrap();
        let time = Timing { wall, cpu: wall / 10, passes: 1 };
        let stages = [("wait_for_parts".to_owned(), seconds * 0.75)].into();
        let made = if cell.work == Work::Split { made } else { 0 };
        Ok(Trial { time, bytes: cell.source.bytes, made, peak_memory: Some(90 << 20), stages })
    }
}

fn cells() -> Vec<Cell> {
    let source = Source {
        name: "noise".into(),
        path: "noise".into(),
        bytes: 200_000_000,
        digest: "89abcdef01234567".into(),
        is_core: false,
    };
    let tool = |program| Tool { program, path: "tool".into() };
    let profiles: Vec<Profile> =
        ["50", "50,50,50,200", "50,50@20"].iter().map(|profile| profile.parse().unwrap()).collect();
    let matrix = Matrix {
        sources: vec![Arc::new(source)],
        tools: vec![tool(Program::Packfs), tool(Program::Nsplit)],
        codecs: vec!["raw".into(), "lzo".into()],
        profiles,
        outputs: vec![1, 2, 4],
    };
    matrix.cells()
}

fn results() -> Results {
    let mut lines = vec![Line::Session(Session { session: "one".into(), runs: 3, ..Session::default() })];
    let plan = Plan {
        cells: cells(),
        runs: 3,
        seed: 1,
        least: Duration::ZERO,
        session: "one".into(),
        done: Default::default(),
        stop: Arc::default(),
    };
    let mut record = |line: &Line| {
        lines.push(line.clone());
        Ok(())
    };
    let failed = run(&plan, &mut Mock { runs: 0 }, &mut record, &mut |_| {}).unwrap();
    assert_eq!(failed, 2, "nsplit with raw and lzo, where a disk fails");
    Results::of(&[Contents { lines, ..Contents::default() }])
}

#[test]
fn splits_in_markdown() {
    let report = Report { sections: super::sections(&results()), ..Report::default() };
    insta::assert_snapshot!(markdown(&report));
}

#[test]
fn splits_in_csv() {
    let report = Report { sections: super::sections(&results()), ..Report::default() };
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
