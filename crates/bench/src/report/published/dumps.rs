//! "Benchmark of I/O multiplexing with LZO/snappy compression" (2012), the mail that announced nsplit: times to split
//! 10 GiB of incompressible data over 1 to 8 disks, with three kernels (S2a to S2c).

use super::super::model::{ChartForm, ChartX, ReportChart, ReportSection, ReportTable};
use super::super::shape::{axis, distinct, published_series, series};
use super::figures::{FigureUnit, PublishedFigure, claims, codec_name, figure_value, figures};
use crate::metrics::speedup;
use crate::results::{BenchResults, SplitRow};
use crate::split::{DiskProfile, SplitKey, SplitWork};
use crate::units::three_digits;

const DOCUMENT: &str = "nsplit 2012";
const CODECS: [&str; 3] = ["raw", "lzo", "snappy"];
const KERNELS: [&str; 3] = ["3.4", "RHEL 6.2", "RHEL 5.8"];
/// Maximum number of outputs.
const MAX_OUTPUTS: usize = 8;

/// Returns the bytes of the input.
fn input_bytes() -> f64 {
    figure_value(DOCUMENT, "source", "dump", "", 0).unwrap_or_default()
}

/// Returns the mail's name of a codec.
fn mail_name(codec: &str) -> &str {
    match codec_name(codec) {
        "none" => "raw",
        name => name,
    }
}

/// Returns the position of a codec in the mail's tables.
fn column(codec: &str) -> Option<usize> {
    CODECS.iter().position(|name| *name == mail_name(codec))
}

/// Returns the seconds for a kernel, number of outputs and codec; each was run once.
fn seconds(kernel: usize, outputs: usize, codec: usize) -> Option<f64> {
    figure_value(DOCUMENT, "split", CODECS[codec], KERNELS[kernel], outputs)
}

/// Returns the speed-up over one output.
fn factor(kernel: usize, outputs: usize, codec: usize) -> Option<f64> {
    speedup(seconds(kernel, 1, codec)?, seconds(kernel, outputs, codec)?)
}

/// Returns the section on splits, without its title.
pub(super) fn section(results: &BenchResults) -> Option<ReportSection> {
    let is_comparable = |row: &&SplitRow| {
        let key = &row.key;
        let is_split = key.work == SplitWork::Split.name() && has_equal_disks(row);
        is_split && key.outputs <= MAX_OUTPUTS && column(&key.codec).is_some()
    };
    let rows: Vec<&SplitRow> = results.splits.iter().filter(is_comparable).collect();
    (!rows.is_empty()).then(|| ReportSection {
        sentences: vec![SETUP.into(), errors()],
        charts: charts(results, &rows),
        ..ReportSection::default()
    })
}

/// Returns true if all disks are equal, as far as is known.
fn has_equal_disks(row: &SplitRow) -> bool {
    row.key.disks.parse::<DiskProfile>().is_ok_and(|profile| profile.outputs().is_none())
}

/// Returns the row with one output and otherwise equal settings.
fn with_one_output<'r>(results: &'r BenchResults, row: &SplitRow) -> Option<&'r SplitRow> {
    let key = SplitKey { outputs: 1, ..row.key.clone() };
    results.splits.iter().find(|other| other.key == key)
}

/// The published benchmark.
const SETUP: &str = "\
    Published in \"Benchmark of I/O multiplexing with LZO/snappy compression\" (2012), with nsplit, on two Xeon \
    E7-8870 with 10 cores each, four disks and four volumes of a storage network: 10 GiB of incompressible data in \
    blocks of 4 KiB, one run each, without waiting for the disks.";

/// Compares the text with its own tables.
fn errors() -> String {
    let range = |codec: usize| {
        let factors = || (0..KERNELS.len()).filter_map(|kernel| factor(kernel, MAX_OUTPUTS, codec));
        let least = factors().fold(f64::INFINITY, f64::min);
        let most = factors().fold(0.0, f64::max);
        let claim = claims(DOCUMENT).find(|claim| claim.name == CODECS[codec]);
        let stated = claim.map_or(String::new(), |claim| claim.with_unit());
        format!("{} {} to {} ({})", CODECS[codec], three_digits(least), three_digits(most), stated)
    };
    let cells = || figures(DOCUMENT).filter(|figure| figure.unit == FigureUnit::Seconds);
    let least_seconds = cells().map(|figure| figure.value).fold(f64::INFINITY, f64::min);
    let terabyte_minutes = 1e12 / input_bytes() * least_seconds / 60.0;
    let with_one_output_less = |figure: &PublishedFigure| {
        let PublishedFigure { work, variant, setting, scale, .. } = figure;
        figure_value(DOCUMENT, work, variant, setting, scale.checked_sub(1)?)
    };
    let is_slower = |figure: &&PublishedFigure| with_one_output_less(figure).is_some_and(|less| figure.value > less);
    let slower = cells().filter(is_slower).count();
    format!(
        "By its tables, the speed-ups over {MAX_OUTPUTS} outputs are {} (in brackets: what its text says). In {} \
         places of its tables an additional output took longer. Its 25 min 36 s for 1 TB are extrapolated from 15 s \
         for 10 GB; at the speed of its best cell, 10^12 bytes take {} min.",
        [range(0), range(1), range(2)].join(", "),
        slower,
        three_digits(terabyte_minutes)
    )
}

