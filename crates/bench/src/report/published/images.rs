//! PERFORMANCE.md of the EROFS project (2023): image sizes (S4a, S4h), reads through the kernel (S4b to S4g), and reads
//! of one large file by fio (S4i to S4k), by cluster size, of EROFS and SquashFS.

use super::super::model::{ChartForm, ChartSeries, ChartX, ReportChart, ReportTable, SeriesRole, TableValue};
use super::super::shape::{self, axis, distinct, listed_features, name, series, table};
use super::figures::{FigureUnit, PublishedFigure, of_document, value};
use super::part::{ReportPart, codec_name};
use crate::results::{BenchResults, TrialRow};
use crate::units::{size, three};
use crate::{build, read};

const DOCUMENT: &str = "erofs-utils 2023";
/// The data sets of its images: the file system of Debian's docker image, and silesia.tar.
const ROOT: &str = "Debian";
const SILESIA: &str = "silesia.tar";

/// Cluster size in bytes; 0 is uncompressed. Everything else is LZ4HC level 12.
type ClusterSize = usize;

/// A read of the document.
#[derive(Clone, Copy, PartialEq)]
struct PublishedRead {
    /// Name in keys of reads.
    work: &'static str,
    on: &'static str,
    unit: FigureUnit,
}

/// Returns the reads of the document, in its order.
fn readings() -> Vec<PublishedRead> {
    let reads = of_document(DOCUMENT).filter(|one| one.unit != FigureUnit::Bytes);
    distinct(reads.map(|one| PublishedRead { work: one.work, on: one.on, unit: one.unit }))
}

/// Returns the size of an image of a data set.
fn image(on: &str, format: &str, cluster: ClusterSize) -> Option<f64> {
    value(DOCUMENT, "size", format, on, cluster)
}

/// Returns the approximate size of silesia.tar.
fn silesia() -> Option<f64> {
    value(DOCUMENT, "source", "tar", SILESIA, 0)
}

impl PublishedRead {
    fn figure(&self, format: &str, cluster: ClusterSize) -> Option<f64> {
        value(DOCUMENT, self.work, format, self.on, cluster)
    }

    /// Returns the speed of EROFS relative to SquashFS with clusters of this size.
    fn factor(&self, cluster: ClusterSize) -> Option<f64> {
        Some(gain(self.unit, self.figure("erofs", cluster)?, self.figure("squashfs", cluster)?))
    }
}

/// Returns the cluster size of the document that corresponds to a row, if any.
fn cluster(codec: &str, block: usize) -> Option<ClusterSize> {
    match codec_name(codec) {
        "none" => Some(0),
        "lz4hc" if block > 0 => Some(block),
        _ => None,
    }
}

fn shown(cluster: ClusterSize) -> String {
    if cluster == 0 { "uncompressed".into() } else { size(cluster) }
}

type BuildRow = TrialRow<build::BuildKey>;
type ReadRow = TrialRow<read::ReadKey>;

/// Returns the document's part of the section on reads.
pub(super) fn part(results: &BenchResults) -> Option<ReportPart> {
    let mut part = ReportPart::default();
    let images = images(results);
    if !images.is_empty() {
        part.charts.extend(Some(sizes_chart(&images)).filter(has_lines));
    }
    part.tables.extend(factors(results));
    let read = readings().iter().any(|one| results.reads.iter().any(|row| is_of_document(one, row)));
    (read || !images.is_empty()).then(|| ReportPart { sentences: vec![setup(), findings()], ..part })
}

fn setup() -> String {
    "Published in PERFORMANCE.md of erofs-utils (2023) for erofs-utils 1.6, squashfs-tools 4.5.1 and Linux 6.2, on two \
     virtual processors of a Xeon Platinum 8369B with a disk of 3000 operations per second: LZ4HC level 12, on a Debian \
     file system of more than 7000 files and, with fio, on silesia.tar."
        .into()
}

/// Describes by how much EROFS was ahead, and where it was not.
fn findings() -> String {
    let readings = readings();
    let erofs = of_document(DOCUMENT).filter(|one| one.of == "erofs");
    let factor = |one: &PublishedFigure| {
        let reading = readings.iter().find(|reading| reading.work == one.work)?;
        Some((reading.factor(one.at)?, reading, one.at))
    };
    let mut factors: Vec<_> = erofs.filter_map(factor).collect();
    factors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let tell = |(factor, reading, cluster): &(f64, &PublishedRead, ClusterSize)| {
        format!("{} ({}), {} times as fast", reading.work, shown(*cluster), three(*factor))
    };
    let behind: Vec<String> = factors.iter().filter(|(factor, ..)| *factor < 1.0).map(tell).collect();
    let most = factors.last().map(tell).unwrap_or_default();
    format!(
        "In these figures, the greatest lead of EROFS over SquashFS with the same clusters is {most}; it is slower in {} \
         of {} cases: {}.",
        behind.len(),
        factors.len(),
        behind.join("; ")
    )
}

