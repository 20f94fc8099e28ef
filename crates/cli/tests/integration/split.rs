//! `packfs split` with disks that fill up or fail, kills, little memory and wrong usage: everything
//! is reported, and restored data is always right.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{fail, have, packfs, run_in, skip, stderr, succeed};
use packfs_blocks::testing::Random;

/// Makes partly compressible bytes: the same for the same seed.
fn memory(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut out = Vec::with_capacity(len + 4096);
    while out.len() < len {
        match random.below(8) {
            0 => out.extend([0; 4096]),
            1 => out.extend(random.number().to_le_bytes().repeat(512)),
            _ => out.extend(random.bytes(4096)),
        }
    }
    out.truncate(len);
    out
}

/// Returns what the parts have of the dump: its first bytes up to where something is missing.
fn restore(dir: &Path, parts: &[&str]) -> Vec<u8> {
    let output = run_in(dir, &[&["join", "-o", "back", "--force", "--partial", "--json", "-q"], parts].concat());
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let mut back = std::fs::read(dir.join("back")).unwrap();
    if let Some(lost) = report["lost"][0]["start"].as_u64() {
        back.truncate(usize::try_from(lost).unwrap());
    }
    back
}

/// A small separate tmpfs, unmounted when dropped.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(test: &str, dir: &Path, size: &str) -> Option<Self> {
        if !have(test, "mount") {
            return None;
        }
        std::fs::create_dir_all(dir).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir).output().unwrap();
        if !mounted.status.success() {
            skip(test, "mounting is not allowed");
            return None;
        }
        Some(Tmpfs(dir.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_fills_up_at_any_time_loses_nothing() {
    let test = "a_disk_that_fills_up_at_any_time_loses_nothing";
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(24 << 20, 3);
    std::fs::write(dir.path().join("core"), &bytes).unwrap();
    // Nothing fits, half of it fits, almost all fits. The other part is slow, so that this one gets most.
    for size in ["4k", "8m", "16m"] {
        let Some(small) = Tmpfs::mount(test, &dir.path().join("small"), size) else { return };
        let fifo = dir.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let split = ["split", "core", "-o", "fifo", "-o", "small/b", "-f", "-q", "--codec", "raw", "--memory", "40M"];
        let child = packfs(split).current_dir(dir.path()).stderr(Stdio::piped()).spawn().unwrap();
        slowly(&fifo, &dir.path().join("a"));
        std::fs::remove_file(fifo).unwrap();
        let output = child.wait_with_output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{size}: {message}");
        assert!(message.contains("small/b: abandoned: No space left"), "{size}: {message}");
        let readable = if size == "4k" { &["a"][..] } else { &["a", "small/b"] };
        assert!(restore(dir.path(), readable) == bytes, "{size}");
        drop(small);
    }
}

/// Copies the output of a FIFO at about 4 MiB per second: the other part is done long before.
fn slowly(fifo: &Path, into: &Path) {
    let (mut from, mut into) = (File::open(fifo).unwrap(), File::create(into).unwrap());
    let mut piece = vec![0; 65_536];
    loop {
        let got = from.read(&mut piece).unwrap();
        if got == 0 {
            return;
        }
        into.write_all(&piece[..got]).unwrap();
        std::thread::sleep(Duration::from_millis(16));
    }
}

#[test]
fn with_every_disk_full_what_was_written_stays_readable() {
    let test = "with_every_disk_full_what_was_written_stays_readable";
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(24 << 20, 3);
    std::fs::write(dir.path().join("core"), &bytes).unwrap();
    let Some(_one) = Tmpfs::mount(test, &dir.path().join("one"), "3m") else { return };
    let Some(_two) = Tmpfs::mount(test, &dir.path().join("two"), "5m") else { return };
    let split = ["split", "core", "-o", "one/a", "-o", "two/b", "-q", "--codec", "raw", "--memory", "40M"];
    let message = fail(dir.path(), 1, &split);
    assert!(message.contains("no part is left") && message.contains("one/a: No space left"), "{message}");
    let back = restore(dir.path(), &["one/a", "two/b"]);
    assert!(back.len() > 4 << 20 && bytes.starts_with(&back), "{} bytes", back.len());
}

#[test]
fn a_disk_that_fails_late_has_its_share_done_again() {
    let test = "a_disk_that_fails_late_has_its_share_done_again";
    if !have(test, "losetup") || !have(test, "mkfs.ext4") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(24 << 20, 3);
    std::fs::write(dir.path().join("core"), &bytes).unwrap();
    // The device claims to be larger than its backing file, and notices when its cache is written.
    let Some(small) = Tmpfs::mount(test, &dir.path().join("small"), "1m") else { return };
    File::create(small.0.join("disk")).unwrap().set_len(64 << 20).unwrap();
    let losetup = Command::new("losetup").args(["--show", "-f"]).arg(small.0.join("disk")).output().unwrap();
    if !losetup.status.success() {
        return skip(test, "no loop device is to be had");
    }
    let device = String::from_utf8(losetup.stdout).unwrap().trim().to_owned();
    let split = |input| ["split", input, "-o", "a", "-o", &device, "-f", "-q", "--codec", "raw", "--memory", "40M"];
    let from_file = run_in(dir.path(), &split("core"));
    let again = std::fs::read(dir.path().join("a")).unwrap();
    let mut child =
        packfs(split("-")).current_dir(dir.path()).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let from_stream = child.wait_with_output().unwrap();
    let _ = Command::new("losetup").args(["-d", &device]).status();

    let message = stderr(&from_file);
    assert_eq!(from_file.status.code(), Some(1), "{message}");
    assert!(message.contains(&format!("{device}: abandoned: ")), "{message}");
    assert!(!message.contains("may be lost"), "{message}");
    std::fs::write(dir.path().join("again"), again).unwrap();
    assert!(restore(dir.path(), &["again"]) == bytes, "one part has what the other lost");
    // A stream cannot be read again: the bytes at risk are reported.
    let message = stderr(&from_stream);
    assert_eq!(from_stream.status.code(), Some(1), "{message}");
    assert!(message.contains(&device) && message.contains("may be lost"), "{message}");
}

#[test]
fn killed_at_any_moment_it_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(48 << 20, 9);
    std::fs::write(dir.path().join("core"), &bytes).unwrap();
    let parts: Vec<_> = ["a", "b", "c"].iter().map(|name| dir.path().join(name)).collect();
    for (parity, moments) in [("0", [0, 15, 40, 80]), ("1", [5, 25, 60, 120])] {
        let split = [
            "split",
            "core",
            "-o",
            "a",
            "-o",
            "b",
            "-o",
            "c",
            "--parity",
            parity,
            "--checkpoint",
            "1M",
            "--memory",
            "40M",
            "--resume",
            "-q",
            "-j",
            "1",
        ];
        for moment in moments {
            let mut child = packfs(split).current_dir(dir.path()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(moment));
            // It may have finished by now; then there is nothing to resume, which is also right.
            let _ = child.kill();
            child.wait().unwrap();
        }
        succeed(dir.path(), &split);
        assert!(restore(dir.path(), &["a", "b", "c"]) == bytes, "parity {parity}");
        parts.iter().for_each(|part| std::fs::remove_file(part).unwrap());
    }
}

#[test]
fn an_unfinished_set_says_so_first_and_how_to_continue() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(24 << 20, 9);
    std::fs::write(dir.path().join("core"), &bytes).unwrap();
    let split = ["split", "core", "-o", "a b", "-o", "b", "-q", "--codec", "zstd", "--chunk", "64K", "--json"];
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let whole = json(&succeed(dir.path(), &split));
    let about = |args: &[&str]| succeed(dir.path(), &[&["info"], args].concat());
    let finished = json(&about(&["a b", "b", "--json"]));
    assert_eq!((&finished["finished"], &finished["resume"]), (&true.into(), &serde_json::Value::Null));
    assert!(finished["ratio"].as_f64().unwrap() > 1.0 && !about(&["a b", "b"]).contains("unfinished"));
    for part in ["a b", "b"] {
        let file = File::options().write(true).open(dir.path().join(part)).unwrap();
        file.set_len(file.metadata().unwrap().len().saturating_sub(100_000).max(4096)).unwrap();
    }
    let text = about(&["a b", "b"]);
    assert!(text.contains("\nparity       none, every part is needed\n"), "{text}");
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("unfinished   no part has the end of the dump"), "{text}");
    let command = "packfs split INPUT -o 'a b' -o b --codec zstd:1 --chunk 64K --resume";
    let input = "INPUT: what was split, with --as-is if that was given";
    assert_eq!(lines.next().unwrap(), format!("continue     {command} ({input})"));
    assert!(!text.contains("times smaller"), "{text}");
    let unfinished = json(&about(&["a b", "b", "--json"]));
    assert_eq!((&unfinished["finished"], &unfinished["ratio"]), (&false.into(), &serde_json::Value::Null));
    let told = fail(dir.path(), 1, &["join", "a b", "b", "-o", "no"]);
    assert!(told.contains("; continue the split (packfs info of the parts shows the command), or write the"), "{told}");
    // The printed command finishes the set, and its figures cover the whole.
    let words: Vec<&str> = unfinished["resume"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let words = words[1..].iter().map(|word| if *word == "INPUT" { "core" } else { word });
    let args: Vec<&str> = words.chain(["--json", "-q"]).collect();
    let resumed = json(&succeed(dir.path(), &args));
    assert!(resumed["resumed_bytes"].as_u64().unwrap() > 0, "{resumed}");
    for field in ["raw_bytes", "coded_bytes", "fill_bytes", "squeezed_bytes"] {
        assert_eq!(resumed["chunks"][field], whole["chunks"][field], "{field}");
    }
    assert!(restore(dir.path(), &["a b", "b"]) == bytes);
    // A stream cannot be read again.
    let mut child =
        packfs(["split", "-", "-o", "s", "-q"]).current_dir(dir.path()).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(child.wait().unwrap().success());
    File::options().write(true).open(dir.path().join("s")).unwrap().set_len(2 << 20).unwrap();
    let text = about(&["s"]);
    assert!(text.lines().nth(1).unwrap().contains("packfs join --partial"), "{text}");
    assert_eq!(json(&about(&["s", "--json"]))["resume"], serde_json::Value::Null);
}

