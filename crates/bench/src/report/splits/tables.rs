//! Tables of splits.

use super::super::model::{Column, Table, Value};
use super::super::published::dumps::beside_splits;
use super::super::shape::{distinct, timed};
use super::group::{Group, Row, sound, terabyte, use_of_disks, way_of};
use crate::metrics::{efficiency, speedup};
use crate::split::{Profile, ranges, shared};

/// Returns the mail's table and the derived values.
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

fn details<'r>(group: &Group<'r>) -> Table {
    let row = |row: &'r Row| {
        let one = group.one(row).map(|one| one.time.median);
        let stage = |name: &str| row.stages.get(name).map(|seconds| 100.0 * seconds / row.time.median);
        let values = [
            Value::Text(way_of(row)),
            Value::Whole(row.key.outputs as u64),
            Value::Number(row.time.median),
            row.speed().into(),
            one.and_then(|one| speedup(one, row.time.median)).into(),
            one.and_then(|one| efficiency(one, row.time.median, row.key.outputs)).into(),
            use_of_disks(row, &group.profile).map(|share| 100.0 * share).into(),
            terabyte(row).into(),
            row.ratio().map(|ratio| 100.0 * ratio).into(),
            stage("wait_for_parts").into(),
            stage("wait_for_chunks").into(),
        ];
        (values, row)
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
        Column::wide("waited for disks %"),
        Column::wide("waited for data %"),
    ];
    let title = format!("{}: speed", group.title());
    let rows = group.rows.iter().copied().map(row);
    beside_splits(timed(&format!("split-{}-speed", group.id()), &title, columns, rows), &group.rows)
}

/// Table of uneven disks, with the computed times of ranges of equal length and of disks that are always busy (S2d).
pub(super) fn uneven<'r>(rows: &[(Profile, &'r Row)]) -> Table {
    let row = |(profile, row): &(Profile, &'r Row)| {
        let disks = sound(row, profile);
        let ranges = disks.as_ref().map(|disks| ranges(disks, row.made));
        let values = [
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
        ];
        (values, *row)
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
    ];
    let title = "Splitting over disks that differ; SPEED@MB is a disk that fails after MB megabytes";
    timed("split-uneven", title, columns, rows.iter().map(row))
}

/// Table of joining and checking (S2d).
pub(super) fn restored<'r>(rows: &[&'r Row]) -> Table {
    let row = |row: &&'r Row| {
        let values = [
            row.key.data.as_str().into(),
            row.key.work.as_str().into(),
            row.key.codec.as_str().into(),
            Value::Whole(row.key.outputs as u64),
            Value::Number(row.time.median),
            row.speed().into(),
        ];
        (values, *row)
    };
    let columns = [
        Column::of("data"),
        Column::of("work"),
        Column::of("codec"),
        Column::of("parts"),
        Column::of("s"),
        Column::of("MB/s"),
    ];
    timed("split-restored", "Joining and checking dumps", columns, rows.iter().map(row))
}