/// Returns the speed of EROFS divided by that of SquashFS.
fn gain(unit: FigureUnit, erofs: f64, squashfs: f64) -> f64 {
    if unit == FigureUnit::Seconds { squashfs / erofs } else { erofs / squashfs }
}

/// An image that was built or read here.
#[derive(Clone, Copy)]
struct LocalImage<'r> {
    source: &'r str,
    format: &'r str,
    tool: &'r str,
    codec: &'r str,
    features: &'r str,
    /// Block size in bytes; 0 if unknown.
    block: usize,
    cluster: ClusterSize,
    /// Image size divided by file size, if known.
    ratio: Option<f64>,
}

impl<'r> LocalImage<'r> {
    fn built(row: &'r BuildRow) -> Option<Self> {
        let build::BuildKey { source, format, tool, codec, features, block, .. } = &row.key;
        let cluster = cluster(codec, *block)?;
        Some(LocalImage { source, format, tool, codec, features, block: *block, cluster, ratio: row.ratio() })
    }

    /// The size of the files is known only if something read all of them.
    fn read(row: &'r ReadRow) -> Option<Self> {
        let read::ReadKey { source, format, tool, codec, features, block, work, .. } = &row.key;
        let cluster = cluster(codec, *block)?;
        let ratio = row.ratio().filter(|_| ["sequential data", "tar", "extract"].contains(&work.as_str()));
        Some(LocalImage { source, format, tool, codec, features, block: *block, cluster, ratio })
    }

    fn kind(&self) -> (&'r str, &'r str, &'r str, &'r str) {
        (self.source, self.format, self.tool, self.features)
    }

    fn is_same(&self, other: &LocalImage<'_>) -> bool {
        // An image of unknown block size contradicts none.
        let blocks = self.block == other.block || self.block == 0 || other.block == 0;
        blocks && (self.kind(), self.codec, self.cluster) == (other.kind(), other.codec, other.cluster)
    }
}

/// Returns all images of the results, each once.
fn images(results: &BenchResults) -> Vec<LocalImage<'_>> {
    let built = results.builds.iter().filter_map(LocalImage::built);
    let read = results.reads.iter().filter(|row| row.made > 0).filter_map(LocalImage::read);
    let mut all: Vec<LocalImage<'_>> = Vec::new();
    for one in built.chain(read).filter(|one| image(ROOT, one.format, one.cluster).is_some()) {
        match all.iter_mut().find(|other| other.is_same(&one)) {
            Some(other) => other.ratio = other.ratio.or(one.ratio),
            None => all.push(one),
        }
    }
    all
}

/// Returns a published size in percent of the uncompressed one.
fn percent(on: &str, plain: Option<f64>, format: &str, cluster: ClusterSize) -> Option<f64> {
    Some(100.0 * image(on, format, cluster)? / plain?)
}

fn of_root(format: &str, cluster: ClusterSize) -> Option<f64> {
    percent(ROOT, image(ROOT, format, 0), format, cluster)
}

/// Adds the document's sizes to a table of images, matched by format, codec and block size.
pub(in super::super) fn beside_sizes<'r>(
    table: ReportTable,
    images: impl IntoIterator<Item = (&'r str, &'r str, usize)>,
) -> ReportTable {
    let names = ["2023 Debian bytes", "2023 Debian x uncompressed", "2023 silesia.tar x"];
    table.beside(&names, images, |(format, codec, block)| {
        let Some(cluster) = cluster(codec, block) else { return Vec::new() };
        let share = |percent: f64| percent / 100.0;
        let silesia = percent(SILESIA, silesia(), format, cluster).map(share);
        vec![image(ROOT, format, cluster), of_root(format, cluster).map(share), silesia]
    })
}

/// Adds the document's reads to a table of images: milliseconds for kernel reads, MiB/s for patterns of fio.
pub(in super::super) fn beside_reads<'r>(
    table: ReportTable,
    works: &[&str],
    images: impl IntoIterator<Item = &'r read::ReadKey>,
) -> ReportTable {
    let readings = readings();
    let of = |work: &str| readings.iter().find(|reading| reading.work == work);
    let unit = |work: &str| if of(work).is_some_and(|one| one.unit == FigureUnit::Seconds) { "ms" } else { "MiB/s" };
    let names: Vec<String> = works.iter().map(|work| format!("2023 {work} {}", unit(work))).collect();
    table.beside(&names, images, |key| {
        let Some(cluster) = cluster(&key.codec, key.block) else { return Vec::new() };
        let figure = |work: &&str| {
            let reading = of(work)?;
            let scale = if reading.unit == FigureUnit::Seconds { 1e3 } else { 1.0 };
            Some(scale * reading.figure(&key.format, cluster)?)
        };
        works.iter().map(figure).collect()
    })
}

