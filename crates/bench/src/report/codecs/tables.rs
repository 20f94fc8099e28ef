//! Tables of codecs.

use super::super::model::{Column, Table, Value};
use super::super::published::codecs::beside_codecs;
use super::super::shape::{short, slug, spread, table};
use super::sentences::heading;
use crate::metrics::{efficiency, front, speedup};
use crate::results::{Results, Row};
use crate::stats::{arithmetic_mean, geometric_mean};
use crate::units::size;

/// Returns the part of IDs that identifies a group.
pub(super) fn group_id(row: &Row) -> String {
    let key = &row.key;
    let digest = short(&key.digest);
    let data = &key.data;
    let policy = &key.policy;
    let sector = key.sector;
    let block = size(key.block);
    slug(&format!("{data}-{digest}-{policy}-{sector}-{block}-{}t", key.threads))
}

/// Returns the Pareto fronts of a group, by size and speed of compression and decompression.
pub(super) fn fronts(group: &[&Row]) -> (Vec<bool>, Vec<bool>) {
    let of = |speed: fn(&Row) -> Option<f64>| {
        let cost = |row: &Row| speed(row).map_or(f64::INFINITY, |speed| 1.0 / speed);
        front(&group.iter().map(|row| (cost(row), -row.sizes.ratio())).collect::<Vec<_>>())
    };
    (of(Row::encode_speed), of(Row::decode_speed))
}

/// Table of all metrics of a group.
pub(super) fn of_group(results: &Results, group: &[&Row]) -> Table {
    let (compressing, decompressing) = fronts(group);
    let relative = |row: &Row, metric: fn(&Row) -> Option<f64>| -> Value {
        let baseline = results.baseline(row).and_then(metric).filter(|baseline| *baseline > 0.0);
        metric(row).zip(baseline).map(|(value, baseline)| value / baseline).into()
    };
    let row = |(at, row): (usize, &&Row)| {
        let noise = results.incompressible(row);
        let noise_speed = noise.and_then(Row::encode_speed);
        let marks = [(compressing[at], "c"), (decompressing[at], "d")];
        vec![
            row.key.codec.as_str().into(),
            results.library(row).unwrap_or_default().into(),
            Value::Number(100.0 * row.sizes.ratio()),
            row.encode_speed().into(),
            row.decode_speed().into(),
            row.encode_savings().into(),
            row.decode_savings().into(),
            relative(row, Row::encode_speed),
            relative(row, Row::decode_speed),
            relative(row, Row::encode_savings),
            relative(row, Row::decode_savings),
            noise_speed.into(),
            noise.map_or(Value::None, |noise| relative(noise, Row::encode_speed)),
            noise_speed.zip(row.encode_speed()).map(|(noise, data)| noise / data).into(),
            Value::Number(100.0 * row.sizes.share()),
            Value::Number(row.encode_cpu * 1e9 / row.sizes.raw as f64),
            row.decode_cpu.map(|cpu| cpu * 1e9 / row.sizes.decoded as f64).into(),
            spread(&row.encode),
            row.decode.as_ref().map_or(Value::None, spread),
            Value::Whole(row.encode.count as u64),
            Value::Text(marks.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect()),
        ]
    };
    let columns = [
        Column::of("codec"),
        Column::wide("library"),
        Column::of("size %"),
        Column::of("in MB/s"),
        Column::of("out MB/s"),
        Column::of("saved in MB/s"),
        Column::of("saved out MB/s"),
        Column::of("in x"),
        Column::of("out x"),
        Column::of("saved in x"),
        Column::of("saved out x"),
        Column::of("noise MB/s"),
        Column::wide("noise x"),
        Column::wide("abort gain"),
        Column::wide("kept %"),
        Column::wide("CPU in ns/B"),
        Column::wide("CPU out ns/B"),
        Column::of("spread in %"),
        Column::wide("spread out %"),
        Column::wide("runs"),
        Column::of("front"),
    ];
    let rows = group.iter().enumerate().map(row).collect();
    beside_codecs(table(&group_id(group[0]), &heading(group), columns, rows), group)
}

/// Factors of a codec relative to zlib -9 at one block size on one thread, one for each data set.
#[derive(Debug)]
pub(super) struct Relative {
    pub(super) codec: String,
    pub(super) block: usize,
    /// Speed of compression and decompression, savings per second of both.
    pub(super) factors: [Vec<f64>; 4],
}

pub(super) fn factors(results: &Results) -> Vec<Relative> {
    let mut all: Vec<Relative> = Vec::new();
    for row in results.groups().into_iter().flatten().filter(|row| row.key.threads == 1) {
        let Some(baseline) = results.baseline(row) else { continue };
        let found = all.iter().position(|one| one.codec == row.key.codec && one.block == row.key.block);
        let at = found.unwrap_or_else(|| {
            all.push(Relative { codec: row.key.codec.clone(), block: row.key.block, factors: Default::default() });
            all.len() - 1
        });
        let metrics = [Row::encode_speed, Row::decode_speed, Row::encode_savings, Row::decode_savings];
        for (factors, metric) in all[at].factors.iter_mut().zip(metrics) {
            let pair = metric(row).zip(metric(baseline)).filter(|(a, b)| *a > 0.0 && *b > 0.0);
            factors.extend(pair.map(|(a, b)| a / b));
        }
    }
    all
}

/// Table of factors relative to zlib -9, averaged in both ways.
pub(super) fn relative(results: &Results) -> Option<Table> {
    let row = |one: Relative| {
        let means = one.factors.iter().flat_map(|f| [geometric_mean(f), arithmetic_mean(f)]).map(Value::from);
        let sets = Value::Whole(one.factors[0].len() as u64);
        [Value::Text(one.codec), Value::Text(size(one.block)), sets].into_iter().chain(means).collect()
    };
    let rows: Vec<Vec<Value>> = factors(results).into_iter().map(row).collect();
    let columns = [
        "codec",
        "block",
        "data sets",
        "in x",
        "in x, arithmetic",
        "out x",
        "out x, arithmetic",
        "saved in x",
        "saved in x, arithmetic",
        "saved out x",
        "saved out x, arithmetic",
    ];
    let title = "Relative to zlib -9 on one thread, averaged over data: geometric and arithmetic means";
    (!rows.is_empty()).then(|| table("relative", title, columns, rows))
}

/// Table of speed by threads.
pub(super) fn threads(results: &Results) -> Option<Table> {
    let mut rows = Vec::new();
    for row in results.groups().into_iter().flatten().filter(|row| row.key.threads > 1) {
        let Some(one) = results.one_thread(row) else { continue };
        let threads = row.key.threads;
        let into = (one.encode.median, row.encode.median);
        let out = one.decode.zip(row.decode).map(|(one, many)| (one.median, many.median));
        rows.push(vec![
            row.key.data.as_str().into(),
            row.key.codec.as_str().into(),
            Value::Text(size(row.key.block)),
            Value::Whole(threads as u64),
            row.encode_speed().into(),
            speedup(into.0, into.1).into(),
            efficiency(into.0, into.1, threads).into(),
            row.decode_speed().into(),
            out.and_then(|(one, many)| speedup(one, many)).into(),
            out.and_then(|(one, many)| efficiency(one, many, threads)).into(),
        ]);
    }
    let columns = [
        "data",
        "codec",
        "block",
        "threads",
        "in MB/s",
        "in speed-up",
        "in efficiency",
        "out MB/s",
        "out speed-up",
        "out efficiency",
    ];
    (!rows.is_empty()).then(|| table("threads", "Scaling by threads", columns, rows))
}
