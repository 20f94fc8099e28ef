//! Every command and every drop-in name with standard streams that are closed, full, or left by their reader.
//!
//! The rule is contract 10 of docs/architecture.md: a command whose result is not what it prints goes on and returns
//! its own status; a command whose result is what it prints fails, or is ended by SIGPIPE; findings that are lost are
//! never status 0.

mod cases;
mod fault;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::common::{FORMATS, have, packfs, run_in, sample, skip, stderr, succeed};
use cases::{CASES, PrintedOutput, StreamCase};
use fault::{CaseRun, StreamFault};

const SIGPIPE: i32 = 13;
const TEST: &str = "no_result_is_lost_and_no_work_is_left_undone";

/// Files that all cases read.
struct CaseInputs(tempfile::TempDir);

impl CaseInputs {
    fn new() -> CaseInputs {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        sample(at);
        // Listings of them are longer than a pipe.
        for n in 0..300 {
            let name = format!("root/usr/share/a file with a long name and the number {n}");
            fs::write(at.join(name), format!("{n}\n")).unwrap();
        }
        fs::create_dir(at.join("other")).unwrap();
        for format in FORMATS {
            succeed(at, &["build", "-q", "root", "-o", format, "--format", format]);
            damage(&at.join(format), &at.join(format!("damaged.{format}")));
        }
        succeed(at, &["build", "-q", "other", "-o", "other.squashfs"]);
        succeed(at, &["tar", "-q", "squashfs", "-o", "root.tar"]);
        fs::write(at.join("list"), format!("{0}/root/etc/motd\n{0}/root/hole\n", at.to_str().unwrap())).unwrap();
        fs::write(at.join("dump"), "All work and no play.\n".repeat(20_000)).unwrap();
        succeed(at, &["split", "-q", "dump", "-o", "p0", "-o", "p1"]);
        succeed(at, &["plan", "-q", "root", "-o", "job.plan", "--shards", "2"]);
        for shard in ["0", "1"] {
            succeed(at, &["shard", "-q", "job.plan", shard, "-o", "shards"]);
        }
        let quick = ["--codecs", "lz4", "--blocks", "16K", "--sample", "20K", "--runs", "1", "--least", "0", "-q"];
        succeed(at, &[&["bench", "codecs", "--data", "root", "-o", "results.jsonl"], &quick[..]].concat());
        CaseInputs(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Copies an image with some of its bytes overwritten: of its data in SquashFS, of its inodes in EROFS.
fn damage(image: &Path, copy: &Path) {
    let mut bytes = fs::read(image).unwrap();
    if &bytes[..4] == b"hsqs" {
        bytes[100..156].fill(0xff);
    } else {
        // Inodes and directories follow the data, which fills few blocks.
        let middle = bytes.len() / 2;
        bytes[middle..middle + 2000].fill(0xff);
    }
    fs::write(copy, bytes).unwrap();
}

/// Files that a run left: their names, and the contents of those that are always the same.
type RunTraces = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// Files whose bytes depend on the clock, on the threads, or on what else opens files.
const VARYING: [&str; 5] = [".html", ".jsonl", "p0", "shards", "traced"];

fn traces(dir: &Path) -> RunTraces {
    let mut found = RunTraces::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().to_owned();
            let varies = VARYING.iter().any(|part| name.to_str().unwrap().contains(part));
            let kind = path.symlink_metadata().unwrap();
            if kind.is_dir() {
                dirs.push(path.clone());
            }
            let bytes = if kind.is_file() && !varies { Some(fs::read(&path).unwrap()) } else { None };
            found.insert(name, bytes);
        }
    }
    found
}

/// Checks the run of a case with a fault; the error says what is wrong.
fn verdict(case: &StreamCase, fault: StreamFault, ran: &CaseRun, usual: &CaseRun) -> Result<(), String> {
    let fails = |wrong: &str| Err(format!("{wrong}: {:?}, {}", ran.status, ran.stderr));
    if fault == StreamFault::ClosedInput && case.stdin.is_some() {
        return match ran.status.code() {
            Some(0) | None => fails("an unreadable standard input is a success"),
            Some(_) if ran.traces != usual.before => fails("a file is made of nothing"),
            Some(_) => Ok(()),
        };
    }
    // Some commands refuse a closed standard output before long work.
    let is_refused =
        fault == StreamFault::ClosedOutput && case.stdout == PrintedOutput::Result && ran.traces == usual.before;
    if ran.traces != usual.traces && !is_refused {
        let names = |traces: &RunTraces| traces.keys().cloned().collect::<BTreeSet<_>>();
        let missing: Vec<_> = names(&usual.traces).difference(&names(&ran.traces)).cloned().collect();
        return fails(&format!("the work is not that of an undisturbed run, without {missing:?}"));
    }
    if !fault.loses_a_result_of(case, usual) {
        let ended_by_reader = fault.may_lose_a_result_of(case) && ran.status.signal() == Some(SIGPIPE);
        let failed_for_reader = fault.may_lose_a_result_of(case) && ran.stderr.contains("Broken pipe");
        let same = ran.status == usual.status || ended_by_reader || failed_for_reader;
        return if same { Ok(()) } else { fails(&format!("not the usual status, {:?}", usual.status)) };
    }
    if ran.status.success() {
        return fails("a result is lost and the status is 0");
    }
    match fault {
        StreamFault::LeftOutput { ignored: false } | StreamFault::OneLineOutput { ignored: false } => {
            let quiet = !ran.stderr.contains("standard output");
            if ran.status.signal() == Some(SIGPIPE) && quiet { Ok(()) } else { fails("not ended by SIGPIPE") }
        }
        // Nobody could read an explanation.
        StreamFault::ClosedErrors | StreamFault::FullErrors | StreamFault::LeftErrors { .. } => Ok(()),
        _ if ran.status.code().is_some() && ran.stderr.contains("standard output: cannot write") => Ok(()),
        _ => fails("the error does not say what could not be written"),
    }
}

/// Runs a case undisturbed and with every fault; returns what went wrong.
fn try_case(case: &StreamCase, inputs: &Path) -> Vec<String> {
    let usual = fault::run(case, None, inputs);
    let mut wrong = Vec::new();
    let expected = (case.status, case.stdout != PrintedOutput::Nothing);
    if (usual.status.code(), !usual.stdout.is_empty()) != (Some(expected.0), expected.1) {
        wrong.push(format!(
            "{}: the table is wrong: {:?}, {} bytes printed, {}",
            case.line,
            usual.status,
            usual.stdout.len(),
            usual.stderr
        ));
        return wrong;
    }
    for fault in StreamFault::all().filter(|fault| !case.slow || fault.is_for_slow_cases()) {
        let ran = fault::run(case, Some(fault), inputs);
        if let Err(why) = verdict(case, fault, &ran, &usual) {
            wrong.push(format!("{} with {fault:?}: {why}", case.line));
        }
    }
    wrong
}

/// Returns true if this machine can run a case; reports it otherwise.
fn can_run(case: &StreamCase) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let mounts = case.mounts && OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err();
    if mounts {
        skip(TEST, "/dev/fuse cannot be opened");
    }
    if case.needs_root && !is_root {
        skip(TEST, &format!("{} needs root", case.name));
    }
    !(mounts || case.needs_root && !is_root || case.mounts && !have(TEST, "fusermount3"))
}

