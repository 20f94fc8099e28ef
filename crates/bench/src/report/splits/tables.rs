//! Tables of splits.

use super::super::model::{ReportTable, TableColumn, TableValue};
use super::super::published::dumps::beside_splits;
use super::super::shape::{distinct, trial_table};
use super::group::{SplitGroup, intact_disks, row_label, terabyte_minutes, use_of_disks};
use crate::metrics::{efficiency, speedup};
use crate::results::SplitRow;
use crate::split::{DiskProfile, seconds_in_ranges, seconds_shared};

/// Makes the table of seconds by outputs and codecs, in the form of the mail (S2a to S2c).
pub(super) fn times(group: &SplitGroup<'_>) -> ReportTable {
    let labels = distinct(group.rows.iter().map(|row| row_label(row)));
    let row = |outputs: usize| {
        let seconds = labels.iter().map(|label| group.row_with(label, outputs).map(|row| row.time.median).into());
        std::iter::once(TableValue::Whole(outputs as u64)).chain(seconds).collect()
    };
    ReportTable {
        id: format!("split-{}", group.id()),
        title: format!("{}: seconds by outputs", group.title()),
        columns: std::iter::once("outputs").chain(labels.iter().map(String::as_str)).map(TableColumn::of).collect(),
        rows: group.outputs().into_iter().map(row).collect(),
    }
}

/// Makes the table of values derived from the times.
pub(super) fn details<'r>(group: &SplitGroup<'r>) -> ReportTable {
    let row = |row: &'r SplitRow| {
        let one = group.with_one_output(row).map(|one| one.time.median);
        let stage = |name: &str| row.stages.get(name).map(|seconds| 100.0 * seconds / row.time.median);
        let values = [
            TableValue::Text(row_label(row)),
            TableValue::Whole(row.key.outputs as u64),
            TableValue::Number(row.time.median),
            row.speed().into(),
            one.and_then(|one| speedup(one, row.time.median)).into(),
            one.and_then(|one| efficiency(one, row.time.median, row.key.outputs)).into(),
            use_of_disks(row, &group.profile).map(|share| 100.0 * share).into(),
            terabyte_minutes(row).into(),
            row.ratio().map(|ratio| 100.0 * ratio).into(),
            stage("wait_for_parts").into(),
            stage("wait_for_chunks").into(),
        ];
        (values, row)
    };
    let columns = [
        TableColumn::of("codec"),
        TableColumn::of("outputs"),
        TableColumn::of("s"),
        TableColumn::of("MB/s"),
        TableColumn::of("speed-up"),
        TableColumn::of("efficiency"),
        TableColumn::of("of the disks %"),
        TableColumn::of("1 TB min"),
        TableColumn::of("size %"),
        TableColumn::wide("waited for disks %"),
        TableColumn::wide("waited for data %"),
    ];
    let title = format!("{}: speed", group.title());
    let rows = group.rows.iter().copied().map(row);
    beside_splits(trial_table(&format!("split-{}-speed", group.id()), &title, columns, rows), &group.rows)
}

/// Makes the table of uneven disks, with the computed times of ranges of equal length and of disks that are always
/// busy (S2d).
pub(super) fn uneven<'r>(rows: &[(DiskProfile, &'r SplitRow)]) -> ReportTable {
    let row = |(profile, row): &(DiskProfile, &'r SplitRow)| {
        let disks = intact_disks(row, profile);
        let ranges = disks.as_ref().map(|disks| seconds_in_ranges(disks, row.made));
        let values = [
            row.key.data.as_str().into(),
            row.key.disks.as_str().into(),
            TableValue::Text(row_label(row)),
            TableValue::Number(row.time.median),
            row.speed().into(),
            disks.map(|disks| seconds_shared(&disks, row.made)).into(),
            ranges.into(),
            ranges.map(|ranges| ranges / row.time.median).into(),
            use_of_disks(row, profile).map(|share| 100.0 * share).into(),
            terabyte_minutes(row).into(),
            row.ratio().map(|ratio| 100.0 * ratio).into(),
        ];
        (values, *row)
    };
    let columns = [
        TableColumn::of("data"),
        TableColumn::of("disks MB/s"),
        TableColumn::of("codec"),
        TableColumn::of("s"),
        TableColumn::of("MB/s"),
        TableColumn::of("all disks s"),
        TableColumn::of("equal ranges s"),
        TableColumn::of("times ranges"),
        TableColumn::of("of the disks %"),
        TableColumn::wide("1 TB min"),
        TableColumn::wide("size %"),
    ];
    let title = "Splitting over disks that differ; SPEED@MB is a disk that fails after MB megabytes";
    trial_table("split-uneven", title, columns, rows.iter().map(row))
}

/// Makes the table of joining and checking (S2d).
pub(super) fn restored<'r>(rows: &[&'r SplitRow]) -> ReportTable {
    let row = |row: &&'r SplitRow| {
        let values = [
            row.key.data.as_str().into(),
            row.key.work.as_str().into(),
            row.key.codec.as_str().into(),
            TableValue::Whole(row.key.outputs as u64),
            TableValue::Number(row.time.median),
            row.speed().into(),
        ];
        (values, *row)
    };
    let columns = [
        TableColumn::of("data"),
        TableColumn::of("work"),
        TableColumn::of("codec"),
        TableColumn::of("parts"),
        TableColumn::of("s"),
        TableColumn::of("MB/s"),
    ];
    trial_table("split-restored", "Joining and checking dumps", columns, rows.iter().map(row))
}
