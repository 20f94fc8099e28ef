//! Charts of splits.

use super::super::commands;
use super::super::model::{ChartForm, ChartPoint, ChartSeries, ChartX, ReportChart};
use super::super::shape::{axis, distinct, guide, name_x, series, short_digest, slug};
use super::group::{SplitGroup, intact_disks, row_label};
use crate::metrics::speedup;
use crate::results::SplitRow;
use crate::split::{DiskProfile, DiskSpec, SplitWork, seconds_in_ranges, seconds_shared};

/// Makes charts of time and speed-up by outputs, with the ideal.
pub(super) fn of_group(group: &SplitGroup<'_>) -> Vec<ReportChart> {
    let outputs = group.outputs();
    if outputs.len() < 2 {
        return Vec::new();
    }
    let mut charts = vec![ReportChart {
        band: None,
        id: format!("split-time-{}", group.id()),
        title: format!("{}: time by outputs", group.title()),
        x: axis("outputs", false),
        y: axis("s", true),
        kind: ChartForm::Lines,
        series: lines(group, |row, x| Some(ChartPoint::from((x, row.time.median)).costing(&row.time))),
    }];
    let mut speedups = lines(group, |row, x| {
        let speedup = speedup(group.with_one_output(row)?.time.median, row.time.median)?;
        Some(ChartPoint::from((x, speedup)).gaining(&row.time))
    });
    if !speedups.is_empty() {
        speedups.push(guide("ideal", outputs.iter().map(|outputs| (number(*outputs), *outputs as f64))));
        charts.push(ReportChart {
            band: None,
            id: format!("split-speedup-{}", group.id()),
            title: format!("{}: speed-up by outputs", group.title()),
            x: axis("outputs", false),
            y: axis("times one output", false),
            kind: ChartForm::Lines,
            series: speedups,
        });
    }
    charts
}

fn number(outputs: usize) -> ChartX {
    ChartX::Number(outputs as f64)
}

/// Returns a line for each program and codec that has points.
fn lines(group: &SplitGroup<'_>, value: impl Fn(&SplitRow, ChartX) -> Option<ChartPoint>) -> Vec<ChartSeries> {
    let line = |label: String| {
        let rows = group.rows.iter().filter(|row| row_label(row) == label);
        let points: Vec<_> = rows
            .filter_map(|row| Some(value(row, number(row.key.outputs))?.with_command(commands::split(&row.key))))
            .collect();
        (!points.is_empty()).then(|| series(&label, points))
    };
    distinct(group.rows.iter().map(|row| row_label(row))).into_iter().filter_map(line).collect()
}

/// Makes a chart for each data set and profile: measured times, and those computed for two ways to divide the data.
pub(super) fn uneven(rows: &[(DiskProfile, &SplitRow)]) -> Vec<ReportChart> {
    let kinds = distinct(rows.iter().map(|(_, row)| (&row.key.data, &row.key.digest, &row.key.disks)));
    let chart = |(data, digest, disks): (&String, &String, &String)| {
        let is_of_kind = |(_, row): &&(DiskProfile, &SplitRow)| {
            (&row.key.data, &row.key.digest, &row.key.disks) == (data, digest, disks)
        };
        let computed = |seconds: fn(&[DiskSpec], u64) -> f64| {
            rows.iter().filter(is_of_kind).filter_map(move |(profile, row)| {
                Some((name_x(&row_label(row)), seconds(&intact_disks(row, profile)?, row.made)))
            })
        };
        let point = |(_, row): &(DiskProfile, &SplitRow)| {
            ChartPoint::from((name_x(&row_label(row)), row.time.median))
                .costing(&row.time)
                .with_command(commands::split(&row.key))
        };
        let mut all = vec![
            series("measured", rows.iter().filter(is_of_kind).map(point)),
            guide("equal ranges, computed", computed(seconds_in_ranges)),
            guide("all disks busy, computed", computed(seconds_shared)),
        ];
        all.retain(|series| !series.points.is_empty());
        ReportChart {
            band: None,
            id: slug(&format!("split-uneven-{data}-{}-{disks}", short_digest(digest))),
            title: format!("Splitting {data} over disks of {disks} MB/s"),
            x: axis("codec", false),
            y: axis("s", false),
            kind: ChartForm::Bars,
            series: all,
        }
    };
    kinds.into_iter().map(chart).collect()
}

/// Makes a chart of the speed of joining and checking for each data set.
pub(super) fn restored(rows: &[&SplitRow]) -> Vec<ReportChart> {
    let chart = |(data, digest): (&String, &String)| {
        let bars = |work: SplitWork| {
            let all = rows.iter().filter(|row| (&row.key.data, &row.key.digest) == (data, digest));
            let all = all.filter(|row| row.key.work == work.name());
            let bars = all.filter_map(|row| {
                let parts = if row.key.outputs == 1 { "1 part".into() } else { format!("{} parts", row.key.outputs) };
                let point = ChartPoint::from((name_x(&format!("{}, {parts}", row.key.codec)), row.speed()?));
                Some(point.gaining(&row.time).with_command(commands::split(&row.key)))
            });
            series(work.name(), bars.collect::<Vec<_>>())
        };
        ReportChart {
            band: None,
            id: slug(&format!("split-restored-{data}-{}", short_digest(digest))),
            title: format!("Restoring {data}: speed by codec and parts"),
            x: axis("codec, parts", false),
            y: axis("MB/s", true),
            kind: ChartForm::Bars,
            series: [SplitWork::Join, SplitWork::Check]
                .map(bars)
                .into_iter()
                .filter(|bars| !bars.points.is_empty())
                .collect(),
        }
    };
    distinct(rows.iter().map(|row| (&row.key.data, &row.key.digest))).into_iter().map(chart).collect()
}
