//! Tests of published figures beside rows measured by a mock.

use std::collections::BTreeMap;

use super::super::{BenchReport, markdown};
use crate::record::{BenchSession, MeasuredSample, RecordLine, ResultsFile};
use crate::results::BenchResults;
use crate::sample::PassTiming;
use crate::sample::TrialSample;
use crate::{build, read, split};

fn trial(ms: u64, bytes: u64, made: u64) -> TrialSample {
    let time = PassTiming { wall: ms * 1_000_000, cpu: ms * 1_000_000, passes: 1 };
    TrialSample { time, bytes, made, peak_memory: None, stages: BTreeMap::new() }
}

fn built(tool: &str, format: &str, codec: &str, block: usize, threads: usize, made: (u64, u64)) -> RecordLine {
    let key = build::BuildKey {
        source: "root".into(),
        digest: "00".into(),
        tool: tool.into(),
        format: format.into(),
        codec: codec.into(),
        block,
        features: String::new(),
        threads,
    };
    let (ms, made) = made;
    RecordLine::Build(MeasuredSample { session: "one".into(), key, sample: trial(ms, 100_000_000, made) })
}

fn was_read(tool: &str, format: &str, codec: &str, block: usize, reader: &str, work: (&str, u64)) -> RecordLine {
    let key = read::ReadKey {
        source: "root".into(),
        digest: "00".into(),
        tool: tool.into(),
        format: format.into(),
        codec: codec.into(),
        block,
        features: String::new(),
        reader: reader.into(),
        work: work.0.into(),
    };
    RecordLine::Read(MeasuredSample { session: "one".into(), key, sample: trial(work.1, 100_000_000, 0) })
}

fn was_split(tool: &str, codec: &str, disks: &str, outputs: usize, ms: u64) -> RecordLine {
    let key = split::SplitKey {
        data: "noise".into(),
        digest: "00".into(),
        tool: tool.into(),
        codec: codec.into(),
        disks: disks.into(),
        outputs,
        work: "split".into(),
    };
    RecordLine::Split(MeasuredSample { session: "one".into(), key, sample: trial(ms, 100_000_000, 100_000_000) })
}

fn lines() -> Vec<RecordLine> {
    let mut lines = vec![RecordLine::Session(BenchSession { session: "one".into(), ..BenchSession::default() })];
    for (threads, ms) in [(0, 2100), (1, 2000), (2, 1100), (64, 90)] {
        lines.push(built("packfs", "squashfs", "gzip:9", 131_072, threads, (ms, 35_000_000)));
    }
    lines.extend([
        built("tar2sqfs", "squashfs", "zstd:15", 131_072, 1, (3000, 33_000_000)),
        built("packfs", "squashfs", "none", 131_072, 1, (100, 94_000_000)),
        // Settings that the documents do not have.
        built("packfs", "squashfs", "gzip:9", 4096, 1, (2000, 40_000_000)),
        built("packfs", "erofs", "zstd:15", 131_072, 1, (3000, 33_000_000)),
        built("packfs", "erofs", "lz4hc:12", 16_384, 1, (900, 52_000_000)),
        built("packfs", "erofs", "lz4hc:12", 4096, 1, (800, 58_000_000)),
        built("packfs", "erofs", "none", 4096, 1, (80, 100_100_000)),
        built("mksquashfs", "squashfs", "lz4hc:12", 4096, 1, (800, 59_000_000)),
        was_read("packfs", "squashfs", "gzip:9", 131_072, "sqfs2tar", ("tar", 500)),
        was_read("packfs", "squashfs", "none", 131_072, "sqfs2tar", ("tar", 50)),
        was_read("mkfs.erofs", "erofs", "lz4hc:12", 4096, "kernel", ("full random data", 100)),
        was_read("mksquashfs", "squashfs", "lz4hc:12", 4096, "kernel", ("full random data", 1500)),
        was_read("packfs", "erofs", "lz4hc:12", 131_072, "fio", ("random 4K", 400)),
        was_read("packfs", "erofs", "lz4hc:12", 8192, "kernel", ("full random data", 100)),
    ]);
    for (outputs, ms) in [(1, 2000), (2, 1010), (8, 260)] {
        lines.push(was_split("packfs", "raw", "50", outputs, ms));
        lines.push(was_split("nsplit", "lzo", "directories", outputs, ms));
    }
    lines.push(was_split("packfs", "zstd:1", "50", 1, 2000));
    lines.push(was_split("packfs", "raw", "50,200", 2, 500));
    lines
}

fn sections(lines: Vec<RecordLine>) -> Vec<super::ReportSection> {
    super::sections(&BenchResults::of(&[ResultsFile { lines, ..ResultsFile::default() }]))
}

