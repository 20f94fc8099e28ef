//! Results, computed from recorded samples: a row for each cell, with medians and derived values.

mod codecs;
mod trials;

use std::collections::{BTreeMap, BTreeSet};

use crate::keys::{build, codec, read, split};
use crate::record::{AnyKey, BenchSession, FailedCell, RecordLine, RecordedKey, ResultsFile};
use crate::stats::{SampleSummary, WIDE_SPREAD};

pub use codecs::CodecRow;
pub use trials::{BuildRow, ReadRow, SplitRow, TrialRow};

/// Results of one or more files. Rows are sorted by key.
#[derive(Debug, Clone, Default)]
pub struct BenchResults {
    /// Sessions of the rows, sorted by time.
    pub sessions: Vec<BenchSession>,
    /// Codecs on blocks.
    pub codecs: Vec<CodecRow>,
    /// Images built.
    pub builds: Vec<BuildRow>,
    /// Images read.
    pub reads: Vec<ReadRow>,
    /// Dumps split and joined.
    pub splits: Vec<SplitRow>,
    /// Cells that failed and were never measured.
    pub failures: Vec<FailedCell>,
    /// Cells measured in several sessions whose medians differ by more than the spread.
    pub disagreements: Vec<SessionDisagreement>,
    /// Number of cells measured in several sessions.
    pub repeated: usize,
}

/// A cell on which two sessions disagree.
#[derive(Debug, Clone)]
pub struct SessionDisagreement {
    /// Description of the cell.
    pub cell: String,
    /// Median speed of the last session relative to the one before.
    pub factor: f64,
}

/// Samples of a cell by session, in file order.
type SamplesBySession<'l, S> = Vec<(&'l str, Vec<&'l S>)>;

impl BenchResults {
    /// Combines files of results in the given order. If several sessions measured a cell, the last one counts.
    pub fn of(files: &[ResultsFile]) -> Self {
        let lines: Vec<&RecordLine> = files.iter().flat_map(|file| &file.lines).collect();
        let mut results = BenchResults::default();
        let mut seen = SeenCells::default();
        results.codecs = results.rows::<codec::CodecKey, _>(&lines, &mut seen, CodecRow::of);
        results.builds = results.rows::<build::BuildKey, _>(&lines, &mut seen, TrialRow::of);
        results.reads = results.rows::<read::ReadKey, _>(&lines, &mut seen, TrialRow::of);
        results.splits = results.rows::<split::SplitKey, _>(&lines, &mut seen, TrialRow::of);
        // After the rows, which fill `seen`: superseded sessions and failures that were measured later are left out.
        for line in lines {
            match line {
                RecordLine::Session(session) if seen.sessions.contains(session.session.as_str()) => {
                    results.sessions.push(session.clone());
                }
                RecordLine::Failure(failure) if !seen.keys.contains(&failure.key) => {
                    results.failures.push(failure.clone())
                }
                _ => {}
            }
        }
        results
    }

    /// Returns the spread of every row.
    pub fn spreads(&self) -> Vec<SampleSpread> {
        let builds = self.builds.iter().map(|row| &row.time);
        let reads = self.reads.iter().map(|row| &row.time);
        let splits = self.splits.iter().map(|row| &row.time);
        let mut spreads = Vec::new();
        for row in &self.codecs {
            spreads.push(SampleSpread::of(std::iter::once(&row.encode).chain(&row.decode)));
        }
        spreads.extend(builds.chain(reads).chain(splits).map(|time| SampleSpread::of(std::iter::once(time))));
        spreads
    }

    /// Returns the rows of one kind, each from the last session that has samples of it.
    fn rows<'l, K, R>(
        &mut self,
        lines: &[&'l RecordLine],
        seen: &mut SeenCells<'l>,
        row: impl Fn(K, &str, &[&K::Sample]) -> Option<R>,
    ) -> Vec<R>
    where
        K: RecordedKey + 'l,
        K::Sample: 'l,
    {
        let mut rows = Vec::new();
        for (key, sessions) in samples_by_cell::<K>(lines) {
            if let [.., (_, before), (_, last)] = &sessions[..] {
                self.compare_sessions(key, before, last);
            }
            let Some((session, samples)) = sessions.last() else { continue };
            seen.sessions.insert(session);
            seen.keys.insert(key.clone().into_any());
            rows.extend(row(key.clone(), session, samples));
        }
        rows
    }

