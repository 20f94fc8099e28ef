//! `check`, `extract` and `tar` of parts of an image, seen through the program alone.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{FORMATS, fail, have, packfs, run_in, sample, sample_dir, stderr, succeed};

/// Writes a tree with links over far places, modes that forbid writing, and lists of access control, and its images.
fn workplace() -> tempfile::TempDir {
    let work = sample_dir();
    let dir = work.path();
    for n in 0..60u64 {
        let below = dir.join(format!("root/usr/{}/{}/deep", n % 7, n % 3));
        std::fs::create_dir_all(&below).unwrap();
        let text: String = (0..2000).map(|i| format!("{:x} ", i * i * (7919 + n))).collect();
        std::fs::write(below.join(format!("{n}")), text).unwrap();
        std::fs::hard_link(below.join(format!("{n}")), dir.join(format!("root/etc/link{n}"))).unwrap();
    }
    std::fs::create_dir_all(dir.join("root/usr/0/empty/empty")).unwrap();
    std::fs::hard_link(dir.join("root/usr/5/2/deep/5"), dir.join("root/a-first-name")).unwrap();
    // Without setfacl or such lists, the tree has none.
    let _ = Command::new("setfacl").args(["-d", "-m", "u:1234:rwx"]).arg(dir.join("root/usr/3")).output();
    for (path, mode) in [("usr/1/1", 0o555), ("usr/2", 0o555), ("usr/4", 0o2755), ("etc", 0o700)] {
        std::fs::set_permissions(dir.join("root").join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let touch = "find root -exec touch -h -d @1700000000.123456789 {} +";
    assert!(Command::new("sh").args(["-c", touch]).current_dir(dir).status().unwrap().success());
    for format in FORMATS {
        succeed(
            dir,
            &["build", "root", "-o", format, "--format", format, "--codec", "lz4", "--block-size", "16K", "-q"],
        );
    }
    work
}

#[test]
fn parts_of_an_archive_are_the_whole_one_after_the_other() {
    let work = workplace();
    let dir = work.path();
    let has_tar = have("parts_of_an_archive_are_the_whole_one_after_the_other", "tar");
    for format in FORMATS {
        for options in [&[][..], &["usr", "etc", "--strip-components", "1"], &["--prefix", "below", "--exclude", "1"]] {
            succeed(dir, &[&["tar", format, "-o", "whole", "-f", "-q"], options].concat());
            let whole = std::fs::read(dir.join("whole")).unwrap();
            for count in [1, 3, 7, 100] {
                let mut all = Vec::new();
                for part in 0..count {
                    let part = format!("{part}/{count}");
                    succeed(dir, &[&["tar", format, "-o", "part", "-f", "-q", "--shard", &part], options].concat());
                    let bytes = std::fs::read(dir.join("part")).unwrap();
                    assert!(count > 7 || bytes.len() < whole.len() / count * 5, "part {part} has {}", bytes.len());
                    // A hole may fill the range of a part, which is empty then.
                    if has_tar && count == 3 && !bytes.is_empty() {
                        let listed = Command::new("tar").arg("-tf").arg(dir.join("part")).output().unwrap();
                        assert!(listed.status.success(), "{part}: {}", stderr(&listed));
                    }
                    all.extend(bytes);
                }
                assert!(all == whole, "{format}, {options:?}, {count} parts");
            }
        }
    }
}

fn assert_extracted(dir: &Path, format: &str, to: &str, what: &str) {
    let differences = run_in(dir, &["diff", format, to]);
    assert!(differences.status.success(), "{what}: {}", String::from_utf8_lossy(&differences.stdout));
}

#[test]
fn parts_are_extracted_in_any_order_and_at_once() {
    let work = workplace();
    let dir = work.path();
    for format in FORMATS {
        for count in [1u32, 3, 17] {
            let what = format!("{format}, {count} parts");
            let part = |n: u32| format!("{n}/{count}");
            let (one_by_one, at_once) = (format!("{format}{count}"), format!("{format}{count}-at-once"));
            let mut files = 0;
            for n in (0..count).map(|n| (n * 5 + 2) % count) {
                let done = run_in(dir, &["extract", format, "-C", &one_by_one, "--shard", &part(n)]);
                assert!(done.status.success(), "{what}: {}", stderr(&done));
                let told = stderr(&done);
                let count = told.split(": ").nth(1).and_then(|rest| rest.split(' ').next());
                files += count.and_then(|count| count.parse::<u32>().ok()).unwrap_or_else(|| panic!("{told}"));
            }
            assert_eq!(files, 64, "{what}: each file belongs to one part");
            assert_extracted(dir, format, &one_by_one, &what);
            let start = |n| {
                let mut extract = packfs(["extract", format, "-C", &at_once, "-q", "-j", "2", "--shard", &part(n)]);
                extract.current_dir(dir).spawn().unwrap()
            };
            let all: Vec<_> = (0..count).map(start).collect();
            assert!(all.into_iter().all(|mut extract| extract.wait().unwrap().success()), "{what}");
            assert_extracted(dir, format, &at_once, &what);
            // A part that was killed is repeated.
            let again = succeed(dir, &["extract", format, "-C", &at_once, "-f", "-q", "--shard", &part(count - 1)]);
            assert_eq!(again, "");
            assert_extracted(dir, format, &at_once, &what);
        }
    }
}

/// Returns the findings of a check.
fn findings(dir: &Path, image: &str, part: Option<&str>) -> Vec<String> {
    let part = part.map_or_else(Vec::new, |part| vec!["--shard", part]);
    let done = run_in(dir, &[&["check", image, "-q"], &part[..]].concat());
    assert!(done.status.code().is_some_and(|code| code < 2), "{}", stderr(&done));
    let mut found: Vec<_> = String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect();
    let is_sound = found.iter().all(|line| line.starts_with("note: "));
    assert_eq!(is_sound, done.status.success(), "{found:?}");
    found.sort();
    found
}

#[test]
fn each_damage_is_found_by_one_part() {
    let work = workplace();
    let dir = work.path();
    for format in FORMATS {
        let good = std::fs::read(dir.join(format)).unwrap();
        let mut damaged = 0;
        for at in (1200..good.len()).step_by(good.len() / 60) {
            let mut bad = good.clone();
            let end = good.len().min(at + 64);
            bad[at..end].fill(0xff);
            std::fs::write(dir.join("bad"), &bad).unwrap();
            if run_in(dir, &["list", "bad"]).status.code() != Some(0) {
                // No part finds anything where no image can be opened or walked.
                continue;
            }
            let whole = findings(dir, "bad", None);
            damaged += usize::from(!whole.is_empty());
            let mut parts: Vec<_> = (0..4).flat_map(|n| findings(dir, "bad", Some(&format!("{n}/4")))).collect();
            parts.sort();
            assert_eq!(parts, whole, "{format}, byte {at}");
        }
        assert!(damaged > 10, "{format}: only {damaged}");
        for n in 0..4 {
            assert!(findings(dir, format, Some(&format!("{n}/4"))).is_empty());
        }
    }
}

#[test]
fn wrong_parts_are_wrong_usage() {
    let work = workplace();
    for (part, why) in [
        ("3/3", "the parts are 0/3 to 2/3"),
        ("0/0", "there are no parts"),
        ("1", "expected I/N"),
        ("-1/2", "expected I/N"),
        ("1/2/3", "expected I/N"),
        ("a/b", "expected I/N"),
    ] {
        let part = format!("--shard={part}");
        for command in
            [&["check", "squashfs"][..], &["tar", "squashfs", "-o", "x"], &["extract", "squashfs", "-C", "x"]]
        {
            let error = fail(work.path(), 2, &[command, &[&part]].concat());
            assert!(error.contains(why), "{error}");
        }
    }
    let refused = fail(work.path(), 2, &["check", "squashfs", "--shard", "0/2", "--against", "root"]);
    assert!(refused.contains("cannot be used with"), "{refused}");
}

/// Returns the cells of a results file that `report` lists in its table, without what varies.
fn cells(dir: &Path, results: &[&str]) -> Vec<String> {
    succeed(dir, &[&["bench", "report", "-f", "--csv", "tables"], results].concat());
    let mut tables: Vec<_> =
        std::fs::read_dir(dir.join("tables")).unwrap().map(|entry| entry.unwrap().path()).collect();
    tables.sort();
    let mut cells = Vec::new();
    for table in tables.iter().filter(|table| !table.ends_with("sessions.csv")) {
        let text = std::fs::read_to_string(table).unwrap();
        // Sessions have names of numbers and dashes.
        let firsts = text.lines().map(|line| line.split(',').next().unwrap());
        cells.extend(firsts.filter(|cell| !cell.contains('-')).map(str::to_owned));
    }
    std::fs::remove_dir_all(dir.join("tables")).unwrap();
    cells.sort();
    cells
}

#[test]
fn results_of_parts_are_one_file_for_the_report() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    sample(dir);
    let codecs = ["bench", "codecs", "--data", "root", "--codecs", "lz4,zstd:1,zlib:9", "--blocks", "8K,16K"];
    let codecs = [&codecs[..], &["--sample", "100K", "--least", "0"]].concat();
    let build = ["bench", "build", "root", "--codecs", "lz4,none", "--jobs", "0,1", "--features", "plain"];
    for (kind, command) in [("codecs", &codecs[..]), ("build", &build)] {
        let measure = |more: &[&str]| succeed(dir, &[command, &["--runs", "1", "-q", "-o"], more].concat());
        let [whole, all] = [format!("{kind}.whole"), format!("{kind}.all")];
        measure(&[&whole]);
        let (mut bytes, mut parts) = (Vec::new(), Vec::new());
        for part in 0..3 {
            let name = format!("{kind}.{part}");
            measure(&[&name, "--shard", &format!("{part}/3")]);
            bytes.extend(std::fs::read(dir.join(&name)).unwrap());
            parts.push(name);
        }
        std::fs::write(dir.join(&all), bytes).unwrap();
        let expected = cells(dir, &[&whole]);
        assert!(expected.len() > 8, "{expected:?}");
        assert_eq!(cells(dir, &[&all]), expected, "{kind}");
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        assert_eq!(cells(dir, &parts), expected, "{kind}: as several files");
        assert_ne!(cells(dir, &parts[..2]), expected, "{kind}: without a part");
    }
    assert!(fail(dir, 2, &["bench", "codecs", "--shard", "3/3"]).contains("the parts are 0/3 to 2/3"));
}
