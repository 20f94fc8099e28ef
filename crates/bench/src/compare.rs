//! Compares two sets of results cell by cell: times, sizes and memory. The Mann-Whitney U test judges times; sizes are
//! the same in every run, so any difference counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::keys::{build, codec, read, split};
use crate::record::{AnyKey, BenchSession, RecordLine, RecordedKey, ResultsFile};
use crate::results::last_samples;
use crate::sample::{CodecSample, TrialSample};
use crate::stats::{SampleSummary, geometric_mean, least_probability, mann_whitney};

/// Rules for when a difference counts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CompareRules {
    /// Significance level, from 0 to 1.
    pub alpha: f64,
    /// Minimum relative difference of a quantity that varies from run to run: 0.01 is 1 %.
    pub threshold: f64,
}

impl Default for CompareRules {
    fn default() -> Self {
        // 5 % is the usual level. A change of less than 1 % is of no interest, however certain it is.
        CompareRules { alpha: 0.05, threshold: 0.01 }
    }
}

/// A measured quantity. Less is always better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompareMetric {
    /// Seconds of a build, read or split.
    Time,
    /// Seconds to compress all blocks.
    Encode,
    /// Seconds to decompress them.
    Decode,
    /// Bytes of the result.
    Size,
    /// Peak memory in bytes.
    Memory,
}

impl CompareMetric {
    /// All quantities.
    pub const ALL: [CompareMetric; 5] =
        [CompareMetric::Time, CompareMetric::Encode, CompareMetric::Decode, CompareMetric::Size, CompareMetric::Memory];

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            CompareMetric::Time => "time",
            CompareMetric::Encode => "compressing",
            CompareMetric::Decode => "decompressing",
            CompareMetric::Size => "size",
            CompareMetric::Memory => "memory",
        }
    }
}

/// Verdict on the change of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeVerdict {
    /// Significantly larger: slower, or more bytes.
    Worse,
    /// Significantly smaller: faster, or fewer bytes.
    Better,
    /// No significant difference.
    Same,
    /// Too few samples for a significant difference.
    TooFew,
}

/// Old and new samples of one quantity of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricChange {
    /// Key of the cell.
    pub key: AnyKey,
    /// The quantity.
    pub metric: CompareMetric,
    /// Old samples.
    pub old: SampleSummary,
    /// New samples.
    pub new: SampleSummary,
    /// Probability that chance alone causes a difference of this size; `None` if nothing varies.
    pub p: Option<f64>,
    /// The verdict.
    pub verdict: ChangeVerdict,
}

impl MetricChange {
    /// Returns the new median divided by the old one.
    pub fn factor(&self) -> Option<f64> {
        (self.old.median > 0.0).then(|| self.new.median / self.old.median)
    }
}

/// The comparison of results with earlier ones.
#[derive(Debug, Clone, Default)]
pub struct ResultsComparison {
    /// Rules for when a difference counts.
    pub rules: CompareRules,
    /// All quantities of all cells that both sides have, sorted by key.
    pub changes: Vec<MetricChange>,
    /// Cells that only the old results have.
    pub only_old: Vec<AnyKey>,
    /// Cells that only the new results have.
    pub only_new: Vec<AnyKey>,
    /// Sessions of the old results.
    pub old: Vec<BenchSession>,
    /// Sessions of the new results.
    pub new: Vec<BenchSession>,
}

impl ResultsComparison {
    /// Compares results with earlier ones. If several sessions of a side measured a cell, the last one counts.
    pub fn of(new: &[ResultsFile], old: &[ResultsFile], rules: CompareRules) -> Self {
        let new: Vec<&RecordLine> = new.iter().flat_map(|file| &file.lines).collect();
        let old: Vec<&RecordLine> = old.iter().flat_map(|file| &file.lines).collect();
        let mut comparison = ResultsComparison {
            rules,
            old: used_sessions(&old),
            new: used_sessions(&new),
            ..ResultsComparison::default()
        };
        comparison.compare::<codec::CodecKey>(&new, &old);
        comparison.compare::<build::BuildKey>(&new, &old);
        comparison.compare::<read::ReadKey>(&new, &old);
        comparison.compare::<split::SplitKey>(&new, &old);
        comparison
    }

    /// Returns the changes with a verdict.
    pub fn with(&self, verdict: ChangeVerdict) -> impl Iterator<Item = &MetricChange> {
        self.changes.iter().filter(move |change| change.verdict == verdict)
    }

    /// Returns true if anything got worse.
    pub fn is_worse(&self) -> bool {
        self.with(ChangeVerdict::Worse).next().is_some()
    }

    /// Returns the geometric mean of a quantity's factors over all cells, and their number.
    pub fn mean(&self, metric: CompareMetric) -> Option<(f64, usize)> {
        let changes = self.changes.iter().filter(|change| change.metric == metric);
        let factors: Vec<f64> = changes.filter_map(MetricChange::factor).filter(|factor| *factor > 0.0).collect();
        Some((geometric_mean(&factors)?, factors.len()))
    }

