//! `packfs bench split` as a user runs it: on fast simulated disks, in directories, with disks that
//! fail or fill up.

#![allow(clippy::cast_possible_truncation, reason = "the machines of these tests are small")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::program::write_script;
use crate::common::{fail, have, packfs, run_in, skip, stderr, succeed};
use crate::machine::Machine;
use rustix::process::{Pid, Signal};

/// Runs in `dir`, with a scratch directory that must be empty afterwards.
fn split(dir: &Path, args: &[&str]) -> Output {
    let scratch = dir.join("scratch");
    fs::create_dir_all(&scratch).unwrap();
    let output = run_in(dir, &[&["bench", "split", "-q", "--scratch", "scratch"], args].concat());
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "{args:?}");
    output
}

fn shown(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

const QUICK: [&str; 6] = ["--size", "1M", "--runs", "2", "--codecs", "raw,lzo,snappy,lz4,zstd:1"];

#[test]
fn dumps_are_split_restored_shown_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let disks = ["--outputs", "1..3", "--disks", "2000", "--disks", "1000,1000,4000"];
    let text = shown(&split(dir.path(), &[&QUICK[..], &disks].concat()));
    for words in [
        "Do more disks help? memory, simulated disks of 2000 MB/s",
        "Do more disks help? incompressible, simulated disks of 2000 MB/s",
        "Speed-up of 3 outputs over one:",
        "What do disks that differ or fail cost?",
        "1000,1000,4000",
        "How fast are dumps joined and checked?",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let columns = |line: &str| line.split_whitespace().eq(["outputs", "raw", "lzo", "snappy", "lz4", "zstd:1"]);
    assert!(text.lines().any(columns), "{text}");
    succeed(dir.path(), &["bench", "report", "packfs-bench.jsonl", "-o", "report.html", "--csv", "tables"]);
    let tables = fs::read_dir(dir.path().join("tables")).unwrap().map(|entry| entry.unwrap().file_name());
    let tables: Vec<String> = tables.map(|name| name.into_string().unwrap()).collect();
    assert!(tables.iter().any(|name| name.starts_with("split-memory-") && name.ends_with("-2000.csv")), "{tables:?}");
    // A session; then two runs on two sets of data: each codec over 1, 2, 3 and 3 disks, joined, and checked.
    let lines = || fs::read_to_string(dir.path().join("packfs-bench.jsonl")).unwrap().lines().count();
    assert_eq!(lines(), 1 + 2 * 2 * 5 * (4 + 2));
    shown(&split(dir.path(), &[&QUICK[..], &disks, &["--resume"]].concat()));
    assert_eq!(lines(), 1 + 2 * 2 * 5 * (4 + 2));
}

#[test]
fn results_are_json_where_a_program_asks() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--size", "300K", "--runs", "1", "--codecs", "raw", "--outputs", "2", "--disks", "1000", "--json"];
    let json: serde_json::Value = serde_json::from_str(&shown(&split(dir.path(), &args))).unwrap();
    assert_eq!((json["schema"].as_u64(), json["kind"].as_str()), (Some(1), Some("bench")));
    let results = json["results"].as_array().unwrap();
    let works: Vec<&str> = results.iter().map(|row| row["work"].as_str().unwrap()).collect();
    assert_eq!(works, ["split", "check", "join", "split", "check", "join"]);
    let noise = &results[0];
    assert_eq!((noise["data"].as_str(), noise["disks"].as_str()), (Some("incompressible"), Some("1000")));
    assert!(noise["made"].as_u64() > noise["bytes"].as_u64() && noise["seconds"].as_f64().unwrap() > 0.0, "{noise}");
    assert!(noise["stages"]["wait_for_parts"].is_number(), "{noise}");
    assert!(json["session"]["libraries"]["packfs"].as_str().unwrap().starts_with("packfs "), "{json}");
}

#[test]
fn parts_go_to_directories_and_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    ["a", "b"].iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
    fs::write(dir.path().join("core"), "All work and no play.\n".repeat(20_000)).unwrap();
    let args = ["--data", "core", "--dirs", "a", "b", "--runs", "1", "--codecs", "raw,lz4"];
    let text = shown(&split(dir.path(), &args));
    assert!(text.contains("Do more disks help? core, directories") && text.contains("Over 2 outputs"), "{text}");
    assert!(text.contains("How fast are dumps joined and checked?"), "{text}");
    for name in ["a", "b"] {
        assert_eq!(fs::read_dir(dir.path().join(name)).unwrap().count(), 0, "{name}");
    }
}

