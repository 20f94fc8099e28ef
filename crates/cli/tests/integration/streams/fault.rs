//! Disturbances of standard streams, and runs of a case with one of them.

use std::fs::{self, File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};

use super::cases::{PrintedOutput, StreamCase};
use super::{RunTraces, traces};

const PACKFS: &str = env!("CARGO_BIN_EXE_packfs");
/// Number of bytes that a pipe holds: the least that Linux allows, so that short outputs fill it.
const PIPE_LEN: usize = 4096;
/// Time after which a program that should have ended hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Defect of a standard stream. `ignored` is true if the caller ignores SIGPIPE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFault {
    ClosedInput,
    ClosedOutput,
    FullOutput,
    /// A pipe whose reader is gone.
    LeftOutput {
        ignored: bool,
    },
    /// A pipe whose reader leaves after one line.
    OneLineOutput {
        ignored: bool,
    },
    ClosedErrors,
    FullErrors,
    LeftErrors {
        ignored: bool,
    },
}

impl StreamFault {
    pub(crate) fn all() -> impl Iterator<Item = StreamFault> {
        use StreamFault::{
            ClosedErrors, ClosedInput, ClosedOutput, FullErrors, FullOutput, LeftErrors, LeftOutput, OneLineOutput,
        };
        let either = |fault: fn(bool) -> StreamFault| [false, true].map(fault);
        let plain = [ClosedInput, ClosedOutput, FullOutput, ClosedErrors, FullErrors];
        let left = [
            either(|ignored| LeftOutput { ignored }),
            either(|ignored| OneLineOutput { ignored }),
            either(|ignored| LeftErrors { ignored }),
        ];
        plain.into_iter().chain(left.concat())
    }

    /// Returns true for the few faults that cases which take seconds are tried with.
    pub(crate) fn is_for_slow_cases(self) -> bool {
        matches!(self, StreamFault::FullOutput | StreamFault::LeftOutput { ignored: false } | StreamFault::ClosedErrors)
    }

    /// Returns true if some of the case's result cannot arrive, as an undisturbed run shows.
    pub(crate) fn loses_a_result_of(self, case: &StreamCase, usual: &CaseRun) -> bool {
        match self {
            StreamFault::ClosedErrors | StreamFault::FullErrors | StreamFault::LeftErrors { .. } => {
                case.result_on_stderr
            }
            _ if case.stdout != PrintedOutput::Result => false,
            StreamFault::ClosedOutput | StreamFault::FullOutput | StreamFault::LeftOutput { .. } => true,
            StreamFault::OneLineOutput { .. } => {
                let line = usual.stdout.iter().position(|byte| *byte == b'\n').unwrap_or(usual.stdout.len());
                // The length of some results varies a little.
                usual.stdout.len() > line + 2 * PIPE_LEN
            }
            StreamFault::ClosedInput => false,
        }
    }

    /// Returns true if it depends on the moment at which the reader leaves whether something is lost.
    pub(crate) fn may_lose_a_result_of(self, case: &StreamCase) -> bool {
        matches!(self, StreamFault::OneLineOutput { .. }) && case.stdout == PrintedOutput::Result
    }

    fn ignores_broken_pipes(self) -> bool {
        use StreamFault::{LeftErrors, LeftOutput, OneLineOutput};
        matches!(self, LeftOutput { ignored: true } | OneLineOutput { ignored: true } | LeftErrors { ignored: true })
    }
}

/// A run of a case.
pub(crate) struct CaseRun {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// Files in the directory before the run.
    pub(crate) before: RunTraces,
    /// Files in the directory after the run.
    pub(crate) traces: RunTraces,
}