    /// Compares the cells of one kind.
    fn compare<K: RecordedKey>(&mut self, new: &[&RecordLine], old: &[&RecordLine])
    where
        K::Sample: HasMetrics,
    {
        let new = last_samples::<K>(new);
        let old = last_samples::<K>(old);
        // Cells of only one side say nothing about a change, and are listed instead.
        for (key, (_, new_samples)) in &new {
            let any_key = (*key).clone().into_any();
            let Some((_, old_samples)) = old.get(key) else {
                self.only_new.push(any_key);
                continue;
            };
            for metric in CompareMetric::ALL {
                let values = |samples: &[&K::Sample]| -> Vec<f64> {
                    samples.iter().filter_map(|sample| sample.measure(metric)).collect()
                };
                self.changes.extend(judge_change(
                    any_key.clone(),
                    metric,
                    &values(old_samples),
                    &values(new_samples),
                    self.rules,
                ));
            }
        }
        let only_old = old.keys().filter(|key| !new.contains_key(*key));
        self.only_old.extend(only_old.map(|key| (*key).clone().into_any()));
    }
}

/// Returns the sessions that contain the last samples of any cell, sorted by name.
fn used_sessions(lines: &[&RecordLine]) -> Vec<BenchSession> {
    let mut used = BTreeSet::new();
    used.extend(last_samples::<codec::CodecKey>(lines).into_values().map(|(session, _)| session));
    used.extend(last_samples::<build::BuildKey>(lines).into_values().map(|(session, _)| session));
    used.extend(last_samples::<read::ReadKey>(lines).into_values().map(|(session, _)| session));
    used.extend(last_samples::<split::SplitKey>(lines).into_values().map(|(session, _)| session));
    let mut sessions = BTreeMap::new();
    for line in lines {
        if let RecordLine::Session(session) = line
            && used.contains(session.session.as_str())
        {
            sessions.insert(&session.session, session.clone());
        }
    }
    sessions.into_values().collect()
}

/// A sample with quantities to compare.
trait HasMetrics {
    /// Returns a quantity, if the sample has it.
    fn measure(&self, metric: CompareMetric) -> Option<f64>;
}

impl HasMetrics for CodecSample {
    fn measure(&self, metric: CompareMetric) -> Option<f64> {
        match metric {
            CompareMetric::Encode => Some(self.encode.seconds()),
            CompareMetric::Decode => self.decode.map(|decode| decode.seconds()),
            CompareMetric::Size => Some(self.sizes.stored as f64),
            CompareMetric::Time | CompareMetric::Memory => None,
        }
    }
}

impl HasMetrics for TrialSample {
    fn measure(&self, metric: CompareMetric) -> Option<f64> {
        match metric {
            CompareMetric::Time => Some(self.time.seconds()),
            CompareMetric::Size => (self.made > 0).then_some(self.made as f64),
            CompareMetric::Memory => self.peak_memory.map(|bytes| bytes as f64),
            CompareMetric::Encode | CompareMetric::Decode => None,
        }
    }
}

