//! PERFORMANCE.md of the EROFS project (2023): image sizes (S4a, S4h), reads through the kernel (S4b to S4g), and reads
//! of one large file by fio (S4i to S4k), by cluster size, of EROFS and SquashFS.

use super::super::model::{
    ChartForm, ChartSeries, ChartX, ReportChart, ReportSection, ReportTable, SeriesRole, TableValue,
};
use super::super::shape::{self, axis, distinct, listed_features, name_x, series, table};
use super::figures::{FigureUnit, codec_name, figure_value, figures};
use crate::build::BuildKey;
use crate::read::ReadKey;
use crate::results::{BenchResults, BuildRow, ReadRow};
use crate::units::{short_size, three_digits};

const DOCUMENT: &str = "erofs-utils 2023";
/// A data set of its images: the file system of Debian's docker image.
const ROOT: &str = "Debian";
/// The other data set of its images.
const SILESIA: &str = "silesia.tar";

/// Cluster size in bytes; 0 is uncompressed. Everything else is LZ4HC level 12.
type ClusterSize = usize;

/// A read of the document.
#[derive(Clone, Copy, PartialEq)]
struct PublishedRead {
    /// Name in keys of reads.
    work: &'static str,
    data: &'static str,
    unit: FigureUnit,
}

/// Returns the reads of the document, in its order.
fn readings() -> Vec<PublishedRead> {
    let reads = figures(DOCUMENT).filter(|figure| figure.unit != FigureUnit::Bytes);
    distinct(reads.map(|figure| PublishedRead { work: figure.work, data: figure.setting, unit: figure.unit }))
}

/// Returns the size of an image of a data set.
fn image_bytes(data: &str, format: &str, cluster: ClusterSize) -> Option<f64> {
    figure_value(DOCUMENT, "size", format, data, cluster)
}

impl PublishedRead {
    fn figure(&self, format: &str, cluster: ClusterSize) -> Option<f64> {
        figure_value(DOCUMENT, self.work, format, self.data, cluster)
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

fn shown_cluster(cluster: ClusterSize) -> String {
    if cluster == 0 { "uncompressed".into() } else { short_size(cluster) }
}

/// Returns the section on reads, without its title.
pub(super) fn section(results: &BenchResults) -> Option<ReportSection> {
    let mut section = ReportSection::default();
    let images = local_images(results);
    if !images.is_empty() {
        let chart = sizes_chart(&images);
        // Without a measured line, there is nothing to compare.
        let is_line = |series: &ChartSeries| series.role == SeriesRole::Measured && series.points.len() > 1;
        if chart.series.iter().any(is_line) {
            section.charts.push(chart);
        }
    }
    section.tables.extend(factors_table(results));
    let read = readings().iter().any(|one| results.reads.iter().any(|row| is_of_document(one, row)));
    (read || !images.is_empty()).then(|| ReportSection { sentences: vec![SETUP.into(), findings()], ..section })
}

/// The published benchmark.
const SETUP: &str = "\
    Published in PERFORMANCE.md of erofs-utils (2023) for erofs-utils 1.6, squashfs-tools 4.5.1 and Linux 6.2, on two \
    virtual processors of a Xeon Platinum 8369B with a disk of 3000 operations per second: LZ4HC level 12, on a \
    Debian file system of more than 7000 files and, with fio, on silesia.tar.";

/// Describes by how much EROFS was ahead, and where it was not.
fn findings() -> String {
    let readings = readings();
    let mut cases: Vec<(f64, String)> = Vec::new();
    for figure in figures(DOCUMENT).filter(|figure| figure.variant == "erofs") {
        let reading = readings.iter().find(|reading| reading.work == figure.work);
        if let Some(factor) = reading.and_then(|reading| reading.factor(figure.scale)) {
            let cluster = shown_cluster(figure.scale);
            cases.push((factor, format!("{} ({cluster}), {} times as fast", figure.work, three_digits(factor))));
        }
    }
    cases.sort_by(|a, b| a.0.total_cmp(&b.0));
    let slower: Vec<&str> = cases.iter().filter(|(factor, _)| *factor < 1.0).map(|(_, case)| case.as_str()).collect();
    let most = cases.last().map_or("", |(_, case)| case);
    format!(
        "In these figures, the greatest lead of EROFS over SquashFS with the same clusters is {most}; it is slower in {} \
         of {} cases: {}.",
        slower.len(),
        cases.len(),
        slower.join("; ")
    )
}

/// Returns the speed of EROFS divided by that of SquashFS.
fn gain(unit: FigureUnit, erofs: f64, squashfs: f64) -> f64 {
    if unit == FigureUnit::Seconds { squashfs / erofs } else { erofs / squashfs }
}

/// Settings that the images of a line in a chart share.
#[derive(Clone, Copy, PartialEq)]
struct ImageKind<'r> {
    source: &'r str,
    format: &'r str,
    tool: &'r str,
    features: &'r str,
}

/// An image that was built or read here.
#[derive(Clone, Copy)]
struct LocalImage<'r> {
    kind: ImageKind<'r>,
    codec: &'r str,
    /// Block size in bytes; 0 if unknown.
    block: usize,
    cluster: ClusterSize,
    /// Image size divided by file size, if known.
    ratio: Option<f64>,
}

