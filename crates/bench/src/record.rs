//! Results as lines of JSON, appended one at a time, so that an interrupted run loses nothing.
//!
//! One line describes the session (machine and settings); each sample has a line of its own. An incomplete line at the
//! end of a file is ignored, and removed before the next line is appended.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::keys::{build, codec, read, split};
use crate::sample::{CodecSample, TrialSample};
use crate::{Error, Result};

pub use crate::keys::AnyKey;

/// Version of the lines; raised when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

/// One line of a results file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum RecordLine {
    /// Description of a session; other lines refer to it by its name.
    Session(BenchSession),
    /// Sample of a codec on blocks.
    Codec(MeasuredSample<codec::CodecKey, CodecSample>),
    /// Sample of a build.
    Build(MeasuredSample<build::BuildKey, TrialSample>),
    /// Sample of a read.
    Read(MeasuredSample<read::ReadKey, TrialSample>),
    /// Sample of a split, join or check.
    Split(MeasuredSample<split::SplitKey, TrialSample>),
    /// A cell that failed.
    Failure(FailedCell),
}

/// Description of a session: time, machine and settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BenchSession {
    /// Name by which other lines refer to the session.
    pub session: String,
    /// Start time in seconds since 1970.
    pub time: u64,
    /// Version of packfs.
    pub program: String,
    /// Machine that measured.
    pub machine: MachineRecord,
    /// Version of the library of each codec, and of each other program, by name.
    pub libraries: BTreeMap<String, String>,
    /// Other settings that affect the results, by name; absent if there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Seed of the order and of generated data.
    pub seed: u64,
    /// Requested number of runs of each cell.
    pub runs: u32,
}

/// Description of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MachineRecord {
    /// Name of the processor.
    pub cpu: String,
    /// Number of usable processors.
    pub processors: usize,
    /// Frequency governor; `None` if unknown.
    pub governor: Option<String>,
    /// Memory in bytes.
    pub memory: u64,
    /// Name, release and architecture of the kernel.
    pub kernel: String,
}

/// A sample with its session and cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MeasuredSample<K, S> {
    /// Name of the session.
    pub session: String,
    /// Key of the cell.
    #[serde(flatten)]
    pub key: K,
    /// The measurement.
    #[serde(flatten)]
    pub sample: S,
}

/// A cell that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FailedCell {
    /// Name of the session.
    pub session: String,
    /// Key of the cell.
    #[serde(flatten)]
    pub key: AnyKey,
    /// Error message.
    pub why: String,
}

impl RecordLine {
    /// Returns the name of the session.
    pub fn session(&self) -> &str {
        match self {
            RecordLine::Session(session) => &session.session,
            RecordLine::Codec(measured) => &measured.session,
            RecordLine::Build(measured) => &measured.session,
            RecordLine::Read(measured) => &measured.session,
            RecordLine::Split(measured) => &measured.session,
            RecordLine::Failure(failure) => &failure.session,
        }
    }

    /// Returns the key of the cell, if the line is about one.
    pub fn key(&self) -> Option<AnyKey> {
        Some(match self {
            RecordLine::Session(_) => return None,
            RecordLine::Codec(measured) => AnyKey::Codec(measured.key.clone()),
            RecordLine::Build(measured) => AnyKey::Build(measured.key.clone()),
            RecordLine::Read(measured) => AnyKey::Read(measured.key.clone()),
            RecordLine::Split(measured) => AnyKey::Split(measured.key.clone()),
            RecordLine::Failure(failure) => failure.key.clone(),
        })
    }
}

/// A key whose samples are lines of a results file. It lets rounds, records and statistics be generic over all kinds of
/// cells.
pub trait RecordedKey: Clone + Ord + Debug + Display {
    /// Sample of a cell of this kind.
    type Sample: Clone + Debug;

    /// Converts the key to [`AnyKey`].
    fn into_any(self) -> AnyKey;

    /// Converts a sample to a line.
    fn make_line(measured: MeasuredSample<Self, Self::Sample>) -> RecordLine;

    /// Returns the sample in a line of this kind.
    fn measured(line: &RecordLine) -> Option<&MeasuredSample<Self, Self::Sample>>;

