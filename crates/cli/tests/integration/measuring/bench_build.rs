//! Build measurements: the stages of one build, and `packfs bench build` as a user runs it.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::program::write_script;
use crate::common::{FORMATS, fail, have, packfs, run_in, sample, skip, stderr, succeed};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

/// Times depend on the machine, but without workers no two stages overlap, and a directory is not a stream.
#[test]
fn a_build_reports_the_time_of_its_stages() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    succeed(dir.path(), &["build", "root", "-o", "first.sqfs", "-q"]);
    succeed(dir.path(), &["tar", "first.sqfs", "-o", "root.tar", "-q"]);
    for format in FORMATS {
        for (source, jobs, codec) in [("root", "0", "none"), ("root", "2", "zstd:1"), ("-", "0", "zstd:1")] {
            let built = ["build", source, "-o", "image", "-f", "-q", "--json", "--format", format];
            let kernel = if format == "erofs" { &["--target-kernel", "6.10"][..] } else { &[] };
            let mut command = packfs([&built[..], &["--codec", codec, "-j", jobs], kernel].concat());
            let tar = File::open(dir.path().join("root.tar")).unwrap();
            let output = command.current_dir(dir.path()).stdin(Stdio::from(tar)).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            let of = |stage: &str| json["stages"][stage].as_f64().unwrap();
            let stages = json["stages"].as_object().unwrap();
            let names: Vec<&str> = stages.keys().map(String::as_str).collect();
            let all = ["compress", "flush", "hash", "metadata", "order", "read", "scan", "stream", "wait", "write"];
            assert_eq!(names, [&all[..], &["write_apart"]].concat(), "{format} of {source}");
            assert!(of("write_apart") <= of("write"), "{stages:?}");
            assert!(stages.values().all(|seconds| seconds.as_f64().unwrap() >= 0.0), "{stages:?}");
            assert_eq!((of("read") > 0.0, of("stream") > 0.0), (source == "root", source == "-"), "{stages:?}");
            assert!(of("hash") > 0.0 && of("write") > 0.0 && of("flush") > 0.0, "{stages:?}");
            let sum: f64 = all.into_iter().map(of).sum();
            assert!(jobs != "0" || sum <= json["seconds"].as_f64().unwrap(), "{format} of {source}: {stages:?}");
        }
    }
}

/// Arguments for a small matrix of images of `root`: two codecs, on one thread and on one worker.
const SMALL: [&str; 11] =
    ["bench", "build", "root", "--codecs", "lz4,none", "--jobs", "0,1", "--runs", "2", "--scratch", "scratch"];

fn tree() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    std::fs::create_dir(dir.path().join("scratch")).unwrap();
    dir
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn builds_are_measured_shown_and_reported() {
    let dir = tree();
    let dir = dir.path();
    let lines = || std::fs::read_to_string(dir.join("packfs-bench.jsonl")).unwrap().lines().count();
    let shown = succeed(dir, &SMALL);
    assert!(shown.contains("T(serial)/T(n)") && shown.contains("T(n) = s + max(c, o, w / n, (c + w) / p)"), "{shown}");
    // Two samples of two codecs in two formats with features and without, on 0 threads and on 1.
    assert_eq!(lines(), 1 + 2 * 2 * 2 * 2 * 2);
    succeed(dir, &[&SMALL[..], &["--resume", "-q"]].concat());
    assert_eq!(lines(), 1 + 2 * 2 * 2 * 2 * 2);
    assert!(is_empty(&dir.join("scratch")));
    succeed(dir, &["bench", "report", "packfs-bench.jsonl", "-o", "page.html", "--csv", "tables"]);
    let tables: Vec<_> =
        std::fs::read_dir(dir.join("tables")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let scaling = tables.iter().filter(|name| name.to_string_lossy().ends_with("-scaling.csv")).count();
    // EROFS has one more group: only compressed files have fragments.
    assert_eq!(scaling, 2 + 3, "{tables:?}");
}

#[test]
fn builds_are_json_where_a_program_asks() {
    let dir = tree();
    let shown = succeed(dir.path(), &[&SMALL[..], &["--json", "-q", "--features", "plain"]].concat());
    let json: Value = serde_json::from_str(&shown).unwrap();
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 2 * 2 * 2);
    for row in results {
        assert!(row["stages"]["read"].as_f64().unwrap() > 0.0 && row["image_bytes"].as_u64().unwrap() > 0, "{row}");
        assert!(row["peak_memory"].as_u64().unwrap() > 0, "{row}");
    }
    assert!(json["session"]["settings"]["tar"].as_str().unwrap().parse::<u64>().unwrap() > 800_000);
}

/// Makes a script in place of mksquashfs.
fn peer(dir: &Path, script: &str) {
    std::fs::create_dir(dir.join("peers")).unwrap();
    write_script(&dir.join("peers/mksquashfs"), &format!("#!/bin/sh\n{script}\n"));
}

