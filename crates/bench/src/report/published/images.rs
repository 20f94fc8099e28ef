//! The EROFS project's PERFORMANCE.md (2023): sizes of images (S4a, S4h), reading files through the kernel (S4b to
//! S4g), and one large file with fio (S4i to S4k), by cluster size, of EROFS and of SquashFS.

use super::super::model::{Chart, Column, Kind, Series, Table, Value, X, size, three};
use super::super::shape::{axis, distinct, guide, name, series, table};
use super::{Part, codec_name};
use crate::results::{Results, TrialRow};
use crate::{build, read};

/// Bytes of a cluster; 0 is uncompressed. Everything else is LZ4HC, level 12.
type Cluster = usize;
/// A cluster, and what belongs to it: of EROFS, of SquashFS.
type Pair = (Cluster, f64, f64);

/// Bytes of images of the file system of Debian's docker image.
const ROOT: [Pair; 5] = [
    (0, 124_669_952.0, 124_522_496.0),
    (4096, 73_121_792.0, 73_601_024.0),
    (16_384, 65_478_656.0, 67_162_112.0),
    (65_536, 59_834_368.0, 61_456_384.0),
    (131_072, 58_515_456.0, 59_150_336.0),
];

/// Bytes of images of silesia.tar, which is 203 MiB long.
const SILESIA: [Pair; 4] = [
    (4096, 104_972_288.0, 114_339_840.0),
    (16_384, 89_571_328.0, 98_033_664.0),
    (65_536, 80_519_168.0, 85_143_552.0),
    (131_072, 78_888_960.0, 81_211_392.0),
];
/// Bytes of silesia.tar, roughly.
const SILESIA_TAR: f64 = 203.0 * 1024.0 * 1024.0;

/// What was read, and how that is measured.
struct Reading {
    /// As in keys of readings.
    work: &'static str,
    unit: Unit,
    pairs: &'static [Pair],
}

/// What a value is in.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Seconds,
    /// MiB a second.
    Speed,
}

const READINGS: [Reading; 9] = [
    Reading {
        work: "sequential data",
        unit: Unit::Seconds,
        pairs: &[(0, 1.111, 1.034), (4096, 0.8481, 10.257), (131_072, 0.7242, 0.9413)],
    },
    Reading {
        work: "sequential metadata",
        unit: Unit::Seconds,
        pairs: &[(0, 0.4196, 0.1292), (4096, 0.0755, 0.1425), (131_072, 0.0658, 0.1254)],
    },
    Reading {
        work: "small random data",
        unit: Unit::Seconds,
        pairs: &[(0, 0.2378, 1.083), (4096, 0.2496, 1.386), (131_072, 0.1896, 1.067)],
    },
    Reading {
        work: "small random metadata",
        unit: Unit::Seconds,
        pairs: &[(0, 0.1978, 0.7413), (4096, 0.0631, 0.8170), (131_072, 0.0607, 0.8010)],
    },
    Reading {
        work: "full random data",
        unit: Unit::Seconds,
        pairs: &[(0, 1.493, 12.543), (4096, 1.223, 20.668), (131_072, 0.5982, 11.753)],
    },
    Reading {
        work: "full random metadata",
        unit: Unit::Seconds,
        pairs: &[(0, 0.1258, 7.961), (4096, 0.6612, 8.905), (131_072, 0.1196, 9.212)],
    },
    Reading {
        work: "sequential 4K",
        unit: Unit::Speed,
        pairs: &[(4096, 569.0, 12.5), (16_384, 600.0, 55.2), (65_536, 624.0, 157.0), (131_072, 535.0, 236.0)],
    },
    Reading {
        work: "random 4K",
        unit: Unit::Speed,
        pairs: &[(4096, 33.7, 6817.0 / 1024.0), (16_384, 96.4, 49.5), (65_536, 198.0, 150.0), (131_072, 242.0, 232.0)],
    },
    Reading {
        work: "random 4K of 5 %",
        unit: Unit::Speed,
        pairs: &[(4096, 13.0, 4376.0 / 1024.0), (16_384, 14.7, 11.7), (65_536, 16.9, 13.8), (131_072, 19.2, 15.1)],
    },
];

/// What the page has of a format at a cluster size.
fn figure(pairs: &[Pair], format: &str, cluster: Cluster) -> Option<f64> {
    let (_, erofs, squashfs) = pairs.iter().find(|pair| pair.0 == cluster)?;
    Some(if format == "erofs" { *erofs } else { *squashfs })
}

/// The cluster size that a row stands for on the page, if it has one.
fn cluster(codec: &str, block: usize) -> Option<Cluster> {
    match codec_name(codec) {
        "none" => Some(0),
        "lz4hc" if block > 0 => Some(block),
        _ => None,
    }
}

fn shown(cluster: Cluster) -> String {
    if cluster == 0 { "uncompressed".into() } else { size(cluster) }
}

type Build = TrialRow<build::Key>;
type Read = TrialRow<read::Key>;

