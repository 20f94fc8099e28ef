//! Runs a program (packfs or a peer) and measures its time and memory. [`end_all`] ends all running programs.

use packfs_image::name::display;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use packfs_blocks::mutex;
use packfs_blocks::threads::start_program;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use wait4::Wait4;

use crate::sample::PassTiming;
use crate::system::field_bytes;
use crate::{Error, Result};

/// Output and resource use of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRun {
    /// Elapsed and processor time.
    pub time: PassTiming,
    /// Peak memory in bytes. Unknown if it is below that of this process, because the system counts a child from before
    /// exec.
    pub peak_memory: Option<u64>,
    /// Its standard output.
    pub output: Vec<u8>,
}

/// Runs a program, which must succeed. Its standard output is kept or discarded.
pub fn run(command: &mut Command, keep_output: bool) -> Result<ProgramRun> {
    run_where(command, Stdio::null(), keep_output, |status| status.success())
}

/// Runs a program like [`run`], with a file as standard input and a test of the exit status.
pub fn run_where(
    command: &mut Command,
    input: Stdio,
    keep_output: bool,
    is_good: impl Fn(ExitStatus) -> bool,
) -> Result<ProgramRun> {
    let name = command.get_program().to_owned();
    let failed = |why: String| Error::Program { program: display(Path::new(&name)).to_string(), why };
    // A file and not a pipe: a program that says much would wait for a reader that waits for it.
    let mut errors = tempfile::tempfile().map_err(Error::io(std::env::temp_dir()))?;
    let stderr = errors.try_clone().map_err(Error::io(std::env::temp_dir()))?;
    let stdout = if keep_output { Stdio::piped() } else { Stdio::null() };
    command.stdin(input).stdout(stdout).stderr(stderr);
    // Before the start, so that the time of loading the program counts as well.
    let begun = Instant::now();
    let (mut child, _running) = start(command, failed)?;
    let mut output = Vec::new();
    if let Some(mut pipe) = child.stdout.take() {
        // To its end before waiting: a program that cannot write does not end.
        pipe.read_to_end(&mut output).map_err(|error| failed(error.to_string()))?;
    }
    // `wait4` has the usage of this child alone; `getrusage` would add up all children.
    let ended = child.wait4().map_err(|error| failed(error.to_string()))?;
    let wall = begun.elapsed();
    if !is_good(ended.status) {
        let mut text = String::new();
        let _ = errors.seek(SeekFrom::Start(0)).and_then(|_| errors.read_to_string(&mut text));
        return Err(failed(format!("{}{}", describe_status(ended.status), last_line(&text))));
    }
    let usage = ended.rusage;
    let time = PassTiming::of(wall, usage.utime + usage.stime);
    let own_peak = field_bytes(&fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmHWM");
    Ok(ProgramRun { time, peak_memory: Some(usage.maxrss).filter(|peak| *peak > own_peak), output })
}

/// Running programs, as pidfds, which never refer to another process.
struct RunningPrograms {
    running: Vec<(u32, OwnedFd)>,
    ending: bool,
}

static PROGRAMS: Mutex<RunningPrograms> = Mutex::new(RunningPrograms { running: Vec::new(), ending: false });

/// Terminates all running programs and prevents new ones, before this process ends. Can be called from any thread.
pub fn end_all() {
    signal_all(Signal::TERM);
}

/// Kills all running programs and prevents new ones, before this process ends at once. Can be called from any thread.
pub fn kill_all() {
    signal_all(Signal::KILL);
}

fn signal_all(signal: Signal) {
    let mut programs = mutex::lock(&PROGRAMS);
    programs.ending = true;
    for (_, handle) in &programs.running {
        // Fails if it has already ended.
        let _ = pidfd_send_signal(handle, signal);
    }
}

fn start(command: &mut Command, failed: impl Fn(String) -> Error) -> Result<(Child, RunningProgram)> {
    // Held while a program starts: otherwise one could start between `end_all` and its registration.
    let mut programs = mutex::lock(&PROGRAMS);
    if programs.ending {
        return Err(Error::Interrupted);
    }
    let child = start_program(command).map_err(|error| failed(error.to_string()))?;
    // Linux before 5.3 has no pidfds; the program then ends by itself.
    if let Ok(handle) = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        programs.running.push((child.id(), handle));
    }
    let running = RunningProgram(child.id());
    Ok((child, running))
}

