//! The charts of reading images.

use super::super::model::{Chart, Kind, Series, X};
use super::super::shape::{axis, distinct, guide, name, series, slug};
use super::group::{Group, Image, PATTERNS, WORKS};
use crate::units::size;

/// Size, every work of the kernel and of fio by the size of blocks; and what programs do.
pub(super) fn of_group(group: &Group<'_>) -> Vec<Chart> {
    let mut charts = Vec::new();
    let sizes = |image: &Image<'_>| Some(image.len() as f64 / 1e6);
    charts.extend(by_block(group, "size", "Sizes of images", "MB", &sizes));
    for (work, _) in WORKS {
        let times = |image: &Image<'_>| image.seconds(work).map(|seconds| 1e3 * seconds);
        charts.extend(by_block(group, work, &format!("Kernel, {work}"), "ms", &times));
    }
    for pattern in PATTERNS {
        let speeds = |image: &Image<'_>| image.fio(pattern);
        charts.extend(by_block(group, &format!("fio-{pattern}"), &format!("fio, {pattern}"), "MiB/s", &speeds));
    }
    charts.extend(programs(group));
    charts
}

/// A line for each kind of image; those that are not compressed are guides. With a single size of blocks, bars.
fn by_block(
    group: &Group<'_>,
    id: &str,
    title: &str,
    unit: &str,
    value: &dyn Fn(&Image<'_>) -> Option<f64>,
) -> Option<Chart> {
    let valued: Vec<(&Image<'_>, f64)> = group.images.iter().filter_map(|image| Some((image, value(image)?))).collect();
    let mut blocks = distinct(valued.iter().map(|(image, _)| image.key.block).filter(|block| *block > 0));
    blocks.sort_unstable();
    let (kind, x, all) = match blocks.len() {
        0 | 1 => {
            let bars = series(unit, valued.iter().map(|(image, value)| (name(&image.name()), *value)));
            (Kind::Bars, "image", vec![bars])
        }
        _ => (Kind::Lines, "block", lines(&valued, &blocks)),
    };
    (!valued.is_empty()).then(|| Chart {
        id: format!("{}-{}", group.id, slug(id)),
        title: format!("{title}: {}", group.title),
        x: axis(x, false),
        y: axis(unit, kind == Kind::Lines && id != "size"),
        kind,
        series: all,
    })
}

fn lines(valued: &[(&Image<'_>, f64)], blocks: &[usize]) -> Vec<Series> {
    let families = distinct(valued.iter().map(|(image, _)| image.family()));
    let mut all = Vec::new();
    for family in families {
        let of = || valued.iter().filter(|(image, _)| image.family() == family);
        let at = |block: usize| of().find(|(image, _)| image.key.block == block).map(|(_, value)| *value);
        match at(0) {
            Some(plain) => all.push(guide(&family, blocks.iter().map(|block| (name(&size(*block)), plain)))),
            None => {
                let points = blocks.iter().filter_map(|block| Some((X::Name(size(*block)), at(*block)?)));
                all.push(series(&family, points));
            }
        }
    }
    // What is measured at every size comes first, so that the axis has the sizes in their order.
    all.sort_by_key(|series| std::cmp::Reverse(series.x.len()));
    all
}

/// S0e: a bar for each image, a series for each program and what it does.
fn programs(group: &Group<'_>) -> Option<Chart> {
    let rows = || group.images.iter().flat_map(|image| image.programs().map(move |row| (image, row)));
    let readers = distinct(rows().map(|(_, row)| (&row.key.reader, &row.key.work)));
    let of = |(reader, work): &(&String, &String)| {
        let own = rows().filter(|(_, row)| (&row.key.reader, &row.key.work) == (reader, work));
        series(&format!("{reader} {work}"), own.filter_map(|(image, row)| Some((name(&image.name()), row.speed()?))))
    };
    let all: Vec<Series> = readers.iter().map(of).filter(|series| !series.y.is_empty()).collect();
    (!all.is_empty()).then(|| Chart {
        id: format!("{}-program-speeds", group.id),
        title: format!("Whole images read by programs: {}", group.title),
        x: axis("image", false),
        y: axis("MB/s", false),
        kind: Kind::Bars,
        series: all,
    })
}