#[test]
fn published_figures_in_markdown() {
    insta::assert_snapshot!(markdown(&BenchReport { sections: sections(lines()), ..BenchReport::default() }));
}

#[test]
fn published_figures_as_charts() {
    let charts: Vec<_> = sections(lines()).into_iter().flat_map(|section| section.charts).collect();
    for chart in &charts {
        assert!(
            chart.series.iter().all(|series| series.points.iter().all(|point| point.y.is_finite())),
            "{}",
            chart.id
        );
    }
    insta::assert_snapshot!(
        charts.iter().map(|chart| serde_json::to_string(chart).unwrap() + "\n").collect::<String>()
    );
}

/// Documents without comparable figures are not mentioned.
#[test]
fn only_what_can_be_compared_is_shown() {
    assert!(sections(Vec::new()).is_empty());
    let of = |line: RecordLine| -> Vec<String> {
        sections(vec![line]).into_iter().map(|section| format!("{:?}", section.chapter)).collect()
    };
    assert_eq!(of(was_split("packfs", "zstd:1", "50", 1, 100)), [""; 0]);
    assert_eq!(of(was_split("packfs", "raw", "50", 1, 100)), ["Splitting"]);
    assert_eq!(of(was_split("packfs", "raw", "50", 9, 100)), [""; 0]);
    assert_eq!(of(built("packfs", "squashfs", "xz", 131_072, 17, (100, 100))), ["Building"]);
    assert_eq!(of(built("packfs", "erofs", "lz4hc", 65_536, 1, (100, 100))), ["Reading"]);
    assert_eq!(of(was_read("packfs", "squashfs", "lz4", 131_072, "packfs", ("tar", 10))), ["Building"]);
    assert_eq!(of(was_read("packfs", "erofs", "none", 0, "kernel", ("sequential metadata", 1))), ["Reading"]);
}

/// Published figures are in marked columns beside the measured ones, with the printed values.
#[test]
fn published_figures_stand_beside_measured_ones() {
    let report = BenchReport::of(&BenchResults::of(&[ResultsFile { lines: lines(), ..ResultsFile::default() }]));
    let cell = |id: &str, row: &[&str], column: &str| {
        let table = report.tables().find(|table| table.id.contains(id) && fits(table, row).is_some()).unwrap();
        let at = table.columns.iter().position(|one| one.name == column);
        let at = at.unwrap_or_else(|| panic!("{column}: {:?}", table.columns));
        assert!(table.columns[at].published && table.columns[at].wide);
        table.rows[fits(table, row).unwrap()][at].shown()
    };
    let gzip = ["packfs", "gzip:9", "2"];
    assert_eq!(cell("-scaling", &gzip, "published 2020 T(1)/T(n)"), "1.90");
    assert_eq!(cell("-scaling", &gzip, "published 2021 MB/s"), "22.5");
    assert_eq!(cell("builds-root-00-squashfs-sizes", &["packfs", "gzip:9", "128K"], "published 2020 to tar"), "0.353");
    assert_eq!(cell("-throughput", &["packfs", "gzip:9"], "published 2021 tar MB/s"), "133");
    let lz4hc = ["packfs", "lz4hc:12", "16K"];
    assert_eq!(cell("builds-root-00-erofs-sizes", &lz4hc, "published 2023 Debian x uncompressed"), "0.525");
    let mkfs = ["mkfs.erofs", "lz4hc:12", "4K"];
    // Image sizes, from reads alone.
    assert_eq!(cell("read-root-00-sizes", &mkfs, "published 2023 silesia.tar x"), "0.493");
    assert_eq!(cell("-times", &mkfs, "published 2023 full random data ms"), "1,220");
    assert_eq!(cell("-fio", &["packfs", "lz4hc:12", "128K"], "published 2023 random 4K MiB/s"), "242");
    assert_eq!(cell("-programs", &["packfs", "gzip:9"], "published 2021 MB/s"), "341");
    assert_eq!(cell("-speed", &["raw", "8"], "published 2012 3.4 speed-up"), "6.56");
    // Figures missing from a document are blank.
    assert_eq!(cell("-scaling", &["packfs", "gzip:9", "64"], "published 2021 MB/s"), "");
    let text = super::super::text(&report);
    assert!(!text.contains("published 20"), "a terminal has no room for them");
}

/// Finds the row that contains these values in this order.
fn fits(table: &super::super::ReportTable, wanted: &[&str]) -> Option<usize> {
    table.rows.iter().position(|row| {
        let mut shown = row.iter().map(super::super::TableValue::shown);
        wanted.iter().all(|one| shown.any(|value| value == *one))
    })
}
