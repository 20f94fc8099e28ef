//! Tables of codecs.

use super::super::model::{ReportTable, TableColumn, TableValue};
use super::super::published::codecs::beside_codecs;
use super::super::shape::{short_digest, slug, spread_percent, table};
use super::sentences::heading;
use crate::metrics::{efficiency, front, speedup};
use crate::results::{BenchResults, CodecRow};
use crate::stats::{arithmetic_mean, geometric_mean};
use crate::units::short_size;

/// Returns the part of IDs that identifies a group.
pub(super) fn group_id(row: &CodecRow) -> String {
    let key = &row.key;
    let digest = short_digest(&key.digest);
    let data = &key.data;
    let policy = &key.policy;
    let sector = key.sector;
    let block = short_size(key.block);
    slug(&format!("{data}-{digest}-{policy}-{sector}-{block}-{}t", key.threads))
}

/// Returns the Pareto fronts of a group, by size and speed of compression and decompression.
pub(super) fn fronts(group: &[&CodecRow]) -> (Vec<bool>, Vec<bool>) {
    let front_by = |speed: fn(&CodecRow) -> Option<f64>| {
        let cost = |row: &CodecRow| speed(row).map_or(f64::INFINITY, |speed| 1.0 / speed);
        front(&group.iter().map(|row| (cost(row), -row.sizes.ratio())).collect::<Vec<_>>())
    };
    (front_by(CodecRow::encode_speed), front_by(CodecRow::decode_speed))
}

/// Makes the table of all metrics of a group.
pub(super) fn of_group(results: &BenchResults, group: &[&CodecRow]) -> ReportTable {
    let (compressing, decompressing) = fronts(group);
    let relative = |row: &CodecRow, metric: fn(&CodecRow) -> Option<f64>| -> TableValue {
        let baseline = results.baseline(row).and_then(metric).filter(|baseline| *baseline > 0.0);
        metric(row).zip(baseline).map(|(value, baseline)| value / baseline).into()
    };
    let row = |(at, row): (usize, &&CodecRow)| {
        let noise = results.incompressible(row);
        let noise_speed = noise.and_then(CodecRow::encode_speed);
        let marks = [(compressing[at], "c"), (decompressing[at], "d")];
        vec![
            row.key.codec.as_str().into(),
            results.library(row).unwrap_or_default().into(),
            TableValue::Number(100.0 * row.sizes.ratio()),
            row.encode_speed().into(),
            row.decode_speed().into(),
            row.encode_savings().into(),
            row.decode_savings().into(),
            relative(row, CodecRow::encode_speed),
            relative(row, CodecRow::decode_speed),
            relative(row, CodecRow::encode_savings),
            relative(row, CodecRow::decode_savings),
            noise_speed.into(),
            noise.map_or(TableValue::None, |noise| relative(noise, CodecRow::encode_speed)),
            noise_speed.zip(row.encode_speed()).map(|(noise, data)| noise / data).into(),
            TableValue::Number(100.0 * row.sizes.share()),
            TableValue::Number(row.encode_cpu * 1e9 / row.sizes.raw as f64),
            row.decode_cpu.map(|cpu| cpu * 1e9 / row.sizes.decoded as f64).into(),
            spread_percent(&row.encode),
            row.decode.as_ref().map_or(TableValue::None, spread_percent),
            TableValue::Whole(row.encode.count as u64),
            TableValue::Text(marks.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect()),
        ]
    };
    let columns = [
        TableColumn::of("codec"),
        TableColumn::wide("library"),
        TableColumn::of("size %"),
        TableColumn::of("in MB/s"),
        TableColumn::of("out MB/s"),
        TableColumn::of("saved in MB/s"),
        TableColumn::of("saved out MB/s"),
        TableColumn::of("in x"),
        TableColumn::of("out x"),
        TableColumn::of("saved in x"),
        TableColumn::of("saved out x"),
        TableColumn::of("noise MB/s"),
        TableColumn::wide("noise x"),
        TableColumn::wide("abort gain"),
        TableColumn::wide("kept %"),
        TableColumn::wide("CPU in ns/B"),
        TableColumn::wide("CPU out ns/B"),
        TableColumn::of("spread in %"),
        TableColumn::wide("spread out %"),
        TableColumn::wide("runs"),
        TableColumn::of("front"),
    ];
    let rows = group.iter().enumerate().map(row).collect();
    beside_codecs(table(&group_id(group[0]), &heading(group), columns, rows), group)
}

