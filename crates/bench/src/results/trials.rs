//! Results of trials (builds, reads, splits): a row for each cell, with medians.

use std::collections::BTreeMap;

use crate::keys::build::BuildKey;
use crate::keys::read::ReadKey;
use crate::keys::split::SplitKey;
use crate::sample::TrialSample;
use crate::stats::SampleSummary;

/// A cell as the last session measured it.
#[derive(Debug, Clone)]
pub struct TrialRow<K> {
    /// Key of the cell.
    pub key: K,
    /// Name of the session.
    pub session: String,
    /// Bytes of the input.
    pub bytes: u64,
    /// Bytes of the output; of the last run, if they differ.
    pub made: u64,
    /// Elapsed seconds.
    pub time: SampleSummary,
    /// Median processor time in seconds.
    pub cpu: f64,
    /// Largest peak memory of any run.
    pub peak_memory: Option<u64>,
    /// Median seconds of each stage, summed over all threads.
    pub stages: BTreeMap<String, f64>,
}

/// Builds of an image.
pub type BuildRow = TrialRow<BuildKey>;
/// Reads of an image.
pub type ReadRow = TrialRow<ReadKey>;
/// Splits, joins or checks of a dump.
pub type SplitRow = TrialRow<SplitKey>;

impl<K> TrialRow<K> {
    pub(super) fn of(key: K, session: &str, samples: &[&TrialSample]) -> Option<Self> {
        let last = samples.last()?;
        let summary = |value: fn(&TrialSample) -> f64| {
            SampleSummary::of(&samples.iter().map(|one| value(one)).collect::<Vec<_>>())
        };
        let stage = |name: &String| {
            let seconds: Vec<f64> = samples.iter().filter_map(|one| one.stages.get(name).copied()).collect();
            Some((name.clone(), SampleSummary::of(&seconds)?.median))
        };
        Some(TrialRow {
            key,
            session: session.to_owned(),
            bytes: last.bytes,
            made: last.made,
            time: summary(|one| one.time.seconds())?,
            cpu: summary(|one| one.time.cpu_seconds())?.median,
            peak_memory: samples.iter().filter_map(|one| one.peak_memory).max(),
            stages: last.stages.keys().filter_map(stage).collect(),
        })
    }

    /// Returns the MB/s of input.
    pub fn speed(&self) -> Option<f64> {
        (self.time.median > 0.0).then(|| self.bytes as f64 / 1e6 / self.time.median)
    }

    /// Returns the output length divided by the input length. Below 1 is a gain.
    pub fn ratio(&self) -> Option<f64> {
        // Joins and checks have no output to relate.
        (self.bytes > 0 && self.made > 0).then(|| self.made as f64 / self.bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::PassTiming;

    #[test]
    fn rows_have_medians_of_their_trials() {
        let trial = |ms: u64, read: f64| TrialSample {
            time: PassTiming { wall: ms * 1_000_000, cpu: 2 * ms * 1_000_000, passes: 1 },
            bytes: 30_000_000,
            made: 10_000_000,
            peak_memory: Some(ms),
            stages: [("read".to_owned(), read)].into(),
        };
        let trials = [trial(100, 0.5), trial(300, 0.1), trial(200, 0.3)];
        let row = TrialRow::of("key", "session", &trials.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((row.time.median, row.cpu, row.peak_memory), (0.2, 0.4, Some(300)));
        assert_eq!((row.stages["read"], row.time.count), (0.3, 3));
        assert!((row.speed().unwrap() - 150.0).abs() < 1e-9 && (row.ratio().unwrap() - 1.0 / 3.0).abs() < 1e-12);
        assert!(TrialRow::of("key", "session", &[]).is_none());
    }
}
