//! `packfs tune` from end to end, on little data.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{fail, packfs, run_in, sample, stderr, succeed};
use rustix::process::{Pid, Signal};

const FEW: [&str; 4] = ["--codecs", "lz4,zstd:3,lzma:1", "--blocks", "64K"];

fn tune(dir: &Path, args: &[&str]) -> serde_json::Value {
    let all = [&["tune", "root", "--json", "-q"], &FEW[..], args].concat();
    let mut shown: serde_json::Value = serde_json::from_str(&succeed(dir, &all)).unwrap();
    assert_eq!((shown["kind"].take(), shown["schema"].take()), ("tune".into(), 1.into()));
    shown
}

/// Runs the words of a command.
fn run_words(dir: &Path, words: &serde_json::Value) {
    let words: Vec<&str> = words.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[..3], ["packfs", "build", "root"]);
    succeed(dir, &words[1..]);
}

#[test]
fn the_printed_command_builds_the_predicted_image() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for (goal, format) in [("size", "erofs"), ("size", "squashfs"), ("speed", "squashfs")] {
        let shown = tune(dir.path(), &["--goal", goal, "--format", format, "-j", "2"]);
        assert_eq!((&shown["within_limits"], &shown["goal"]), (&true.into(), &goal.into()));
        let choice = &shown["choice"];
        assert_eq!((&choice["format"], &choice["measured"]), (&format.into(), &true.into()));
        run_words(dir.path(), &shown["command"]);
        let image = dir.path().join(if format == "erofs" { "root.erofs" } else { "root.sqfs" });
        // It is so small that it was measured whole: the image is the one that was measured.
        assert_eq!(image.metadata().unwrap().len(), choice["size"].as_u64().unwrap());
        std::fs::remove_file(&image).unwrap();
        assert!(shown["predictions"].as_array().unwrap().iter().any(|one| one["front"] == true));
    }
}

#[test]
fn people_get_a_choice_its_command_and_the_front_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    std::fs::rename(dir.path().join("root"), dir.path().join("my root")).unwrap();
    let args = ["tune", "my root", "--chart", "page.html", "--codecs", "lz4,zstd:3", "--format", "squashfs"];
    let output = run_in(dir.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = String::from_utf8(output.stdout.clone()).unwrap();
    let command = shown.lines().find(|line| line.starts_with("packfs build")).expect("a command");
    assert!(command.contains("'my root' -o 'my root.sqfs' --codec "), "{command}");
    assert!(shown.contains("The best balance of size, build time and read speed: SquashFS with"), "{shown}");
    assert!(shown.contains("worth considering") && shown.contains("read MB/s"), "{shown}");
    assert!(stderr(&output).contains("trying 6 settings"), "{}", stderr(&output));
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("id=\"tune-time\"") && page.contains("id=\"tune-read\""));
    // No other file is left, and no page is overwritten.
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["my root", "page.html"]);
    let error = fail(dir.path(), 1, &args);
    assert!(error.contains("page.html exists; --force replaces it"), "{error}");
}

#[test]
fn limits_that_cannot_be_met_are_reported_with_the_nearest_choice() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let args = [&["tune", "root", "-q", "--format", "squashfs", "--max-size", "1"], &FEW[..]].concat();
    let output = run_in(dir.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("No settings are within the limits (at most 1 B)."), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("packfs build root -o root.sqfs --codec ")), "{shown}");
}

#[test]
fn empty_and_tiny_sources_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("root")).unwrap();
    for tiny in [false, true] {
        if tiny {
            std::fs::write(dir.path().join("root/tiny"), "Hello.").unwrap();
        }
        let shown = tune(dir.path(), &["--format", "squashfs"]);
        assert_eq!((&shown["bytes"], &shown["choice"]["size"]), (&(if tiny { 6 } else { 0 }).into(), &4096.into()));
    }
}

#[test]
fn bad_input_is_reported_before_any_work() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for (args, status, why) in [
        (&["missing"][..], 1, "missing"),
        (&["-"], 2, "only once"),
        (&["root", "--goal", "small"], 2, "accepted: size, speed, read, balanced"),
        (&["root", "--codecs", "bzip2"], 2, "unknown codec"),
        (&["root", "--max-time", "soon"], 2, "as in 90s"),
        (&["root", "--min-read", "0"], 2, "as in 500"),
        (&["root", "--sample", "0"], 2, "tell nothing"),
        (&["root", "--format", "erofs", "--codecs", "zstd"], 2, "choose 6.10"),
    ] {
        let error = fail(dir.path(), status, &[&["tune"], args].concat());
        assert!(error.contains(why), "{args:?}: {error}");
    }
}

/// Ctrl-C ends it soon, as a signal would, and leaves nothing behind.
#[test]
fn interrupted_it_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    succeed(dir.path(), &["bench", "memory", "8M", "-o", "data"]);
    let child = packfs(["tune", "data", "--sample", "1G", "--codecs", "xz:6,zstd:19"])
        .current_dir(dir.path())
        .env("TMPDIR", &temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its directory exists: by then signals are handled.
    while std::fs::read_dir(&temporary).unwrap().next().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted"));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}
