//! `packfs bench read` as a user runs it.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{self, fail, have, packfs, run_in, skip, stderr, succeed};
use rustix::process::{Pid, Signal, geteuid};

/// Makes a small tree with a file large enough for fio, in an image of each format.
fn images(dir: &Path) {
    common::sample(dir);
    let numbers: String = (0..40_000).map(|number| format!("{number}\n")).collect();
    std::fs::write(dir.join("root/numbers"), numbers).unwrap();
    succeed(dir, &["build", "root", "-o", "a.sqfs", "--codec", "lz4hc", "--block-size", "16K", "-q"]);
    succeed(dir, &["build", "root", "-o", "a.erofs", "--codec", "lz4hc", "--block-size", "16K", "-q"]);
}

fn is_root(test: &str) -> bool {
    let root = geteuid().is_root();
    if !root {
        skip(test, "mounting needs root");
    }
    root
}

fn json(shown: &str) -> serde_json::Value {
    serde_json::from_str(shown).unwrap()
}

/// Returns the distinct values of one field of the rows.
fn distinct(json: &serde_json::Value, field: &str) -> Vec<String> {
    let rows = json["results"].as_array().unwrap();
    let mut values: Vec<String> = rows.iter().map(|row| row[field].to_string().replace('"', "")).collect();
    values.sort();
    values.dedup();
    values
}

/// Returns the loop devices backed by files of a directory.
fn loops(dir: &Path) -> String {
    let output = Command::new("losetup").arg("-a").output().unwrap();
    let all = String::from_utf8(output.stdout).unwrap();
    all.lines().filter(|line| line.contains(dir.to_str().unwrap())).collect()
}

