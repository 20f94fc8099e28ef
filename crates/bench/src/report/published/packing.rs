//! The two benchmarks of squashfs-tools-ng: packing by threads and codecs (S0a to S0d, S1a), unpacking (S0e), and sizes
//! of images (S0f, S1b).

use super::super::model::{Chart, Column, Kind, Table, Value, X};
use super::super::shape::{axis, distinct, published, series, table};
use super::figures::{of_document, value};
use super::part::{Part, codec_name};
use crate::metrics::speedup;
use crate::results::{Results, TrialRow};
use crate::units::three;
use crate::{build, read};

/// One of the documents.
struct Document {
    year: &'static str,
    name: &'static str,
}

const DOCUMENTS: [Document; 2] = [
    Document { year: "2020", name: "squashfs-tools-ng 2020" },
    Document { year: "2021", name: "squashfs-tools-ng 2021" },
];
/// The most jobs they have.
const JOBS: usize = 16;
/// Default block size of tar2sqfs.
const BLOCK: usize = 128 << 10;

impl Document {
    /// A figure of a codec, whatever its level; `at` 0 stands for no threads beside the one that does all.
    fn figure(&self, work: &str, codec: &str, at: usize) -> Option<f64> {
        value(self.name, work, codec_name(codec), "", at)
    }

    /// Seconds of packing.
    fn packing(&self, codec: &str, threads: usize) -> Option<f64> {
        self.figure("pack", codec, threads)
    }

    fn speedup(&self, codec: &str, threads: usize) -> Option<f64> {
        speedup(self.packing(codec, 1)?, self.packing(codec, threads)?)
    }

    /// Bytes of an image.
    fn size(&self, codec: &str) -> Option<f64> {
        self.figure("size", codec, 0)
    }

    /// Codecs it has, in its order.
    fn codecs(&self) -> Vec<&'static str> {
        distinct(of_document(self.name).filter(|one| one.work == "size").map(|one| one.of))
    }
}

/// Bytes of the tar archive of both: the Debian 10.2 live image with XFCE.
fn tar() -> f64 {
    value(DOCUMENTS[1].name, "source", "tar", "", 0).unwrap_or_default()
}

/// MB a second of the archive.
fn speed(seconds: f64) -> f64 {
    tar() / 1e6 / seconds
}

fn unpacking(codec: &str) -> Option<f64> {
    DOCUMENTS[1].figure("unpack", codec, 0)
}

type Build = TrialRow<build::Key>;

/// The figures, beside images built and programs that read them.
pub(super) fn part(results: &Results) -> Option<Part> {
    let of_document = |row: &&Build| {
        let key = &row.key;
        key.format == "squashfs" && key.block == BLOCK && DOCUMENTS[1].size(&key.codec).is_some()
    };
    let builds: Vec<&Build> = results.builds.iter().filter(of_document).collect();
    let mut part = Part::default();
    if !builds.is_empty() {
        part.tables = vec![packing(results, &builds), sizes(&builds)];
        part.charts.extend(scaling(results, &builds));
    }
    part.tables.extend(unpacked(results));
    if part.tables.is_empty() {
        return None;
    }
    part.sentences = vec![setup(), errors()];
    Some(part)
}

fn setup() -> String {
    format!(
        "Published in the benchmarks of squashfs-tools-ng (2020, of version 0.9, and 2021, of a later one), on an AMD \
         Ryzen 7 3700X of 8 cores: tar2sqfs and sqfs2tar on a tmpfs, {} GB of a Debian live image as a tar archive, \
         without threads and with 1 to {JOBS} jobs, the worst of four runs. Here, too, MB/s are of the source's bytes.",
        three(tar() / 1e9)
    )
}

