//! Crash dumps through the program: those of makedumpfile are split as ELF cores, and written again.
#![allow(clippy::cast_possible_truncation, reason = "the machines of these tests are small")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use crate::common::{fail, have, run_in, shorter, stderr, succeed};
use crate::machine::Machine;
use packfs_dump::kdump::CoreView;

const CODECS: [&str; 5] = ["lzo", "gzip", "none", "snappy", "zstd:3"];
/// Codecs that Debian's makedumpfile is built with.
const MAKEDUMPFILE: [&str; 3] = ["lzo", "gzip", "none"];

fn run(dir: &Path, program: &str, args: &str) -> Output {
    let output = Command::new(program).args(args.split(' ')).current_dir(dir).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program} {args}: {}", stderr(&output));
    output
}

/// Asserts that the file is a kdump-compressed dump, flattened or not, of exactly this machine.
fn check(machine: &Machine, file: &Path) {
    let bytes = Arc::new(fs::read(file).unwrap());
    machine.check(&CoreView::open(vec![(file.to_owned(), bytes)]).unwrap());
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn dumps_of_makedumpfile_round_trip_and_are_read_by_it() {
    if !have("dumps_of_makedumpfile_round_trip_and_are_read_by_it", "makedumpfile") {
        return;
    }
    let (dir, machine) = (tempfile::tempdir().unwrap(), Machine::new(1500));
    let dir = dir.path();
    fs::write(dir.join("core"), machine.core()).unwrap();
    run(dir, "makedumpfile", "-l -d 1 core dump");
    fs::write(dir.join("flat"), run(dir, "makedumpfile", "-F -c -d 0 core").stdout).unwrap();
    for input in ["dump", "flat"] {
        let split = run_in(dir, &["split", input, "-o", "a", "-o", "b", "--force"]);
        assert!(split.status.success(), "{}", stderr(&split));
        assert!(stderr(&split).contains("note: ") && stderr(&split).contains("as the ELF core"), "{}", stderr(&split));
        succeed(dir, &["join", "a", "b", "-o", "back", "--force"]);
        machine.check(&fs::read(dir.join("back")).unwrap());

        succeed(dir, &["split", input, "-o", "c", "--as-is", "--force"]);
        succeed(dir, &["join", "c", "-o", "same", "--force"]);
        assert!(fs::read(dir.join("same")).unwrap() == fs::read(dir.join(input)).unwrap());
    }
    for codec in MAKEDUMPFILE {
        succeed(dir, &["join", "b", "a", "-o", "ours", "--force", "--as", "kdump", "--codec", codec]);
        run(dir, "makedumpfile", "-f -c -d 1 ours theirs");
        check(&machine, &dir.join("theirs"));
        let flat = run_in(dir, &["join", "b", "a", "-o", "-", "--as", "kdump-flat", "--codec", codec]);
        fs::write(dir.join("ours.flat"), &flat.stdout).unwrap();
        let mut rearrange = Command::new("makedumpfile");
        let rearrange = rearrange.args(["-f", "-R", "theirs"]).current_dir(dir);
        let rearranged = rearrange.stdin(fs::File::open(dir.join("ours.flat")).unwrap()).output().unwrap();
        assert!(flat.status.success() && rearranged.status.success(), "{}", stderr(&rearranged));
        assert!(fs::read(dir.join("theirs")).unwrap() == fs::read(dir.join("ours")).unwrap(), "{codec}");
    }
}

#[test]
fn crash_opens_joined_dumps() {
    if !have("crash_opens_joined_dumps", "crash") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("core"), Machine::new(300).with_pages_left_out().core()).unwrap();
    succeed(dir, &["split", "core", "-o", "a", "-q"]);
    for codec in CODECS {
        for form in ["kdump", "kdump-flat"] {
            succeed(dir, &["join", "a", "-o", "dump", "--force", "--as", form, "--codec", codec]);
            let release = run(dir, "crash", "--osrelease dump").stdout;
            assert_eq!(String::from_utf8_lossy(&release).trim(), "6.1.0-test", "{codec} {form}");
        }
    }
}