impl<'r> LocalImage<'r> {
    /// Describes an image that was built.
    fn built(row: &'r BuildRow) -> Option<Self> {
        let BuildKey { source, format, tool, codec, features, block, .. } = &row.key;
        let kind = ImageKind { source, format, tool, features };
        Some(LocalImage { kind, codec, block: *block, cluster: cluster(codec, *block)?, ratio: row.ratio() })
    }

    /// Describes an image that was read. The size of the files is known only if something read all of them.
    fn read(row: &'r ReadRow) -> Option<Self> {
        let ReadKey { source, format, tool, codec, features, block, work, .. } = &row.key;
        let kind = ImageKind { source, format, tool, features };
        let ratio = row.ratio().filter(|_| ["sequential data", "tar", "extract"].contains(&work.as_str()));
        Some(LocalImage { kind, codec, block: *block, cluster: cluster(codec, *block)?, ratio })
    }

    fn is_same(&self, other: &LocalImage<'_>) -> bool {
        // An image of unknown block size contradicts none.
        let blocks = self.block == other.block || self.block == 0 || other.block == 0;
        blocks && self.kind == other.kind && (self.codec, self.cluster) == (other.codec, other.cluster)
    }
}

/// Returns all images of the results, each once.
fn local_images(results: &BenchResults) -> Vec<LocalImage<'_>> {
    let built = results.builds.iter().filter_map(LocalImage::built);
    let read = results.reads.iter().filter(|row| row.made > 0).filter_map(LocalImage::read);
    let mut all: Vec<LocalImage<'_>> = Vec::new();
    for one in built.chain(read).filter(|one| image_bytes(ROOT, one.kind.format, one.cluster).is_some()) {
        match all.iter_mut().find(|other| other.is_same(&one)) {
            Some(other) => other.ratio = other.ratio.or(one.ratio),
            None => all.push(one),
        }
    }
    all
}

/// Returns a published size in percent of the uncompressed one.
fn percent(data: &str, plain: Option<f64>, format: &str, cluster: ClusterSize) -> Option<f64> {
    Some(100.0 * image_bytes(data, format, cluster)? / plain?)
}

/// Returns the published size of Debian's file system in percent of its uncompressed image.
fn root_percent(format: &str, cluster: ClusterSize) -> Option<f64> {
    percent(ROOT, image_bytes(ROOT, format, 0), format, cluster)
}

/// Settings by which a row is matched with the document's images.
pub(in super::super) struct ImageSettings<'r> {
    pub(in super::super) format: &'r str,
    pub(in super::super) codec: &'r str,
    pub(in super::super) block: usize,
}

/// Adds the document's sizes to a table of images.
pub(in super::super) fn beside_sizes<'r>(
    table: ReportTable,
    images: impl IntoIterator<Item = ImageSettings<'r>>,
) -> ReportTable {
    let names = ["2023 Debian bytes", "2023 Debian x uncompressed", "2023 silesia.tar x"];
    table.with_published(&names, images, |ImageSettings { format, codec, block }| {
        let Some(cluster) = cluster(codec, block) else { return Vec::new() };
        let share = |percent: f64| percent / 100.0;
        let silesia_bytes = figure_value(DOCUMENT, "source", "tar", SILESIA, 0);
        let silesia = percent(SILESIA, silesia_bytes, format, cluster).map(share);
        vec![image_bytes(ROOT, format, cluster), root_percent(format, cluster).map(share), silesia]
    })
}