/// Compares the text of 2021 with its own figures.
fn errors() -> String {
    let percent = |a: f64, b: f64| three(100.0 * a / b);
    let [_, document] = &DOCUMENTS;
    let serial = |codec| document.packing(codec, 0).unwrap_or_default();
    let unpacked = |codec| unpacking(codec).unwrap_or_default();
    format!(
        "Its formulas for speed-up are printed upside down; here speed-up is T(1) / T(n). Its text says that zstd takes \
         2 % of the time of gzip to compress and 30 % to decompress; by its own times these are {} % and {} %. It says \
         that LZ4 decompresses 5 times as fast as LZO; by its times it is {} times.",
        percent(serial("zstd"), serial("gzip")),
        percent(unpacked("zstd"), unpacked("gzip")),
        three(unpacked("lzo") / unpacked("lz4"))
    )
}

/// The row that differs in the number of threads only, and has one.
fn one<'r>(results: &'r Results, row: &Build) -> Option<&'r Build> {
    let key = build::Key { threads: 1, ..row.key.clone() };
    results.builds.iter().find(|other| other.key == key)
}

/// Packing: speeds and speed-ups by jobs.
fn packing(results: &Results, builds: &[&Build]) -> Table {
    let row = |row: &&Build| {
        let (key, published) = (&row.key, |document: &Document| {
            let seconds = document.packing(&row.key.codec, row.key.threads);
            [seconds, seconds.map(speed), document.speedup(&row.key.codec, row.key.threads)].map(Value::from)
        });
        let measured = one(results, row).and_then(|one| speedup(one.time.median, row.time.median));
        let start = [
            key.source.as_str().into(),
            key.tool.as_str().into(),
            key.codec.as_str().into(),
            key.features.as_str().into(),
            Value::Whole(key.threads as u64),
            row.speed().into(),
            measured.into(),
        ];
        start.into_iter().chain(DOCUMENTS.iter().flat_map(published)).collect()
    };
    let columns = [
        Column::of("source"),
        Column::of("program"),
        Column::of("codec"),
        Column::wide("features"),
        Column::of("jobs"),
        Column::of("here MB/s"),
        Column::of("here x"),
        Column::wide("2020 s"),
        Column::of("2020 MB/s"),
        Column::of("2020 x"),
        Column::wide("2021 s"),
        Column::of("2021 MB/s"),
        Column::of("2021 x"),
    ];
    let title = "Packing, here and as published for tar2sqfs in 2020 and 2021 on other hardware";
    table("published-packing", title, columns, builds.iter().map(row).collect())
}

/// Speed-up by threads, for each codec measured here with several numbers of them.
fn scaling(results: &Results, builds: &[&Build]) -> Vec<Chart> {
    let number = |threads: usize| X::Number(threads as f64);
    let sources = distinct(builds.iter().map(|row| &row.key.source)).len();
    let chart = |codec: &str| {
        let rows: Vec<&&Build> = builds.iter().filter(|row| codec_name(&row.key.codec) == codec).collect();
        let kinds = distinct(rows.iter().map(|row| build::Key { threads: 1, ..row.key.clone() }));
        let line = |kind: &build::Key| {
            let of = rows.iter().filter(|row| build::Key { threads: 1, ..row.key.clone() } == *kind);
            let points = of.filter(|row| row.key.threads > 0).filter_map(|row| {
                let factor = speedup(one(results, row)?.time.median, row.time.median)?;
                Some((number(row.key.threads), factor))
            });
            let points: Vec<_> = points.collect();
            let features = if kind.features.is_empty() { String::new() } else { format!(", {}", kind.features) };
            let of = if sources > 1 { format!(" of {}", kind.source) } else { String::new() };
            (points.len() > 1).then(|| series(&format!("{} {}{of}{features}", kind.tool, kind.codec), points))
        };
        let mut all: Vec<_> = kinds.iter().filter_map(line).collect();
        if all.is_empty() {
            return None;
        }
        for document in &DOCUMENTS {
            let jobs = 1..=JOBS;
            let points = jobs.filter_map(|jobs| Some((number(jobs), document.speedup(codec, jobs)?)));
            let published = published(&format!("tar2sqfs, published {}", document.year), points);
            all.extend(Some(published).filter(|published| !published.points.is_empty()));
        }
        Some(Chart {
            id: format!("published-packing-{codec}"),
            title: format!("Speed-up of packing with {codec}, here and as published on other hardware"),
            x: axis("threads", false),
            y: axis("times one thread", false),
            kind: Kind::Lines,
            series: all,
        })
    };
    let [_, document] = &DOCUMENTS;
    document.codecs().into_iter().filter_map(chart).collect()
}

