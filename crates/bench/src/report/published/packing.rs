//! The two benchmarks of squashfs-tools-ng: packing by threads and codecs (S0a to S0d, S1a), unpacking (S0e), and sizes
//! of images (S0f, S1b).

use super::super::model::{Chart, Column, Kind, Table, Value, X, three};
use super::super::shape::{axis, distinct, guide, series, table};
use super::{Part, codec_name};
use crate::metrics::speedup;
use crate::results::{Results, TrialRow};
use crate::{build, read};

/// One of the documents.
struct Document {
    year: &'static str,
    codecs: &'static [&'static str],
    /// Seconds: without threads first, then with 1 to 16 jobs. The worst of four runs.
    seconds: [&'static [f64]; 17],
    /// Bytes of images, in the order of codecs.
    sizes: &'static [u64],
}

/// Bytes of the tar archive of both: the Debian 10.2 live image with XFCE.
const TAR: u64 = 7_008_118_272;
/// What tar2sqfs makes blocks of, unless told otherwise.
const BLOCK: usize = 128 << 10;

const DOCUMENTS: [Document; 2] = [
    Document {
        year: "2020",
        codecs: &["xz", "lzma", "gzip", "lzo", "lz4", "zstd"],
        seconds: [
            &[1059.613, 970.710, 596.606, 802.337, 12.159, 573.600],
            &[1058.050, 949.753, 586.948, 786.705, 11.908, 563.445],
            &[566.712, 504.706, 308.152, 413.872, 7.395, 301.734],
            &[389.733, 347.422, 213.235, 284.407, 6.069, 210.708],
            &[302.993, 270.361, 163.447, 219.825, 5.864, 164.418],
            &[247.959, 220.860, 133.454, 179.395, 5.749, 136.745],
            &[210.514, 187.816, 113.641, 152.461, 5.926, 117.607],
            &[184.009, 163.765, 99.742, 132.536, 6.281, 103.734],
            &[165.050, 146.996, 88.776, 118.253, 6.395, 94.500],
            &[154.993, 138.868, 81.668, 110.461, 6.890, 89.820],
            &[147.399, 131.214, 75.461, 104.060, 7.225, 86.176],
            &[140.068, 124.592, 70.286, 97.749, 7.557, 82.566],
            &[133.131, 118.710, 65.957, 92.596, 8.127, 78.883],
            &[127.472, 113.481, 62.041, 87.982, 8.704, 76.218],
            &[122.365, 108.773, 60.337, 84.444, 9.494, 74.175],
            &[118.298, 105.079, 58.348, 81.445, 10.192, 72.134],
            &[115.940, 102.176, 56.615, 79.030, 10.964, 71.049],
        ],
        sizes: &[2_098_466_816, 2_102_169_600, 2_471_276_544, 2_732_015_616, 3_381_751_808, 2_295_017_472],
    },
    Document {
        year: "2021",
        codecs: &["xz", "lzma", "gzip", "lzo", "lz4", "zstd", "none"],
        seconds: [
            &[1108.39, 995.43, 609.79, 753.14, 13.58, 550.59, 5.86],
            &[1116.06, 990.33, 598.85, 753.53, 11.25, 550.37, 4.23],
            &[591.21, 536.61, 312.14, 394.21, 6.41, 294.12, 4.13],
            &[415.90, 370.48, 215.92, 273.14, 4.84, 205.14, 4.58],
            &[320.02, 288.35, 165.50, 210.32, 4.29, 159.71, 4.62],
            &[263.94, 235.69, 136.28, 172.33, 4.19, 132.27, 4.94],
            &[224.23, 200.63, 116.44, 146.80, 4.28, 112.79, 5.08],
            &[196.78, 176.35, 100.66, 128.61, 4.24, 99.26, 5.43],
            &[175.04, 157.82, 89.79, 113.47, 4.46, 88.22, 5.68],
            &[166.52, 148.88, 83.01, 106.14, 4.64, 84.97, 5.76],
            &[159.35, 141.08, 77.04, 99.92, 4.84, 81.61, 5.94],
            &[151.08, 136.27, 71.52, 94.23, 5.00, 77.51, 6.14],
            &[144.72, 128.91, 67.21, 89.33, 5.28, 74.10, 6.39],
            &[137.91, 122.67, 63.43, 84.39, 5.41, 71.83, 6.51],
            &[132.94, 117.79, 59.45, 80.87, 5.71, 68.86, 6.68],
            &[126.76, 113.51, 56.37, 76.68, 5.74, 65.78, 6.91],
            &[119.06, 107.15, 52.56, 71.49, 6.37, 62.52, 7.10],
        ],
        sizes: &[
            2_098_466_816,
            2_102_169_600,
            2_471_276_544,
            2_732_015_616,
            3_381_751_808,
            2_295_078_912,
            6_542_389_248,
        ],
    },
];

