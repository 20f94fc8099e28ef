//! The two benchmarks of squashfs-tools-ng: packing by threads and codecs (S0a to S0d, S1a), unpacking (S0e), and image
//! sizes (S0f, S1b).

use super::super::model::{ChartForm, ChartX, ReportChart, ReportSection, ReportTable};
use super::super::shape::{axis, distinct, listed_features, published_series, series};
use super::figures::{codec_name, figure_value, figures};
use crate::build::BuildKey;
use crate::metrics::speedup;
use crate::results::{BenchResults, BuildRow, ReadRow};
use crate::units::three_digits;

/// One of the two documents.
struct PublishedDocument {
    year: &'static str,
    name: &'static str,
}

const DOCUMENTS: [PublishedDocument; 2] = [
    PublishedDocument { year: "2020", name: "squashfs-tools-ng 2020" },
    PublishedDocument { year: "2021", name: "squashfs-tools-ng 2021" },
];
/// Maximum number of jobs.
const MAX_JOBS: usize = 16;
/// Default block size of tar2sqfs.
const BLOCK: usize = 128 << 10;

impl PublishedDocument {
    /// Returns a figure of a codec, whatever its level. 0 jobs are the run without additional threads.
    fn figure(&self, work: &str, codec: &str, jobs: usize) -> Option<f64> {
        figure_value(self.name, work, codec_name(codec), "", jobs)
    }

    /// Returns seconds of packing.
    fn packing(&self, codec: &str, threads: usize) -> Option<f64> {
        self.figure("pack", codec, threads)
    }

    fn speedup(&self, codec: &str, threads: usize) -> Option<f64> {
        speedup(self.packing(codec, 1)?, self.packing(codec, threads)?)
    }

    /// Returns the size of an image.
    fn size(&self, codec: &str) -> Option<f64> {
        self.figure("size", codec, 0)
    }

    /// Returns the codecs of the document, in its order.
    fn codecs(&self) -> Vec<&'static str> {
        distinct(figures(self.name).filter(|figure| figure.work == "size").map(|figure| figure.variant))
    }
}

/// Returns the size of the tar archive of both documents: the Debian 10.2 live image with XFCE.
fn tar_bytes() -> f64 {
    figure_value(DOCUMENTS[1].name, "source", "tar", "", 0).unwrap_or_default()
}

/// Returns the MB/s of the archive.
fn tar_speed(seconds: f64) -> f64 {
    tar_bytes() / 1e6 / seconds
}

/// Returns seconds of unpacking.
fn unpacking(codec: &str) -> Option<f64> {
    DOCUMENTS[1].figure("unpack", codec, 0)
}

/// Returns the section on builds, without its title.
pub(super) fn section(results: &BenchResults) -> Option<ReportSection> {
    let is_comparable = |row: &&BuildRow| is_of_document(&row.key) && DOCUMENTS[1].size(&row.key.codec).is_some();
    let builds: Vec<&BuildRow> = results.builds.iter().filter(is_comparable).collect();
    let read = results.reads.iter().any(|row| published_seconds(row).is_some());
    (read || !builds.is_empty()).then(|| ReportSection {
        sentences: vec![setup(), errors()],
        charts: scaling(results, &builds),
        ..ReportSection::default()
    })
}

/// Adds the speeds and speed-ups of both documents to a table of builds.
pub(in super::super) fn beside_builds(table: ReportTable, rows: &[&BuildRow]) -> ReportTable {
    let names = DOCUMENTS.iter().flat_map(|one| ["MB/s", "T(1)/T(n)"].map(|unit| format!("{} {unit}", one.year)));
    table.with_published(&names.collect::<Vec<_>>(), rows, |row| {
        let key = &row.key;
        let figures = |one: &PublishedDocument| match is_of_document(key) {
            true => [one.packing(&key.codec, key.threads).map(tar_speed), one.speedup(&key.codec, key.threads)],
            false => [None, None],
        };
        DOCUMENTS.iter().flat_map(figures).collect()
    })
}

/// Adds the highest throughput of the documents to the table of throughput.
pub(in super::super) fn beside_throughput(table: ReportTable, rows: &[&BuildRow]) -> ReportTable {
    table.with_published(&DOCUMENTS.each_ref().map(|one| format!("{} tar MB/s", one.year)), rows, |row| {
        let most = |one: &PublishedDocument| {
            let speeds = (0..=MAX_JOBS).filter_map(|jobs| one.packing(&row.key.codec, jobs)).map(tar_speed);
            speeds.reduce(f64::max).filter(|_| is_of_document(&row.key))
        };
        DOCUMENTS.iter().map(most).collect()
    })
}

/// Adds the image sizes, relative to the tar archive, to a table of sizes.
pub(in super::super) fn beside_sizes(table: ReportTable, rows: &[&BuildRow]) -> ReportTable {
    table.with_published(&DOCUMENTS.each_ref().map(|one| format!("{} to tar", one.year)), rows, |row| {
        let ratio = |one: &PublishedDocument| one.size(&row.key.codec).map(|size| size / tar_bytes());
        DOCUMENTS.iter().map(|one| ratio(one).filter(|_| is_of_document(&row.key))).collect()
    })
}

