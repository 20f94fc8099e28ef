//! Charts of codecs.

use super::super::commands;
use super::super::model::{ChartForm, ChartPoint, ChartSeries, ChartX, ReportChart};
use super::super::shape::{axis, distinct, guide, has_points, name_x, series, slug};
use super::USUAL;
use super::tables::{RelativeFactors, fronts, group_id, relative_factors};
use crate::corpus::INCOMPRESSIBLE;
use crate::metrics::{efficiency, hull, speedup};
use crate::results::{BenchResults, CodecRow};
use crate::stats::{SampleSummary, geometric_mean};
use crate::units::short_size;

/// Returns the charts of one data set at one block size. Larger numbers of threads would look the same; other charts
/// show their effect.
pub(super) fn of_group(results: &BenchResults, group: &[&CodecRow]) -> Vec<ReportChart> {
    if group.iter().any(|row| row.key.threads > 1 && results.one_thread(row).is_some()) {
        return Vec::new();
    }
    let id = group_id(group[0]);
    // Copying is so much faster that it would squeeze all codecs into a corner. The table has it.
    let group: Vec<&CodecRow> = group.iter().copied().filter(|row| !is_copy(row)).collect();
    let (compressing, decompressing) = fronts(&group);
    let mut charts = vec![
        size_and_speed(&format!("{id}-in"), "Size and compression speed", &group, encoding, &compressing),
        size_and_speed(&format!("{id}-out"), "Size and decompression speed", &group, decoding, &decompressing),
        mixtures(&format!("{id}-mix"), &group),
        break_even(&format!("{id}-device"), &group),
    ];
    charts.retain(has_points);
    charts
}

/// Returns true for copying, which is not compression and does not compete.
pub(super) fn is_copy(row: &CodecRow) -> bool {
    row.key.codec == "memcpy"
}

/// A speed with the times that it was computed from.
type MeasuredSpeed = (f64, SampleSummary);

fn encoding(row: &CodecRow) -> Option<MeasuredSpeed> {
    Some((row.encode_speed()?, row.encode))
}

fn decoding(row: &CodecRow) -> Option<MeasuredSpeed> {
    Some((row.decode_speed()?, row.decode?))
}

fn command(row: &CodecRow) -> Option<String> {
    Some(commands::codec(&row.key))
}

/// Makes a chart with a point for each codec and a line along the Pareto front.
fn size_and_speed(
    id: &str,
    title: &str,
    group: &[&CodecRow],
    speed: fn(&CodecRow) -> Option<MeasuredSpeed>,
    front: &[bool],
) -> ReportChart {
    let point = |row: &CodecRow| {
        let (speed, time) = speed(row)?;
        let point = ChartPoint::from((ChartX::Number(speed), 100.0 * row.sizes.ratio()));
        Some((speed, point.gaining_across(&time).with_command(command(row))))
    };
    let on_front = group.iter().zip(front).filter(|(_, is_on_front)| **is_on_front);
    let mut line: Vec<(f64, ChartPoint)> = on_front.filter_map(|(row, _)| point(row)).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut all = vec![guide("Pareto front", line.into_iter().map(|(_, point)| (point.x, point.y)))];
    let points = group.iter().filter_map(|row| Some((row, point(row)?)));
    all.extend(points.map(|(row, (_, point))| series(&row.key.codec, [point])));
    let x = axis("MB/s", true);
    let y = axis("size, % of the data", false);
    ReportChart { band: None, id: id.into(), title: title.into(), x, y, kind: ChartForm::Points, series: all }
}

