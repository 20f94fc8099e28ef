//! Charts of builds. Predictions of the model are drawn as guides, distinct from measurements.

use super::super::commands;
use super::super::model::{ChartAxis, ChartForm, ChartPoint, ChartSeries, ChartX, ReportChart, SeriesRole};
use super::super::shape::{axis, distinct, guide, has_points, listed_features, name_x, series};
use super::lines::{MANY_THREADS, SpeedupBase, fastest, features, fit_model, groups, lines};
use super::tables::{group_id, set_id};
use crate::build::{BuildKey, ScalingModel};
use crate::results::{BenchResults, BuildRow};
use crate::units::short_size;

/// Returns the charts of one choice of blocks and features.
pub(super) fn of_group(results: &BenchResults, group: &[&BuildRow]) -> Vec<ReportChart> {
    let mut charts = Vec::new();
    if group.iter().any(|row| row.key.threads > 1) {
        charts.extend([times(results, group), speedups(results, group), efficiencies(results, group)]);
    }
    charts.push(throughput(group));
    charts.retain(has_points);
    charts
}

/// Returns program and codec. Unlike sentences, charts also name packfs.
fn tool_with_codec(key: &BuildKey) -> String {
    format!("{} {}", key.tool, key.codec)
}

fn number(threads: usize) -> ChartX {
    ChartX::Number(threads as f64)
}

/// Returns the numbers of threads at which a model is drawn.
fn modelled_threads() -> impl Iterator<Item = usize> {
    // Powers of two are evenly spaced on the logarithmic axis of threads.
    std::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(|threads| *threads <= MANY_THREADS)
}

/// Returns a line for each program and codec, and one for its model, if it has one. `costs` is true if the value grows
/// with the time.
fn with_models(
    results: &BenchResults,
    group: &[&BuildRow],
    costs: bool,
    measured: impl Fn(&[&BuildRow], &BuildRow) -> Option<f64>,
    computed: impl Fn(&ScalingModel, usize) -> f64,
) -> Vec<ChartSeries> {
    let mut all = Vec::new();
    for line in lines(group) {
        let label = tool_with_codec(&line[0].key);
        // The serial run (0) has no place on a logarithmic axis.
        let points = line.iter().filter(|row| row.key.threads > 0);
        let point = |row: &&BuildRow| {
            let point = ChartPoint::from((number(row.key.threads), measured(&line, row)?));
            let point = if costs { point.costing(&row.time) } else { point.gaining(&row.time) };
            Some(point.with_command(commands::build(&row.key)))
        };
        all.push(series(&label, points.filter_map(point)));
        if let Some((model, _)) = fit_model(results, &line) {
            let predicted = modelled_threads().map(|threads| (number(threads), computed(&model, threads)));
            all.push(ChartSeries { role: SeriesRole::Model, ..series(&label, predicted) });
        }
    }
    all
}

fn threads_chart(id: String, title: &str, y: ChartAxis, series: Vec<ChartSeries>) -> ReportChart {
    ReportChart { band: None, id, title: title.into(), x: axis("threads", true), y, kind: ChartForm::Lines, series }
}

/// Makes the chart of time by threads (S0a, S1a).
fn times(results: &BenchResults, group: &[&BuildRow]) -> ReportChart {
    let series = with_models(results, group, true, |_, row| Some(row.time.median), ScalingModel::seconds);
    threads_chart(format!("builds-{}-time", group_id(group)), "Time by threads", axis("seconds", true), series)
}

/// Makes the chart of speed-up relative to one thread (S0b).
fn speedups(results: &BenchResults, group: &[&BuildRow]) -> ReportChart {
    let modelled = |model: &ScalingModel, threads: usize| model.seconds(1) / model.seconds(threads);
    let mut series = with_models(results, group, false, |line, row| SpeedupBase::One.speedup(line, row), modelled);
    series.push(guide("ideal", modelled_threads().map(|threads| (number(threads), threads as f64))));
    threads_chart(
        format!("builds-{}-speedup", group_id(group)),
        "Speed-up by threads",
        axis("times one thread", true),
        series,
    )
}

/// Makes the chart of efficiency relative to one thread (S0c).
fn efficiencies(results: &BenchResults, group: &[&BuildRow]) -> ReportChart {
    let modelled = |model: &ScalingModel, threads: usize| model.seconds(1) / model.seconds(threads) / threads as f64;
    let mut series = with_models(results, group, false, |line, row| SpeedupBase::One.efficiency(line, row), modelled);
    series.push(guide("ideal", modelled_threads().map(|threads| (number(threads), 1.0))));
    let y = axis("speed-up for each thread", false);
    threads_chart(format!("builds-{}-efficiency", group_id(group)), "Efficiency by threads", y, series)
}