#[test]
fn the_kernel_and_programs_read_images() {
    let test = "the_kernel_and_programs_read_images";
    if !is_root(test) || !have(test, "fio") || !have(test, "unsquashfs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    images(dir.path());
    let output = run_in(dir.path(), &["bench", "read", "a.sqfs", "a.erofs", "--runs", "1", "--json", "-q"]);
    // An old fsck.erofs cannot read images of packfs, which is only reported.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let json = json(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!((json["schema"].as_u64(), json["kind"].as_str()), (Some(1), Some("bench")));
    let rows = json["results"].as_array().unwrap();
    let of = |reader: &str| rows.iter().filter(|row| row["reader"] == reader).collect::<Vec<_>>();
    assert_eq!((of("kernel").len(), of("fio").len(), of("packfs").len()), (12, 6, 4));
    assert!(of("unsquashfs").iter().all(|row| row["format"] == "squashfs"));
    assert_eq!(
        (distinct(&json, "codec"), distinct(&json, "block")),
        (vec!["lz4".into(), "lz4hc:12".into()], vec!["16384".into()])
    );
    assert_eq!(distinct(&json, "digest").len(), 1);
    // Every reader read every byte of every file.
    let whole = 2 * 9 + 2 * 440_000 + 3_000_000 + 228_890;
    for row in rows.iter().filter(|row| !row["reader"].as_str().unwrap().starts_with("fio")) {
        let bytes = if row["work"].as_str().unwrap().ends_with("metadata") { 0 } else { whole };
        assert_eq!(row["bytes"].as_u64(), Some(bytes), "{row}");
        assert!(row["seconds"].as_f64().unwrap() > 0.0);
    }
    // fio read the largest file that is not a hole.
    let settings = &json["session"]["settings"];
    assert!(settings["fio of a.sqfs"].as_str().unwrap().starts_with("usr/share/doc/"), "{settings}");
    assert_eq!(settings["small random of a.erofs"], "6 of 6 files");
    assert!(
        settings["SquashFS decompressors"].is_string() && settings["EROFS decompression"].is_string(),
        "{settings}"
    );
    assert_eq!(loops(dir.path()), "");
    let report = ["bench", "report", "packfs-bench.jsonl", "--md", "report.md"];
    succeed(dir.path(), &report);
    let markdown = std::fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(markdown.contains("How large are images of a.erofs and other images of the same files?"), "{markdown}");
}

#[test]
fn a_first_look_measures_once_and_shows_progress() {
    let dir = tempfile::tempdir().unwrap();
    common::sample(dir.path());
    let args = [
        "bench",
        "read",
        "--quick",
        "--matrix",
        "root",
        "--codecs",
        "lz4hc:12",
        "--blocks",
        "4K..64K",
        "--scratch",
        ".",
    ];
    let output = packfs(args).current_dir(dir.path()).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // Two formats with two block sizes.
    assert!(said.contains("making 4 images of root in ") && said.contains(": roughly "), "{said}");
    let lines = std::fs::read_to_string(dir.path().join("packfs-bench.jsonl")).unwrap();
    let works: Vec<serde_json::Value> = lines.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let (cells, steps) = (works.len(), 2 * works.len());
    assert!(
        said.contains(&format!("measuring {cells} cells: a warm-up and 1 run each, {steps} steps; roughly ")),
        "{said}"
    );
    let expected = ["sequential data", "small random data", "small random metadata", "tar"];
    assert!(works.iter().all(|line| expected.contains(&line["work"].as_str().unwrap())), "{lines}");
    assert_eq!(works.iter().filter(|line| line["work"] == "tar").count(), 4, "{lines}");
    let both = ["bench", "read", "--quick", "--runs", "2", "--matrix", "root"];
    assert!(common::fail(dir.path(), 2, &both).contains("cannot be used with"));
}

#[test]
fn images_are_made_read_and_removed() {
    let test = "images_are_made_read_and_removed";
    if !is_root(test) || !have(test, "mksquashfs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    common::sample(dir.path());
    let scratch = dir.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let args =
        ["bench", "read", "--matrix", "root", "--scratch", "scratch", "--blocks", "16K", "--runs", "1", "--peers"];
    let output = run_in(dir.path(), &[&args[..], &["--codecs", "gzip:1,none", "--json"]].concat());
    // An old fsck.erofs cannot read images of packfs, which is only reported.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let json = json(std::str::from_utf8(&output.stdout).unwrap());
    let tools = distinct(&json, "tool");
    assert!(
        tools.starts_with(&["mksquashfs".into(), "packfs".into()]) || tools.contains(&"mkfs.erofs".into()),
        "{tools:?}"
    );
    assert_eq!(distinct(&json, "codec"), ["gzip:1", "none"]);
    assert_eq!(
        (distinct(&json, "block"), distinct(&json, "source")),
        (vec!["0".into(), "16384".into()], vec!["root".into()])
    );
    assert_eq!(distinct(&json, "digest").len(), 1);
    let gzip = json["results"].as_array().unwrap().iter().filter(|row| row["codec"] == "gzip:1");
    assert!(gzip.clone().count() > 0 && gzip.clone().all(|row| row["format"] == "squashfs"));
    assert!(json["session"]["libraries"]["mksquashfs"].as_str().unwrap().contains("mksquashfs"));
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0);
}

#[test]
fn without_root_only_programs_read_and_that_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path());
    let mut command = packfs(["bench", "read", "a.sqfs", "--runs", "1"]);
    command.current_dir(dir.path());
    if geteuid().is_root() {
        // Another user, who may write only here.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("reading by the kernel is left out: mounting images and dropping caches needs root"),
        "{said}"
    );
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        shown.contains("Which program reads images of a.sqfs fastest?")
            && shown.contains("extract")
            && !shown.contains("metadata ms"),
        "{shown}"
    );
}

#[test]
fn failures_to_read_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    common::sample(dir.path());
    std::fs::write(dir.path().join("text"), "no image\n".repeat(1000)).unwrap();
    for (args, status, why) in [
        (&["text"][..], 1, "neither a SquashFS nor an EROFS image"),
        (&["missing"], 1, "missing: cannot open"),
        (&[], 2, "IMAGE"),
        (&["text", "--matrix", "root"], 2, "cannot be used with"),
        (&["--matrix", "text"], 2, "put the file into one"),
        (&["--matrix", "root", "--blocks", "2K"], 2, "powers of two from 4K to 1M"),
        (&["--matrix", "root", "--codecs", "bzip2"], 2, "unknown codec `bzip2`"),
        (&["--matrix", "root", "--codecs", "snappy"], 2, "nothing to measure"),
        (&["--matrix", "root", "--scratch", "missing"], 1, "missing: No such file"),
        (&["--matrix", "root", "--runs", "0"], 2, "1 or more"),
        (
            &["--matrix", "root", "-o", "missing/results"],
            1,
            "missing/results: cannot write there; -o names another file",
        ),
    ] {
        let error = fail(dir.path(), status, &[&["bench", "read"], args].concat());
        assert!(error.contains(why), "{args:?}: {error}");
        assert!(!dir.path().join("packfs-bench.jsonl").exists(), "{args:?}");
    }
}