/// The figures, beside images built and read.
pub(super) fn part(results: &Results) -> Option<Part> {
    let mut part = Part::default();
    let builds = builds(results);
    if !builds.is_empty() {
        part.tables.push(sizes(&builds));
        part.charts.push(sizes_chart(&builds));
    }
    part.tables.extend(reads(results));
    (!part.tables.is_empty()).then(|| Part { sentences: vec![setup(), findings()], ..part })
}

fn setup() -> String {
    "Published in PERFORMANCE.md of erofs-utils (2023) for erofs-utils 1.6, squashfs-tools 4.5.1 and Linux 6.2, on two \
     virtual processors of a Xeon Platinum 8369B with a disk of 3000 operations a second; LZ4HC of level 12, on a \
     Debian file system of more than 7000 files and, with fio, on silesia.tar."
        .into()
}

/// By what EROFS was ahead, and where it was not.
fn findings() -> String {
    let cells = READINGS.iter().flat_map(|reading| reading.pairs.iter().map(move |pair| (reading, pair)));
    let factors =
        cells.map(|(reading, (cluster, erofs, squashfs))| (gain(reading.unit, *erofs, *squashfs), reading, *cluster));
    let mut factors: Vec<_> = factors.collect();
    factors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let tell = |(factor, reading, cluster): &(f64, &Reading, Cluster)| {
        format!("{} ({}), {} times as fast", reading.work, shown(*cluster), three(*factor))
    };
    let behind: Vec<String> = factors.iter().filter(|(factor, ..)| *factor < 1.0).map(tell).collect();
    let most = factors.last().map(tell).unwrap_or_default();
    format!(
        "There EROFS is ahead of SquashFS with the same clusters most in {most}; it is behind in {} of {} places: {}.",
        behind.len(),
        factors.len(),
        behind.join("; ")
    )
}

/// How many times as fast the first is.
fn gain(unit: Unit, erofs: f64, squashfs: f64) -> f64 {
    if unit == Unit::Seconds { squashfs / erofs } else { erofs / squashfs }
}

/// Builds that the page has, each once whatever the number of threads.
fn builds(results: &Results) -> Vec<&Build> {
    let mut builds: Vec<&Build> = Vec::new();
    for row in &results.builds {
        let on_page =
            cluster(&row.key.codec, row.key.block).is_some_and(|one| figure(&ROOT, &row.key.format, one).is_some());
        let same = |other: &&Build| {
            let threads = |row: &Build| build::Key { threads: 0, ..row.key.clone() };
            threads(other) == threads(row)
        };
        if on_page && !builds.iter().any(same) {
            builds.push(row);
        }
    }
    builds
}

/// A published size in percent of what is not compressed.
fn percent(pairs: &[Pair], plain: Option<f64>, format: &str, cluster: Cluster) -> Option<f64> {
    Some(100.0 * figure(pairs, format, cluster)? / plain?)
}

fn of_root(format: &str, cluster: Cluster) -> Option<f64> {
    percent(&ROOT, figure(&ROOT, format, 0), format, cluster)
}

fn sizes(builds: &[&Build]) -> Table {
    let row = |row: &&Build| {
        let key = &row.key;
        let cluster = cluster(&key.codec, key.block).unwrap_or(0);
        let whole = |pairs: &[Pair]| figure(pairs, &key.format, cluster).into();
        vec![
            key.source.as_str().into(),
            key.format.as_str().into(),
            key.tool.as_str().into(),
            key.codec.as_str().into(),
            key.features.as_str().into(),
            Value::Text(shown(cluster)),
            Value::Whole(row.made),
            row.ratio().map(|ratio| 100.0 * ratio).into(),
            whole(&ROOT),
            of_root(&key.format, cluster).into(),
            whole(&SILESIA),
            percent(&SILESIA, Some(SILESIA_TAR), &key.format, cluster).into(),
        ]
    };
    let columns = [
        Column::of("source"),
        Column::of("format"),
        Column::of("program"),
        Column::of("codec"),
        Column::wide("features"),
        Column::of("cluster"),
        Column::of("here bytes"),
        Column::of("here %"),
        Column::wide("Debian bytes"),
        Column::of("Debian %"),
        Column::wide("silesia.tar bytes"),
        Column::of("silesia.tar %"),
    ];
    let title = "Images for their sources here, for the uncompressed image and for silesia.tar as published in 2023";
    table("published-image-sizes", title, columns, builds.iter().map(row).collect())
}