#[test]
fn no_result_is_lost_and_no_work_is_left_undone() {
    let inputs = CaseInputs::new();
    let cases: Vec<&StreamCase> = CASES.iter().filter(|case| can_run(case)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Relaxed)) {
            wrong.extend(try_case(case, inputs.path()));
        }
        wrong
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

/// The commands come from the definition of the command line, and the drop-in names from the program: none can be
/// forgotten.
#[test]
fn the_table_has_every_command_and_every_drop_in_name() {
    let dir = tempfile::tempdir().unwrap();
    succeed(dir.path(), &["man", "--dir", "."]);
    let pages = fs::read_dir(dir.path()).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap());
    let commands: BTreeSet<String> = pages
        .map(|page| page.strip_suffix(".1").unwrap().to_owned())
        .map(|page| page.strip_prefix("packfs-").unwrap_or("packfs").to_owned())
        .map(|page| page.strip_prefix("as-").unwrap_or(&page).to_owned())
        .collect();
    let options = succeed(dir.path(), &["as", "--list"]);
    let programs: BTreeSet<String> = options.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    let tried: BTreeSet<&str> = CASES.iter().map(|case| case.name).collect();
    for name in commands.iter().chain(&programs) {
        assert!(tried.contains(name.as_str()), "no case for {name}");
    }
    for case in CASES {
        let words: Vec<&str> = case.line.split(' ').collect();
        let named = match case.name {
            "packfs" => words[0].starts_with('-'),
            name if programs.contains(name) => words[..2] == ["as", name],
            name => words.join("-").starts_with(name),
        };
        assert!(named, "{}: not a case for {}", case.line, case.name);
    }
}