    /// Returns the seconds of a sample, by which sessions are compared.
    fn seconds(sample: &Self::Sample) -> f64;
}

/// A sample of a cell with this key.
pub type KeySample<K> = <K as RecordedKey>::Sample;

/// Implements [`RecordedKey`] for a key whose samples are lines of this variant.
macro_rules! recorded {
    ($variant:ident, $key:ty, $sample:ty, $seconds:expr) => {
        impl RecordedKey for $key {
            type Sample = $sample;

            fn into_any(self) -> AnyKey {
                AnyKey::$variant(self)
            }

            fn make_line(measured: MeasuredSample<$key, $sample>) -> RecordLine {
                RecordLine::$variant(measured)
            }

            fn measured(line: &RecordLine) -> Option<&MeasuredSample<$key, $sample>> {
                match line {
                    RecordLine::$variant(measured) => Some(measured),
                    _ => None,
                }
            }

            fn seconds(sample: &$sample) -> f64 {
                let seconds: fn(&$sample) -> f64 = $seconds;
                seconds(sample)
            }
        }
    };
}

recorded!(Codec, codec::CodecKey, CodecSample, |sample| sample.encode.seconds());
recorded!(Build, build::BuildKey, TrialSample, |trial| trial.time.seconds());
recorded!(Read, read::ReadKey, TrialSample, |trial| trial.time.seconds());
recorded!(Split, split::SplitKey, TrialSample, |trial| trial.time.seconds());

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
struct VersionedLine<T> {
    /// Version of the line.
    packfs_bench: u32,
    #[serde(flatten)]
    line: T,
}

/// Returns the JSON Schema of one line of a results file.
#[cfg(feature = "json-schema")]
pub fn line_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    <VersionedLine<RecordLine> as schemars::JsonSchema>::json_schema(generator)
}

/// Contents of a results file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResultsFile {
    /// All complete lines.
    pub lines: Vec<RecordLine>,
    /// Length of the complete lines in bytes.
    pub(crate) complete_len: u64,
    /// True if an incomplete line follows.
    pub has_torn_line: bool,
}

impl ResultsFile {
    /// Reads a results file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        // A line counts once it ends: the last write may have been cut off.
        let complete_len = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = Vec::new();
        for (number, line) in text[..complete_len].lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |why: String| Error::Results { path: path.into(), line: number + 1, why };
            // Check the version first: lines of another version may have other fields.
            let version: VersionedLine<BTreeMap<String, serde_json::Value>> =
                serde_json::from_str(line).map_err(|error| wrong(format!("not a line of results: {error}")))?;
            if version.packfs_bench != VERSION {
                let other = version.packfs_bench;
                return Err(wrong(format!("results of version {other}, and this program knows version {VERSION}")));
            }
            let line: VersionedLine<RecordLine> =
                serde_json::from_str(line).map_err(|error| wrong(format!("not understood: {error}")))?;
            lines.push(line.line);
        }
        Ok(ResultsFile { lines, complete_len: complete_len as u64, has_torn_line: complete_len < text.len() })
    }

    /// Returns the sessions in their order in the file.
    pub fn sessions(&self) -> impl Iterator<Item = &BenchSession> {
        self.lines.iter().filter_map(|line| match line {
            RecordLine::Session(session) => Some(session),
            _ => None,
        })
    }

    /// Returns the number of samples of each cell of one kind in a session.
    pub fn sample_counts<K: RecordedKey>(&self, session: &str) -> BTreeMap<K, u32> {
        let mut done = BTreeMap::new();
        for measured in self.lines.iter().filter_map(K::measured).filter(|measured| measured.session == session) {
            *done.entry(measured.key.clone()).or_insert(0) += 1;
        }
        done
    }
}

/// A results file to append to.
#[derive(Debug)]
pub struct ResultsLog {
    path: PathBuf,
    file: File,
}