fn sizes_chart(builds: &[&Build]) -> Chart {
    let kinds = distinct(builds.iter().map(|row| (&row.key.source, &row.key.format, &row.key.tool, &row.key.features)));
    let line = |(source, format, tool, features): &(&String, &String, &String, &String)| {
        let of = builds.iter().filter(|row| {
            (&row.key.source, &row.key.format, &row.key.tool, &row.key.features) == (*source, *format, *tool, *features)
        });
        let mut points: Vec<(Cluster, f64)> = of
            .filter_map(|row| Some((cluster(&row.key.codec, row.key.block)?, 100.0 * row.ratio()?)))
            .filter(|(cluster, _)| *cluster > 0)
            .collect();
        points.sort_by_key(|(cluster, _)| *cluster);
        let features = if features.is_empty() { String::new() } else { format!(", {features}") };
        let named = points.into_iter().map(|(cluster, share)| (name(&size(cluster)), share));
        series(&format!("{format} by {tool} of {source}{features}"), named)
    };
    let published = |format: &str| -> Series {
        let clusters = ROOT.iter().map(|pair| pair.0).filter(|cluster| *cluster > 0);
        let points: Vec<(X, f64)> =
            clusters.filter_map(|cluster| Some((name(&size(cluster)), of_root(format, cluster)?))).collect();
        guide(&format!("{format} of Debian, published 2023"), points)
    };
    // The published ones have every cluster size, in order.
    let mut all = vec![published("erofs"), published("squashfs")];
    all.extend(kinds.iter().map(line).filter(|line| !line.y.is_empty()));
    Chart {
        id: "published-image-sizes".into(),
        title: "Size by cluster with LZ4HC, here and as published for other data".into(),
        x: axis("cluster", false),
        y: axis("size, % of the data", false),
        kind: Kind::Lines,
        series: all,
    }
}

/// Readings that the page has.
fn reads(results: &Results) -> Option<Table> {
    let mut rows = Vec::new();
    for reading in &READINGS {
        let of = results.reads.iter().filter(|row| row.key.work == reading.work);
        rows.extend(of.filter_map(|row| reading_row(results, reading, row)));
    }
    let columns = [
        Column::of("work"),
        Column::of("source"),
        Column::of("format"),
        Column::of("image by"),
        Column::of("cluster"),
        Column::of("unit"),
        Column::of("here"),
        Column::of("EROFS x"),
        Column::of("2023"),
        Column::of("2023 EROFS x"),
    ];
    let title = "Reading through the kernel, here and as published in 2023 on other hardware";
    (!rows.is_empty()).then(|| table("published-reads", title, columns, rows))
}

fn reading_row(results: &Results, reading: &Reading, row: &Read) -> Option<Vec<Value>> {
    let key = &row.key;
    let cluster = cluster(&key.codec, key.block)?;
    let published = figure(reading.pairs, &key.format, cluster)?;
    let factor = figure(reading.pairs, "erofs", cluster).zip(figure(reading.pairs, "squashfs", cluster));
    let value = |row: &Read| match reading.unit {
        Unit::Seconds => Some(row.time.median),
        Unit::Speed => row.speed().map(|speed| speed * 1e6 / 1_048_576.0),
    };
    // Who is ahead is said once, with EROFS.
    let erofs = key.format == "erofs";
    let other = results.reads.iter().find(|other| erofs && is_counterpart(row, other, cluster));
    let measured = value(row).zip(other.and_then(value)).map(|(erofs, squashfs)| gain(reading.unit, erofs, squashfs));
    Some(vec![
        reading.work.into(),
        key.source.as_str().into(),
        key.format.as_str().into(),
        key.tool.as_str().into(),
        Value::Text(shown(cluster)),
        if reading.unit == Unit::Seconds { "s".into() } else { "MiB/s".into() },
        value(row).into(),
        measured.into(),
        Value::Number(published),
        factor.filter(|_| erofs).map(|(erofs, squashfs)| gain(reading.unit, erofs, squashfs)).into(),
    ])
}

/// Whether a row is what an EROFS row is to be compared with: a SquashFS image of the same program, or of the one
/// that stands beside mkfs.erofs.
fn is_counterpart(row: &Read, other: &Read, of: Cluster) -> bool {
    let (a, b) = (&row.key, &other.key);
    let tool = a.tool == b.tool || (a.tool == "mkfs.erofs" && b.tool == "mksquashfs");
    tool && b.format == "squashfs"
        && (&a.digest, &a.work, &a.reader) == (&b.digest, &b.work, &b.reader)
        && cluster(&b.codec, b.block) == Some(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_page_has_is_found() {
        assert_eq!(cluster("lz4hc:12", 4096), Some(4096));
        assert_eq!((cluster("none", 0), cluster("none", 131_072)), (Some(0), Some(0)));
        assert_eq!((cluster("zstd", 4096), cluster("lz4", 4096), cluster("lz4hc", 0)), (None, None, None));
        assert_eq!(figure(&ROOT, "squashfs", 16_384), Some(67_162_112.0));
        assert_eq!((figure(&ROOT, "erofs", 8192), figure(&SILESIA, "erofs", 0)), (None, None));
        assert!((of_root("erofs", 4096).unwrap() - 58.65).abs() < 0.005);
        // Twelve times as fast, both ways to say it.
        assert_eq!((gain(Unit::Seconds, 1.0, 12.0), gain(Unit::Speed, 12.0, 1.0)), (12.0, 12.0));
    }

    #[test]
    fn who_was_ahead_is_told() {
        insta::assert_snapshot!(findings());
    }
}
