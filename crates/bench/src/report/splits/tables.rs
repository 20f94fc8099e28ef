//! The tables of splits.

use super::super::model::{Column, Table, Value};
use super::super::shape::{distinct, table};
use super::{Group, Row, sound, terabyte, use_of_disks, way_of};
use crate::metrics::{efficiency, speedup};
use crate::split::{Profile, ranges, shared};

/// The mail's table, and all that follows from it.
pub(super) fn of_group(group: &Group<'_>) -> Vec<Table> {
    vec![times(group), details(group)]
}

/// Seconds by outputs and codecs, in the form of the mail (S2a to S2c).
fn times(group: &Group<'_>) -> Table {
    let ways = distinct(group.rows.iter().map(|row| way_of(row)));
    let row = |outputs: usize| {
        let seconds = ways.iter().map(|way| group.at(way, outputs).map(|row| row.time.median).into());
        std::iter::once(Value::Whole(outputs as u64)).chain(seconds).collect()
    };
    Table {
        id: format!("split-{}", group.id()),
        title: format!("{}: seconds by outputs", group.title()),
        columns: std::iter::once("outputs").chain(ways.iter().map(String::as_str)).map(Column::of).collect(),
        rows: group.outputs().into_iter().map(row).collect(),
    }
}

fn details(group: &Group<'_>) -> Table {
    let row = |row: &&Row| {
        let one = group.one(row).map(|one| one.time.median);
        let stage = |name: &str| row.stages.get(name).map(|seconds| 100.0 * seconds / row.time.median);
        vec![
            Value::Text(way_of(row)),
            Value::Whole(row.key.outputs as u64),
            Value::Number(row.time.median),
            row.speed().into(),
            one.and_then(|one| speedup(one, row.time.median)).into(),
            one.and_then(|one| efficiency(one, row.time.median, row.key.outputs)).into(),
            use_of_disks(row, &group.profile).map(|share| 100.0 * share).into(),
            terabyte(row).into(),
            row.ratio().map(|ratio| 100.0 * ratio).into(),
            Value::Number(row.cpu),
            row.peak_memory.map_or(Value::None, |bytes| Value::Whole(bytes >> 20)),
            stage("wait_for_parts").into(),
            stage("wait_for_chunks").into(),
            Value::Number(100.0 * row.time.spread()),
            Value::Whole(row.time.count as u64),
        ]
    };
    let columns = [
        Column::of("codec"),
        Column::of("outputs"),
        Column::of("s"),
        Column::of("MB/s"),
        Column::of("speed-up"),
        Column::of("efficiency"),
        Column::of("of the disks %"),
        Column::of("1 TB min"),
        Column::of("size %"),
        Column::wide("CPU s"),
        Column::wide("peak MiB"),
        Column::wide("waited for disks %"),
        Column::wide("waited for data %"),
        Column::of("spread %"),
        Column::wide("runs"),
    ];
    let title = format!("{}: speed", group.title());
    table(&format!("split-{}-speed", group.id()), &title, columns, group.rows.iter().map(row).collect())
}

/// Disks of different speeds, beside what ranges of equal length would give, and all disks at work until the end (S2d).
pub(super) fn uneven(rows: &[(Profile, &Row)]) -> Table {
    let row = |(profile, row): &(Profile, &Row)| {
        let disks = sound(row, profile);
        let ranges = disks.as_ref().map(|disks| ranges(disks, row.made));
        vec![
            row.key.data.as_str().into(),
            row.key.disks.as_str().into(),
            Value::Text(way_of(row)),
            Value::Number(row.time.median),
            row.speed().into(),
            disks.map(|disks| shared(&disks, row.made)).into(),
            ranges.into(),
            ranges.map(|ranges| ranges / row.time.median).into(),
            use_of_disks(row, profile).map(|share| 100.0 * share).into(),
            terabyte(row).into(),
            row.ratio().map(|ratio| 100.0 * ratio).into(),
            Value::Number(100.0 * row.time.spread()),
            Value::Whole(row.time.count as u64),
        ]
    };
    let columns = [
        Column::of("data"),
        Column::of("disks MB/s"),
        Column::of("codec"),
        Column::of("s"),
        Column::of("MB/s"),
        Column::of("all disks s"),
        Column::of("equal ranges s"),
        Column::of("times ranges"),
        Column::of("of the disks %"),
        Column::wide("1 TB min"),
        Column::wide("size %"),
        Column::of("spread %"),
        Column::wide("runs"),
    ];
    let title = "Splitting over disks that differ; speed@MB is a disk that fails after so many";
    table("split-uneven", title, columns, rows.iter().map(row).collect())
}

/// Joining and checking (S2d).
pub(super) fn restored(rows: &[&Row]) -> Table {
    let row = |row: &&Row| {
        vec![
            row.key.data.as_str().into(),
            row.key.work.as_str().into(),
            row.key.codec.as_str().into(),
            Value::Whole(row.key.outputs as u64),
            Value::Number(row.time.median),
            row.speed().into(),
            Value::Number(row.cpu),
            row.peak_memory.map_or(Value::None, |bytes| Value::Whole(bytes >> 20)),
            Value::Number(100.0 * row.time.spread()),
            Value::Whole(row.time.count as u64),
        ]
    };
    let columns = [
        Column::of("data"),
        Column::of("work"),
        Column::of("codec"),
        Column::of("parts"),
        Column::of("s"),
        Column::of("MB/s"),
        Column::of("CPU s"),
        Column::wide("peak MiB"),
        Column::of("spread %"),
        Column::wide("runs"),
    ];
    table("split-restored", "Joining and checking dumps", columns, rows.iter().map(row).collect())
}