/// Makes the chart of time against savings. A mixture of two codecs, each on a part of the blocks, beats every point
/// below the line.
fn mixtures(id: &str, group: &[&CodecRow]) -> ReportChart {
    let point = |row: &&CodecRow| (row.encode.median * 1e9 / row.sizes.raw as f64, 100.0 * (1.0 - row.sizes.ratio()));
    let points: Vec<(f64, f64)> = group.iter().map(point).collect();
    let on: Vec<(f64, f64)> = hull(&points).into_iter().map(|at| points[at]).collect();
    let line = mixture_line(&on).into_iter().map(|(x, y)| (ChartX::Number(x), y));
    let mut all = vec![guide("best mixtures", line)];
    all.extend(group.iter().zip(&points).map(|(row, (x, y))| {
        let point = ChartPoint::from((ChartX::Number(*x), *y)).costing_across(&row.encode).with_command(command(row));
        series(&row.key.codec, [point])
    }));
    ReportChart {
        band: None,
        id: id.into(),
        title: "Time and savings, with the best mixtures".into(),
        x: axis("seconds for 1 GB", true),
        y: axis("saved, % of the data", false),
        kind: ChartForm::Points,
        series: all,
    }
}

/// Returns points on the lines from no compression to the first codec and between codecs, dense enough for a
/// logarithmic scale, on which the lines are curves.
fn mixture_line(codecs: &[(f64, f64)]) -> Vec<(f64, f64)> {
    // Enough for the lines to look smooth in a chart.
    const STEPS_PER_LINE: i32 = 16;
    let Some(first) = codecs.first() else { return Vec::new() };
    // Begins at half of the first codec's time; little is visible before.
    let mut line = vec![(first.0 / 2.0, first.1 / 2.0)];
    for to in codecs {
        let from = line[line.len() - 1];
        // Equal times would divide by 0 below, and 0 has no logarithm.
        if to.0 <= from.0 || from.0 <= 0.0 {
            continue;
        }
        line.extend((1..STEPS_PER_LINE).map(|step| {
            let x = from.0 * (to.0 / from.0).powf(f64::from(step) / f64::from(STEPS_PER_LINE));
            (x, from.1 + (to.1 - from.1) * (x - from.0) / (to.0 - from.0))
        }));
        line.push(*to);
    }
    line
}

/// Makes the chart of the device speed below which compression pays.
fn break_even(id: &str, group: &[&CodecRow]) -> ReportChart {
    let bars = |metric: fn(&CodecRow) -> Option<MeasuredSpeed>| {
        let valued = group.iter().filter_map(move |row| Some((row, metric(row)?)));
        valued.filter(|(_, (value, _))| *value > 0.0).map(|(row, (value, time))| {
            ChartPoint::from((name_x(&row.key.codec), value)).gaining(&time).with_command(command(row))
        })
    };
    let writing = |row: &CodecRow| Some((row.encode_savings()?, row.encode));
    let reading = |row: &CodecRow| Some((row.decode_savings()?, row.decode?));
    ReportChart {
        band: None,
        id: id.into(),
        title: "Device speed below which compressing pays".into(),
        x: axis("codec", false),
        y: axis("MB/s", true),
        kind: ChartForm::Bars,
        series: vec![series("writing", bars(writing)), series("reading", bars(reading))],
    }
}

/// Charts of codecs relative to zlib -9: the main ones, and savings with further block sizes.
pub(super) struct RelativeCharts {
    pub(super) usual: Vec<ReportChart>,
    pub(super) others: Vec<ReportChart>,
}

impl RelativeCharts {
    pub(super) fn of(results: &BenchResults) -> Self {
        let factors = relative_factors(results);
        let mut blocks = distinct(factors.iter().map(|one| one.block));
        blocks.sort_unstable();
        let usual = if blocks.contains(&USUAL) { Some(USUAL) } else { blocks.last().copied() };
        let (first, others): (Vec<usize>, Vec<usize>) = blocks.into_iter().partition(|block| Some(*block) == usual);
        let savings = |blocks: Vec<usize>| blocks.into_iter().map(|block| relative_savings(&factors, block));
        let mut usual: Vec<ReportChart> = relative_speed(&factors).into_iter().chain(savings(first)).collect();
        let mut others: Vec<ReportChart> = savings(others).collect();
        usual.retain(has_points);
        others.retain(has_points);
        RelativeCharts { usual, others }
    }
}