/// Programs in place of peers: one that copies its input to each output, one that fails.
#[test]
fn peers_are_measured_and_their_failures_reported() {
    let dir = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| write_script(&dir.path().join(name), &format!("#!/bin/sh\n{text}\n"));
    script("good", "case $1 in -*) shift;; esac; from=$1; shift; for to; do cat $from > $to; done");
    script("bad", "echo 'out of luck' >&2; exit 7");
    let args = ["--size", "300K", "--runs", "1", "--codecs", "raw,lzo,lz4", "--outputs", "1,2", "--disks", "1000"];
    let text = shown(&split(dir.path(), &[&args[..], &["--nsplit", "./good"]].concat()));
    assert!(text.contains("nsplit raw") && text.contains("nsplit lzo") && !text.contains("nsplit lz4"), "{text}");
    assert!(text.contains("Time relative to packfs with the same codec: nsplit raw"), "{text}");
    // The others are measured nevertheless.
    let output = split(dir.path(), &[&args[..], &["--nsplit", "./bad", "-o", "bad.jsonl"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let (text, said) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(said.contains("nsplit split of memory, raw, 2 outputs of 1000 MB/s is left out"), "{said}");
    assert!(said.contains("exit status 7: out of luck"), "{said}");
    assert!(
        text.contains("What could not be measured") && text.contains("How fast are dumps joined and checked?"),
        "{text}"
    );
}

#[test]
fn makedumpfile_splits_cores_beside_packfs() {
    if !have("makedumpfile_splits_cores_beside_packfs", "makedumpfile") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    ["a", "b"].iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
    fs::write(dir.path().join("core"), Machine::new(1500).core()).unwrap();
    let args = ["--data", "core", "--dirs", "a", "b", "--runs", "1", "--codecs", "raw,lzo,lz4"];
    let text = shown(&split(dir.path(), &[&args[..], &["--makedumpfile", "makedumpfile"]].concat()));
    assert!(text.contains("makedumpfile raw") && text.contains("makedumpfile lzo"), "{text}");
    assert!(!text.contains("makedumpfile lz4"), "{text}");
}

/// The disk is meant to fail: the dump is complete, and that is measured.
#[test]
fn a_disk_that_is_meant_to_fail_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--size", "8M", "--runs", "1", "--codecs", "raw", "--disks", "200,200@2"];
    let text = shown(&split(dir.path(), &args));
    assert!(text.contains("Complete although a disk failed: raw of incompressible over 200,200@2"), "{text}");
}

#[test]
fn a_full_disk_is_reported_and_the_rest_is_measured() {
    let test = "a_full_disk_is_reported_and_the_rest_is_measured";
    if !have(test, "mount") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    ["a", "small"].iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
    let small = dir.path().join("small");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&small).output().unwrap();
    if !mounted.status.success() {
        return skip(test, "mounting is not allowed");
    }
    let args = ["--size", "9M", "--runs", "1", "--codecs", "raw", "--dirs", "a", "small", "--outputs", "1,2"];
    let output = split(dir.path(), &args);
    let left = fs::read_dir(&small).unwrap().count();
    let _ = Command::new("umount").arg("-l").arg(&small).status();
    assert_eq!(output.status.code(), Some(1));
    let (text, said) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(said.contains("2 outputs is left out") && said.contains("abandoned: No space left"), "{said}");
    assert!(text.contains("Over 1 output the fastest is raw"), "{text}");
    assert_eq!(left, 0);
}

#[test]
fn failures_to_measure_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    for (args, status, why) in [
        (&["--codecs", "bzip2"][..], 2, "bzip2"),
        (&["--disks", "fast"], 2, "50,50,200"),
        (&["--disks", "50", "--dirs", "."], 2, "cannot be used with"),
        (&["--outputs", "0"], 2, "1 to 64"),
        (&["--size", "0"], 2, "no data"),
        (&["--data", "empty"], 2, "no data"),
        (&["--data", "missing"], 1, "missing"),
        (&["--data", "."], 2, "not a regular file"),
        (&["--nsplit", "./missing"], 2, "no such program"),
        (&["--nsplit", "no-such-program-anywhere"], 2, "no such program"),
        (&["--scratch", "missing"], 1, "--scratch names another"),
    ] {
        let error = fail(dir.path(), status, &[&["bench", "split"], args].concat());
        assert!(error.contains(why), "{args:?}: {error}");
        assert!(!dir.path().join("packfs-bench.jsonl").exists(), "{args:?}");
    }
    // A missing directory is a failure of the outputs in it.
    let output = split(dir.path(), &["--size", "1M", "--runs", "1", "--codecs", "raw", "--dirs", "gone"]);
    assert!(output.status.code() == Some(1) && stderr(&output).contains("gone: No such file"), "{}", stderr(&output));
}

/// Ctrl-C reaches the measured program, too: its disk, with a minute of work left, is not waited
/// for, and no file stays.
#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = dir.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let args = ["bench", "split", "--size", "100M", "--codecs", "raw", "--outputs", "1", "--disks", "1"];
    let mut command = packfs(args.iter().chain(&["--scratch", "scratch"]));
    let child = command.current_dir(dir.path()).process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    // A pipe exists: by then signals are handled.
    let begun = || {
        let mut folders = fs::read_dir(&scratch).unwrap().flat_map(|one| fs::read_dir(one.unwrap().path()).unwrap());
        folders.any(|inner| inner.unwrap().path().join("disk1").exists())
    };
    while !begun() {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("interrupted: the samples so far are in packfs-bench.jsonl"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
    assert!(fs::read_to_string(dir.path().join("packfs-bench.jsonl")).unwrap().ends_with("}\n"));
}