/// Registration of a program for [`end_all`], until dropped.
struct RunningProgram(u32);

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let mut programs = mutex::lock(&PROGRAMS);
        programs.running.retain(|(id, _)| *id != self.0);
    }
}

/// Finds a program in a folder, or on `PATH`.
pub fn find(name: &str, folder: Option<&Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folder.map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|program| is_program(program))
}

/// Finds programs in a folder or on `PATH`. Returns them and the names of those that are missing.
pub fn find_all<K: Copy>(
    kinds: impl IntoIterator<Item = K>,
    name: fn(K) -> &'static str,
    folder: Option<&Path>,
) -> (Vec<(K, PathBuf)>, Vec<&'static str>) {
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for kind in kinds {
        match find(name(kind), folder) {
            Some(path) => found.push((kind, path)),
            None => missing.push(name(kind)),
        }
    }
    (found, missing)
}

/// Returns the version of a program: the first line that it prints with `option`, whatever its status.
pub fn version(program: &Path, option: impl AsRef<OsStr>) -> String {
    let done = Command::new(program).arg(option).stdin(Stdio::null()).output();
    let text = done.map_or_else(|_| Vec::new(), |done| if done.stdout.is_empty() { done.stderr } else { done.stdout });
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or(NO_VERSION).to_owned()
}

/// Version of programs that print none.
pub(crate) const NO_VERSION: &str = "unknown";

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn describe_status(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("exit status {}", status.code().unwrap_or(-1)),
    }
}

fn last_line(text: &str) -> String {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.map_or(String::new(), |line| format!(": {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn time_and_output_are_those_of_the_program() {
        let ran = run(&mut shell("sleep 0.05; echo done"), true).unwrap();
        assert_eq!(ran.output, b"done\n");
        assert!(ran.time.wall >= 50_000_000 && ran.time.cpu < ran.time.wall, "{ran:?}");
        assert!(run(&mut shell("echo unread"), false).unwrap().output.is_empty());
    }

    #[test]
    fn memory_is_told_where_it_is_the_programs_own() {
        assert_eq!(run(&mut shell(":"), false).unwrap().peak_memory, None);
        let large = "x=$(head -c 100000000 /dev/zero | tr '\\0' a); echo ${#x}";
        let ran = run(&mut shell(large), true).unwrap();
        assert_eq!(ran.output, b"100000000\n");
        assert!(ran.peak_memory.is_some_and(|peak| peak > 100_000_000), "{:?}", ran.peak_memory);
    }

    #[test]
    fn failures_say_how_and_why() {
        for (script, why) in [
            ("echo first >&2; echo 'no room' >&2; exit 3", "/bin/sh: exit status 3: no room"),
            ("kill -9 $$", "/bin/sh: was ended by signal 9"),
        ] {
            assert_eq!(run(&mut shell(script), true).unwrap_err().to_string(), why);
        }
        let error = run(&mut Command::new("/no/such/program"), false).unwrap_err().to_string();
        assert!(error.starts_with("/no/such/program: No such file"), "{error}");
    }

    #[test]
    fn an_end_may_be_good_that_is_not_success() {
        let one = |status: ExitStatus| status.code() == Some(1);
        assert_eq!(run_where(&mut shell("echo so; exit 1"), Stdio::null(), true, one).unwrap().output, b"so\n");
        assert!(run_where(&mut shell(":"), Stdio::null(), true, one).is_err());
    }

    #[test]
    fn programs_are_found_and_say_their_version() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("sh");
        fs::write(&program, "not to be run").unwrap();
        let on_path = find("sh", None).unwrap();
        assert_eq!(find("sh", Some(dir.path())).as_deref(), Some(on_path.as_path()), "it cannot be run");
        std::os::unix::fs::symlink("/bin/sh", dir.path().join("mksquashfs")).unwrap();
        assert_eq!(find("mksquashfs", Some(dir.path())), Some(dir.path().join("mksquashfs")));
        assert_eq!(find("no-such-program-anywhere", None), None);
        let text = version(Path::new("/bin/sh"), "-c 'echo'");
        assert!(text.contains("llegal option") || text.contains("echo"), "{text}");
        assert_eq!(version(Path::new("/bin/true"), ""), NO_VERSION);
        let names = ["no-such-program-anywhere", "sh"];
        assert_eq!(find_all(names, |name| name, None), (vec![("sh", on_path)], vec![names[0]]));
    }
}
