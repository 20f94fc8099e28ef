//! Tables of builds.

use super::super::model::{ReportTable, TableColumn, TableValue};
use super::super::published::{images, packing};
use super::super::shape::{distinct, short_digest, slug, table, trial_table};
use super::lines::{
    MANY_THREADS, SpeedupBase, fastest, features, fit_model, is_packfs, label, lines, model_error, row_with, tar_bytes,
    uncompressed,
};
use crate::metrics::speedup;
use crate::results::{BenchResults, BuildRow};
use crate::units::short_size;

/// Returns the part of IDs that identifies a set.
pub(super) fn set_id(set: &[&BuildRow]) -> String {
    let key = &set[0].key;
    slug(&format!("{}-{}-{}", key.source, short_digest(&key.digest), key.format))
}

pub(super) fn group_id(group: &[&BuildRow]) -> String {
    let key = &group[0].key;
    slug(&format!("{}-{}-{}", set_id(group), short_size(key.block), features(key)))
}

/// Returns the tables of a group.
pub(super) fn of_group(results: &BenchResults, group: &[&BuildRow]) -> Vec<ReportTable> {
    let mut tables = vec![times(group), scaling(group), throughput(results, group)];
    tables.extend(stages(results, group));
    tables
}

/// Makes the table of seconds by threads, with a column for each codec (S0a, S1a).
fn times(group: &[&BuildRow]) -> ReportTable {
    let lines = lines(group);
    let mut threads = distinct(group.iter().map(|row| row.key.threads));
    threads.sort_unstable();
    let row = |threads: usize| {
        let first = if threads == 0 { TableValue::from("serial") } else { TableValue::Text(threads.to_string()) };
        let cells = lines.iter().map(|line| row_with(line, threads).map(|row| row.time.median).into());
        std::iter::once(first).chain(cells).collect()
    };
    let columns = lines.iter().map(|line| TableColumn::of(&format!("{} s", label(&line[0].key))));
    ReportTable {
        id: format!("builds-{}-times", group_id(group)),
        title: "Seconds by threads".into(),
        columns: std::iter::once(TableColumn::of("threads")).chain(columns).collect(),
        rows: threads.into_iter().map(row).collect(),
    }
}

/// Makes the table of speed-up and efficiency (S0b, S0c).
fn scaling(group: &[&BuildRow]) -> ReportTable {
    let lines = lines(group);
    let rows = lines.iter().flat_map(|line| {
        line.iter().map(move |row| {
            let one = SpeedupBase::One;
            let serial = SpeedupBase::Serial;
            let values = [
                row.key.tool.as_str().into(),
                row.key.codec.as_str().into(),
                TableValue::Whole(row.key.threads as u64),
                TableValue::Number(row.time.median),
                row.speed().into(),
                one.speedup(line, row).into(),
                serial.speedup(line, row).into(),
                one.efficiency(line, row).into(),
                serial.efficiency(line, row).into(),
            ];
            (values, *row)
        })
    });
    let columns =
        ["program", "codec", "threads", "s", "MB/s", "T(1)/T(n)", "T(serial)/T(n)", "efficiency", "to serial"]
            .map(TableColumn::of);
    let title = "Speed-up and efficiency, relative to one thread and to the serial run; 0 threads is serial";
    let table = trial_table(&format!("builds-{}-scaling", group_id(group)), title, columns, rows);
    packing::beside_builds(table, &lines.concat())
}

/// Makes the table of the highest throughput (S0d).
fn throughput(results: &BenchResults, group: &[&BuildRow]) -> ReportTable {
    let row = |best: &&BuildRow| {
        let tar = tar_bytes(results, best).map(|bytes| bytes as f64 / 1e6 / best.time.median);
        let key = &best.key;
        let threads = TableValue::Whole(key.threads as u64);
        vec![key.tool.as_str().into(), key.codec.as_str().into(), threads, best.speed().into(), tar.into()]
    };
    let columns = ["program", "codec", "threads", "files MB/s", "tar MB/s"];
    let best: Vec<&BuildRow> = lines(group).iter().filter_map(|line| fastest(line)).collect();
    let id = format!("builds-{}-throughput", group_id(group));
    let rows = best.iter().map(row).collect();
    packing::beside_throughput(table(&id, "Most throughput: bytes for the least time", columns, rows), &best)
}

/// Makes the table of the stages of packfs, with the prediction of the model.
fn stages(results: &BenchResults, group: &[&BuildRow]) -> Option<ReportTable> {
    let row = |line: &Vec<&BuildRow>| {
        let (model, threads) = fit_model(results, line)?;
        let mut row: Vec<TableValue> = vec![line[0].key.codec.as_str().into(), TableValue::Whole(threads as u64)];
        let parts = [model.serial, model.order, model.writing(), model.read, model.compute];
        row.extend(parts.map(TableValue::Number));
        row.extend([TableValue::Number(100.0 * model_error(&model, line)), model.enough().into()]);
        let far = model.seconds(MANY_THREADS);
        row.extend([
            TableValue::Number(far),
            speedup(model.seconds(1), far).into(),
            model.limit(MANY_THREADS).words().into(),
        ]);
        Some(row)
    };
    let rows: Vec<Vec<TableValue>> = lines(group).iter().filter_map(row).collect();
    let columns = [
        TableColumn::of("codec"),
        TableColumn::of("fitted at"),
        TableColumn::of("serial s"),
        TableColumn::of("order s"),
        TableColumn::of("write s"),
        TableColumn::of("read s"),
        TableColumn::of("compress s"),
        TableColumn::of("off by %"),
        TableColumn::of("enough threads"),
        TableColumn::of("s at 64"),
        TableColumn::of("speed-up at 64"),
        TableColumn::wide("limit at 64"),
    ];
    let title = "Stages of packfs, all threads together, and the model at 64 threads";
    (!rows.is_empty()).then(|| table(&format!("builds-{}-model", group_id(group)), title, columns, rows))
}