/// Without fio and without peers the rest is measured; a damaged image that cannot be mounted is named.
#[test]
fn missing_readers_are_reported_and_the_rest_is_measured() {
    let test = "missing_readers_are_reported_and_the_rest_is_measured";
    if !is_root(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    images(dir.path());
    let tools = dir.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    for tool in ["sh", "unshare", "mount", "umount", "gzip"] {
        let found = ["/bin", "/usr/bin"].map(|dir| Path::new(dir).join(tool)).into_iter().find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap(), tools.join(tool)).unwrap();
    }
    let mut command = packfs(["bench", "read", "a.sqfs", "--runs", "1", "--peers"]);
    let output = command.current_dir(dir.path()).env("PATH", &tools).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for tool in ["unsquashfs", "sqfs2tar", "fsck.erofs", "fio"] {
        assert!(said.contains(&format!("left out: {tool} is not on PATH")), "{tool}: {said}");
    }
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("sequential data ms") && !shown.contains("MiB/s"), "{shown}");
    // Without mount(8) the kernel cannot read either.
    std::fs::remove_file(tools.join("mount")).unwrap();
    let mut command = packfs(["bench", "read", "a.sqfs", "--runs", "1"]);
    let output = command.current_dir(dir.path()).env("PATH", &tools).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("reading by the kernel is left out: mount: a.sqfs: "), "{said}");
}

/// Returns true if a program runs in this directory, or has a path below it as an argument. A
/// forked child that has not begun yet is in the directory, too.
fn runs_for(dir: &Path) -> bool {
    let bytes = dir.as_os_str().as_encoded_bytes();
    let told = |words: Vec<u8>| words.windows(bytes.len()).any(|part| part == bytes);
    std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let process = process.path();
        std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
            || std::fs::read(process.join("cmdline")).is_ok_and(told)
    })
}

/// Neither Ctrl-C nor a kill that cannot be handled leaves a mount or a loop device.
#[test]
fn an_interrupted_run_leaves_nothing_mounted() {
    let test = "an_interrupted_run_leaves_nothing_mounted";
    if !is_root(test) {
        return;
    }
    let orders: [&[Signal]; 6] = [
        &[Signal::INT],
        &[Signal::TERM],
        &[Signal::INT, Signal::TERM],
        &[Signal::TERM, Signal::INT],
        &[Signal::INT, Signal::INT, Signal::HUP],
        &[Signal::KILL],
    ];
    for signals in orders {
        let dir = tempfile::tempdir().unwrap();
        images(dir.path());
        let results = dir.path().join("packfs-bench.jsonl");
        let mut command = packfs(["bench", "read", "a.sqfs", "--runs", "100000", "--scratch", "."]);
        let child = command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while std::fs::read_to_string(&results).map_or(0, |text| text.lines().count()) < 5 {
            std::thread::sleep(Duration::from_millis(5));
        }
        for signal in signals {
            // It may have ended after the first.
            let _ = rustix::process::kill_process(Pid::from_child(&child), *signal);
        }
        let output = child.wait_with_output().unwrap();
        let scratch = std::fs::read_dir(dir.path()).unwrap().flatten();
        let scratch = scratch.filter(|entry| entry.file_name().to_string_lossy().starts_with("packfs-bench-")).count();
        let code = output.status.code();
        if *signals == [Signal::KILL] {
            assert_eq!(code, None);
        } else {
            // The second ends it immediately if the first has not yet.
            let ends = [Some(130), Some(129), Some(143)];
            let known = ends[..if signals.len() == 1 { 1 } else { 3 }].contains(&code);
            assert!(known && scratch == 0, "{signals:?}: {code:?}, {scratch}, {}", stderr(&output));
        }
        // The child that holds the mount, or is about to make it, ends by itself; programs that
        // read there may take longer.
        for _ in 0..12_000 {
            if !runs_for(dir.path()) && loops(dir.path()).is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(loops(dir.path()), "", "{signals:?}");
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        assert!(!mounts.contains(dir.path().to_str().unwrap()), "{mounts}");
        assert!(std::fs::read_to_string(&results).unwrap().ends_with("}\n"), "{signals:?}");
    }
}