/// Makes the chart of speeds relative to zlib -9, averaged over data sets and block sizes.
fn relative_speed(factors: &[RelativeFactors]) -> Option<ReportChart> {
    let codecs = distinct(factors.iter().map(|one| one.codec.as_str()));
    let bars = |metric: fn(&RelativeFactors) -> &[f64]| {
        codecs.iter().filter_map(move |codec| {
            let of_codec = factors.iter().filter(|one| one.codec == *codec);
            let all: Vec<f64> = of_codec.flat_map(|one| metric(one).iter().copied()).collect();
            Some((name_x(codec), geometric_mean(&all)?))
        })
    };
    (!codecs.is_empty()).then(|| ReportChart {
        band: None,
        id: "relative-speed".into(),
        title: "Speed relative to zlib -9, mean over data and blocks".into(),
        x: axis("codec", false),
        y: axis("times zlib -9", true),
        kind: ChartForm::Bars,
        series: vec![
            series("compressing", bars(|one| &one.encode_speed)),
            series("decompressing", bars(|one| &one.decode_speed)),
        ],
    })
}

/// Makes the chart of savings per second relative to zlib -9, for one block size.
fn relative_savings(factors: &[RelativeFactors], block: usize) -> ReportChart {
    let bars = |metric: fn(&RelativeFactors) -> &[f64]| {
        let of_block = factors.iter().filter(move |one| one.block == block);
        of_block.filter_map(move |one| Some((name_x(&one.codec), geometric_mean(metric(one))?)))
    };
    ReportChart {
        band: None,
        id: format!("relative-savings-{}", slug(&short_size(block))),
        title: format!("Savings a second relative to zlib -9, blocks of {}", short_size(block)),
        x: axis("codec", false),
        y: axis("times zlib -9", true),
        kind: ChartForm::Bars,
        series: vec![
            series("compressing", bars(|one| &one.encode_savings)),
            series("decompressing", bars(|one| &one.decode_savings)),
        ],
    }
}

/// Makes the chart of the speed on incompressible data: by block size, or in rows if there is only one.
pub(super) fn noise(results: &BenchResults) -> Option<ReportChart> {
    let rows: Vec<&CodecRow> = results.codecs.iter().filter(|row| row.key.data == INCOMPRESSIBLE).collect();
    let least = rows.iter().map(|row| row.key.threads).min()?;
    let rows: Vec<&CodecRow> = rows.into_iter().filter(|row| row.key.threads == least).collect();
    let has_one_block = rows.iter().all(|row| row.key.block == rows[0].key.block);
    let point = |row: &CodecRow, x: ChartX| {
        let (speed, time) = encoding(row)?;
        Some(ChartPoint::from((x, speed)).gaining(&time).with_command(command(row)))
    };
    let series = match has_one_block {
        true => vec![series("compressing", rows.iter().filter_map(|row| point(row, name_x(&row.key.codec))))],
        false => lines(&rows, |row| point(row, ChartX::Name(short_size(row.key.block)))),
    };
    (!rows.is_empty()).then(|| ReportChart {
        band: None,
        id: "incompressible".into(),
        title: "Speed on data that does not compress".into(),
        x: axis(if has_one_block { "codec" } else { "block" }, false),
        y: axis("MB/s", true),
        kind: if has_one_block { ChartForm::Bars } else { ChartForm::Lines },
        series,
    })
}

/// Returns rows grouped by data set and policy.
pub(super) fn by_data(results: &BenchResults) -> Vec<Vec<&CodecRow>> {
    let set = |row: &CodecRow| (row.key.data.clone(), row.key.digest.clone(), row.key.policy.clone(), row.key.sector);
    let rows: Vec<&CodecRow> = results.groups().into_iter().flatten().collect();
    let sets = distinct(rows.iter().map(|row| set(row)));
    sets.iter().map(|one| rows.iter().copied().filter(|row| set(row) == *one).collect()).collect()
}