    /// Compares the medians of two sessions for one cell.
    fn compare_sessions<K: RecordedKey>(&mut self, key: &K, before: &[&K::Sample], last: &[&K::Sample]) {
        let median = |samples: &[&K::Sample]| {
            let seconds: Vec<f64> = samples.iter().map(|sample| K::seconds(sample)).collect();
            SampleSummary::of(&seconds).map(|summary| summary.median)
        };
        let Some((before, last)) = median(before).zip(median(last)) else { return };
        self.repeated += 1;
        let factor = before / last;
        // The same limit as for the samples of one session.
        if !(1.0 - WIDE_SPREAD..=1.0 + WIDE_SPREAD).contains(&factor) {
            self.disagreements.push(SessionDisagreement { cell: key.to_string(), factor });
        }
    }
}

/// Returns the samples of every cell of one kind, by session.
fn samples_by_cell<'l, K>(lines: &[&'l RecordLine]) -> BTreeMap<&'l K, SamplesBySession<'l, K::Sample>>
where
    K: RecordedKey + 'l,
    K::Sample: 'l,
{
    let mut cells: BTreeMap<&K, SamplesBySession<'l, K::Sample>> = BTreeMap::new();
    for measured in lines.iter().copied().filter_map(K::measured) {
        let sessions = cells.entry(&measured.key).or_default();
        match sessions.iter_mut().find(|(session, _)| *session == measured.session) {
            Some((_, samples)) => samples.push(&measured.sample),
            // A list keeps the order of the files, so that the last session is the newest.
            None => sessions.push((&measured.session, vec![&measured.sample])),
        }
    }
    cells
}

/// Returns the samples of every cell of one kind in the last session that measured it.
pub(crate) fn last_samples<'l, K>(lines: &[&'l RecordLine]) -> BTreeMap<&'l K, (&'l str, Vec<&'l K::Sample>)>
where
    K: RecordedKey + 'l,
    K::Sample: 'l,
{
    samples_by_cell::<K>(lines).into_iter().filter_map(|(key, mut sessions)| Some((key, sessions.pop()?))).collect()
}

/// Spread of the samples of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleSpread {
    /// Number of samples.
    pub count: usize,
    /// True if the samples are too few or vary too much for a conclusion.
    pub is_wide: bool,
    /// Largest relative spread of the quantities of the cell; `None` for a single sample.
    pub worst: Option<f64>,
}

impl SampleSpread {
    fn of<'s>(summaries: impl Iterator<Item = &'s SampleSummary>) -> Self {
        let none = SampleSpread { count: 0, is_wide: false, worst: None };
        summaries.fold(none, |spread, summary| SampleSpread {
            count: spread.count.max(summary.count),
            is_wide: spread.is_wide || summary.is_wide(),
            worst: spread.worst.into_iter().chain(summary.spread()).reduce(f64::max),
        })
    }
}