/// Returns true if a measured line has several points.
fn has_lines(chart: &ReportChart) -> bool {
    chart.series.iter().any(|series| series.role == SeriesRole::Measured && series.points.len() > 1)
}

fn sizes_chart(images: &[LocalImage<'_>]) -> ReportChart {
    let kinds = distinct(images.iter().map(LocalImage::kind));
    let line = |kind: &(&str, &str, &str, &str)| {
        let (source, format, tool, features) = kind;
        let of = images.iter().filter(|one| one.kind() == *kind && one.cluster > 0);
        let mut points: Vec<(ClusterSize, f64)> =
            of.filter_map(|one| Some((one.cluster, 100.0 * one.ratio?))).collect();
        points.sort_by_key(|(cluster, _)| *cluster);
        let features = if features.is_empty() { String::new() } else { format!(", {}", listed_features(features)) };
        let named = points.into_iter().map(|(cluster, share)| (name(&size(cluster)), share));
        series(&format!("{format} by {tool} of {source}{features}"), named)
    };
    let published = |format: &str| -> ChartSeries {
        let sizes = of_document(DOCUMENT).filter(|one| (one.work, one.of, one.on) == ("size", format, ROOT));
        let clusters = sizes.map(|one| one.at).filter(|cluster| *cluster > 0);
        let points: Vec<(ChartX, f64)> =
            clusters.filter_map(|cluster| Some((name(&size(cluster)), of_root(format, cluster)?))).collect();
        shape::published(&format!("{format} of Debian, published 2023"), points)
    };
    // The published ones come first, because they have every cluster size, sorted.
    let mut all = vec![published("erofs"), published("squashfs")];
    all.extend(kinds.iter().map(line).filter(|line| !line.points.is_empty()));
    ReportChart {
        band: None,
        id: "published-sizes-by-cluster".into(),
        title: "Size by cluster with LZ4HC, here and as published for other data".into(),
        x: axis("cluster", false),
        y: axis("size, % of the data", false),
        kind: ChartForm::Lines,
        series: all,
    }
}

fn is_of_document(reading: &PublishedRead, row: &ReadRow) -> bool {
    let figure = |cluster| reading.figure(&row.key.format, cluster);
    row.key.work == reading.work && cluster(&row.key.codec, row.key.block).and_then(figure).is_some()
}

/// Table of the speed of EROFS relative to SquashFS with the same clusters, published and measured.
fn factors(results: &BenchResults) -> Option<ReportTable> {
    let mut rows = Vec::new();
    let mut published = Vec::new();
    for reading in &readings() {
        let of = results.reads.iter().filter(|row| row.key.format == "erofs" && is_of_document(reading, row));
        for row in of {
            let Some((cluster, factor)) = measured_factor(results, reading, row) else { continue };
            let key = &row.key;
            let work = reading.work.into();
            let source = key.source.as_str().into();
            rows.push(vec![
                work,
                source,
                key.tool.as_str().into(),
                TableValue::Text(shown(cluster)),
                TableValue::Number(factor),
            ]);
            published.push(reading.factor(cluster));
        }
    }
    let title = "How many times as fast EROFS is read as SquashFS with the same clusters";
    let columns = ["work", "source", "image by", "cluster", "EROFS x"];
    (!rows.is_empty())
        .then(|| table("published-reads", title, columns, rows).beside(&["2023 EROFS x"], published, |one| vec![one]))
}

fn measured_factor(results: &BenchResults, reading: &PublishedRead, row: &ReadRow) -> Option<(ClusterSize, f64)> {
    let cluster = cluster(&row.key.codec, row.key.block)?;
    let other = results.reads.iter().find(|other| is_counterpart(row, other, cluster))?;
    let value = |row: &ReadRow| if reading.unit == FigureUnit::Seconds { Some(row.time.median) } else { row.speed() };
    Some((cluster, gain(reading.unit, value(row)?, value(other)?)))
}

/// Returns true if a row is the SquashFS counterpart of an EROFS row: an image by the same program, or by mksquashfs
/// for mkfs.erofs.
fn is_counterpart(row: &ReadRow, other: &ReadRow, of: ClusterSize) -> bool {
    let a = &row.key;
    let b = &other.key;
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
        assert_eq!(image(ROOT, "squashfs", 16_384), Some(67_162_112.0));
        assert_eq!((image(ROOT, "erofs", 8192), image(SILESIA, "erofs", 0)), (None, None));
        assert!((of_root("erofs", 4096).unwrap() - 58.65).abs() < 0.005);
        // Twelve times as fast in both units.
        assert_eq!((gain(FigureUnit::Seconds, 1.0, 12.0), gain(FigureUnit::Speed, 12.0, 1.0)), (12.0, 12.0));
    }

    #[test]
    fn who_was_ahead_is_told() {
        insta::assert_snapshot!(findings());
    }
}
