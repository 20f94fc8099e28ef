//! `packfs bench` as a user runs it.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{self, fail, have, packfs, run_in, succeed};
use rustix::process::{Pid, Signal};

#[test]
fn memory_is_the_same_for_the_same_seed_wherever_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--seed", "7", "--shares", "zero=2,text=1,random=1"];
    let memory = |rest: &[&str]| run_in(dir.path(), &[&["bench", "memory"], &options[..], rest].concat());
    assert!(memory(&["2500000", "-o", "a"]).status.success());
    let piped = memory(&["2500000"]);
    assert!(piped.status.success());
    let file = std::fs::read(dir.path().join("a")).unwrap();
    assert_eq!(file.len(), 2_500_000);
    assert!(file == piped.stdout);
    succeed(dir.path(), &["bench", "memory", "0", "-o", "empty"]);
    assert_eq!(std::fs::metadata(dir.path().join("empty")).unwrap().len(), 0);
}

#[test]
fn memory_refuses_what_it_does_not_support() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kept"), "kept").unwrap();
    let error = fail(dir.path(), 1, &["bench", "memory", "4K", "-o", "kept"]);
    assert!(error.contains("--force"), "{error}");
    assert_eq!(std::fs::read(dir.path().join("kept")).unwrap(), b"kept");
    let error = fail(dir.path(), 2, &["bench", "memory", "4K", "--shares", "holes=1"]);
    assert!(error.contains("zero, same, text, pointers, code, random"), "{error}");
    fail(dir.path(), 2, &["bench"]);
}

const QUICK: [&str; 10] =
    ["--codecs", "lz4,zstd:1,zlib:9", "--blocks", "16K", "--sample", "200K", "--runs", "2", "--least", "0"];

#[test]
fn codecs_are_measured_shown_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    common::sample(dir.path());
    let codecs = |rest: &[&str]| succeed(dir.path(), &[&["bench", "codecs"], &QUICK[..], rest].concat());
    for policy in ["sector", "squashfs", "zfs", "btrfs", "f2fs", "raw"] {
        let shown = codecs(&["--data", "root", "--policy", policy, "-q"]);
        assert!(shown.contains("saved in MB/s") && shown.contains("zstd:1"), "{shown}");
    }
    let clusters = ["bench", "codecs", "--codecs", "lz4,zstd:1,memcpy", "--blocks", "16K", "--sample", "200K"];
    let shown = succeed(dir.path(), &[&clusters[..], &["--policy", "erofs", "--runs", "1", "--least", "0"]].concat());
    assert!(shown.contains("erofs policy"), "{shown}");

    let report = ["bench", "report", "packfs-bench.jsonl", "-o", "report.html", "--md", "report.md", "--csv", "tables"];
    succeed(dir.path(), &report);
    let markdown = std::fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(markdown.contains("root in blocks of 16K, squashfs policy"), "{markdown}");
    assert!(std::fs::read_to_string(dir.path().join("report.html")).unwrap().contains("<!DOCTYPE html>"));
    let sessions = std::fs::read_to_string(dir.path().join("tables/sessions.csv")).unwrap();
    assert_eq!(sessions.lines().count(), 1 + 7);
    assert!(fail(dir.path(), 1, &report).contains("--force"));
}

#[test]
fn a_run_resumes_where_it_was_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let codecs = |rest: &[&str]| succeed(dir.path(), &[&["bench", "codecs", "-q"], &QUICK[..], rest].concat());
    let lines = || std::fs::read_to_string(dir.path().join("packfs-bench.jsonl")).unwrap().lines().count();
    codecs(&[]);
    // One session, and two samples of three codecs on two sets of data.
    assert_eq!(lines(), 1 + 2 * 3 * 2);
    // Stopped while it wrote: the torn line and one sample are written again.
    let path = dir.path().join("packfs-bench.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 30]).unwrap();
    codecs(&["--resume"]);
    assert_eq!(lines(), 1 + 2 * 3 * 2);
    codecs(&["--resume"]);
    assert_eq!(lines(), 1 + 2 * 3 * 2);
    // Without --resume it is another session.
    codecs(&[]);
    assert_eq!(lines(), 2 * (1 + 2 * 3 * 2));
}