/// Factors of a codec relative to zlib -9 at one block size on one thread, one for each data set.
#[derive(Debug, Default)]
pub(super) struct RelativeFactors {
    pub(super) codec: String,
    pub(super) block: usize,
    pub(super) encode_speed: Vec<f64>,
    pub(super) decode_speed: Vec<f64>,
    pub(super) encode_savings: Vec<f64>,
    pub(super) decode_savings: Vec<f64>,
}

/// Returns the factors of each codec and block size for which the baseline was measured.
pub(super) fn relative_factors(results: &BenchResults) -> Vec<RelativeFactors> {
    let mut all: Vec<RelativeFactors> = Vec::new();
    for row in results.groups().into_iter().flatten().filter(|row| row.key.threads == 1) {
        let Some(baseline) = results.baseline(row) else { continue };
        let found = all.iter().position(|one| one.codec == row.key.codec && one.block == row.key.block);
        let at = found.unwrap_or_else(|| {
            all.push(RelativeFactors { codec: row.key.codec.clone(), block: row.key.block, ..Default::default() });
            all.len() - 1
        });
        let factor = |metric: fn(&CodecRow) -> Option<f64>| {
            // Geometric means have no place for 0.
            let pair = metric(row).zip(metric(baseline)).filter(|(a, b)| *a > 0.0 && *b > 0.0);
            pair.map(|(a, b)| a / b)
        };
        let factors = &mut all[at];
        factors.encode_speed.extend(factor(CodecRow::encode_speed));
        factors.decode_speed.extend(factor(CodecRow::decode_speed));
        factors.encode_savings.extend(factor(CodecRow::encode_savings));
        factors.decode_savings.extend(factor(CodecRow::decode_savings));
    }
    all
}

/// Makes the table of factors relative to zlib -9, averaged in both ways.
pub(super) fn relative(results: &BenchResults) -> Option<ReportTable> {
    let row = |one: &RelativeFactors| {
        let factors = [&one.encode_speed, &one.decode_speed, &one.encode_savings, &one.decode_savings];
        let means = factors.into_iter().flat_map(|factors| [geometric_mean(factors), arithmetic_mean(factors)]);
        let sets = TableValue::Whole(one.encode_speed.len() as u64);
        [one.codec.as_str().into(), TableValue::Text(short_size(one.block)), sets]
            .into_iter()
            .chain(means.map(TableValue::from))
            .collect()
    };
    let rows: Vec<Vec<TableValue>> = relative_factors(results).iter().map(row).collect();
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

/// Makes the table of speed by threads.
pub(super) fn threads(results: &BenchResults) -> Option<ReportTable> {
    let mut rows = Vec::new();
    for row in results.groups().into_iter().flatten().filter(|row| row.key.threads > 1) {
        let Some(one) = results.one_thread(row) else { continue };
        let threads = row.key.threads;
        let encode = one.encode.median;
        let encode_many = row.encode.median;
        let decodes = one.decode.zip(row.decode).map(|(one, many)| (one.median, many.median));
        rows.push(vec![
            row.key.data.as_str().into(),
            row.key.codec.as_str().into(),
            TableValue::Text(short_size(row.key.block)),
            TableValue::Whole(threads as u64),
            row.encode_speed().into(),
            speedup(encode, encode_many).into(),
            efficiency(encode, encode_many, threads).into(),
            row.decode_speed().into(),
            decodes.and_then(|(one, many)| speedup(one, many)).into(),
            decodes.and_then(|(one, many)| efficiency(one, many, threads)).into(),
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
