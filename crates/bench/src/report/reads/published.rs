//! What the EROFS project published, beside what was measured here: other hardware, other data and other versions, so
//! the comparison is one of orders of magnitude, and of who is ahead of whom.
//!
//! The figures are those of the page PERFORMANCE.md of erofs-utils 1.8: Linux 6.2, a cloud disk, 2 processors; LZ4HC at
//! level 12, images of mksquashfs and mkfs.erofs; a Debian root of 7,000 files, and for fio one file of 203 MiB.

use super::super::model::{Section, Table, Value, size};
use super::super::shape::table;
use super::{Group, Image, PATTERNS, WORKS, groups};
use crate::read::NONE;
use crate::results::Results;

/// Format, size of blocks (0: not compressed), and a value for each column of a table.
type Line<const N: usize> = (&'static str, usize, [f64; N]);

/// S4b to S4g, milliseconds in the order of [`WORKS`].
const TIMES: [Line<6>; 6] = [
    ("squashfs", 0, [1034.0, 129.2, 1083.0, 741.3, 12_543.0, 7961.0]),
    ("erofs", 0, [1111.0, 419.6, 237.8, 197.8, 1493.0, 125.8]),
    ("squashfs", 4096, [10_257.0, 142.5, 1386.0, 817.0, 20_668.0, 8905.0]),
    ("erofs", 4096, [848.1, 75.5, 249.6, 63.1, 1223.0, 661.2]),
    ("squashfs", 131_072, [941.3, 125.4, 1067.0, 801.0, 11_753.0, 9212.0]),
    ("erofs", 131_072, [724.2, 65.8, 189.6, 60.7, 598.2, 119.6]),
];

/// S4i to S4k, MiB a second in the order of [`PATTERNS`].
const SPEEDS: [Line<3>; 8] = [
    ("squashfs", 4096, [12.5, 6.66, 4.27]),
    ("erofs", 4096, [569.0, 33.7, 13.0]),
    ("squashfs", 16_384, [55.2, 49.5, 11.7]),
    ("erofs", 16_384, [600.0, 96.4, 14.7]),
    ("squashfs", 65_536, [157.0, 150.0, 13.8]),
    ("erofs", 65_536, [624.0, 198.0, 16.9]),
    ("squashfs", 131_072, [236.0, 232.0, 15.1]),
    ("erofs", 131_072, [535.0, 242.0, 19.2]),
];

/// S4a, % of the SquashFS image that is not compressed: the files themselves were others.
const SIZES: [Line<1>; 9] = [
    ("erofs", 0, [100.12]),
    ("squashfs", 4096, [59.11]),
    ("erofs", 4096, [58.72]),
    ("squashfs", 16_384, [53.94]),
    ("erofs", 16_384, [52.58]),
    ("squashfs", 65_536, [49.35]),
    ("erofs", 65_536, [48.05]),
    ("squashfs", 131_072, [47.50]),
    ("erofs", 131_072, [46.99]),
];

/// The figures for which there is something measured.
pub(super) fn section(results: &Results) -> Option<Section> {
    let tables: Vec<Table> = groups(results).iter().filter_map(of_group).collect();
    (!tables.is_empty()).then(|| Section {
        title: "Published figures of reading images beside these".into(),
        sentences: vec![
            "Published by the EROFS project, on other hardware, other data and other versions: Linux 6.2 on two \
             processors and a cloud disk, LZ4HC at level 12, programs that had to be started. Sizes are relative to the \
             SquashFS image that is not compressed."
                .into(),
        ],
        charts: Vec::new(),
        tables,
    })
}

fn of_group(group: &Group<'_>) -> Option<Table> {
    let mut rows = Vec::new();
    let plain = group.images.iter().find(|image| image.is_plain() && image.key.format == "squashfs");
    let share = |image: &Image<'_>| Some(100.0 * image.len() as f64 / plain?.len() as f64);
    compare(group, &SIZES, &["size"], "%", &|image, _| share(image), &mut rows);
    let works = WORKS.map(|(work, _)| work);
    compare(group, &TIMES, &works, "ms", &|image, work| image.seconds(work).map(|time| 1e3 * time), &mut rows);
    compare(group, &SPEEDS, &PATTERNS, "MiB/s", &|image, pattern| image.fio(pattern), &mut rows);
    let columns = ["what", "unit", "format", "block", "published", "same program here", "packfs here"];
    let (id, title) = (format!("{}-published", group.id), format!("Published, and measured here: {}", group.title));
    (!rows.is_empty()).then(|| table(&id, &title, columns, rows))
}

/// Adds a row for each figure that has one measured beside it.
fn compare<const N: usize>(
    group: &Group<'_>,
    lines: &[Line<N>],
    works: &[&str],
    unit: &str,
    value: &dyn Fn(&Image<'_>, &str) -> Option<f64>,
    rows: &mut Vec<Vec<Value>>,
) {
    for (at, work) in works.iter().enumerate() {
        for (format, block, published) in lines {
            let measured = |tool: &str| {
                let mut images = group.images.iter().filter(|image| image.key.tool == tool);
                let codec = if *block == 0 { NONE } else { "lz4hc:12" };
                let same = |image: &&Image<'_>| {
                    (image.key.format.as_str(), image.key.block, image.key.codec.as_str()) == (*format, *block, codec)
                };
                images.find(same).and_then(|image| value(image, work))
            };
            let peer = if *format == "erofs" { "mkfs.erofs" } else { "mksquashfs" };
            let (theirs, ours) = (measured(peer), measured("packfs"));
            if theirs.is_none() && ours.is_none() {
                continue;
            }
            let block = if *block == 0 { Value::None } else { Value::Text(size(*block)) };
            rows.push(vec![
                (*work).into(),
                unit.into(),
                (*format).into(),
                block,
                Value::Number(published[at]),
                theirs.into(),
                ours.into(),
            ]);
        }
    }
}
