//! Images with the same files, and all reads of each.

use std::collections::BTreeMap;

use super::super::shape::{distinct, listed_features, short_digest, slug};
use crate::read::{FIO, KERNEL, NONE, ReadKey};
use crate::results::{BenchResults, ReadRow};
use crate::units::short_size;

/// Kernel reads in the order of the page, with the IDs of their charts.
pub(super) const WORKS: [(&str, &str); 6] = [
    ("sequential data", "S4b"),
    ("sequential metadata", "S4c"),
    ("small random data", "S4d"),
    ("small random metadata", "S4e"),
    ("full random data", "S4f"),
    ("full random metadata", "S4g"),
];

/// Patterns of fio: S4i, S4j and S4k.
pub(super) const PATTERNS: [&str; 3] = ["sequential 4K", "random 4K", "random 4K of 5 %"];

/// Images of the same files.
pub(super) struct ReadGroup<'r> {
    /// The part of IDs that identifies it.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) images: Vec<ImageReads<'r>>,
}

/// An image with all of its reads.
pub(super) struct ImageReads<'r> {
    pub(super) key: &'r ReadKey,
    pub(super) rows: Vec<&'r ReadRow>,
}

/// Groups images by their files, sorted by name.
pub(super) fn groups(results: &BenchResults) -> Vec<ReadGroup<'_>> {
    let mut trees: BTreeMap<&str, Vec<&ReadRow>> = BTreeMap::new();
    for row in &results.reads {
        trees.entry(&row.key.digest).or_default().push(row);
    }
    let mut groups: Vec<ReadGroup<'_>> = trees.into_iter().map(|(digest, rows)| group(digest, &rows)).collect();
    groups.sort_by(|a, b| a.id.cmp(&b.id));
    groups
}

fn group<'r>(digest: &str, rows: &[&'r ReadRow]) -> ReadGroup<'r> {
    let sources = distinct(rows.iter().map(|row| row.key.source.as_str()));
    let source = sources.first().copied().unwrap_or_default();
    let title = match sources.len() {
        1 => source.to_owned(),
        _ => format!("{source} and other images of the same files"),
    };
    let mut images: BTreeMap<_, Vec<&ReadRow>> = BTreeMap::new();
    for row in rows {
        let key = &row.key;
        // `false` sorts first, so uncompressed images precede all others.
        let place = (key.codec != NONE, &key.codec, key.block, &key.format, &key.tool, &key.features, &key.source);
        images.entry(place).or_default().push(row);
    }
    // No group is empty: each begins with the row that created it.
    let images = images.into_values().map(|rows| ImageReads { key: &rows[0].key, rows }).collect();
    ReadGroup { id: slug(&format!("read-{source}-{}", short_digest(digest))), title, images }
}

impl<'r> ImageReads<'r> {
    pub(super) fn is_plain(&self) -> bool {
        self.key.codec == NONE
    }

    pub(super) fn row(&self, reader: &str, work: &str) -> Option<&'r ReadRow> {
        self.rows.iter().find(|row| row.key.reader == reader && row.key.work == work).copied()
    }

    /// Returns the seconds of a kernel read.
    pub(super) fn seconds(&self, work: &str) -> Option<f64> {
        self.row(KERNEL, work).map(|row| row.time.median)
    }

    /// Returns the MiB/s of fio.
    pub(super) fn fio(&self, pattern: &str) -> Option<f64> {
        let row = self.row(FIO, pattern)?;
        (row.time.median > 0.0).then(|| row.bytes as f64 / f64::from(1 << 20) / row.time.median)
    }

    /// Returns the reads by programs.
    pub(super) fn programs(&self) -> impl Iterator<Item = &'r ReadRow> {
        self.rows.iter().copied().filter(|row| row.key.reader != KERNEL && row.key.reader != FIO)
    }

    /// Returns the length of the image.
    pub(super) fn len(&self) -> u64 {
        self.rows.first().map_or(0, |row| row.made)
    }

    /// Returns the length of the files in it, if something read all of them.
    pub(super) fn bytes(&self) -> Option<u64> {
        let whole = self.programs().chain(self.row(KERNEL, WORKS[0].0)).next();
        whole.map(|row| row.bytes).filter(|bytes| *bytes > 0)
    }

    /// Returns the program that made it, or its own name.
    pub(super) fn maker(&self) -> &'r str {
        if self.key.tool.is_empty() { &self.key.source } else { &self.key.tool }
    }

    /// Describes the image without its block size.
    pub(super) fn family(&self) -> String {
        let ReadKey { format, codec, features, .. } = self.key;
        let features = if features.is_empty() { String::new() } else { format!(" with {}", listed_features(features)) };
        let codec = if self.is_plain() { "not compressed" } else { codec };
        match self.key.tool.as_str() {
            "" => format!("{}, {format}, {codec}{features}", self.key.source),
            tool => format!("{format} by {tool}, {codec}{features}"),
        }
    }

    /// Returns program and codec, and the format if the program made images of both.
    pub(super) fn label(&self) -> String {
        let ReadKey { format, codec, tool, .. } = self.key;
        let codec = if self.is_plain() { "not compressed" } else { codec };
        match tool.as_str() {
            "" => format!("{}, {codec}", self.key.source),
            "packfs" => format!("packfs {format}, {codec}"),
            tool => format!("{tool}, {codec}"),
        }
    }

    /// Describes the image.
    pub(super) fn name(&self) -> String {
        match self.key.block {
            0 => self.family(),
            block => format!("{} in blocks of {}", self.family(), short_size(block)),
        }
    }
}

impl ReadGroup<'_> {
    /// Returns the most similar uncompressed image: of the same format, and if possible by the same program.
    pub(super) fn uncompressed(&self, image: &ImageReads<'_>) -> Option<&ImageReads<'_>> {
        let of_format = || self.images.iter().filter(|other| other.is_plain() && other.key.format == image.key.format);
        of_format().find(|other| other.key.tool == image.key.tool).or_else(|| of_format().next())
    }
}
