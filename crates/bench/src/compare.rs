//! Compares two sets of results cell by cell: times, sizes and memory. The Mann-Whitney U test judges times; sizes are
//! the same in every run, so any difference counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::keys::{build, codec, read, split};
use crate::record::{AnyKey, Contents, Line, Recorded, Session};
use crate::results::last_samples;
use crate::sample::{CodecSample, Trial};
use crate::stats::{Summary, geometric_mean, least_probability, mann_whitney};

/// Rules for when a difference counts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Rules {
    /// Significance level, from 0 to 1.
    pub alpha: f64,
    /// Minimum relative difference of a quantity that varies from run to run: 0.01 is 1 %.
    pub threshold: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { alpha: 0.05, threshold: 0.01 }
    }
}

/// A measured quantity. Less is always better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
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

impl Metric {
    /// All quantities.
    pub const ALL: [Metric; 5] = [Metric::Time, Metric::Encode, Metric::Decode, Metric::Size, Metric::Memory];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Time => "time",
            Metric::Encode => "compressing",
            Metric::Decode => "decompressing",
            Metric::Size => "size",
            Metric::Memory => "memory",
        }
    }
}

/// Verdict on the change of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
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
pub struct Change {
    /// Key of the cell.
    pub key: AnyKey,
    /// The quantity.
    pub metric: Metric,
    /// Old samples.
    pub old: Summary,
    /// New samples.
    pub new: Summary,
    /// Probability that chance alone causes a difference of this size; `None` if nothing varies.
    pub p: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Change {
    /// Returns the new median divided by the old one.
    pub fn factor(&self) -> Option<f64> {
        (self.old.median > 0.0).then(|| self.new.median / self.old.median)
    }
}

/// The comparison of results with earlier ones.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// Rules for when a difference counts.
    pub rules: Rules,
    /// All quantities of all cells that both sides have, sorted by key.
    pub changes: Vec<Change>,
    /// Cells that only the old results have.
    pub only_old: Vec<AnyKey>,
    /// Cells that only the new results have.
    pub only_new: Vec<AnyKey>,
    /// Sessions of the old results.
    pub old: Vec<Session>,
    /// Sessions of the new results.
    pub new: Vec<Session>,
}

impl Comparison {
    /// Compares results with earlier ones. If several sessions of a side measured a cell, the last one counts.
    pub fn of(new: &[Contents], old: &[Contents], rules: Rules) -> Self {
        let new = Side::of(new);
        let old = Side::of(old);
        let mut comparison = Comparison { rules, ..Comparison::default() };
        comparison.compare::<codec::Key>(&new, &old);
        comparison.compare::<build::Key>(&new, &old);
        comparison.compare::<read::Key>(&new, &old);
        comparison.compare::<split::Key>(&new, &old);
        (comparison.old, comparison.new) = (old.sessions(), new.sessions());
        comparison
    }

    /// Returns the changes with a verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.verdict == verdict)
    }

    /// Returns true if anything got worse.
    pub fn is_worse(&self) -> bool {
        self.with(Verdict::Worse).next().is_some()
    }

    /// Returns the geometric mean of a quantity's factors over all cells, and their number.
    pub fn mean(&self, metric: Metric) -> Option<(f64, usize)> {
        let of = self.changes.iter().filter(|change| change.metric == metric);
        let factors: Vec<f64> = of.filter_map(Change::factor).filter(|factor| *factor > 0.0).collect();
        Some((geometric_mean(&factors)?, factors.len()))
    }

    fn compare<K: Recorded>(&mut self, new: &Side<'_>, old: &Side<'_>)
    where
        K::Sample: Measures,
    {
        let new = last_samples::<K>(&new.lines);
        let old = last_samples::<K>(&old.lines);
        for (key, (_, samples)) in &new {
            let Some((_, before)) = old.get(key) else {
                self.only_new.push((*key).clone().any());
                continue;
            };
            for metric in Metric::ALL {
                let values = |samples: &[&K::Sample]| samples.iter().filter_map(|one| one.measure(metric)).collect();
                let (old, new): (Vec<f64>, Vec<f64>) = (values(before), values(samples));
                self.changes.extend(judge((*key).clone().any(), metric, &old, &new, self.rules));
            }
        }
        self.only_old.extend(old.keys().filter(|key| !new.contains_key(*key)).map(|key| (*key).clone().any()));
    }
}

/// Lines of one side of the comparison.
struct Side<'l> {
    lines: Vec<&'l Line>,
}

impl<'l> Side<'l> {
    fn of(files: &'l [Contents]) -> Self {
        Side { lines: files.iter().flat_map(|file| &file.lines).collect() }
    }

    /// Returns the sessions that contain the last samples of any cell.
    fn sessions(&self) -> Vec<Session> {
        let mut used = BTreeSet::new();
        used.extend(last_samples::<codec::Key>(&self.lines).into_values().map(|(session, _)| session));
        used.extend(last_samples::<build::Key>(&self.lines).into_values().map(|(session, _)| session));
        used.extend(last_samples::<read::Key>(&self.lines).into_values().map(|(session, _)| session));
        used.extend(last_samples::<split::Key>(&self.lines).into_values().map(|(session, _)| session));
        let mut sessions = BTreeMap::new();
        for line in &self.lines {
            if let Line::Session(session) = line
                && used.contains(session.session.as_str())
            {
                sessions.insert(&session.session, session.clone());
            }
        }
        sessions.into_values().collect()
    }
}