/// Returns the tables of a set.
pub(super) fn of_set(results: &BenchResults, set: &[&BuildRow]) -> Vec<ReportTable> {
    let mut tables = vec![sizes(results, set)];
    tables.extend(gains(set));
    tables.extend(peers(set));
    tables
}

/// Makes the table of image sizes (S0f, S1b, S4a, S4h).
fn sizes<'r>(results: &BenchResults, set: &[&'r BuildRow]) -> ReportTable {
    // `speedup` is a quotient that is blank if the divisor is 0.
    let ratio = |made: u64, of: Option<u64>| TableValue::from(of.and_then(|of| speedup(made as f64, of as f64)));
    let row = |line: &Vec<&BuildRow>| {
        let row = line[0];
        vec![
            row.key.tool.as_str().into(),
            row.key.codec.as_str().into(),
            TableValue::Text(short_size(row.key.block)),
            features(&row.key).into(),
            TableValue::Whole(row.made),
            row.ratio().into(),
            ratio(row.made, uncompressed(set, row).map(|row| row.made)),
            ratio(row.made, tar_bytes(results, row)),
        ]
    };
    let mut lines = lines(set);
    lines.sort_by_key(|line| line[0].made);
    let columns = ["program", "codec", "block", "features", "bytes", "to files", "to uncompressed", "to tar"];
    let id = format!("builds-{}-sizes", set_id(set));
    let rows = lines.iter().map(row).collect();
    let first: Vec<&'r BuildRow> = lines.iter().map(|line| line[0]).collect();
    let table = packing::beside_sizes(table(&id, "Sizes of images", columns, rows), &first);
    let settings = |row: &&'r BuildRow| images::ImageSettings {
        format: &row.key.format,
        codec: &row.key.codec,
        block: row.key.block,
    };
    images::beside_sizes(table, first.iter().map(settings))
}

/// Makes the table of gains and costs of features: each line relative to the one without features, with the largest
/// number of threads that both have.
fn gains(set: &[&BuildRow]) -> Option<ReportTable> {
    let all = lines(set);
    let mut rows = Vec::new();
    for line in &all {
        let key = &line[0].key;
        let plain = all.iter().find(|other| {
            let other = &other[0].key;
            (&other.tool, &other.codec, other.block, other.features.as_str()) == (&key.tool, &key.codec, key.block, "")
        });
        let Some(plain) = plain.filter(|_| !key.features.is_empty()) else { continue };
        let threads = line.iter().rev().map(|row| row.key.threads).find(|threads| row_with(plain, *threads).is_some());
        let Some((row, base)) = threads.and_then(|n| row_with(line, n).zip(row_with(plain, n))) else { continue };
        let efficiency = |line: &[&BuildRow], row: &BuildRow| TableValue::from(SpeedupBase::One.efficiency(line, row));
        rows.push(vec![
            key.tool.as_str().into(),
            key.codec.as_str().into(),
            TableValue::Text(short_size(key.block)),
            features(key).into(),
            TableValue::Whole(row.key.threads as u64),
            speedup(row.made as f64, base.made as f64).into(),
            speedup(row.time.median, base.time.median).into(),
            efficiency(line, row),
            efficiency(plain, base),
        ]);
    }
    let columns =
        ["program", "codec", "block", "features", "threads", "size x", "time x", "efficiency", "efficiency plain"];
    let title = "Features against plain images: size and time as factors";
    (!rows.is_empty()).then(|| table(&format!("builds-{}-features", set_id(set)), title, columns, rows))
}

/// Makes the table that compares packfs with other programs at the same work.
fn peers(set: &[&BuildRow]) -> Option<ReportTable> {
    let mut rows = Vec::new();
    for peer in set.iter().filter(|row| !is_packfs(&row.key)) {
        let Some(own) = same_work(set, peer) else { continue };
        rows.push(vec![
            peer.key.tool.as_str().into(),
            peer.key.codec.as_str().into(),
            TableValue::Text(short_size(peer.key.block)),
            features(&peer.key).into(),
            TableValue::Whole(peer.key.threads as u64),
            TableValue::Number(peer.time.median),
            TableValue::Number(own.time.median),
            speedup(peer.time.median, own.time.median).into(),
            speedup(peer.made as f64, own.made as f64).into(),
            peer.peak_memory.zip(own.peak_memory).and_then(|(peer, own)| speedup(peer as f64, own as f64)).into(),
        ]);
    }
    let columns = ["program", "codec", "block", "features", "threads", "s", "packfs s", "time x", "size x", "memory x"];
    let title = "Other programs at the same work; x is how many times what packfs takes";
    (!rows.is_empty()).then(|| table(&format!("builds-{}-peers", set_id(set)), title, columns, rows))
}

/// Returns packfs's row for the same work as a peer's row.
pub(super) fn same_work<'r>(set: &[&'r BuildRow], peer: &BuildRow) -> Option<&'r BuildRow> {
    let work = |row: &BuildRow| {
        let key = &row.key;
        (key.codec.clone(), key.block, key.features.clone(), key.threads)
    };
    set.iter().copied().find(|row| is_packfs(&row.key) && work(row) == work(peer))
}