#[test]
fn results_are_json_where_a_program_asks() {
    let dir = tempfile::tempdir().unwrap();
    let shown = succeed(dir.path(), &[&["bench", "codecs", "--json", "-q"], &QUICK[..]].concat());
    let json: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((json["schema"].as_u64(), json["kind"].as_str()), (Some(1), Some("bench")));
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 6);
    assert!(results.iter().all(|row| row["encode_speed"].as_f64().unwrap() > 0.0));
    assert!(json["session"]["libraries"]["zlib:9"].as_str().unwrap().starts_with("zlib 1."));
}

#[test]
fn failures_to_measure_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packfs-bench.jsonl");
    for (args, status, why) in [
        (&["--codecs", "bzip2"][..], 2, "memcpy, lzjb, quicklz, zlib, zlib-rs"),
        (&["--policy", "ext4"], 2, "accepted: sector, squashfs"),
        (&["--policy", "btrfs", "--blocks", "256K"], 2, "up to 128K"),
        (&["--blocks", "8K..4K"], 2, "a range"),
        (&["--runs", "0"], 2, "1 or more"),
        (&["--data", "missing"], 1, "missing"),
        (&["-j", "0"], 2, "1 or more"),
    ] {
        let error = fail(dir.path(), status, &[&["bench", "codecs"], args].concat());
        assert!(error.contains(why), "{args:?}: {error}");
        assert!(!path.exists(), "{args:?}");
    }
    // A codec that the rule does not support is left out, and the rest is measured.
    let erofs = ["bench", "codecs", "--codecs", "lz4,xz", "--policy", "erofs", "--runs", "1", "--sample", "100K"];
    let output = run_in(dir.path(), &erofs);
    assert_eq!(output.status.code(), Some(1));
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("xz:6 on memory in blocks of 128K is left out: EROFS has no xz"), "{said}");
    assert!(shown.contains("lz4") && shown.contains("What could not be measured"), "{shown}");
    // Invalid results.
    std::fs::write(&path, "{\"packfs_bench\":9,\"kind\":\"codec\"}\n").unwrap();
    for command in [&["bench", "codecs"][..], &["bench", "report", "packfs-bench.jsonl", "-o", "x.html"]] {
        let error = fail(dir.path(), 1, command);
        assert!(error.contains("line 1: results of version 9"), "{error}");
    }
}

/// Ctrl-C abandons the current measurement, keeps earlier samples, and ends the process as a signal would.
#[test]
fn an_interrupted_run_says_so_and_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packfs-bench.jsonl");
    let args = ["bench", "codecs", "--codecs", "lz4", "--runs", "100000", "--sample", "100K", "--least", "1"];
    let child = packfs(args).current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // The first samples exist: by then it handles signals.
    while std::fs::read_to_string(&path).map_or(0, |text| text.lines().count()) < 5 {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8_lossy(&output.stderr);
    let samples = "packfs: interrupted: the samples so far are in packfs-bench.jsonl; the same command with --resume";
    assert!(said.ends_with(&format!("{samples} continues\n")), "{said}");
    assert!(std::fs::read_to_string(&path).unwrap().ends_with("}\n"));
}

/// A line of progress holds whole figures only: on 40 columns as on 80.
#[test]
fn no_figure_is_cut_on_a_narrow_terminal() {
    let test = "no_figure_is_cut_on_a_narrow_terminal";
    if !have(test, "script") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_packfs");
    for (columns, bar) in [(40, false), (80, true)] {
        let bench = format!("'{program}' bench codecs -o {columns}.jsonl {}", QUICK.join(" "));
        let shell = format!("stty cols {columns} && {bench} > table");
        let ran = Command::new("script").args(["-qec", &shell, "/dev/null"]).current_dir(dir.path()).output().unwrap();
        let shown = String::from_utf8_lossy(&ran.stdout).replace("\x1b[2K", "").replace("\x1b[1A", "");
        assert!(ran.status.success(), "{shown}");
        let lines: Vec<&str> = shown.split(['\r', '\n']).filter(|line| line.starts_with("measuring ")).collect();
        assert!(!lines.is_empty(), "{shown}");
        for line in &lines {
            let line = line.trim_end();
            assert!(line.len() <= columns && line.contains('[') == bar, "{line}");
            let figures = line.trim_start_matches(|c: char| !c.is_ascii_digit());
            // Before the first step there are none.
            for figure in figures.split(", ").filter(|figure| !bar && !figure.is_empty()) {
                assert!([" %", " left", " done"].iter().any(|end| figure.ends_with(end)), "{line}");
            }
        }
        assert!(lines.iter().any(|line| line.contains(" left")), "{lines:?}");
    }
}