impl ResultsLog {
    /// Opens or creates a file for appending. Returns it with its current contents.
    pub fn open(path: &Path) -> Result<(Self, ResultsFile)> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::io(path))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(Error::io(path))?;
        let contents = ResultsFile::parse(path, &text)?;
        // Before appending, or the next line would become a part of the incomplete one.
        if contents.has_torn_line {
            file.set_len(contents.complete_len).map_err(Error::io(path))?;
        }
        file.seek(SeekFrom::End(0)).map_err(Error::io(path))?;
        Ok((ResultsLog { path: path.into(), file }, contents))
    }

    /// Appends a line with a single write.
    pub fn append(&mut self, line: &RecordLine) -> Result<()> {
        let versioned = VersionedLine { packfs_bench: VERSION, line };
        let mut text = serde_json::to_string(&versioned).map_err(|error| Error::io(&self.path)(error.into()))?;
        text.push('\n');
        // Not flushed to the disk: a crash of the machine may lose lines, a killed program loses none.
        self.file.write_all(text.as_bytes()).map_err(Error::io(&self.path))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::keys::codec::CodecKey;
    use crate::metrics::PassSizes;
    use crate::sample::PassTiming;

    pub(crate) fn measured(session: &str, codec: &str) -> RecordLine {
        let key = CodecKey {
            data: "root".into(),
            digest: "abcd".into(),
            codec: codec.into(),
            block: 131_072,
            sector: 4096,
            policy: "sector".into(),
            threads: 1,
        };
        let sizes = PassSizes { raw: 1000, stored: 400, decoded: 900, blocks: 4, kept: 3 };
        let encode = PassTiming { wall: 2000, cpu: 1900, passes: 3 };
        RecordLine::Codec(MeasuredSample {
            session: session.into(),
            key,
            sample: CodecSample { sizes, encode, decode: Some(encode) },
        })
    }

    #[test]
    fn lines_come_back_and_torn_ones_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results");
        let session = RecordLine::Session(BenchSession { session: "s".into(), ..BenchSession::default() });
        let (mut log, contents) = ResultsLog::open(&path).unwrap();
        assert_eq!(contents, ResultsFile::default());
        log.append(&session).unwrap();
        log.append(&measured("s", "lz4")).unwrap();
        log.append(&measured("t", "lz4")).unwrap();
        drop(log);
        // An interrupted write.
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"packfs_bench\":1,\"kind\":\"cod");
        std::fs::write(&path, &text).unwrap();
        let read = ResultsFile::read(&path).unwrap();
        assert!(read.has_torn_line);
        assert_eq!(read.lines, [session, measured("s", "lz4"), measured("t", "lz4")]);
        assert_eq!(read.sample_counts::<CodecKey>("s").into_values().collect::<Vec<_>>(), [1]);
        // Appending removes the incomplete line.
        let (mut log, contents) = ResultsLog::open(&path).unwrap();
        assert_eq!(contents.lines.len(), 3);
        log.append(&measured("s", "lz4")).unwrap();
        let read = ResultsFile::read(&path).unwrap();
        assert_eq!((read.has_torn_line, read.lines.len()), (false, 4));
    }

    #[test]
    fn what_is_not_such_a_file_is_refused_by_its_line() {
        let good = serde_json::to_string(&VersionedLine { packfs_bench: VERSION, line: measured("s", "lz4") }).unwrap();
        let cases = [
            ("hello\n", "line 1: not a line of results"),
            ("{\"packfs_bench\":2,\"kind\":\"new\"}\n", "line 1: results of version 2"),
            (&format!("{good}\n{{\"packfs_bench\":1,\"kind\":\"new\"}}\n"), "line 2: not understood"),
            (&format!("{good}\n{}\n", &good[..40]), "line 2: not a line of results"),
        ];
        for (text, why) in cases {
            let error = ResultsFile::parse(Path::new("results"), text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    /// Other programs read the lines, so their text must not change unnoticed.
    #[test]
    fn lines_look_as_documented() {
        let text = serde_json::to_string(&VersionedLine { packfs_bench: VERSION, line: measured("s", "lz4") }).unwrap();
        insta::assert_snapshot!(text, @r#"{"packfs_bench":1,"kind":"codec","session":"s","data":"root","digest":"abcd","codec":"lz4","block":131072,"sector":4096,"policy":"sector","threads":1,"sizes":{"raw":1000,"stored":400,"decoded":900,"blocks":4,"kept":3},"encode":{"wall":2000,"cpu":1900,"passes":3},"decode":{"wall":2000,"cpu":1900,"passes":3}}"#);
    }
}
