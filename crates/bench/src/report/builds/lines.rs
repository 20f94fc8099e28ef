//! Grouping of builds: a set has one source and format, a group in it one choice of blocks and features, and a line in
//! that one program and codec, with a point for each number of threads.

use super::super::shape::{distinct, whose};
use crate::build::{Key, Maker, Model};
use crate::metrics::{efficiency, speedup};
use crate::results::{Results, TrialRow};

pub(super) type Row = TrialRow<Key>;

/// Number of threads that sentences predict for.
pub(super) const FAR: usize = 64;

/// Returns the sets: builds of one source in one format.
pub(super) fn sets(results: &Results) -> Vec<Vec<&Row>> {
    split(&results.builds.iter().collect::<Vec<_>>(), |key| (&key.source, &key.digest, &key.format))
}

/// Returns the groups of a set: builds with the same block size and features.
pub(super) fn groups<'r>(set: &[&'r Row]) -> Vec<Vec<&'r Row>> {
    split(set, |key| (key.block, &key.features))
}

/// Returns the lines of a group: builds that differ only in the number of threads, sorted by it.
pub(super) fn lines<'r>(rows: &[&'r Row]) -> Vec<Vec<&'r Row>> {
    split(rows, |key| (&key.tool, &key.codec, key.block, &key.features))
}

fn split<'r, T: PartialEq>(rows: &[&'r Row], by: impl Fn(&'r Key) -> T) -> Vec<Vec<&'r Row>> {
    let kinds = distinct(rows.iter().map(|row| by(&row.key)));
    let of = |kind: T| rows.iter().copied().filter(|row| by(&row.key) == kind).collect();
    kinds.into_iter().map(of).collect()
}

/// Returns program and codec.
pub(super) fn label(key: &Key) -> String {
    whose(&key.tool, &key.codec)
}

pub(super) fn is_own(key: &Key) -> bool {
    key.tool == Maker::Packfs.name()
}

/// Returns the features for display.
pub(super) fn features(key: &Key) -> &str {
    if key.features.is_empty() { "plain" } else { &key.features }
}

/// Returns the row with this number of threads.
pub(super) fn at<'r>(line: &[&'r Row], threads: usize) -> Option<&'r Row> {
    line.iter().copied().find(|row| row.key.threads == threads)
}

/// Baseline of a speed-up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Base {
    /// T(1): relative speed-up.
    One,
    /// T(serial): absolute speed-up.
    Serial,
}

impl Base {
    fn row<'r>(self, line: &[&'r Row]) -> Option<&'r Row> {
        at(line, if matches!(self, Base::One) { 1 } else { 0 })
    }

    /// Returns T(base) / T(n). The document that defines it inverts it in the formula, but not in the charts.
    pub(super) fn speedup(self, line: &[&Row], row: &Row) -> Option<f64> {
        speedup(self.row(line)?.time.median, row.time.median).filter(|_| row.key.threads > 0)
    }

    /// Returns the speed-up divided by the number of threads.
    pub(super) fn efficiency(self, line: &[&Row], row: &Row) -> Option<f64> {
        let base = self.row(line)?.time.median;
        efficiency(base, row.time.median, row.key.threads).filter(|_| row.key.threads > 0)
    }
}

/// Returns the fastest row of a line.
pub(super) fn fastest<'r>(line: &[&'r Row]) -> Option<&'r Row> {
    line.iter().copied().min_by(|a, b| a.time.median.total_cmp(&b.time.median))
}

/// Returns the model of a line and the number of threads it was fitted to: the largest for which there are processors,
/// so that contention is included.
pub(super) fn model(results: &Results, line: &[&Row]) -> Option<(Model, usize)> {
    let processors = |row: &Row| {
        let session = results.sessions.iter().find(|session| session.session == row.session);
        session.map_or(1, |session| session.machine.processors)
    };
    let fits = |row: &&&Row| (1..=processors(row)).contains(&row.key.threads);
    let row = line.iter().filter(fits).max_by_key(|row| row.key.threads)?;
    Some((Model::of(&row.stages, row.time.median, processors(row))?, row.key.threads))
}

/// Returns the largest relative error of the model on a line.
pub(super) fn error(model: &Model, line: &[&Row]) -> f64 {
    let miss = |row: &&Row| (model.seconds(row.key.threads) / row.time.median - 1.0).abs();
    line.iter().map(miss).filter(|miss| miss.is_finite()).fold(0.0, f64::max)
}

/// Returns the length of the source as a tar archive.
pub(super) fn tar_bytes(results: &Results, row: &Row) -> Option<u64> {
    let session = results.sessions.iter().find(|session| session.session == row.session)?;
    session.settings.get("tar")?.parse().ok()
}

/// Returns the uncompressed image with otherwise equal settings.
pub(super) fn uncompressed<'r>(set: &[&'r Row], row: &Row) -> Option<&'r Row> {
    let key = &row.key;
    let alike = |other: &Key| (&other.tool, other.block) == (&key.tool, key.block);
    // Uncompressed EROFS has no fragments: take the most similar image.
    let mut all: Vec<&Row> =
        set.iter().copied().filter(|other| other.key.codec == "none" && alike(&other.key)).collect();
    all.sort_by_key(|other| (other.key.features != key.features, std::cmp::Reverse(other.key.features.len())));
    all.first().copied()
}