#[test]
fn an_interrupted_split_says_how_to_continue() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("core"), memory(9_000_000, 2)).unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["split", "fifo"], "packfs join --partial restores what the parts contain"),
        (&["split", "-"], "continue with the same command and --resume"),
        (&["split", "core"], "continue with the same command and --resume"),
        (&["split", "core", "--force"], "continue with the same command, with --resume instead of --force"),
    ];
    for (n, (args, told)) in cases.into_iter().enumerate() {
        let out = format!("out{n}");
        assert!(Command::new("mkfifo").args(["fifo", &out]).current_dir(dir.path()).status().unwrap().success());
        // Kept open, a FIFO has no end and takes 64 KiB.
        let hold = |name: &str| File::options().read(true).write(true).open(dir.path().join(name)).unwrap();
        let _input = hold("fifo");
        let mut part = hold(&out);
        let mut run = packfs([args, &["-o", &out, "-q"]].concat());
        run.current_dir(dir.path()).stdin(File::open(dir.path().join("core")).unwrap()).stderr(Stdio::piped());
        let child = run.spawn().unwrap();
        // The superblock: the split has begun.
        part.read_exact(&mut [0; 4096]).unwrap();
        assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
        let said = stderr(&child.wait_with_output().unwrap());
        assert!(said.contains(told), "{args:?}: {said}");
        std::fs::remove_file(dir.path().join("fifo")).unwrap();
    }
}