#[test]
fn a_core_becomes_a_dump_and_a_core_again() {
    let (dir, machine) = (tempfile::tempdir().unwrap(), Machine::new(1500).with_pages_left_out());
    let dir = dir.path();
    fs::write(dir.join("core"), machine.core()).unwrap();
    let said = succeed(dir, &["split", "core", "-o", "a", "-o", "b", "--json"]);
    assert!(said.contains("\"decoded\": false"), "{said}");
    succeed(dir, &["join", "a", "b", "-o", "lzo", "--as", "kdump"]);
    assert_eq!(fs::metadata(dir.join("lzo")).unwrap().mode() & 0o777, 0o600);
    succeed(dir, &["join", "b", "a", "-o", "serial", "--as", "kdump", "--codec", "lzo", "-j", "0"]);
    assert!(fs::read(dir.join("lzo")).unwrap() == fs::read(dir.join("serial")).unwrap());
    for codec in CODECS {
        for form in ["kdump", "kdump-flat"] {
            let said = succeed(dir, &["join", "a", "b", "-o", "dump", "-f", "--as", form, "--codec", codec, "--json"]);
            assert!(said.contains("\"zero_pages\": "), "{said}");
            check(&machine, &dir.join("dump"));
            let said = succeed(dir, &["split", "dump", "-o", "c", "--force", "--json", "-q"]);
            assert!(said.contains("\"decoded\": true"), "{said}");
            succeed(dir, &["join", "c", "-o", "back", "-f", "-q"]);
            machine.check(&fs::read(dir.join("back")).unwrap());
        }
    }
}

#[test]
fn files_that_cannot_be_crash_dumps_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let machine = Machine::new(1500);
    fs::write(dir.join("core"), machine.core()).unwrap();
    fs::write(dir.join("unknown"), Machine { vmcoreinfo: "PAGESIZE=none\n".into(), ..machine }.core()).unwrap();
    fs::write(dir.join("text"), "All work and no play.\n".repeat(1000)).unwrap();
    succeed(dir, &["split", "core", "-o", "a", "-o", "b", "-q", "--codec", "raw"]);
    let rest = shorter(dir, ["a", "b"]);
    succeed(dir, &["split", "unknown", "-o", "u", "-q"]);
    succeed(dir, &["split", "text", "-o", "t", "-q"]);
    succeed(dir, &["join", "a", "b", "-o", "dump", "--as", "kdump"]);
    succeed(dir, &["split", "dump", "-o", "d", "-q", "--as-is"]);
    let mut dump = fs::read(dir.join("dump")).unwrap();
    fs::write(dir.join("torn"), &dump[..5_000]).unwrap();
    // In the sub header: one of several files, with the first 300 pages.
    dump[4096 + 12] = 1;
    dump[4096 + 80..4096 + 96].copy_from_slice([0, 300].map(u64::to_le_bytes).as_flattened());
    fs::write(dir.join("one"), &dump).unwrap();
    let before = names(dir);
    let cases: [(i32, &[&str], &str); 13] = [
        (2, &["join", "a", "b", "-o", "x", "--codec", "lzo"], "--codec is for --as kdump"),
        (
            2,
            &["join", "a", "b", "-o", "x", "--as", "kdump", "--codec", "xz"],
            "accepted: gzip, lzo, snappy, zstd, none",
        ),
        (2, &["join", "a", "b", "-o", "x", "--as", "kdump", "--partial"], "leave out one of them"),
        (2, &["join", "a", "b", "-o", "-", "--as", "kdump"], "--as kdump-flat"),
        (2, &["join", "a", "b", "-o", "x", "--as", "elf"], "kdump-flat"),
        (1, &["join", "a", "b", "-o", "dump", "--as", "kdump"], "--force"),
        (1, &["join", "t", "-o", "x", "--as", "kdump"], "not a 64-bit little-endian ELF core"),
        (1, &["join", "d", "-o", "x", "--as", "kdump"], "already a kdump-compressed file"),
        (1, &["join", "u", "-o", "x", "--as", "kdump-flat"], "PAGESIZE"),
        (1, &["join", rest, "-o", "x", "--as", "kdump"], "with --partial, without --as"),
        (1, &["split", "torn", "-o", "x"], "--as-is splits the bytes of the file"),
        (1, &["split", "one", "-o", "x"], "makedumpfile --reassemble combines the files of a dump, --as-is splits"),
        (2, &["split", "dump", "-o", "d", "--resume"], "give --as-is if the split was begun with it"),
    ];
    for (status, args, says) in cases {
        let said = fail(dir, status, args);
        assert!(said.contains(says), "{args:?}: {said}");
        assert_eq!(names(dir), before, "{args:?}");
    }
    succeed(dir, &["split", "torn", "-o", "x", "--as-is", "-q"]);
}