/// Adds the speed of sqfs2tar in 2021 to a table of programs.
pub(in super::super) fn beside_programs<'r>(
    table: ReportTable,
    rows: impl Iterator<Item = &'r ReadRow>,
) -> ReportTable {
    table.with_published(&["2021 MB/s", "2021 x uncompressed"], rows, |row| {
        let seconds = published_seconds(row);
        vec![seconds.map(tar_speed), seconds.zip(unpacking("none")).map(|(packed, plain)| plain / packed)]
    })
}

/// Returns true for the format and block size of the documents.
fn is_of_document(key: &BuildKey) -> bool {
    key.format == "squashfs" && key.block == BLOCK
}

/// Returns the published seconds for an archive of a comparable image.
fn published_seconds(row: &ReadRow) -> Option<f64> {
    let key = &row.key;
    // Without compression, the block size does not matter.
    let fits =
        key.work == "tar" && key.format == "squashfs" && (key.block == BLOCK || codec_name(&key.codec) == "none");
    unpacking(&key.codec).filter(|_| fits)
}

fn setup() -> String {
    format!(
        "Published in the benchmarks of squashfs-tools-ng (2020, of version 0.9, and 2021, of a later one), on an AMD \
         Ryzen 7 3700X of 8 cores: tar2sqfs and sqfs2tar on a tmpfs, {} GB of a Debian live image as a tar archive, \
         without threads and with 1 to {MAX_JOBS} jobs, the worst of four runs. Here, too, MB/s are of the source's \
         bytes.",
        three_digits(tar_bytes() / 1e9)
    )
}

/// Compares the text of 2021 with its own figures.
fn errors() -> String {
    let percent = |a: f64, b: f64| three_digits(100.0 * a / b);
    let [_, document] = &DOCUMENTS;
    let serial = |codec| document.packing(codec, 0).unwrap_or_default();
    let unpacked = |codec| unpacking(codec).unwrap_or_default();
    format!(
        "Its formulas for speed-up are inverted; here speed-up is T(1) / T(n). By its text, zstd takes 2 % of gzip's time \
         to compress and 30 % to decompress; by its own times, {} % and {} %. By its text, LZ4 decompresses 5 times as \
         fast as LZO; by its times, {} times.",
        percent(serial("zstd"), serial("gzip")),
        percent(unpacked("zstd"), unpacked("gzip")),
        three_digits(unpacked("lzo") / unpacked("lz4"))
    )
}

/// Returns the row with one thread and otherwise equal settings.
fn with_one_thread<'r>(results: &'r BenchResults, row: &BuildRow) -> Option<&'r BuildRow> {
    let key = BuildKey { threads: 1, ..row.key.clone() };
    results.builds.iter().find(|other| other.key == key)
}

/// Makes charts of speed-up by threads, for each codec measured here with several numbers of them.
fn scaling(results: &BenchResults, builds: &[&BuildRow]) -> Vec<ReportChart> {
    let number = |threads: usize| ChartX::Number(threads as f64);
    let sources = distinct(builds.iter().map(|row| &row.key.source)).len();
    let chart = |codec: &str| {
        let rows: Vec<&&BuildRow> = builds.iter().filter(|row| codec_name(&row.key.codec) == codec).collect();
        let kinds = distinct(rows.iter().map(|row| BuildKey { threads: 1, ..row.key.clone() }));
        let line = |kind: &BuildKey| {
            let of_kind = rows.iter().filter(|row| BuildKey { threads: 1, ..row.key.clone() } == *kind);
            let points = of_kind.filter(|row| row.key.threads > 0).filter_map(|row| {
                let factor = speedup(with_one_thread(results, row)?.time.median, row.time.median)?;
                Some((number(row.key.threads), factor))
            });
            let points: Vec<_> = points.collect();
            let features =
                if kind.features.is_empty() { String::new() } else { format!(", {}", listed_features(&kind.features)) };
            let source = if sources > 1 { format!(" of {}", kind.source) } else { String::new() };
            (points.len() > 1).then(|| series(&format!("{} {}{source}{features}", kind.tool, kind.codec), points))
        };
        let mut all: Vec<_> = kinds.iter().filter_map(line).collect();
        if all.is_empty() {
            return None;
        }
        for document in &DOCUMENTS {
            let jobs = 1..=MAX_JOBS;
            let points = jobs.filter_map(|jobs| Some((number(jobs), document.speedup(codec, jobs)?)));
            let published = published_series(&format!("tar2sqfs, published {}", document.year), points);
            all.extend(Some(published).filter(|published| !published.points.is_empty()));
        }
        Some(ReportChart {
            band: None,
            id: format!("published-packing-{codec}"),
            title: format!("Speed-up of packing with {codec}, here and as published on other hardware"),
            x: axis("threads", false),
            y: axis("times one thread", false),
            kind: ChartForm::Lines,
            series: all,
        })
    };
    let [_, document] = &DOCUMENTS;
    document.codecs().into_iter().filter_map(chart).collect()
}
