//! What is said of reading images: by the kernel, as the EROFS project's page has it (S4a to S4k), and by programs
//! (S0e).

mod charts;
mod sentences;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::model::{Section, size};
use super::shape::{distinct, short, slug};
use crate::read::{FIO, KERNEL, Key, NONE};
use crate::results::{Results, TrialRow};

type Row = TrialRow<Key>;

/// The works of the kernel, in the order of the page, with the ids of what it shows of them.
const WORKS: [(&str, &str); 6] = [
    ("sequential data", "S4b"),
    ("sequential metadata", "S4c"),
    ("small random data", "S4d"),
    ("small random metadata", "S4e"),
    ("full random data", "S4f"),
    ("full random metadata", "S4g"),
];

/// The works of fio: S4i, S4j and S4k.
const PATTERNS: [&str; 3] = ["sequential 4K", "random 4K", "random 4K of 5 %"];

/// One section for what is to be known of all, and one for each source.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    if results.reads.is_empty() {
        return Vec::new();
    }
    let mut sections = vec![Section {
        title: "Reading images".into(),
        sentences: sentences::method(results),
        charts: Vec::new(),
        tables: Vec::new(),
    }];
    for group in groups(results) {
        sections.push(Section {
            title: format!("Reading {}", group.title),
            sentences: sentences::findings(&group),
            charts: charts::of_group(&group),
            tables: tables::of_group(&group),
        });
    }
    sections
}

/// Images of the same files.
struct Group<'r> {
    /// What tables and charts are told apart by.
    id: String,
    title: String,
    images: Vec<Image<'r>>,
}

/// One image, and every reading of it.
struct Image<'r> {
    key: &'r Key,
    rows: Vec<&'r Row>,
}

/// Groups by what is in the images, in the order of their names.
fn groups(results: &Results) -> Vec<Group<'_>> {
    let mut trees: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in &results.reads {
        trees.entry(&row.key.digest).or_default().push(row);
    }
    let mut groups: Vec<Group<'_>> = trees.into_iter().map(|(digest, rows)| group(digest, &rows)).collect();
    groups.sort_by(|a, b| a.id.cmp(&b.id));
    groups
}

fn group<'r>(digest: &str, rows: &[&'r Row]) -> Group<'r> {
    let sources = distinct(rows.iter().map(|row| row.key.source.as_str()));
    let source = sources.first().copied().unwrap_or_default();
    let title = match sources.len() {
        1 => source.to_owned(),
        _ => format!("{source} and other images of the same files"),
    };
    let mut images: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = &row.key;
        let place = (key.codec != NONE, &key.codec, key.block, &key.format, &key.tool, &key.features, &key.source);
        images.entry(place).or_default().push(row);
    }
    let images = images.into_values().map(|rows| Image { key: &rows[0].key, rows }).collect();
    Group { id: slug(&format!("read-{source}-{}", short(digest))), title, images }
}

impl<'r> Image<'r> {
    fn is_plain(&self) -> bool {
        self.key.codec == NONE
    }

    fn row(&self, reader: &str, work: &str) -> Option<&'r Row> {
        self.rows.iter().find(|row| row.key.reader == reader && row.key.work == work).copied()
    }

    /// Seconds that a work of the kernel took.
    fn seconds(&self, work: &str) -> Option<f64> {
        self.row(KERNEL, work).map(|row| row.time.median)
    }

    /// MiB a second that fio reads.
    fn fio(&self, pattern: &str) -> Option<f64> {
        let row = self.row(FIO, pattern)?;
        (row.time.median > 0.0).then(|| row.bytes as f64 / f64::from(1 << 20) / row.time.median)
    }

    /// Readings by programs.
    fn programs(&self) -> impl Iterator<Item = &'r Row> {
        self.rows.iter().copied().filter(|row| row.key.reader != KERNEL && row.key.reader != FIO)
    }

    /// Bytes of the image.
    fn len(&self) -> u64 {
        self.rows.first().map_or(0, |row| row.made)
    }

    /// Bytes of the files in it, where something read all of them.
    fn bytes(&self) -> Option<u64> {
        let whole = self.programs().chain(self.row(KERNEL, WORKS[0].0)).next();
        whole.map(|row| row.bytes).filter(|bytes| *bytes > 0)
    }

    /// Who made it, or its own name.
    fn maker(&self) -> &'r str {
        if self.key.tool.is_empty() { &self.key.source } else { &self.key.tool }
    }

    /// What it is but for the size of its blocks.
    fn family(&self) -> String {
        let Key { format, codec, features, .. } = self.key;
        let features = if features.is_empty() { String::new() } else { format!(" with {features}") };
        let codec = if self.is_plain() { "not compressed" } else { codec };
        match self.key.tool.as_str() {
            "" => format!("{}, {format}, {codec}{features}", self.key.source),
            tool => format!("{format} by {tool}, {codec}{features}"),
        }
    }

    /// What it is.
    fn name(&self) -> String {
        match self.key.block {
            0 => self.family(),
            block => format!("{} in blocks of {}", self.family(), size(block)),
        }
    }
}

impl Group<'_> {
    /// The image that is not compressed and comes nearest to one: of the same format, by the same maker if there is
    /// one.
    fn uncompressed(&self, image: &Image<'_>) -> Option<&Image<'_>> {
        let of_format = || self.images.iter().filter(|other| other.is_plain() && other.key.format == image.key.format);
        of_format().find(|other| other.key.tool == image.key.tool).or_else(|| of_format().next())
    }
}