/// A sample with quantities to compare.
trait Measures {
    /// Returns a quantity, if the sample has it.
    fn measure(&self, metric: Metric) -> Option<f64>;
}

impl Measures for CodecSample {
    fn measure(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Encode => Some(self.encode.seconds()),
            Metric::Decode => self.decode.map(|decode| decode.seconds()),
            Metric::Size => Some(self.sizes.stored as f64),
            Metric::Time | Metric::Memory => None,
        }
    }
}

impl Measures for Trial {
    fn measure(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Time => Some(self.time.seconds()),
            Metric::Size => (self.made > 0).then_some(self.made as f64),
            Metric::Memory => self.peak_memory.map(|bytes| bytes as f64),
            Metric::Encode | Metric::Decode => None,
        }
    }
}

/// Compares the samples of one quantity.
fn judge(key: AnyKey, metric: Metric, old: &[f64], new: &[f64], rules: Rules) -> Option<Change> {
    let before = Summary::of(old)?;
    let after = Summary::of(new)?;
    let constant = |one: &Summary| one.min == one.max;
    let exact = metric == Metric::Size && constant(&before) && constant(&after);
    let p = if exact { None } else { mann_whitney(old, new) };
    let direction = if after.median > before.median { Verdict::Worse } else { Verdict::Better };
    let far = (after.median - before.median).abs() >= rules.threshold * before.median;
    let verdict = match p {
        _ if after.median == before.median => Verdict::Same,
        None => direction,
        Some(_) if least_probability(old.len(), new.len()) >= rules.alpha => Verdict::TooFew,
        Some(p) if p < rules.alpha && far => direction,
        Some(_) => Verdict::Same,
    };
    Some(Change { key, metric, old: before, new: after, p, verdict })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{Machine, Measured};
    use crate::sample::Timing;

    fn key(codec: &str) -> build::Key {
        build::Key {
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

    fn session(name: &str) -> Line {
        let machine = Machine { cpu: "one".into(), ..Machine::default() };
        Line::Session(Session { session: name.into(), machine, ..Session::default() })
    }

    /// Lines of a build: milliseconds of each run, and the size of the image.
    fn builds(session: &str, codec: &str, ms: &[u64], made: u64) -> Vec<Line> {
        let line = |ms: &u64| {
            let time = Timing { wall: ms * 1_000_000, cpu: ms * 1_000_000, passes: 1 };
            let sample = Trial { time, bytes: 1000, made, peak_memory: Some(1 << 20), stages: BTreeMap::new() };
            Line::Build(Measured { session: session.into(), key: key(codec), sample })
        };
        ms.iter().map(line).collect()
    }

    fn contents(lines: Vec<Vec<Line>>) -> Vec<Contents> {
        vec![Contents { lines: lines.concat(), ..Contents::default() }]
    }

    /// lz4 gets slower and larger, zstd faster; gzip only varies, and xz has too few samples.
    pub(crate) fn sample() -> Comparison {
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
        Comparison::of(&new, &old, Rules::default())
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
        use Metric::{Memory, Size, Time};
        let want = [
            ("gzip", Time, Verdict::Same),
            ("gzip", Size, Verdict::Same),
            ("gzip", Memory, Verdict::Same),
            ("lz4", Time, Verdict::Worse),
            ("lz4", Size, Verdict::Worse),
            ("lz4", Memory, Verdict::Same),
            ("xz", Time, Verdict::TooFew),
            ("xz", Size, Verdict::Same),
            ("xz", Memory, Verdict::Same),
            ("zstd", Time, Verdict::Better),
            ("zstd", Size, Verdict::Same),
            ("zstd", Memory, Verdict::Same),
        ];
        assert_eq!(verdicts, want);
        assert!(comparison.is_worse());
        let lz4 = &comparison.changes[3];
        assert!((lz4.factor().unwrap() - 111.0 / 101.0).abs() < 1e-12 && lz4.p.unwrap() < 0.01);
        assert_eq!(comparison.changes[4].p, None, "sizes do not vary");
        let codecs = |keys: &[AnyKey]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(codecs(&comparison.only_old)[0].contains("lzo") && codecs(&comparison.only_new)[0].contains("lzma"));
        assert_eq!((comparison.old[0].session.as_str(), comparison.new[0].session.as_str()), ("old", "new"));
        let (mean, count) = comparison.mean(Metric::Size).unwrap();
        assert!((mean - 1.002f64.powf(0.25)).abs() < 1e-12 && count == 4, "{mean}");
    }

    #[test]
    fn rules_decide() {
        let lines = |name: &str, ms: &[u64]| contents(vec![vec![session(name)], builds(name, "lz4", ms, 500)]);
        let old = lines("old", &[1000, 1001, 1002, 1003, 1004]);
        let new = lines("new", &[1005, 1006, 1007, 1008, 1009]);
        let verdict = |rules| Comparison::of(&new, &old, rules).changes[0].verdict;
        // Significant, but only half a percent.
        assert_eq!(verdict(Rules::default()), Verdict::Same);
        assert_eq!(verdict(Rules { threshold: 0.0, ..Rules::default() }), Verdict::Worse);
        assert_eq!(verdict(Rules { alpha: 0.001, threshold: 0.0 }), Verdict::TooFew);
        // Identical results have no differences.
        assert!(Comparison::of(&old, &old, Rules::default()).changes.iter().all(|one| one.verdict == Verdict::Same));
        assert!(Comparison::of(&[], &old, Rules::default()).changes.is_empty());
    }
}
