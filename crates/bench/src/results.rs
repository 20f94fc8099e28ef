//! What recorded samples come to: a row for each cell, with medians and everything that follows from them.

use std::collections::BTreeMap;

use crate::codecs::BASELINE;
use crate::corpus::INCOMPRESSIBLE;
use crate::matrix::Key;
use crate::metrics::Sizes;
use crate::record::{Contents, Failure, Line, Measured, Session};
use crate::stats::Summary;

/// Everything that some files of results say.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// Sessions that rows come from, in the order of time.
    pub sessions: Vec<Session>,
    /// Cells, in the order of their keys.
    pub rows: Vec<Row>,
    /// Cells that failed and were never measured.
    pub failures: Vec<Failure>,
    /// Cells measured in several sessions, whose medians differ by more than the samples' spread allows.
    pub disagreements: Vec<Disagreement>,
    /// Cells that several sessions measured.
    pub repeated: usize,
}

/// One cell, as the last session that measured it has it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The cell.
    pub key: Key,
    /// The session.
    pub session: String,
    /// Sizes; the same in every run.
    pub sizes: Sizes,
    /// Seconds of a pass of encoding.
    pub encode: Summary,
    /// Seconds of a pass of decoding, where anything was decoded.
    pub decode: Option<Summary>,
    /// Median seconds on processors of encoding.
    pub encode_cpu: f64,
    /// Median seconds on processors of decoding.
    pub decode_cpu: Option<f64>,
}

/// Two sessions at odds over a cell.
#[derive(Debug, Clone)]
pub struct Disagreement {
    /// The cell.
    pub key: Key,
    /// Median encoding speed of the last session relative to the one before.
    pub factor: f64,
}

/// From which difference on two sessions disagree.
const AGREE: f64 = 0.05;

impl Row {
    fn of(key: Key, samples: &[&Measured]) -> Option<Self> {
        let last = samples.last()?;
        let encode: Vec<f64> = samples.iter().map(|one| one.sample.encode.seconds()).collect();
        let cpu: Vec<f64> = samples.iter().map(|one| one.sample.encode.cpu_seconds()).collect();
        let decodes = || samples.iter().filter_map(|one| one.sample.decode);
        let decode: Vec<f64> = decodes().map(|timing| timing.seconds()).collect();
        let decode_cpu: Vec<f64> = decodes().map(|timing| timing.cpu_seconds()).collect();
        Some(Row {
            key,
            session: last.session.clone(),
            sizes: last.sample.sizes,
            encode: Summary::of(&encode)?,
            decode: Summary::of(&decode),
            encode_cpu: Summary::of(&cpu)?.median,
            decode_cpu: Summary::of(&decode_cpu).map(|summary| summary.median),
        })
    }

    /// MB a second, encoding.
    pub fn encode_speed(&self) -> Option<f64> {
        self.sizes.encode_speed(self.encode.median)
    }

    /// MB a second, decoding.
    pub fn decode_speed(&self) -> Option<f64> {
        self.sizes.decode_speed(self.decode?.median)
    }

    /// MB saved a second of encoding, which is the speed of the device where compressing breaks even in writing.
    pub fn encode_savings(&self) -> Option<f64> {
        self.sizes.encode_savings(self.encode.median)
    }

    /// MB saved a second of decoding, which is the speed of the device where compressing breaks even in reading.
    pub fn decode_savings(&self) -> Option<f64> {
        self.sizes.decode_savings(self.decode?.median)
    }

    /// Whether its samples lie too far apart to conclude from.
    pub fn is_wide(&self) -> bool {
        self.encode.is_wide() || self.decode.is_some_and(|decode| decode.is_wide())
    }
}

impl Results {
    /// Of files of results, in the order given. Of sessions on several machines the last one's cells count.
    pub fn of(files: &[Contents]) -> Self {
        let lines = || files.iter().flat_map(|file| &file.lines);
        let mut results = Results::default();
        // Samples by cell, then by session in the order of the lines.
        let mut cells: BTreeMap<&Key, Vec<(&str, Vec<&Measured>)>> = BTreeMap::new();
        for line in lines() {
            if let Line::Codec(measured) = line {
                let sessions = cells.entry(&measured.key).or_default();
                match sessions.iter_mut().find(|(session, _)| *session == measured.session) {
                    Some((_, samples)) => samples.push(measured),
                    None => sessions.push((&measured.session, vec![measured])),
                }
            }
        }
        for (key, sessions) in cells {
            let rows: Vec<Row> = sessions.iter().filter_map(|(_, samples)| Row::of(key.clone(), samples)).collect();
            if let [.., before, last] = &rows[..] {
                results.repeated += 1;
                let factor = before.encode.median / last.encode.median;
                if !(1.0 - AGREE..=1.0 + AGREE).contains(&factor) {
                    results.disagreements.push(Disagreement { key: key.clone(), factor });
                }
            }
            results.rows.extend(rows.into_iter().next_back());
        }
        for line in lines() {
            match line {
                Line::Session(session) if results.rows.iter().any(|row| row.session == session.session) => {
                    results.sessions.push(session.clone());
                }
                Line::Failure(failure) if !results.rows.iter().any(|row| row.key == failure.key) => {
                    results.failures.push(failure.clone());
                }
                _ => {}
            }
        }
        results
    }

