//! Tables of reads.

use super::super::model::{ReportTable, TableColumn, TableValue};
use super::super::published::{images, packing};
use super::super::shape::{spread_percent, trial_table};
use super::group::{ImageReads, PATTERNS, ReadGroup, WORKS};
use crate::read::{FIO, KERNEL};
use crate::units::short_size;

/// Returns the columns that identify an image.
fn image_columns() -> [TableColumn; 5] {
    let features = TableColumn::wide("features");
    [TableColumn::of("image"), TableColumn::of("format"), TableColumn::of("codec"), TableColumn::of("block"), features]
}

/// Returns the values in these columns.
fn image_values(image: &ImageReads<'_>) -> [TableValue; 5] {
    let key = image.key;
    let block = if key.block == 0 { TableValue::None } else { TableValue::Text(short_size(key.block)) };
    [image.maker().into(), key.format.as_str().into(), key.codec.as_str().into(), block, key.features.as_str().into()]
}

/// Creates a table of images.
fn image_table(
    group: &ReadGroup<'_>,
    id: &str,
    title: &str,
    more: Vec<TableColumn>,
    rows: Vec<Vec<TableValue>>,
) -> ReportTable {
    ReportTable {
        id: format!("{}-{id}", group.id),
        title: format!("{title}: {}", group.title),
        columns: image_columns().into_iter().chain(more).collect(),
        rows,
    }
}

/// Makes the table of sizes (S4a, S4h).
pub(super) fn sizes(group: &ReadGroup<'_>) -> ReportTable {
    let row = |image: &ImageReads<'_>| {
        let share = image.bytes().map(|bytes| 100.0 * image.len() as f64 / bytes as f64);
        let plain = group.uncompressed(image).map(ImageReads::len).filter(|len| *len > 0);
        let ratio = plain.map(|plain| image.len() as f64 / plain as f64);
        image_values(image).into_iter().chain([TableValue::Whole(image.len()), share.into(), ratio.into()]).collect()
    };
    let columns = ["bytes", "% of the files", "x uncompressed"].map(TableColumn::of).into();
    let table = image_table(group, "sizes", "Sizes of images", columns, group.images.iter().map(row).collect());
    let keys = group.images.iter().map(|image| image.key);
    let settings = keys.map(|key| images::ImageSettings { format: &key.format, codec: &key.codec, block: key.block });
    images::beside_sizes(table, settings)
}

/// Makes the table of kernel reads in milliseconds (S4b to S4g).
pub(super) fn times(group: &ReadGroup<'_>) -> ReportTable {
    let columns = WORKS.iter().map(|(work, _)| TableColumn::of(&format!("{work} ms")));
    let spreads = WORKS.iter().map(|(work, _)| TableColumn::wide(&format!("{work} spread %")));
    let row = |image: &ImageReads<'_>| {
        let rows = || WORKS.iter().map(|(work, _)| image.row(KERNEL, work));
        let times = rows().map(|row| row.map(|row| 1e3 * row.time.median).into());
        let spreads = rows().map(|row| row.map_or(TableValue::None, |row| spread_percent(&row.time)));
        let runs = rows().flatten().map(|row| row.time.count as u64).min().map_or(TableValue::None, TableValue::Whole);
        image_values(image).into_iter().chain(times).chain(spreads).chain([runs]).collect()
    };
    let read = || group.images.iter().filter(|image| WORKS.iter().any(|(work, _)| image.row(KERNEL, work).is_some()));
    let columns = columns.chain(spreads).chain([TableColumn::wide("runs")]).collect();
    let table = image_table(group, "times", "Times of the kernel", columns, read().map(row).collect());
    images::beside_reads(table, &WORKS.map(|(work, _)| work), read().map(|image| image.key))
}

/// Makes the table of kernel reads of data in MB/s.
pub(super) fn speeds(group: &ReadGroup<'_>) -> ReportTable {
    let works = || WORKS.iter().map(|(work, _)| *work).filter(|work| work.ends_with(" data"));
    let columns = works().map(|work| TableColumn::of(&format!("{work} MB/s"))).collect();
    let row = |image: &ImageReads<'_>| {
        let speeds = works().map(|work| image.row(KERNEL, work).and_then(|row| row.speed()).into());
        image_values(image).into_iter().chain(speeds).collect()
    };
    let read = group.images.iter().filter(|image| works().any(|work| image.row(KERNEL, work).is_some()));
    image_table(group, "speeds", "Speeds of the kernel", columns, read.map(row).collect())
}

/// Makes the table of reads by fio in MiB/s, the unit of fio (S4i to S4k).
pub(super) fn fio(group: &ReadGroup<'_>) -> ReportTable {
    let columns = PATTERNS.iter().map(|pattern| TableColumn::of(&format!("{pattern} MiB/s")));
    let spreads = PATTERNS.iter().map(|pattern| TableColumn::wide(&format!("{pattern} spread %")));
    let row = |image: &ImageReads<'_>| {
        let speeds = PATTERNS.iter().map(|pattern| image.fio(pattern).into());
        let rows = PATTERNS.iter().map(|pattern| image.row(FIO, pattern));
        let spreads = rows.map(|row| row.map_or(TableValue::None, |row| spread_percent(&row.time)));
        image_values(image).into_iter().chain(speeds).chain(spreads).collect()
    };
    let read = || group.images.iter().filter(|image| PATTERNS.iter().any(|pattern| image.fio(pattern).is_some()));
    let columns = columns.chain(spreads).collect();
    let rows = read().map(row).collect();
    let table = image_table(group, "fio", "fio on one file, 4 KiB at a time", columns, rows);
    images::beside_reads(table, &PATTERNS, read().map(|image| image.key))
}

/// Makes the table of reads by programs (S0e).
pub(super) fn programs(group: &ReadGroup<'_>) -> ReportTable {
    let rows = group.images.iter().flat_map(|image| {
        image.programs().map(move |row| {
            let plain = group.uncompressed(image).and_then(|plain| plain.row(&row.key.reader, &row.key.work));
            let relative = row.speed().zip(plain.and_then(|plain| plain.speed())).map(|(speed, plain)| speed / plain);
            let [maker, format, codec, block, features] = image_values(image);
            let reader = row.key.reader.as_str().into();
            let work = row.key.work.as_str().into();
            let seconds = TableValue::Number(row.time.median);
            let speed = row.speed().into();
            ([maker, format, codec, block, features, reader, work, seconds, speed, relative.into()], row)
        })
    });
    let [maker, format, codec, block, features] = image_columns();
    let [reader, work, seconds, speed, relative] =
        ["reader", "work", "s", "MB/s", "x uncompressed"].map(TableColumn::of);
    let columns = [maker, format, codec, block, features, reader, work, seconds, speed, relative];
    let title = format!("Whole images read by programs: {}", group.title);
    let table = trial_table(&format!("{}-programs", group.id), &title, columns, rows);
    packing::beside_programs(table, group.images.iter().flat_map(ImageReads::programs))
}
