//! Grouping of builds: a set has one source and format, a group in it one choice of blocks and features, and a line in
//! that one program and codec, with a point for each number of threads.

use std::cmp::Reverse;

use super::super::shape::tool_and_codec;
use crate::build::{BuildKey, BuildProgram, ScalingModel};
use crate::metrics::{efficiency, speedup};
use crate::results::{BenchResults, BuildRow};

/// Number of threads that sentences predict for; columns of the table of stages repeat it.
pub(super) const MANY_THREADS: usize = 64;

/// Returns the sets: builds of one source in one format.
pub(super) fn sets(results: &BenchResults) -> Vec<Vec<&BuildRow>> {
    split_by(&results.builds.iter().collect::<Vec<_>>(), |key| (&key.source, &key.digest, &key.format))
}

/// Returns the groups of a set: builds with the same block size and features.
pub(super) fn groups<'r>(set: &[&'r BuildRow]) -> Vec<Vec<&'r BuildRow>> {
    split_by(set, |key| (key.block, &key.features))
}

/// Returns the lines of a group: builds that differ only in the number of threads, sorted by it.
pub(super) fn lines<'r>(rows: &[&'r BuildRow]) -> Vec<Vec<&'r BuildRow>> {
    split_by(rows, |key| (&key.tool, &key.codec, key.block, &key.features))
}

/// Groups rows by a part of their keys, in the order of first occurrence.
fn split_by<'r, T: PartialEq>(rows: &[&'r BuildRow], by: impl Fn(&'r BuildKey) -> T) -> Vec<Vec<&'r BuildRow>> {
    let mut groups: Vec<Vec<&BuildRow>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| by(&group[0].key) == by(&row.key)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// Returns program and codec.
pub(super) fn label(key: &BuildKey) -> String {
    tool_and_codec(&key.tool, &key.codec)
}

/// Returns true if packfs itself built the image.
pub(super) fn is_packfs(key: &BuildKey) -> bool {
    key.tool == BuildProgram::Packfs.name()
}

/// Returns the features for display.
pub(super) fn features(key: &BuildKey) -> &str {
    if key.features.is_empty() { "plain" } else { &key.features }
}

/// Returns the row with this number of threads.
pub(super) fn row_with<'r>(line: &[&'r BuildRow], threads: usize) -> Option<&'r BuildRow> {
    line.iter().copied().find(|row| row.key.threads == threads)
}

/// Baseline of a speed-up.
#[derive(Debug, Clone, Copy)]
pub(super) enum SpeedupBase {
    /// T(1): relative speed-up.
    One,
    /// T(serial): absolute speed-up.
    Serial,
}

impl SpeedupBase {
    fn row<'r>(self, line: &[&'r BuildRow]) -> Option<&'r BuildRow> {
        row_with(line, if matches!(self, SpeedupBase::One) { 1 } else { 0 })
    }

    /// Returns T(base) / T(n). The document that defines it inverts it in the formula, but not in the charts.
    pub(super) fn speedup(self, line: &[&BuildRow], row: &BuildRow) -> Option<f64> {
        speedup(self.row(line)?.time.median, row.time.median).filter(|_| row.key.threads > 0)
    }

    /// Returns the speed-up divided by the number of threads.
    pub(super) fn efficiency(self, line: &[&BuildRow], row: &BuildRow) -> Option<f64> {
        let base = self.row(line)?.time.median;
        efficiency(base, row.time.median, row.key.threads).filter(|_| row.key.threads > 0)
    }
}

/// Returns the fastest row of a line.
pub(super) fn fastest<'r>(line: &[&'r BuildRow]) -> Option<&'r BuildRow> {
    line.iter().copied().min_by(|a, b| a.time.median.total_cmp(&b.time.median))
}

/// Returns the model of a line and the number of threads it was fitted to: the largest for which there are processors,
/// so that contention is included.
pub(super) fn fit_model(results: &BenchResults, line: &[&BuildRow]) -> Option<(ScalingModel, usize)> {
    let processors = |row: &BuildRow| {
        let session = results.sessions.iter().find(|session| session.session == row.session);
        session.map_or(1, |session| session.machine.processors)
    };
    let fits = |row: &&&BuildRow| (1..=processors(row)).contains(&row.key.threads);
    let row = line.iter().filter(fits).max_by_key(|row| row.key.threads)?;
    Some((ScalingModel::of(&row.stages, row.time.median, processors(row))?, row.key.threads))
}

/// Returns the largest relative error of the model on a line.
pub(super) fn model_error(model: &ScalingModel, line: &[&BuildRow]) -> f64 {
    let miss = |row: &&BuildRow| (model.seconds(row.key.threads) / row.time.median - 1.0).abs();
    // A run of 0 seconds has no relative error.
    line.iter().map(miss).filter(|miss| miss.is_finite()).fold(0.0, f64::max)
}

/// Returns the length of the source as a tar archive.
pub(super) fn tar_bytes(results: &BenchResults, row: &BuildRow) -> Option<u64> {
    let session = results.sessions.iter().find(|session| session.session == row.session)?;
    session.settings.get("tar")?.parse().ok()
}

/// Returns the uncompressed image with otherwise equal settings.
pub(super) fn uncompressed<'r>(set: &[&'r BuildRow], row: &BuildRow) -> Option<&'r BuildRow> {
    let key = &row.key;
    let is_plain =
        |other: &&BuildRow| other.key.codec == "none" && (&other.key.tool, other.key.block) == (&key.tool, key.block);
    // Uncompressed EROFS has no fragments: take the most similar image.
    let plain = set.iter().copied().filter(is_plain);
    plain.min_by_key(|other| (other.key.features != key.features, Reverse(other.key.features.len())))
}