/// Seconds of unpacking to a tar archive, of 2021, in the order of its codecs.
const UNPACKING: [f64; 7] = [120.53, 118.91, 20.57, 10.65, 2.59, 7.74, 1.42];

impl Document {
    fn column(&self, codec: &str) -> Option<usize> {
        self.codecs.iter().position(|name| *name == codec_name(codec))
    }

    /// Seconds of packing; 0 threads stand for none beside the one that does all.
    fn packing(&self, codec: &str, threads: usize) -> Option<f64> {
        self.seconds.get(threads)?.get(self.column(codec)?).copied()
    }

    fn speedup(&self, codec: &str, threads: usize) -> Option<f64> {
        speedup(self.packing(codec, 1)?, self.packing(codec, threads)?)
    }

    fn size(&self, codec: &str) -> Option<u64> {
        self.sizes.get(self.column(codec)?).copied()
    }
}

/// MB a second of the archive.
fn speed(seconds: f64) -> f64 {
    TAR as f64 / 1e6 / seconds
}

fn unpacking(codec: &str) -> Option<f64> {
    UNPACKING.get(DOCUMENTS[1].column(codec)?).copied()
}

type Build = TrialRow<build::Key>;

/// The figures, beside images built and programs that read them.
pub(super) fn part(results: &Results) -> Option<Part> {
    let of_document = |row: &&Build| {
        let key = &row.key;
        key.format == "squashfs" && key.block == BLOCK && DOCUMENTS[1].column(&key.codec).is_some()
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
    let jobs = DOCUMENTS[1].seconds.len() - 1;
    format!(
        "Published in the benchmarks of squashfs-tools-ng (2020, of version 0.9, and 2021, of a later one), on an AMD \
         Ryzen 7 3700X of 8 cores: tar2sqfs and sqfs2tar on a tmpfs, {} GB of a Debian live image as a tar archive, \
         without threads and with 1 to {jobs} jobs, the worst of four runs. Here, too, MB/s are of the source's bytes.",
        three(TAR as f64 / 1e9)
    )
}

/// What the text of 2021 says, and what follows from its own figures.
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
            (points.len() > 1)
                .then(|| series(&format!("{} {} of {}{features}", kind.tool, kind.codec, kind.source), points))
        };
        let mut all: Vec<_> = kinds.iter().filter_map(line).collect();
        if all.is_empty() {
            return None;
        }
        for document in &DOCUMENTS {
            let jobs = 1..document.seconds.len();
            let points = jobs.filter_map(|jobs| Some((number(jobs), document.speedup(codec, jobs)?)));
            let published = guide(&format!("tar2sqfs, published {}", document.year), points);
            all.extend(Some(published).filter(|published| !published.y.is_empty()));
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
    document.codecs.iter().filter_map(|codec| chart(codec)).collect()
}

/// Sizes, which do not depend on threads.
fn sizes(builds: &[&Build]) -> Table {
    let same =
        |a: &Build, b: &Build| build::Key { threads: 0, ..a.key.clone() } == build::Key { threads: 0, ..b.key.clone() };
    let first = |(at, row): &(usize, &&Build)| !builds[..*at].iter().any(|other| same(other, row));
    let row = |(_, row): (usize, &&Build)| {
        let (key, [old, new]) = (&row.key, DOCUMENTS.each_ref().map(|document| document.size(&row.key.codec)));
        let share = |size: Option<u64>| Value::from(size.map(|size| 100.0 * size as f64 / TAR as f64));
        vec![
            key.source.as_str().into(),
            key.tool.as_str().into(),
            key.codec.as_str().into(),
            key.features.as_str().into(),
            Value::Whole(row.made),
            row.ratio().map(|ratio| 100.0 * ratio).into(),
            old.map_or(Value::None, Value::Whole),
            share(old),
            new.map_or(Value::None, Value::Whole),
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
