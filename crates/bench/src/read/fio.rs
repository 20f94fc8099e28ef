//! fio on one file: its command line and its results.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::sample::PassTiming;
use crate::units::whole_part;
use crate::{Error, Result};

/// Bytes per read, as in the benchmarks of the EROFS project.
const READ_LEN: u64 = 4 << 10;
/// Minimum length of a file: of a shorter one, a twentieth would be less than one read.
pub(super) const MIN_FILE_LEN: u64 = 20 * READ_LEN;

/// Mode in which fio reads a file, 4 KiB at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FioPattern {
    /// In order.
    Sequential,
    /// Every page once, in random order.
    Random,
    /// A twentieth of the pages, in random order.
    Twentieth,
}

impl FioPattern {
    /// All modes.
    pub const ALL: [FioPattern; 3] = [FioPattern::Sequential, FioPattern::Random, FioPattern::Twentieth];
}

/// Returns the command that reads a file of `len` bytes.
pub(super) fn read_command(fio: &Path, file: &Path, len: u64, pattern: FioPattern) -> Command {
    let mut command = Command::new(fio);
    command.args(["--name=read", "--readonly", "--output-format=json"]);
    command.arg(format!("--bs={READ_LEN}"));
    command.arg(match pattern {
        FioPattern::Sequential => "--rw=read",
        FioPattern::Random | FioPattern::Twentieth => "--rw=randread",
    });
    if pattern == FioPattern::Twentieth {
        // Rounded up, because fio reads whole pages.
        command.arg(format!("--io_size={}", (len / 20).next_multiple_of(READ_LEN)));
    }
    let mut name = OsString::from("--filename=");
    name.push(escape_colons(file));
    command.arg(name);
    command
}

/// Escapes colons, which separate names in fio's options.
fn escape_colons(path: &Path) -> OsString {
    let escape = |byte: &u8| if *byte == b':' { vec![b'\\', b':'] } else { vec![*byte] };
    OsString::from_vec(path.as_os_str().as_bytes().iter().flat_map(escape).collect())
}

#[derive(Deserialize)]
struct FioAnswer {
    jobs: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    error: i64,
    read: FioReads,
    usr_cpu: f64,
    sys_cpu: f64,
}

#[derive(Deserialize)]
struct FioReads {
    io_bytes: u64,
    /// Milliseconds.
    runtime: u64,
    lat_ns: FioLatency,
}

#[derive(Deserialize)]
struct FioLatency {
    mean: f64,
    #[serde(rename = "N")]
    count: u64,
}

/// Parses the time and bytes of fio's output. fio counts whole milliseconds; the result is at least the time of its
/// reads.
pub(super) fn parse_answer(output: &[u8]) -> Result<(PassTiming, u64)> {
    let failed = |why: String| Error::Program { program: "fio".into(), why };
    // Warnings precede the JSON.
    let begin = output.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let answer: FioAnswer = serde_json::from_slice(&output[begin..])
        .map_err(|error| failed(format!("its answer is not understood (fio 3 or newer is needed): {error}")))?;
    let [job] = &answer.jobs[..] else { return Err(failed("it answers for another number of jobs than one".into())) };
    // fio may report an error and still end with success.
    if job.error != 0 || job.read.io_bytes == 0 {
        return Err(failed(format!("it read {} bytes, error {}", job.read.io_bytes, job.error)));
    }
    let FioReads { io_bytes, runtime, lat_ns } = &job.read;
    // A short run takes less than a millisecond, which `runtime` counts as 0.
    let wall = (*runtime as f64 * 1e6).max(lat_ns.mean * lat_ns.count as f64);
    let cpu = wall * (job.usr_cpu + job.sys_cpu) / 100.0;
    Ok((PassTiming { wall: whole_part(wall), cpu: whole_part(cpu), passes: 1 }, *io_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_is_asked_for_what_the_protocol_says() {
        let shown = |pattern| {
            let command = read_command(Path::new("fio"), Path::new("/m/a:b"), 1_000_000, pattern);
            command.get_args().map(|arg| arg.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        let common = "--name=read --readonly --output-format=json --bs=4096";
        let file = r"--filename=/m/a\:b";
        assert_eq!(shown(FioPattern::Sequential), format!("{common} --rw=read {file}"));
        assert_eq!(shown(FioPattern::Random), format!("{common} --rw=randread {file}"));
        // 5 %, rounded to whole pieces.
        assert_eq!(shown(FioPattern::Twentieth), format!("{common} --rw=randread --io_size=53248 {file}"));
    }

    fn answer(error: u64, bytes: u64, runtime: u64, mean: f64, count: u64) -> String {
        let lat = format!("\"lat_ns\": {{\"min\": 1, \"mean\": {mean}, \"N\": {count}}}");
        let read = format!("{{\"io_bytes\": {bytes}, \"bw\": 7, \"runtime\": {runtime}, {lat}}}");
        let job = format!("{{\"error\": {error}, \"read\": {read}, \"usr_cpu\": 12.5, \"sys_cpu\": 50.0}}");
        format!("fio: a warning\n{{\"fio version\": \"fio-3.33\", \"jobs\": [{job}]}}\n")
    }

    #[test]
    fn answers_are_read() {
        let (time, bytes) = parse_answer(answer(0, 409_600, 80, 100.5, 100).as_bytes()).unwrap();
        assert_eq!((time, bytes), (PassTiming { wall: 80_000_000, cpu: 50_000_000, passes: 1 }, 409_600));
        // Less than a millisecond of fio's clock.
        let (time, _) = parse_answer(answer(0, 409_600, 0, 2500.0, 100).as_bytes()).unwrap();
        assert_eq!((time.wall, time.cpu), (250_000, 156_250));
    }

    #[test]
    fn what_is_no_good_answer_is_told() {
        for (text, why) in [
            ("", "not understood"),
            ("fio: no such file\n", "not understood"),
            ("{\"jobs\": [{\"error\": 0, \"read\": {\"runtime\": 5}}]}", "fio 3 or newer"),
            ("{\"jobs\": []}", "another number of jobs"),
            (&answer(5, 4096, 1, 1.0, 1), "error 5"),
            (&answer(0, 0, 1, 1.0, 1), "it read 0 bytes"),
        ] {
            let error = parse_answer(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("fio: ") && error.contains(why), "{text}: {error}");
        }
    }
}