/// Adds the mail's speeds and speed-ups to a table of splits over equal disks.
pub(in super::super) fn beside_splits(table: ReportTable, rows: &[&SplitRow]) -> ReportTable {
    let name = |unit: &'static str| KERNELS.iter().map(move |kernel| format!("2012 {kernel} {unit}"));
    table.with_published(&name("MB/s").chain(name("speed-up")).collect::<Vec<_>>(), rows, |row| {
        let codec = column(&row.key.codec).filter(|_| row.key.work == SplitWork::Split.name() && has_equal_disks(row));
        let by_kernel = |figure: fn(usize, usize, usize) -> Option<f64>| {
            (0..KERNELS.len()).map(move |kernel| figure(kernel, row.key.outputs, codec?))
        };
        by_kernel(seconds).map(|seconds| Some(input_bytes() / 1e6 / seconds?)).chain(by_kernel(factor)).collect()
    })
}

/// Makes charts of speed-up by outputs, for each codec of the mail measured here with several numbers of them.
fn charts(results: &BenchResults, rows: &[&SplitRow]) -> Vec<ReportChart> {
    let number = |outputs: usize| ChartX::Number(outputs as f64);
    let chart = |(at, codec): (usize, &&str)| {
        let of: Vec<&&SplitRow> = rows.iter().filter(|row| mail_name(&row.key.codec) == *codec).collect();
        let kinds = distinct(of.iter().map(|row| SplitKey { outputs: 1, ..row.key.clone() }));
        let line = |kind: &SplitKey| {
            let same = of.iter().filter(|row| SplitKey { outputs: 1, ..row.key.clone() } == *kind);
            let points = same.filter_map(|row| {
                Some((number(row.key.outputs), speedup(with_one_output(results, row)?.time.median, row.time.median)?))
            });
            let points: Vec<_> = points.collect();
            (points.len() > 1).then(|| series(&format!("{} of {}, {}", kind.tool, kind.data, kind.disks), points))
        };
        let mut all: Vec<_> = kinds.iter().filter_map(line).collect();
        if all.is_empty() {
            return None;
        }
        for (kernel, name) in KERNELS.iter().enumerate() {
            let outputs = 1..=MAX_OUTPUTS;
            let points = outputs.filter_map(|outputs| Some((number(outputs), factor(kernel, outputs, at)?)));
            all.push(published_series(&format!("nsplit on {name}, published 2012"), points));
        }
        Some(ReportChart {
            band: None,
            id: format!("published-splits-{codec}"),
            title: format!("Speed-up of splitting with {codec}, here and as published on other hardware"),
            x: axis("outputs", false),
            y: axis("times one output", false),
            kind: ChartForm::Lines,
            series: all,
        })
    };
    CODECS.iter().enumerate().filter_map(chart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures that follow from the mail's tables, computed elsewhere.
    #[test]
    fn speedups_are_those_of_its_tables() {
        let want = [[6.56, 6.99, 5.00], [3.87, 7.05, 6.70], [4.22, 5.47, 4.82]];
        for (kernel, factors) in want.iter().enumerate() {
            for (codec, want) in factors.iter().enumerate() {
                assert!(
                    (factor(kernel, 8, codec).unwrap() - want).abs() < 0.005,
                    "{} {}",
                    KERNELS[kernel],
                    CODECS[codec]
                );
            }
        }
        assert_eq!((seconds(0, 0, 0), seconds(0, 9, 0)), (None, None));
        let told = errors();
        assert!(
            told.contains("raw 3.87 to 6.56 (4 to 5), lzo 5.47 to 7.05 (5 to 6), snappy 4.82 to 6.70 (6 to 8)"),
            "{told}"
        );
        assert!(told.contains("In 5 places"), "{told}");
    }
}
