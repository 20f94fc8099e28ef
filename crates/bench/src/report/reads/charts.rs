//! Charts of reads.

use super::super::commands;
use super::super::model::{ChartForm, ChartPoint, ChartSeries, ChartX, ReportChart};
use super::super::shape::{axis, distinct, guide, name_x, series, slug};
use super::group::{ImageReads, ReadGroup};
use crate::read::{FIO, KERNEL};
use crate::results::ReadRow;
use crate::units::short_size;

/// Makes the chart of image sizes.
pub(super) fn sizes(group: &ReadGroup<'_>) -> Option<ReportChart> {
    let sizes = |image: &ImageReads<'_>, x: ChartX| Some(ChartPoint::from((x, image.len() as f64 / 1e6)));
    by_block(group, "size", "Sizes of images", "MB", &sizes)
}

/// Makes the chart of a kernel read.
pub(super) fn of_work(group: &ReadGroup<'_>, work: &str) -> Option<ReportChart> {
    let times = |image: &ImageReads<'_>, x: ChartX| {
        let time = image.row(KERNEL, work)?.time;
        Some(ChartPoint::from((x, 1e3 * time.median)).costing(&time))
    };
    by_block(group, work, &format!("Kernel, {work}"), "ms", &times)
}

/// Makes the chart of a pattern of fio.
pub(super) fn of_pattern(group: &ReadGroup<'_>, pattern: &str) -> Option<ReportChart> {
    let speeds = |image: &ImageReads<'_>, x: ChartX| {
        Some(ChartPoint::from((x, image.fio(pattern)?)).gaining(&image.row(FIO, pattern)?.time))
    };
    by_block(group, &format!("fio-{pattern}"), &format!("fio, {pattern}"), "MiB/s", &speeds)
}

/// Returns a line for each kind of image; uncompressed ones are guides. Returns bars if there is only one block size.
fn by_block(
    group: &ReadGroup<'_>,
    id: &str,
    title: &str,
    unit: &str,
    value: &dyn Fn(&ImageReads<'_>, ChartX) -> Option<ChartPoint>,
) -> Option<ReportChart> {
    let named = |image| Some((image, value(image, name_x(&image.name()))?));
    let valued: Vec<(&ImageReads<'_>, ChartPoint)> = group.images.iter().filter_map(named).collect();
    let mut blocks = distinct(valued.iter().map(|(image, _)| image.key.block).filter(|block| *block > 0));
    blocks.sort_unstable();
    let (kind, x, all) = match blocks.len() {
        0 | 1 => {
            let bars = series(unit, valued.iter().map(|(_, point)| point.clone()));
            (ChartForm::Bars, "image", vec![bars])
        }
        _ => (ChartForm::Lines, "block", lines(&valued, &blocks)),
    };
    (!valued.is_empty()).then(|| ReportChart {
        band: None,
        id: format!("{}-{}", group.id, slug(id)),
        title: format!("{title}: {}", group.title),
        x: axis(x, false),
        y: axis(unit, kind == ChartForm::Lines && id != "size"),
        kind,
        series: all,
    })
}

fn lines(valued: &[(&ImageReads<'_>, ChartPoint)], blocks: &[usize]) -> Vec<ChartSeries> {
    let families = distinct(valued.iter().map(|(image, _)| image.family()));
    let mut all = Vec::new();
    for family in families {
        let members = || valued.iter().filter(|(image, _)| image.family() == family);
        let at = |block: usize| members().find(|(image, _)| image.key.block == block).map(|(_, point)| point);
        let Some((first, _)) = members().next() else { continue };
        let placed = |block: usize, point: &ChartPoint| ChartPoint { x: name_x(&short_size(block)), ..point.clone() };
        let line = match at(0) {
            Some(plain) => guide(&first.label(), blocks.iter().map(|block| placed(*block, plain))),
            None => series(&first.label(), blocks.iter().filter_map(|block| Some(placed(*block, at(*block)?)))),
        };
        all.push(ChartSeries { hollow: first.key.format == "erofs", ..line });
    }
    // The series with the most block sizes comes first, so that the axis has them in order.
    all.sort_by_key(|series| std::cmp::Reverse(series.points.len()));
    all
}

/// Makes the chart of programs, with a bar for each image and a series for each program and its task (S0e).
pub(super) fn programs(group: &ReadGroup<'_>) -> Option<ReportChart> {
    let rows = || group.images.iter().flat_map(|image| image.programs().map(move |row| (image, row)));
    let readers = distinct(rows().map(|(_, row)| (&row.key.reader, &row.key.work)));
    let point = |image: &ImageReads<'_>, row: &ReadRow| {
        let point = ChartPoint::from((name_x(&image.name()), row.speed()?)).gaining(&row.time);
        Some(point.with_command(commands::read(&row.key)))
    };
    let bars = |(reader, work): &(&String, &String)| {
        let own = rows().filter(|(_, row)| (&row.key.reader, &row.key.work) == (reader, work));
        series(&format!("{reader} {work}"), own.filter_map(|(image, row)| point(image, row)))
    };
    let all: Vec<ChartSeries> = readers.iter().map(bars).filter(|series| !series.points.is_empty()).collect();
    (!all.is_empty()).then(|| ReportChart {
        band: None,
        id: format!("{}-program-speeds", group.id),
        title: format!("Whole images read by programs: {}", group.title),
        x: axis("image", false),
        y: axis("MB/s", false),
        kind: ChartForm::Bars,
        series: all,
    })
}