/// Runs a case in a directory of its own.
pub(crate) fn run(case: &StreamCase, fault: Option<StreamFault>, inputs: &Path) -> CaseRun {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path().join("dir");
    fs::create_dir(&dir).unwrap();
    sh(&filled(case.prepare, inputs, 0), &dir);
    let before = traces(&dir);
    let port = if case.line.contains("PORT") { free_port() } else { 0 };
    let line = filled(case.line, inputs, port);
    let stdin = case.stdin.map_or_else(Stdio::null, |name| File::open(inputs.join(name)).unwrap().into());
    let out = work.path().join("out");
    let err = work.path().join("err");
    let mut streams =
        OutputStreams { out: File::create(&out).unwrap().into(), err: File::create(&err).unwrap().into() };
    let reader = fault.and_then(|fault| streams.disturb(fault));

    let redirection = match fault {
        Some(StreamFault::ClosedInput) => "<&-",
        Some(StreamFault::ClosedOutput) => ">&-",
        Some(StreamFault::ClosedErrors) => "2>&-",
        _ => "",
    };
    let trap = if fault.is_some_and(StreamFault::ignores_broken_pipes) { "trap '' PIPE;" } else { "" };
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{trap} exec \"$0\" \"$@\" {redirection}"), PACKFS]).args(line.split(' '));
    command.stdin(stdin).stdout(streams.out).stderr(streams.err).current_dir(&dir);
    // The time of an image would differ from run to run.
    command.env("SOURCE_DATE_EPOCH", "1700000000").env("LC_ALL", "C");
    let child = command.spawn().unwrap();
    // It holds the other ends of pipes.
    drop(command);
    let status = ended(child, || case.line.starts_with("serve ") && serves(&dir, port));
    if let Some(reader) = reader {
        reader.join().unwrap();
    }
    sh(&filled(case.inspect, inputs, port), &dir);
    let stderr = String::from_utf8_lossy(&fs::read(err).unwrap()).into_owned();
    CaseRun { status, stdout: fs::read(out).unwrap(), stderr, before, traces: traces(&dir) }
}

/// Replaces the placeholders in a line.
fn filled(line: &str, inputs: &Path, port: u16) -> String {
    let line = line.replace("IN/", &format!("{}/", inputs.to_str().unwrap()));
    line.replace("PORT", &port.to_string()).replace("PACKFS", PACKFS)
}

fn sh(script: &str, dir: &Path) {
    if !script.is_empty() {
        let _ = Command::new("sh").args(["-c", script]).current_dir(dir).stdin(Stdio::null()).status().unwrap();
    }
}

/// Output streams of a program.
struct OutputStreams {
    out: Stdio,
    err: Stdio,
}

impl OutputStreams {
    /// Puts a full device or a pipe in the place of a stream. Returns the reader of the pipe, if it reads at all.
    fn disturb(&mut self, fault: StreamFault) -> Option<JoinHandle<()>> {
        match fault {
            StreamFault::FullOutput => self.out = full(),
            StreamFault::FullErrors => self.err = full(),
            StreamFault::LeftOutput { .. } => self.out = left(),
            StreamFault::LeftErrors { .. } => self.err = left(),
            StreamFault::OneLineOutput { .. } => {
                let (reader, writer) = pipe();
                self.out = writer.into();
                return Some(thread::spawn(|| read_line(reader)));
            }
            StreamFault::ClosedInput | StreamFault::ClosedOutput | StreamFault::ClosedErrors => {}
        }
        None
    }
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

fn left() -> Stdio {
    let (reader, writer) = pipe();
    drop(reader);
    writer.into()
}

fn pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    fcntl_setpipe_size(&writer, PIPE_LEN).unwrap();
    (reader, writer)
}

/// Reads a line, and no byte more.
fn read_line(mut reader: PipeReader) {
    let mut byte = [0];
    while reader.read(&mut byte).unwrap() > 0 && byte != *b"\n" {}
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns true once a server can be asked.
fn serves(dir: &Path, port: u16) -> bool {
    if port == 0 { dir.join("socket").exists() } else { TcpStream::connect(("127.0.0.1", port)).is_ok() }
}

/// Waits for the end of a program, and asks it to end once `is_done`.
fn ended(mut child: Child, is_done: impl Fn() -> bool) -> ExitStatus {
    let begun = Instant::now();
    let mut is_asked = false;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if !is_asked && is_done() {
            is_asked = true;
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(2));
    }
}
