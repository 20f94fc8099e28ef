//! Lines of builds that are compared: sets of one source and format, groups of one choice of blocks and features in
//! them, and in these a line for each program and codec, along the number of threads.

use super::super::shape::{distinct, whose};
use crate::build::{Key, Kind, Model};
use crate::metrics::{efficiency, speedup};
use crate::results::{Results, TrialRow};

pub(super) type Row = TrialRow<Key>;

/// Threads that the model is asked about.
pub(super) const FAR: usize = 64;

/// Builds of one source as one format.
pub(super) fn sets(results: &Results) -> Vec<Vec<&Row>> {
    split(&results.builds.iter().collect::<Vec<_>>(), |key| (&key.source, &key.digest, &key.format))
}

/// Of a set, builds with blocks of one size and the same features.
pub(super) fn groups<'r>(set: &[&'r Row]) -> Vec<Vec<&'r Row>> {
    split(set, |key| (key.block, &key.features))
}

/// Builds that differ in nothing but the number of threads, the fewest first.
pub(super) fn lines<'r>(rows: &[&'r Row]) -> Vec<Vec<&'r Row>> {
    split(rows, |key| (&key.tool, &key.codec, key.block, &key.features))
}

fn split<'r, T: PartialEq>(rows: &[&'r Row], by: impl Fn(&'r Key) -> T) -> Vec<Vec<&'r Row>> {
    let kinds = distinct(rows.iter().map(|row| by(&row.key)));
    let of = |kind: T| rows.iter().copied().filter(|row| by(&row.key) == kind).collect();
    kinds.into_iter().map(of).collect()
}

/// A program and its codec.
pub(super) fn label(key: &Key) -> String {
    whose(&key.tool, &key.codec)
}

pub(super) fn is_own(key: &Key) -> bool {
    key.tool == Kind::Packfs.name()
}

/// Returns the features in a word.
pub(super) fn features(key: &Key) -> &str {
    if key.features.is_empty() { "plain" } else { &key.features }
}

/// The row of a line for so many threads.
pub(super) fn at<'r>(line: &[&'r Row], threads: usize) -> Option<&'r Row> {
    line.iter().copied().find(|row| row.key.threads == threads)
}

/// Times of a line relative to its serial one or to that on one thread.
#[derive(Debug, Clone, Copy)]
pub(super) enum Base {
    /// T(1): relative.
    One,
    /// T(serial): absolute.
    Serial,
}

impl Base {
    fn row<'r>(self, line: &[&'r Row]) -> Option<&'r Row> {
        at(line, if matches!(self, Base::One) { 1 } else { 0 })
    }

    /// T(base) / T(n). The document that the figure is from has it upside down in its formula, not in its charts.
    pub(super) fn speedup(self, line: &[&Row], row: &Row) -> Option<f64> {
        speedup(self.row(line)?.time.median, row.time.median).filter(|_| row.key.threads > 0)
    }

    /// The speed-up for each thread.
    pub(super) fn efficiency(self, line: &[&Row], row: &Row) -> Option<f64> {
        let base = self.row(line)?.time.median;
        efficiency(base, row.time.median, row.key.threads).filter(|_| row.key.threads > 0)
    }
}

/// The fastest row of a line.
pub(super) fn fastest<'r>(line: &[&'r Row]) -> Option<&'r Row> {
    line.iter().copied().min_by(|a, b| a.time.median.total_cmp(&b.time.median))
}

/// The model of a line, and the threads that it was fitted at: the most there are processors for, as what threads cost
/// one another is in it.
pub(super) fn model(results: &Results, line: &[&Row]) -> Option<(Model, usize)> {
    let processors = |row: &Row| {
        let session = results.sessions.iter().find(|session| session.session == row.session);
        session.map_or(1, |session| session.machine.processors)
    };
    let fits = |row: &&&Row| (1..=processors(row)).contains(&row.key.threads);
    let row = line.iter().filter(fits).max_by_key(|row| row.key.threads)?;
    Some((Model::of(&row.stages, row.time.median, processors(row))?, row.key.threads))
}

/// By how much the model misses what was measured at worst: a share of it.
pub(super) fn error(model: &Model, line: &[&Row]) -> f64 {
    let miss = |row: &&Row| (model.seconds(row.key.threads) / row.time.median - 1.0).abs();
    line.iter().map(miss).filter(|miss| miss.is_finite()).fold(0.0, f64::max)
}

/// Bytes of the source as a tar archive.
pub(super) fn tar_bytes(results: &Results, row: &Row) -> Option<u64> {
    let session = results.sessions.iter().find(|session| session.session == row.session)?;
    session.settings.get("tar")?.parse().ok()
}

/// The image that is the same but for its codec, which is none.
pub(super) fn uncompressed<'r>(set: &[&'r Row], row: &Row) -> Option<&'r Row> {
    let key = &row.key;
    let alike = |other: &Key| (&other.tool, other.block) == (&key.tool, key.block);
    // EROFS has no fragments where nothing is compressed: then the one that has most in common.
    let mut all: Vec<&Row> =
        set.iter().copied().filter(|other| other.key.codec == "none" && alike(&other.key)).collect();
    all.sort_by_key(|other| (other.key.features != key.features, std::cmp::Reverse(other.key.features.len())));
    all.first().copied()
}