/// Compares the samples of one quantity.
fn judge_change(
    key: AnyKey,
    metric: CompareMetric,
    old: &[f64],
    new: &[f64],
    rules: CompareRules,
) -> Option<MetricChange> {
    let before = SampleSummary::of(old)?;
    let after = SampleSummary::of(new)?;
    let constant = |one: &SampleSummary| one.min == one.max;
    // Sizes do not vary from run to run, so a single byte is a change and needs no test.
    let exact = metric == CompareMetric::Size && constant(&before) && constant(&after);
    let p = if exact { None } else { mann_whitney(old, new) };
    let direction = if after.median > before.median { ChangeVerdict::Worse } else { ChangeVerdict::Better };
    let exceeds_threshold = (after.median - before.median).abs() >= rules.threshold * before.median;
    let verdict = match p {
        _ if after.median == before.median => ChangeVerdict::Same,
        None => direction,
        // With so few samples, even sets without overlap could be chance.
        Some(_) if least_probability(old.len(), new.len()) >= rules.alpha => ChangeVerdict::TooFew,
        Some(p) if p < rules.alpha && exceeds_threshold => direction,
        Some(_) => ChangeVerdict::Same,
    };
    Some(MetricChange { key, metric, old: before, new: after, p, verdict })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{MachineRecord, MeasuredSample};
    use crate::sample::PassTiming;

    fn key(codec: &str) -> build::BuildKey {
        build::BuildKey {
            source: "root".into(),
            digest: "00".into(),
            tool: "packfs".into(),
            format: "squashfs".into(),
            codec: codec.into(),
            block: 131_072,
            features: String::new(),
            threads: 2,
        }
    }

    fn session(name: &str) -> RecordLine {
        let machine = MachineRecord { cpu: "one".into(), ..MachineRecord::default() };
        RecordLine::Session(BenchSession { session: name.into(), machine, ..BenchSession::default() })
    }

    /// Lines of a build: milliseconds of each run, and the size of the image.
    fn builds(session: &str, codec: &str, ms: &[u64], made: u64) -> Vec<RecordLine> {
        let line = |ms: &u64| {
            let time = PassTiming { wall: ms * 1_000_000, cpu: ms * 1_000_000, passes: 1 };
            let sample = TrialSample { time, bytes: 1000, made, peak_memory: Some(1 << 20), stages: BTreeMap::new() };
            RecordLine::Build(MeasuredSample { session: session.into(), key: key(codec), sample })
        };
        ms.iter().map(line).collect()
    }

    fn contents(lines: Vec<Vec<RecordLine>>) -> Vec<ResultsFile> {
        vec![ResultsFile { lines: lines.concat(), ..ResultsFile::default() }]
    }

    /// lz4 gets slower and larger, zstd faster; gzip only varies, and xz has too few samples.
    pub(crate) fn sample() -> ResultsComparison {
        let old = contents(vec![
            vec![session("old")],
            builds("old", "lz4", &[100, 101, 102, 101, 100], 500),
            builds("old", "zstd", &[300, 301, 302, 303, 304], 400),
            builds("old", "gzip", &[400, 440, 410, 420, 430], 450),
            builds("old", "xz", &[900, 901], 300),
            builds("old", "lzo", &[900, 901], 300),
        ]);
        let new = contents(vec![
            vec![session("new")],
            builds("new", "lz4", &[110, 111, 112, 111, 110], 501),
            builds("new", "zstd", &[200, 201, 202, 203, 204], 400),
            builds("new", "gzip", &[405, 435, 415, 425, 445], 450),
            builds("new", "xz", &[1800, 1801], 300),
            builds("new", "lzma", &[900], 300),
        ]);
        ResultsComparison::of(&new, &old, CompareRules::default())
    }

    #[test]
    fn what_changed_is_told_from_noise() {
        let comparison = sample();
        let verdicts: Vec<_> = comparison
            .changes
            .iter()
            .map(|change| {
                let AnyKey::Build(key) = &change.key else { panic!() };
                (key.codec.as_str(), change.metric, change.verdict)
            })
            .collect();
        use CompareMetric::{Memory, Size, Time};
        let want = [
            ("gzip", Time, ChangeVerdict::Same),
            ("gzip", Size, ChangeVerdict::Same),
            ("gzip", Memory, ChangeVerdict::Same),
            ("lz4", Time, ChangeVerdict::Worse),
            ("lz4", Size, ChangeVerdict::Worse),
            ("lz4", Memory, ChangeVerdict::Same),
            ("xz", Time, ChangeVerdict::TooFew),
            ("xz", Size, ChangeVerdict::Same),
            ("xz", Memory, ChangeVerdict::Same),
            ("zstd", Time, ChangeVerdict::Better),
            ("zstd", Size, ChangeVerdict::Same),
            ("zstd", Memory, ChangeVerdict::Same),
        ];
        assert_eq!(verdicts, want);
        assert!(comparison.is_worse());
        let lz4 = &comparison.changes[3];
        assert!((lz4.factor().unwrap() - 111.0 / 101.0).abs() < 1e-12 && lz4.p.unwrap() < 0.01);
        assert_eq!(comparison.changes[4].p, None, "sizes do not vary");
        let codecs = |keys: &[AnyKey]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(codecs(&comparison.only_old)[0].contains("lzo") && codecs(&comparison.only_new)[0].contains("lzma"));
        assert_eq!((comparison.old[0].session.as_str(), comparison.new[0].session.as_str()), ("old", "new"));
        let (mean, count) = comparison.mean(CompareMetric::Size).unwrap();
        assert!((mean - 1.002f64.powf(0.25)).abs() < 1e-12 && count == 4, "{mean}");
    }

    #[test]
    fn rules_decide() {
        let lines = |name: &str, ms: &[u64]| contents(vec![vec![session(name)], builds(name, "lz4", ms, 500)]);
        let old = lines("old", &[1000, 1001, 1002, 1003, 1004]);
        let new = lines("new", &[1005, 1006, 1007, 1008, 1009]);
        let verdict = |rules| ResultsComparison::of(&new, &old, rules).changes[0].verdict;
        // Significant, but only half a percent.
        assert_eq!(verdict(CompareRules::default()), ChangeVerdict::Same);
        assert_eq!(verdict(CompareRules { threshold: 0.0, ..CompareRules::default() }), ChangeVerdict::Worse);
        assert_eq!(verdict(CompareRules { alpha: 0.001, threshold: 0.0 }), ChangeVerdict::TooFew);
        // Identical results have no differences.
        assert!(
            ResultsComparison::of(&old, &old, CompareRules::default())
                .changes
                .iter()
                .all(|one| one.verdict == ChangeVerdict::Same)
        );
        assert!(ResultsComparison::of(&[], &old, CompareRules::default()).changes.is_empty());
    }
}