#[test]
fn eight_parts_fit_64_mib() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(80 << 20, 5);
    std::fs::write(dir.path().join("core"), &bytes).unwrap();
    let names: Vec<_> = (0..8).map(|n| format!("part{n}")).collect();
    for more in [&["--parity", "2"][..], &["--codec", "raw"], &["--dedup", "-j", "4"], &["--direct"]] {
        let mut split = vec!["split", "core", "-f", "-q", "--json", "--memory", "64M", "-j", "2"];
        names.iter().for_each(|name| split.extend(["-o", name]));
        if more.contains(&"-j") {
            split.retain(|word| !["-j", "2"].contains(word));
        }
        split.extend(more);
        let report = succeed(dir.path(), &split);
        let peak = report.lines().find_map(|line| line.trim().strip_prefix("\"peak_memory\": ")).unwrap();
        let peak: u64 = peak.trim_end_matches(',').parse().unwrap();
        assert!(peak <= 64 << 20, "{more:?}: {peak}");
    }
}

#[test]
fn an_input_truncated_while_it_is_read_is_reported() {
    let test = "an_input_truncated_while_it_is_read_is_reported";
    if !have(test, "mkfifo") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(96 << 20, 5);
    std::fs::write(dir.path().join("core"), &bytes).unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap().success());
    let split = ["split", "core", "-o", "fifo", "-q", "--codec", "raw", "--memory", "40M"];
    let child = packfs(split).current_dir(dir.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut fifo = File::open(dir.path().join("fifo")).unwrap();
    let mut part = vec![0; 1 << 20];
    fifo.read_exact(&mut part).unwrap();
    // It has read no more than its memory holds.
    let input = File::options().write(true).open(dir.path().join("core")).unwrap();
    input.set_len(60_000_000).unwrap();
    fifo.read_to_end(&mut part).unwrap();
    let output = child.wait_with_output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("ends earlier") && message.contains("60000000"), "{message}");
    std::fs::write(dir.path().join("part"), part).unwrap();
    assert!(restore(dir.path(), &["part"]) == bytes[..60_000_000]);
}