#[test]
fn peers_that_fail_or_are_missing_are_reported_and_the_rest_is_measured() {
    let dir = tree();
    let dir = dir.path();
    peer(dir, "echo it is broken >&2\nexit 3");
    let args = [&SMALL[..], &["--peers=peers", "--features", "plain"]].concat();
    let output = packfs(args).current_dir(dir).env("PATH", dir.join("scratch")).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in [
        "left out: tar2sqfs is not in peers or on PATH",
        "left out: mksquashfs cannot work on one thread alone",
        "mksquashfs packing root as squashfs, lz4, blocks of 128K, 1 thread is left out: peers/mksquashfs: exit status 3: it is broken",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("What could not be measured") && shown.contains("T(1)/T(n)"), "{shown}");
    assert!(is_empty(&dir.join("scratch")));
}

/// The peers on `PATH`; mkfs.erofs only if it accepts a number of threads.
#[test]
fn peers_do_the_same_work() {
    let test = "peers_do_the_same_work";
    if !["mksquashfs", "tar2sqfs", "mkfs.erofs"].iter().all(|tool| have(test, tool)) {
        return;
    }
    let help = Command::new("mkfs.erofs").arg("--help").output().unwrap();
    let threaded = String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).contains("--workers");
    let formats = if threaded { "squashfs,erofs" } else { "squashfs" };
    if !threaded {
        eprintln!("SKIPPED mkfs.erofs --workers: not in this version");
    }
    let dir = tree();
    let args =
        ["bench", "build", "root", "--codecs", "lz4,gzip", "--jobs", "1", "--runs", "1", "--peers", "--json", "-q"];
    let more = ["--features", "fragments+dedupe", "--formats", formats];
    let json: Value = serde_json::from_str(&succeed(dir.path(), &[&args[..], &more].concat())).unwrap();
    let results = json["results"].as_array().unwrap();
    let of = |tool: &str| results.iter().filter(|row| row["tool"] == tool).count();
    let erofs = usize::from(threaded);
    assert_eq!([of("packfs"), of("mksquashfs"), of("tar2sqfs"), of("mkfs.erofs")], [2 + erofs, 2, 2, erofs]);
    assert!(json["session"]["libraries"]["mksquashfs"].as_str().unwrap().contains("version"));
}

#[test]
fn builds_that_fail_are_reported() {
    let dir = tree();
    let dir = dir.path();
    std::fs::create_dir(dir.join("empty")).unwrap();
    for (args, status, why) in [
        (&["missing"][..], 1, "missing"),
        (&["root/etc/motd"], 2, "not a directory"),
        (&["empty"], 2, "no data"),
        (&["root", "--scratch", "root/etc"], 2, "--scratch names another"),
        (&["root", "--scratch", "missing"], 1, "missing"),
        (&["root", "--codecs", "lzjb"], 2, "no image has lzjb"),
        (&["root", "--codecs", "xz", "--formats", "erofs"], 2, "erofs has no xz"),
        (&["root", "--blocks", "5000"], 2, "powers of two"),
        (&["root", "--features", "dedup"], 2, "accepted: plain"),
        (&["root", "--runs", "0"], 2, "1 or more"),
    ] {
        let error = fail(dir, status, &[&["bench", "build"], args].concat());
        assert!(error.contains(why), "{args:?}: {error}");
        assert!(!dir.join("packfs-bench.jsonl").exists(), "{args:?}");
    }
}

/// A full disk ends it with a message, and leaves nothing there.
#[test]
fn a_full_scratch_directory_is_reported_and_left_empty() {
    let dir = tree();
    let dir = dir.path();
    let mount = ["-t", "tmpfs", "-o", "size=256k", "none", "scratch"];
    if !Command::new("mount").args(mount).current_dir(dir).status().is_ok_and(|status| status.success()) {
        return skip("a_full_scratch_directory_is_reported_and_left_empty", "no tmpfs can be mounted");
    }
    let output = run_in(dir, &SMALL);
    let empty = is_empty(&dir.join("scratch"));
    assert!(Command::new("umount").arg(dir.join("scratch")).status().unwrap().success());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(empty && said.contains("No space left on device"), "{said}");
}

/// Ctrl-C keeps the samples, and leaves no image behind.
#[test]
fn an_interrupted_run_leaves_no_images() {
    let dir = tree();
    let path = dir.path().join("packfs-bench.jsonl");
    let args = ["bench", "build", "root", "--codecs", "lz4", "--jobs", "1", "--runs", "100000", "--scratch", "scratch"];
    let child = packfs(args).current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while std::fs::read_to_string(&path).map_or(0, |text| text.lines().count()) < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(is_empty(&dir.path().join("scratch")));
    assert!(std::fs::read_to_string(&path).unwrap().ends_with("}\n"));
}

/// A signal to packfs takes effect without waiting for the measured program.
#[test]
fn a_signal_ends_the_program_that_is_measured() {
    let dir = tree();
    let dir = dir.path();
    // It is also run for its version.
    peer(dir, "case $1 in -*) exit;; esac\ntouch scratch/begun\nexec sleep 1000");
    let args = [&SMALL[..], &["--peers=peers", "--features", "plain", "-q"]].concat();
    let child = packfs(args).current_dir(dir).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !dir.join("scratch/begun").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let asked = Instant::now();
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(asked.elapsed() < Duration::from_secs(500));
    std::fs::remove_file(dir.join("scratch/begun")).unwrap();
    assert!(is_empty(&dir.join("scratch")));
}