/// Sessions and cells of the rows so far.
#[derive(Default)]
struct SeenCells<'l> {
    sessions: BTreeSet<&'l str>,
    keys: BTreeSet<AnyKey>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::corpus::INCOMPRESSIBLE;
    use crate::keys::codec::CodecKey;
    use crate::metrics::PassSizes;
    use crate::record::{AnyKey, MachineRecord, MeasuredSample};
    use crate::sample::{CodecSample, PassTiming};

    /// Line of a codec that takes this many milliseconds for 100 MB.
    fn line(
        session: &str,
        data: &str,
        codec: &str,
        block: usize,
        threads: usize,
        made: (u64, u64, Option<u64>),
    ) -> RecordLine {
        let (stored, encode, decode) = made;
        let kept = decode.map_or(0, |_| 100_000_000);
        let timing = |ms: u64| PassTiming { wall: ms * 1_000_000, cpu: ms * 1_000_000 * threads as u64, passes: 1 };
        RecordLine::Codec(MeasuredSample {
            session: session.into(),
            key: CodecKey {
                data: data.into(),
                digest: "0011223344556677".into(),
                codec: codec.into(),
                block,
                sector: 4096,
                policy: "sector".into(),
                threads,
            },
            sample: CodecSample {
                sizes: PassSizes { raw: 100_000_000, stored, decoded: kept, blocks: 763, kept: kept / 131_072 },
                encode: timing(encode),
                decode: decode.map(timing),
            },
        })
    }

    /// A session with three codecs, two block sizes and two numbers of threads, and incompressible data.
    pub(crate) fn sample_lines() -> Vec<RecordLine> {
        let libraries = [("lz4", "lz4 1.10.0"), ("zstd:3", "zstd 1.5.7"), ("zlib:9", "zlib 1.3.1")];
        let mut lines = vec![RecordLine::Session(BenchSession {
            session: "one".into(),
            time: 1_795_305_600,
            program: "0.1.0".into(),
            machine: MachineRecord {
                cpu: "A <fast> processor".into(),
                processors: 2,
                governor: None,
                memory: 8 << 30,
                kernel: "Linux 6.18.0 x86_64".into(),
            },
            libraries: libraries.map(|(codec, library)| (codec.to_owned(), library.to_owned())).into(),
            seed: 1,
            runs: 3,
            ..BenchSession::default()
        })];
        for noise in [0, 4, 2] {
            for (block, more) in [(8192, 15_000_000), (131_072, 0)] {
                let mut codec = |codec: &str, stored: u64, encode: u64, decode: u64| {
                    let made = (stored + more, encode + noise, Some(decode + noise));
                    lines.push(line("one", "root", codec, block, 1, made));
                    let half = (stored + more, encode / 2 + noise, Some(decode / 2 + noise));
                    lines.push(line("one", "root", codec, block, 2, half));
                    lines.push(line("one", INCOMPRESSIBLE, codec, block, 1, (100_000_000, encode / 3 + noise, None)));
                };
                codec("lz4", 60_000_000, 200, 50);
                codec("zstd:3", 40_000_000, 500, 150);
                codec("zlib:9", 45_000_000, 4000, 400);
            }
        }
        lines
    }

    pub(crate) fn sample() -> BenchResults {
        BenchResults::of(&[ResultsFile { lines: sample_lines(), ..ResultsFile::default() }])
    }

    #[test]
    fn rows_have_the_medians_of_their_samples() {
        let results = sample();
        assert_eq!((results.codecs.len(), results.sessions.len()), (3 * 2 * 3, 1));
        let groups = results.groups();
        assert_eq!(groups.len(), 4);
        let codecs: Vec<_> = groups[2].iter().map(|row| row.key.codec.as_str()).collect();
        assert_eq!(codecs, ["lz4", "zlib:9", "zstd:3"]);
        let lz4 = groups[2][0];
        assert_eq!((lz4.key.block, lz4.key.threads), (131_072, 1));
        // 100 MB in 0.202 s; 40 MB saved in the same time.
        assert!((lz4.encode_speed().unwrap() - 100.0 / 0.202).abs() < 1e-9);
        assert!((lz4.encode_savings().unwrap() - 40.0 / 0.202).abs() < 1e-9);
        assert!((lz4.decode_savings().unwrap() - 40.0 / 0.052).abs() < 1e-9);
        let baseline = results.baseline(lz4).unwrap();
        assert_eq!((baseline.key.codec.as_str(), baseline.key.block), ("zlib:9", 131_072));
        assert!((results.incompressible(lz4).unwrap().encode_speed().unwrap() - 100.0 / 0.068).abs() < 1e-9);
        assert_eq!(results.one_thread(groups[3][0]).unwrap().key, lz4.key);
        assert_eq!(results.library(lz4), Some("lz4 1.10.0"));
    }

    #[test]
    fn the_last_session_counts_and_disagreement_is_told() {
        let mut lines = sample_lines();
        lines.push(line("two", "root", "lz4", 131_072, 1, (60_000_000, 101, Some(50))));
        lines.push(line("two", "root", "zstd:3", 131_072, 1, (40_000_000, 505, Some(150))));
        let results = BenchResults::of(&[ResultsFile { lines, ..ResultsFile::default() }]);
        assert_eq!((results.repeated, results.disagreements.len()), (2, 1));
        let SessionDisagreement { cell, factor } = &results.disagreements[0];
        assert_eq!((cell.as_str(), *factor), ("lz4 on root in blocks of 128K", 2.0));
        let row = results.codecs.iter().find(|row| row.session == "two").unwrap();
        assert!((row.encode.median - 0.101).abs() < 1e-12);
    }

    #[test]
    fn what_failed_and_was_measured_later_did_not_fail() {
        let mut lines = sample_lines();
        let RecordLine::Codec(measured) = lines[1].clone() else { panic!() };
        let failure = |codec: &str| {
            let key = CodecKey { codec: codec.into(), ..measured.key.clone() };
            RecordLine::Failure(FailedCell { session: "one".into(), key: AnyKey::Codec(key), why: "no memory".into() })
        };
        lines.extend([failure("lz4"), failure("xz:6")]);
        let results = BenchResults::of(&[ResultsFile { lines, ..ResultsFile::default() }]);
        assert_eq!(
            results.failures.iter().map(|f| f.key.to_string()).collect::<Vec<_>>(),
            ["xz:6 on root in blocks of 8K"]
        );
    }
}