#[test]
fn standard_input_is_split_and_reported_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(3_000_001, 4);
    let mut child = packfs(["split", "-", "-o", "a", "-o", "b", "--json", "--codec", "zstd", "-j", "0"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("on one disk"), "{}", stderr(&output));
    let report = String::from_utf8(output.stdout).unwrap();
    for field in
        ["\"kind\": \"split\"", "\"bytes\": 3000001", "\"codec\": \"zstd:1\"", "\"path\": \"b\"", "\"to_disk\""]
    {
        assert!(report.contains(field), "{field}: {report}");
    }
    assert!(restore(dir.path(), &["a", "b"]) == bytes);
}

#[test]
fn wrong_usage_is_reported_before_anything_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("core"), memory(100_000, 1)).unwrap();
    let cases: [(i32, &[&str], &str); 9] = [
        (2, &["split", "core"], "--output"),
        (2, &["split", "core", "-o", "a", "-o", "./a"], "already named (as a)"),
        (2, &["split", "core", "-o", "core", "-f"], "core: this is the input"),
        (2, &["split", "core", "-o", "a", "--parity", "1"], "at least 2 parts"),
        (2, &["split", "core", "-o", "a", "--chunk", "5000"], "power of two"),
        (2, &["split", "core", "-o", "a", "--memory", "1M"], "too little"),
        (2, &["split", "core", "-o", "a", "--codec", "rar"], "rar"),
        (2, &["split", ".", "-o", "a"], "directory"),
        (1, &["split", "nowhere", "-o", "a"], "nowhere"),
    ];
    for (status, args, said) in cases {
        let message = fail(dir.path(), status, args);
        assert!(message.contains(said), "{args:?}: {message}");
        assert!(!dir.path().join("a").exists(), "{args:?}");
    }
    succeed(dir.path(), &["split", "core", "-o", "a", "-q"]);
    let message = fail(dir.path(), 1, &["split", "core", "-o", "a", "-q"]);
    assert!(message.contains("exists") && message.contains("--force"), "{message}");
}