/// Adds the document's reads to a table of images: milliseconds for kernel reads, MiB/s for patterns of fio.
pub(in super::super) fn beside_reads<'r>(
    table: ReportTable,
    works: &[&str],
    images: impl IntoIterator<Item = &'r ReadKey>,
) -> ReportTable {
    let readings = readings();
    let reading_of = |work: &str| readings.iter().find(|reading| reading.work == work);
    let unit =
        |work: &str| if reading_of(work).is_some_and(|one| one.unit == FigureUnit::Seconds) { "ms" } else { "MiB/s" };
    let names: Vec<String> = works.iter().map(|work| format!("2023 {work} {}", unit(work))).collect();
    table.with_published(&names, images, |key| {
        let Some(cluster) = cluster(&key.codec, key.block) else { return Vec::new() };
        let figure = |work: &&str| {
            let reading = reading_of(work)?;
            let scale = if reading.unit == FigureUnit::Seconds { 1e3 } else { 1.0 };
            Some(scale * reading.figure(&key.format, cluster)?)
        };
        works.iter().map(figure).collect()
    })
}

fn sizes_chart(images: &[LocalImage<'_>]) -> ReportChart {
    let kinds = distinct(images.iter().map(|image| image.kind));
    let line = |kind: &ImageKind<'_>| {
        let ImageKind { source, format, tool, features } = kind;
        let of_kind = images.iter().filter(|image| image.kind == *kind && image.cluster > 0);
        let mut points: Vec<(ClusterSize, f64)> =
            of_kind.filter_map(|image| Some((image.cluster, 100.0 * image.ratio?))).collect();
        points.sort_by_key(|(cluster, _)| *cluster);
        let features = if features.is_empty() { String::new() } else { format!(", {}", listed_features(features)) };
        let named = points.into_iter().map(|(cluster, share)| (name_x(&short_size(cluster)), share));
        series(&format!("{format} by {tool} of {source}{features}"), named)
    };
    let published = |format: &str| -> ChartSeries {
        let sizes =
            figures(DOCUMENT).filter(|figure| (figure.work, figure.variant, figure.setting) == ("size", format, ROOT));
        let clusters = sizes.map(|figure| figure.scale).filter(|cluster| *cluster > 0);
        let points: Vec<(ChartX, f64)> = clusters
            .filter_map(|cluster| Some((name_x(&short_size(cluster)), root_percent(format, cluster)?)))
            .collect();
        shape::published_series(&format!("{format} of Debian, published 2023"), points)
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

/// Returns true if the document has a figure of this read and image.
fn is_of_document(reading: &PublishedRead, row: &ReadRow) -> bool {
    let figure = |cluster| reading.figure(&row.key.format, cluster);
    row.key.work == reading.work && cluster(&row.key.codec, row.key.block).and_then(figure).is_some()
}

/// Makes the table of the speed of EROFS relative to SquashFS with the same clusters, published and measured.
fn factors_table(results: &BenchResults) -> Option<ReportTable> {
    let mut rows = Vec::new();
    let mut published = Vec::new();
    for reading in &readings() {
        let erofs = results.reads.iter().filter(|row| row.key.format == "erofs" && is_of_document(reading, row));
        for row in erofs {
            let Some((cluster, factor)) = measured_factor(results, reading, row) else { continue };
            rows.push(vec![
                reading.work.into(),
                row.key.source.as_str().into(),
                row.key.tool.as_str().into(),
                TableValue::Text(shown_cluster(cluster)),
                TableValue::Number(factor),
            ]);
            published.push(reading.factor(cluster));
        }
    }
    let title = "How many times as fast EROFS is read as SquashFS with the same clusters";
    let columns = ["work", "source", "image by", "cluster", "EROFS x"];
    (!rows.is_empty()).then(|| {
        table("published-reads", title, columns, rows).with_published(&["2023 EROFS x"], published, |one| vec![one])
    })
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
        assert_eq!(image_bytes(ROOT, "squashfs", 16_384), Some(67_162_112.0));
        assert_eq!((image_bytes(ROOT, "erofs", 8192), image_bytes(SILESIA, "erofs", 0)), (None, None));
        assert!((root_percent("erofs", 4096).unwrap() - 58.65).abs() < 0.005);
        // Twelve times as fast in both units.
        assert_eq!((gain(FigureUnit::Seconds, 1.0, 12.0), gain(FigureUnit::Speed, 12.0, 1.0)), (12.0, 12.0));
    }

    #[test]
    fn who_was_ahead_is_told() {
        insta::assert_snapshot!(findings());
    }
}