/// A session resumed with other cells shows only those; its report has all.
#[test]
fn a_run_shows_only_the_requested_cells() {
    let dir = tempfile::tempdir().unwrap();
    let codecs = |codec: &str| {
        let args = ["bench", "codecs", "-q", "--runs", "1", "--sample", "100K", "--least", "1", "--blocks", "8K"];
        succeed(dir.path(), &[&args[..], &["--resume", "--codecs", codec]].concat())
    };
    assert!(codecs("lz4,zstd:1").contains("zstd:1"));
    assert!(!codecs("lz4").contains("zstd:1"));
    succeed(dir.path(), &["bench", "report", "packfs-bench.jsonl", "--md", "report.md"]);
    let report = std::fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert_eq!(report.matches("\n| zstd:1 |").count(), 1, "{report}");
    // Without a file to write, the tables are printed.
    assert_eq!(succeed(dir.path(), &["bench", "report", "packfs-bench.jsonl"]).matches("\nzstd:1 ").count(), 1);
}

/// Results of a build with the given time in each run and the given size.
fn results(session: &str, ms: &[u64], made: u64) -> String {
    let key = r#""source":"root","digest":"00","tool":"packfs","format":"squashfs","codec":"lz4","block":131072,"features":"""#;
    let line = |ms: &u64| {
        let time = format!(r#"{{"wall":{ms}000000,"cpu":{ms}000000,"passes":1}}"#);
        format!(
            r#"{{"packfs_bench":1,"kind":"build","session":"{session}",{key},"threads":2,"time":{time},"bytes":9000,"made":{made}}}"#
        ) + "\n"
    };
    ms.iter().map(line).collect()
}

#[test]
fn results_are_compared_with_earlier_ones() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text).unwrap();
    write("old", results("a", &[100, 101, 99, 100, 102], 500));
    write("noise", results("b", &[101, 100, 100, 99, 103], 500));
    write("slower", results("c", &[120, 121, 119, 120, 122], 500));
    write("faster", results("d", &[80, 81, 79, 80, 82], 500));
    write("larger", results("e", &[101, 100, 100, 99, 103], 501));
    write("few", results("f", &[200, 201], 500));
    let compare = |new: &str, rest: &[&str]| {
        let output = run_in(dir.path(), &[&["bench", "report", new, "--against", "old"], rest].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for (new, status, says) in [
        ("old", 0, "no significant difference"),
        ("noise", 0, "no significant difference"),
        ("slower", 1, "1 slower. The greatest change: packfs packing root"),
        ("faster", 0, "1 faster."),
        ("larger", 1, "1 larger."),
        ("few", 0, "too few samples for a test: measure with --runs 4 or more"),
    ] {
        let (code, text) = compare(new, &[]);
        assert!(code == Some(status) && text.replace('\n', " ").contains(says), "{new}: {code:?} {text}");
    }
    assert_eq!(compare("slower", &["--threshold", "50"]).0, Some(0));
    // Files instead of the terminal; the status is the same.
    let (code, text) = compare("slower", &["--md", "changes.md", "-o", "changes.html", "--csv", "tables"]);
    assert_eq!((code, text.as_str()), (Some(1), ""));
    let markdown = std::fs::read_to_string(dir.path().join("changes.md")).unwrap();
    assert!(markdown.contains("| +20.0 % | 0.0079 | 5+5 | slower |"), "{markdown}");
    assert!(std::fs::read_to_string(dir.path().join("changes.html")).unwrap().contains("What changed"));
    assert!(dir.path().join("tables/changes.csv").exists());
    fail(dir.path(), 2, &["bench", "report", "old", "--against", "old", "--alpha", "2"]);
    fail(dir.path(), 2, &["bench", "report", "old", "--alpha", "0.1"]);
}