#[test]
fn a_watch_ends_with_its_reader() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    succeed(dir.path(), &["plan", "-q", "root", "-o", "job.plan", "--shards", "2"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = packfs(["status", "job.plan", "shards", "--watch=1"]).current_dir(dir.path()).stdout(writer).output();
    assert_eq!(ran.unwrap().status.signal(), Some(SIGPIPE));
}

/// A descriptor may be open in the wrong direction, as after a typing error in a script.
#[test]
fn a_stream_that_is_open_the_wrong_way_round_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    succeed(dir.path(), &["build", "-q", "root", "-o", "image"]);
    let unreadable = || File::create(dir.path().join("unreadable")).unwrap();
    for args in [&["build", "-", "-o", "new"][..], &["build", "--files-from", "-", "-o", "new"]] {
        let ran = packfs(args).current_dir(dir.path()).stdin(unreadable()).output().unwrap();
        assert!(!ran.status.success() && !stderr(&ran).is_empty(), "{args:?}: {}", stderr(&ran));
        assert!(!dir.path().join("new").exists(), "{args:?}");
    }
    for args in [&["list", "image"][..], &["--version"], &["tar", "image"]] {
        let unwritable = File::open(dir.path().join("image")).unwrap();
        let ran = packfs(args).current_dir(dir.path()).stdout(unwritable).output().unwrap();
        assert_eq!(ran.status.code(), Some(1), "{args:?}: {}", stderr(&ran));
        assert!(stderr(&ran).contains("standard output: cannot write"), "{args:?}: {}", stderr(&ran));
    }
}

/// A network file system reports only when a file is closed that data could not be stored.
#[test]
fn an_error_of_closing_standard_output_is_an_error() {
    let test = "an_error_of_closing_standard_output_is_an_error";
    if !have(test, "strace") || !traces_here(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    succeed(dir.path(), &["build", "-q", "root", "-o", "image"]);
    succeed(dir.path(), &["split", "-q", "image", "-o", "part"]);
    for args in [&["list", "image"][..], &["tar", "image"], &["join", "part", "-o", "-"], &["build", "root", "-o", "-"]]
    {
        let out = dir.path().join("out");
        let stdout = File::create(&out).unwrap();
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=close", "-e", "inject=close:error=EIO", "-P"]);
        strace.arg(&out).arg(env!("CARGO_BIN_EXE_packfs")).args(args).current_dir(dir.path());
        let ran = strace.stdin(Stdio::null()).stdout(stdout).output().unwrap();
        let told = stderr(&ran);
        assert_eq!(ran.status.code(), Some(1), "{args:?}: {told}");
        assert!(told.contains("standard output: cannot write: Input/output error"), "{args:?}: {told}");
    }
}

/// Returns true if strace may trace here; reports it otherwise.
fn traces_here(test: &str) -> bool {
    let traced: ExitStatus = Command::new("strace").args(["-o", "/dev/null", "true"]).status().unwrap();
    if !traced.success() {
        skip(test, "strace may not trace here");
    }
    traced.success()
}

/// Sound images have nothing to print, whatever standard output is.
#[test]
fn a_lost_finding_is_told_from_none() {
    let inputs = CaseInputs::new();
    let closed = |args: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" >&-", env!("CARGO_BIN_EXE_packfs")]).args(args);
        command.current_dir(inputs.path()).output().unwrap().status.code()
    };
    assert_eq!(run_in(inputs.path(), &["check", "damaged.squashfs"]).status.code(), Some(1));
    assert_eq!(closed(&["check", "squashfs"]), Some(0));
    assert_eq!(closed(&["check", "damaged.squashfs"]), Some(1));
    assert_eq!(closed(&["diff", "squashfs", "erofs", "--ignore", "time"]), Some(0));
    assert_eq!(closed(&["diff", "squashfs", "other.squashfs"]), Some(1));
}