/// Makes the chart of size against time. Points below and to the left of another one are better.
fn size_and_time(group: &[&BuildRow]) -> ReportChart {
    let point = |line: &Vec<&BuildRow>| {
        let row = fastest(line)?;
        let point = ChartPoint::from((ChartX::Number(row.time.median), 100.0 * row.ratio()?)).costing_across(&row.time);
        Some(series(&tool_with_codec(&row.key), [point.with_command(commands::build(&row.key))]))
    };
    ReportChart {
        band: None,
        id: format!("builds-{}-size-and-time", set_id(group)),
        title: format!(
            "Size and time in blocks of {}, {}: down and left is better",
            short_size(group[0].key.block),
            listed_features(features(&group[0].key))
        ),
        x: axis("seconds", true),
        y: axis("size, % of the files", false),
        kind: ChartForm::Points,
        series: lines(group).iter().filter_map(point).collect(),
    }
}

/// Makes the chart of the highest throughput (S0d).
fn throughput(group: &[&BuildRow]) -> ReportChart {
    let tools = distinct(group.iter().map(|row| row.key.tool.as_str()));
    let bars = |tool: &str| {
        let rows: Vec<&BuildRow> = group.iter().copied().filter(|row| row.key.tool == tool).collect();
        let bars: Vec<ChartPoint> = lines(&rows)
            .iter()
            .filter_map(|line| {
                let row = fastest(line)?;
                let point = ChartPoint::from((name_x(&row.key.codec), row.speed()?)).gaining(&row.time);
                Some(point.with_command(commands::build(&row.key)))
            })
            .collect();
        series(tool, bars)
    };
    ReportChart {
        band: None,
        id: format!("builds-{}-throughput-chart", group_id(group)),
        title: "Most throughput".into(),
        x: axis("codec", false),
        y: axis("MB/s", true),
        kind: ChartForm::Bars,
        series: tools.into_iter().map(bars).collect(),
    }
}

/// Returns the charts of one source and format.
pub(super) fn of_set(set: &[&BuildRow]) -> Vec<ReportChart> {
    // The choice of blocks and features with the most measurements represents the others.
    let groups = groups(set);
    // Reversed, because of equal groups `max_by_key` takes the last.
    let most = groups.iter().rev().max_by_key(|group| group.len()).map(|group| size_and_time(group));
    let compared = most.filter(|chart| chart.series.len() > 2);
    compared.into_iter().chain(std::iter::once(sizes(set))).chain(sizes_by_block(set)).collect()
}

/// Makes the chart of sizes with the largest block size (S0f, S1b).
fn sizes(set: &[&BuildRow]) -> ReportChart {
    let block = set.iter().map(|row| row.key.block).max().unwrap_or(0);
    let rows: Vec<&BuildRow> = set.iter().copied().filter(|row| row.key.block == block).collect();
    let kind = |row: &BuildRow| format!("{}, {}", row.key.tool, listed_features(features(&row.key)));
    let bars = |of_kind: String| {
        let rows: Vec<&BuildRow> = rows.iter().copied().filter(|row| kind(row) == of_kind).collect();
        // packfs's images do not depend on the number of threads, so the first row represents the line.
        let bars = lines(&rows).into_iter().map(|line| (name_x(&line[0].key.codec), line[0].made as f64 / 1e6));
        series(&of_kind, bars.collect::<Vec<_>>())
    };
    ReportChart {
        band: None,
        id: format!("builds-{}-size", set_id(set)),
        title: format!("Size in blocks of {}", short_size(block)),
        x: axis("codec", false),
        y: axis("MB", false),
        kind: ChartForm::Bars,
        series: distinct(rows.iter().map(|row| kind(row))).into_iter().map(bars).collect(),
    }
}

/// Makes the chart of size by block or cluster size (S4a, S4h).
fn sizes_by_block(set: &[&BuildRow]) -> Option<ReportChart> {
    let mut blocks = distinct(set.iter().map(|row| row.key.block));
    blocks.sort_unstable();
    // Features are named only if they differ.
    let alike = set.iter().all(|row| row.key.features == set[0].key.features);
    let kind = |row: &BuildRow| match alike {
        true => tool_with_codec(&row.key),
        false => format!("{}, {}", tool_with_codec(&row.key), listed_features(features(&row.key))),
    };
    let line = |of_kind: String| {
        let point = |block: &usize| {
            let row = set.iter().find(|row| row.key.block == *block && kind(row) == of_kind)?;
            Some((ChartX::Name(short_size(*block)), row.made as f64 / 1e6))
        };
        series(&of_kind, blocks.iter().filter_map(point).collect::<Vec<_>>())
    };
    (blocks.len() > 1).then(|| ReportChart {
        band: None,
        id: format!("builds-{}-size-by-block", set_id(set)),
        title: "Size by block size".into(),
        x: axis("block", false),
        y: axis("MB", false),
        kind: ChartForm::Lines,
        series: distinct(set.iter().map(|row| kind(row))).into_iter().map(line).collect(),
    })
}
