//! makedumpfile and crash read our dumps, and we read those of makedumpfile.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use packfs_blocks::ReadAt;

use super::machine::Machine;
use super::{CODECS, flattened, options, view, written};

/// Codecs that Debian's makedumpfile is built with.
const MAKEDUMPFILE: [&str; 3] = ["gzip:1", "lzo:algorithm=lzo1x_1", "none"];

#[allow(clippy::print_stderr, reason = "a test that does not run says so")]
fn there(test: &str, program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        let line = format!("SKIPPED {test}: {program} is not installed");
        assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{line}");
        eprintln!("{line}");
    }
    there
}

fn run(dir: &Path, program: &str, args: &str) -> Output {
    Command::new(program).args(args.split(' ')).current_dir(dir).stdin(Stdio::null()).output().unwrap()
}

fn makedumpfile(dir: &Path, args: &str) -> Output {
    let output = run(dir, "makedumpfile", args);
    let text = || String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "makedumpfile {args}: {}", text());
    output
}

fn check(machine: &Machine, dir: &Path, names: &[&str]) {
    let files: Vec<Vec<u8>> = names.iter().map(|name| fs::read(dir.join(name)).unwrap()).collect();
    let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    machine.check(&view(&files).unwrap());
}

#[test]
fn dumps_of_makedumpfile_are_read() {
    if !there("dumps_of_makedumpfile_are_read", "makedumpfile") {
        return;
    }
    let (dir, machine) = (tempfile::tempdir().unwrap(), Machine::new(1500));
    let dir = dir.path();
    fs::write(dir.join("core"), machine.core()).unwrap();
    for how in ["-c -d 0", "-l -d 0", "-d 0", "-c -d 1", "-l -d 1", "-d 1"] {
        makedumpfile(dir, &format!("-f {how} core dump"));
        check(&machine, dir, &["dump"]);
        let flat = makedumpfile(dir, &format!("-F {how} core"));
        machine.check(&view(&[&flat.stdout]).unwrap());
    }
    makedumpfile(dir, "-f --split --splitblock-size 1024 -l -d 1 core a b c");
    check(&machine, dir, &["c", "a", "b"]);
    assert!(view(&[&fs::read(dir.join("a")).unwrap(), &fs::read(dir.join("c")).unwrap()]).is_err());
    assert!(view(&[&fs::read(dir.join("a")).unwrap()]).is_err());
    assert!(view(&[&fs::read(dir.join("a")).unwrap(), &fs::read(dir.join("dump")).unwrap()]).is_err());
    makedumpfile(dir, "-f --reassemble c b a whole");
    check(&machine, dir, &["whole"]);
}

#[test]
fn makedumpfile_reads_our_dumps() {
    if !there("makedumpfile_reads_our_dumps", "makedumpfile") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (machine, left_out) in [(Machine::new(1500), false), (Machine::new(1500).with_pages_left_out(), true)] {
        let core = machine.core();
        for codec in MAKEDUMPFILE {
            let dump = written(&core, &options(codec, 2));
            fs::write(dir.join("ours"), &dump).unwrap();
            makedumpfile(dir, "-f -l -d 1 ours dump");
            check(&machine, dir, &["dump"]);
            fs::write(dir.join("flat"), flattened(&core, &options(codec, 0))).unwrap();
            let rearranged = Command::new("makedumpfile")
                .args(["-f", "-R", "dump"])
                .current_dir(dir)
                .stdin(fs::File::open(dir.join("flat")).unwrap())
                .output()
                .unwrap();
            assert!(rearranged.status.success() && fs::read(dir.join("dump")).unwrap() == dump, "{codec}");
        }
        // The core that a dump is presented as, both as makedumpfile maps it and as it reads it.
        let core = view(&[&written(&core, &options("none", 0))]).unwrap();
        let mut bytes = vec![0; core.len() as usize];
        core.read_exact_at(&mut bytes, 0).unwrap();
        fs::write(dir.join("core"), bytes).unwrap();
        for how in ["-l -d 1", "-c -d 0", "--non-mmap -d 1"] {
            makedumpfile(dir, &format!("-f {how} core dump"));
            check(&machine, dir, &["dump"]);
        }
        if !left_out {
            makedumpfile(dir, "-f --split --splitblock-size 1024 -l -d 1 core a b");
            check(&machine, dir, &["b", "a"]);
        }
    }
}

#[test]
fn crash_opens_our_dumps() {
    if !there("crash_opens_our_dumps", "crash") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let core = Machine::new(300).with_pages_left_out().core();
    for codec in CODECS {
        fs::write(dir.join("raw"), written(&core, &options(codec, 0))).unwrap();
        fs::write(dir.join("flat"), flattened(&core, &options(codec, 0))).unwrap();
        for form in ["raw", "flat"] {
            let output = run(dir, "crash", &format!("--osrelease {form}"));
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "6.1.0-test", "{codec} {form}");
        }
    }
}