/// Returns a line for each codec, over a quantity in which several of its rows differ.
fn lines<P: Into<ChartPoint>>(rows: &[&CodecRow], point: impl Fn(&CodecRow) -> Option<P>) -> Vec<ChartSeries> {
    let line = |codec: &str| {
        let rows = rows.iter().filter(|row| row.key.codec == codec);
        series(codec, rows.filter_map(|row| point(row)).collect::<Vec<_>>())
    };
    distinct(rows.iter().map(|row| row.key.codec.as_str())).into_iter().map(line).collect()
}

/// Makes charts of size by block size.
pub(super) fn sizes(results: &BenchResults) -> Vec<ReportChart> {
    let mut charts = Vec::new();
    for set in by_data(results) {
        let least = set.iter().map(|row| row.key.threads).min().unwrap_or(1);
        let rows: Vec<&CodecRow> = set.into_iter().filter(|row| row.key.threads == least && !is_copy(row)).collect();
        if rows.iter().all(|row| row.key.block == rows[0].key.block) {
            continue;
        }
        charts.push(ReportChart {
            band: None,
            id: format!("sizes-{}", group_id(rows[0])),
            title: format!("Size by block size: {}, policy {}", rows[0].key.data, rows[0].key.policy),
            x: axis("block", false),
            y: axis("size, % of the data", false),
            kind: ChartForm::Lines,
            series: lines(&rows, |row| Some((ChartX::Name(short_size(row.key.block)), 100.0 * row.sizes.ratio()))),
        });
    }
    charts
}

/// Makes charts of speed-up and efficiency by threads, with the ideal.
pub(super) fn threads(results: &BenchResults) -> Vec<ReportChart> {
    let mut charts = Vec::new();
    for set in by_data(results) {
        let Some(block) = set.iter().map(|row| row.key.block).max() else { continue };
        let rows: Vec<&CodecRow> = set.into_iter().filter(|row| row.key.block == block).collect();
        let mut counts = distinct(rows.iter().map(|row| row.key.threads));
        counts.sort_unstable();
        // All lines are relative to one thread.
        if counts.len() < 2 || counts[0] != 1 {
            continue;
        }
        let number = |threads: usize| ChartX::Number(threads as f64);
        let times = |row: &CodecRow| Some((results.one_thread(row)?.encode.median, row.encode.median));
        let mut speedups = lines(&rows, |row| {
            let (one, many) = times(row)?;
            Some(
                ChartPoint::from((number(row.key.threads), speedup(one, many)?))
                    .gaining(&row.encode)
                    .with_command(command(row)),
            )
        });
        speedups.push(guide("ideal", counts.iter().map(|threads| (number(*threads), *threads as f64))));
        let mut efficiencies = lines(&rows, |row| {
            let (one, many) = times(row)?;
            let efficiency = efficiency(one, many, row.key.threads)?;
            Some(
                ChartPoint::from((number(row.key.threads), efficiency)).gaining(&row.encode).with_command(command(row)),
            )
        });
        efficiencies.push(guide("ideal", counts.iter().map(|threads| (number(*threads), 1.0))));
        for (what, title, y, series) in [
            ("speedup", "Speed-up by threads, compressing", "times one thread", speedups),
            ("efficiency", "Efficiency by threads, compressing", "speed-up for each thread", efficiencies),
        ] {
            charts.push(ReportChart {
                band: None,
                id: format!("{what}-{}", group_id(rows[0])),
                title: format!("{title}: {} in blocks of {}", rows[0].key.data, short_size(block)),
                x: axis("threads", false),
                y: axis(y, false),
                kind: ChartForm::Lines,
                series,
            });
        }
    }
    charts
}