    /// Rows of what compresses, grouped: one group for each data, block, sector, rule and number of threads, each in
    /// the order of its ratios. Groups of more blocks come later.
    pub fn groups(&self) -> Vec<Vec<&Row>> {
        let mut groups: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.key.data != INCOMPRESSIBLE) {
            let key = &row.key;
            let group = (&key.data, &key.digest, &key.policy, key.sector, key.block, key.threads);
            groups.entry(group).or_default().push(row);
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        for group in &mut groups {
            group.sort_by(|a, b| b.sizes.ratio().total_cmp(&a.sizes.ratio()).then(a.key.cmp(&b.key)));
        }
        groups
    }

    /// The row that differs from this one in the codec only, and has this codec.
    pub fn with_codec(&self, row: &Row, codec: &str) -> Option<&Row> {
        let key = Key { codec: codec.into(), ..row.key.clone() };
        self.rows.iter().find(|other| other.key == key)
    }

    /// The row of what the others are compared with.
    pub fn baseline(&self, row: &Row) -> Option<&Row> {
        self.with_codec(row, &BASELINE.to_string())
    }

    /// The row of the same codec, block, rule and threads on data that does not compress.
    pub fn incompressible(&self, row: &Row) -> Option<&Row> {
        self.rows.iter().filter(|other| other.session == row.session).find(|other| {
            let (a, b) = (&other.key, &row.key);
            a.data == INCOMPRESSIBLE
                && (&a.codec, a.block, a.sector, &a.policy, a.threads)
                    == (&b.codec, b.block, b.sector, &b.policy, b.threads)
        })
    }

    /// The row that differs from this one in the number of threads only, and has one.
    pub fn one_thread(&self, row: &Row) -> Option<&Row> {
        let key = Key { threads: 1, ..row.key.clone() };
        self.rows.iter().find(|other| other.key == key)
    }

    /// The library of a row's codec.
    pub fn library(&self, row: &Row) -> Option<&str> {
        let session = self.sessions.iter().find(|session| session.session == row.session)?;
        session.libraries.get(&row.key.codec).map(String::as_str)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::executor::{Sample, Timing};
    use crate::record::Machine;

    /// A line of a codec that takes so many milliseconds for 100 MB.
    fn line(
        session: &str,
        data: &str,
        codec: &str,
        block: usize,
        threads: usize,
        made: (u64, u64, Option<u64>),
    ) -> Line {
        let (stored, encode, decode) = made;
        let kept = decode.map_or(0, |_| 100_000_000);
        let timing = |ms: u64| Timing { wall: ms * 1_000_000, cpu: ms * 1_000_000 * threads as u64, passes: 1 };
        Line::Codec(Measured {
            session: session.into(),
            key: Key {
                data: data.into(),
                digest: "0011223344556677".into(),
                codec: codec.into(),
                block,
                sector: 4096,
                policy: "sector".into(),
                threads,
            },
            sample: Sample {
                sizes: Sizes { raw: 100_000_000, stored, decoded: kept, blocks: 763, kept: kept / 131_072 },
                encode: timing(encode),
                decode: decode.map(timing),
            },
        })
    }

    /// A session with three codecs at two block sizes and two numbers of threads, and what does not compress.
    pub(crate) fn sample_lines() -> Vec<Line> {
        let libraries = [("lz4", "lz4 1.10.0"), ("zstd:3", "zstd 1.5.7"), ("zlib:9", "zlib 1.3.1")];
        let mut lines = vec![Line::Session(Session {
            session: "one".into(),
            time: 1_795_305_600,
            program: "0.1.0".into(),
            machine: Machine {
                cpu: "A <fast> processor".into(),
                processors: 2,
                governor: None,
                memory: 8 << 30,
                kernel: "Linux 6.18.0 x86_64".into(),
            },
            libraries: libraries.map(|(codec, library)| (codec.to_owned(), library.to_owned())).into(),
            seed: 1,
            runs: 3,
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

    pub(crate) fn sample() -> Results {
        Results::of(&[Contents { lines: sample_lines(), ..Contents::default() }])
    }

    #[test]
    fn rows_have_the_medians_of_their_samples() {
        let results = sample();
        assert_eq!((results.rows.len(), results.sessions.len()), (3 * 2 * 3, 1));
        let groups = results.groups();
        assert_eq!(groups.len(), 4);
        let codecs: Vec<_> = groups[2].iter().map(|row| row.key.codec.as_str()).collect();
        assert_eq!(codecs, ["lz4", "zlib:9", "zstd:3"]);
        let lz4 = groups[2][0];
        assert_eq!((lz4.key.block, lz4.key.threads), (131_072, 1));
        // 100 MB in 0.202 s; 40 MB saved in as long.
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
        let results = Results::of(&[Contents { lines, ..Contents::default() }]);
        assert_eq!((results.repeated, results.disagreements.len()), (2, 1));
        assert_eq!((results.disagreements[0].key.codec.as_str(), results.disagreements[0].factor), ("lz4", 2.0));
        let row = results.rows.iter().find(|row| row.session == "two").unwrap();
        assert!((row.encode.median - 0.101).abs() < 1e-12);
    }

    #[test]
    fn what_failed_and_was_measured_later_did_not_fail() {
        let mut lines = sample_lines();
        let Line::Codec(measured) = lines[1].clone() else { panic!() };
        let failure = |codec: &str| {
            let key = Key { codec: codec.into(), ..measured.key.clone() };
            Line::Failure(Failure { session: "one".into(), key, why: "no memory".into() })
        };
        lines.extend([failure("lz4"), failure("xz:6")]);
        let results = Results::of(&[Contents { lines, ..Contents::default() }]);
        assert_eq!(results.failures.iter().map(|f| f.key.codec.as_str()).collect::<Vec<_>>(), ["xz:6"]);
    }
}