/// Sizes, which do not depend on threads.
fn sizes(builds: &[&Build]) -> Table {
    let same =
        |a: &Build, b: &Build| build::Key { threads: 0, ..a.key.clone() } == build::Key { threads: 0, ..b.key.clone() };
    let first = |(at, row): &(usize, &&Build)| !builds[..*at].iter().any(|other| same(other, row));
    let row = |(_, row): (usize, &&Build)| {
        let (key, [old, new]) = (&row.key, DOCUMENTS.each_ref().map(|document| document.size(&row.key.codec)));
        let share = |size: Option<f64>| Value::from(size.map(|size| 100.0 * size / tar()));
        vec![
            key.source.as_str().into(),
            key.tool.as_str().into(),
            key.codec.as_str().into(),
            key.features.as_str().into(),
            Value::Whole(row.made),
            row.ratio().map(|ratio| 100.0 * ratio).into(),
            old.into(),
            share(old),
            new.into(),
            share(new),
        ]
    };
    let columns = [
        Column::of("source"),
        Column::of("program"),
        Column::of("codec"),
        Column::wide("features"),
        Column::of("here bytes"),
        Column::of("here %"),
        Column::wide("2020 bytes"),
        Column::of("2020 %"),
        Column::wide("2021 bytes"),
        Column::of("2021 %"),
    ];
    let title = "Images for their sources, here and as published in 2020 and 2021 for other data";
    table("published-packing-sizes", title, columns, builds.iter().enumerate().filter(first).map(row).collect())
}

/// Unpacking to an archive.
fn unpacked(results: &Results) -> Option<Table> {
    let of_document = |row: &&TrialRow<read::Key>| {
        let (key, codec) = (&row.key, unpacking(&row.key.codec).is_some());
        key.work == "tar"
            && key.format == "squashfs"
            && codec
            && (key.block == BLOCK || codec_name(&key.codec) == "none")
    };
    let plain = |row: &TrialRow<read::Key>| {
        let same = |other: &&TrialRow<read::Key>| {
            let (a, b) = (&other.key, &row.key);
            (&a.digest, &a.tool, &a.reader, &a.work, &a.format) == (&b.digest, &b.tool, &b.reader, &b.work, &b.format)
                && codec_name(&a.codec) == "none"
        };
        results.reads.iter().find(same).and_then(TrialRow::speed)
    };
    let row = |row: &TrialRow<read::Key>| {
        let (key, seconds) = (&row.key, unpacking(&row.key.codec));
        vec![
            key.source.as_str().into(),
            key.tool.as_str().into(),
            key.reader.as_str().into(),
            key.codec.as_str().into(),
            row.speed().into(),
            row.speed().zip(plain(row)).map(|(packed, plain)| packed / plain).into(),
            seconds.into(),
            seconds.map(speed).into(),
            seconds.zip(unpacking("none")).map(|(packed, plain)| plain / packed).into(),
        ]
    };
    let rows: Vec<Vec<Value>> = results.reads.iter().filter(of_document).map(row).collect();
    let columns = [
        Column::of("source"),
        Column::wide("image by"),
        Column::of("reader"),
        Column::of("codec"),
        Column::of("here MB/s"),
        Column::of("here of none"),
        Column::wide("2021 s"),
        Column::of("2021 MB/s"),
        Column::of("2021 of none"),
    ];
    let title = "Unpacking to an archive, here and as published for sqfs2tar in 2021 on other hardware";
    (!rows.is_empty()).then(|| table("published-unpacking", title, columns, rows))
}
