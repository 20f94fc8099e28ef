//! Dumps through the program: split, damaged in every way, and joined again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::common::{self, fail, run_in, shorter, skip, stderr, succeed};
use packfs_blocks::testing::Random;
use packfs_blocks::units::ByteSpan;

/// Makes a dump of noise, text and zeros, of an odd length.
fn dump(len: usize) -> Vec<u8> {
    let mut random = Random::new(1);
    let mut noise = || random.number().to_le_bytes();
    let mut bytes = Vec::new();
    while bytes.len() < len {
        match bytes.len() >> 16 & 7 {
            0 => (0..8192).for_each(|_| bytes.extend(noise())),
            1 | 2 => bytes.extend(b"All work and no play makes this one shrink. ".repeat(1490)),
            3 => (0..16).for_each(|_| {
                bytes.resize(bytes.len() + 3 * 4096 / 4 * 4, 0);
                (0..512).for_each(|_| bytes.extend(noise()));
            }),
            _ => bytes.resize(bytes.len() + (1 << 16), 0),
        }
    }
    bytes.truncate(len);
    bytes
}

/// Splits `dump` in `dir` into parts `p0`, `p1`, ...; returns its bytes.
fn split(dir: &Path, parts: usize, options: &[&str]) -> Vec<u8> {
    let bytes = dump(5_000_001);
    fs::write(dir.join("dump"), &bytes).unwrap();
    let names: Vec<String> = (0..parts).map(|n| format!("p{n}")).collect();
    let mut args = vec!["split", "dump", "--quiet", "--chunk", "64K"];
    names.iter().for_each(|name| args.extend(["-o", name]));
    args.extend(options);
    succeed(dir, &args);
    bytes
}

#[test]
fn parts_in_any_order_are_joined_checked_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = split(dir.path(), 3, &[]);
    succeed(dir.path(), &["join", "p2", "p0", "p1", "-o", "back"]);
    let back = fs::metadata(dir.path().join("back")).unwrap();
    assert!(fs::read(dir.path().join("back")).unwrap() == bytes);
    assert_eq!(back.mode() & 0o777, 0o600);
    assert!(back.blocks() * 512 < 4_000_000, "zeros are holes: {} blocks", back.blocks());
    let checked = run_in(dir.path(), &["check", "p0", "p1", "p2"]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    let streamed = run_in(dir.path(), &["join", "p0", "p1", "p2", "-o", "-"]);
    assert!(streamed.status.success() && streamed.stdout == bytes);
    let all = run_in(dir.path(), &["cat", "p0", "p1", "p2"]);
    assert!(all.status.success() && all.stdout == bytes);
    for (range, from, len) in
        [("0:1", 0, 1), ("64K:4K", 1 << 16, 4096), ("4999999:2", 4_999_999, 2), ("1M:2M", 1 << 20, 2 << 20)]
    {
        let some = run_in(dir.path(), &["cat", "p1", "p2", "p0", "--range", range]);
        assert!(some.status.success() && some.stdout == bytes[from..from + len], "{range}: {}", stderr(&some));
    }
    assert!(fail(dir.path(), 1, &["cat", "p0", "p1", "p2", "--range", "4999999:3"]).contains("ends at byte 5000001"));
    let info = succeed(dir.path(), &["info", "p0", "p1", "p2"]);
    assert!(info.contains("restorable   yes") && info.contains("part 3       whole"), "{info}");
    let json = succeed(dir.path(), &["info", "p0", "p1", "p2", "--json"]);
    assert!(json.contains("\"size\": 5000001") && json.contains("\"restorable\": true"), "{json}");
}

#[test]
fn parts_within_the_parity_may_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = split(dir.path(), 4, &["--parity", "2"]);
    for gone in [[0, 1], [1, 3], [2, 3], [0, 2]] {
        let left: Vec<String> = (0..4).filter(|n| !gone.contains(n)).map(|n| format!("p{n}")).collect();
        succeed(dir.path(), &["join", &left[0], &left[1], "-o", "back", "--force"]);
        assert!(fs::read(dir.path().join("back")).unwrap() == bytes, "without {gone:?}");
        let checked = run_in(dir.path(), &["check", &left[0], &left[1]]);
        assert_eq!(checked.status.code(), Some(1));
        assert!(stderr(&checked).contains("all of the dump can be read"), "{}", stderr(&checked));
    }
}

#[test]
fn restored_segments_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = split(dir.path(), 3, &["--parity", "1"]);
    let join = |args: &[&str]| {
        let ran = run_in(dir.path(), &[&["join", "-o", "back", "--force"], args].concat());
        assert!(ran.status.success() && fs::read(dir.path().join("back")).unwrap() == bytes, "{}", stderr(&ran));
        (stderr(&ran), String::from_utf8(ran.stdout).unwrap())
    };
    let (told, _) = join(&["p0", "p1", "p2"]);
    assert!(!told.contains("parity"), "{told}");
    // Which parts have data depends on timing; some may have nothing but parity.
    let has_data = |gone: &usize| {
        let left: Vec<String> = (0..3).filter(|n| n != gone).map(|n| format!("p{n}")).collect();
        let (told, part) = (join(&[&left[0], &left[1]]).0, gone + 1);
        let is_restored = told.contains(&format!("of part {part}, which is missing"));
        assert!(is_restored != told.contains(&format!("packfs: note: part {part} is missing\n")), "{told}");
        is_restored
    };
    let bad = format!("p{}", (0..3).find(has_data).expect("the data are in some part"));
    // In the middle of a segment; the index at the end still locates it.
    let path = dir.path().join(&bad);
    let mut part = fs::read(&path).unwrap();
    let middle = part.len() / 3;
    part[middle..middle + 4096].fill(0xEE);
    fs::write(&path, part).unwrap();
    let (told, _) = join(&["p0", "p1", "p2"]);
    assert!(told.contains(&format!("damaged in {bad} (")), "{told}");
    let (_, json) = join(&["p0", "p1", "p2", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let repaired = &json["repaired"][0];
    assert_eq!((repaired["part"].as_str(), json["repaired"].as_array().unwrap().len()), (Some(bad.as_str()), 1));
    assert!(repaired["segments"].as_u64() > Some(0) && repaired["bytes"].as_u64() > Some(4096), "{json}");
}

#[test]
fn a_missing_part_without_parity_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    split(dir.path(), 2, &[]);
    let rest = shorter(dir.path(), ["p0", "p1"]);
    let error = fail(dir.path(), 1, &["join", rest, "-o", "none"]);
    assert!(error.contains(" of the dump are lost; name part ") && error.contains("--partial"), "{error}");
    assert!(!dir.path().join("none").exists());
}

#[test]
fn lost_ranges_are_listed_and_the_rest_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = split(dir.path(), 3, &[]);
    // Damage in the middle of the longest part hits a chunk.
    let longest = ["p0", "p1", "p2"].map(|name| dir.path().join(name));
    let longest = longest.iter().max_by_key(|part| fs::metadata(part).unwrap().len()).unwrap();
    let mut part = fs::read(longest).unwrap();
    let at = part.len() / 2;
    part[at] ^= 1;
    fs::write(longest, part).unwrap();
    let checked = run_in(dir.path(), &["check", "p0", "p1", "p2", "--json"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(String::from_utf8(checked.stdout).unwrap().contains("\"kind\": \"lost\""));
    let refused = fail(dir.path(), 1, &["join", "p0", "p1", "p2", "-o", "back"]);
    assert!(refused.contains(" of the dump are lost; write the rest to back with --partial\n  "), "{refused}");
    let partly = run_in(dir.path(), &["join", "p0", "p1", "p2", "-o", "back", "--partial", "--json"]);
    assert_eq!(partly.status.code(), Some(1), "{}", stderr(&partly));
    let json = String::from_utf8(partly.stdout.clone()).unwrap();
    let number = |name: &str| -> usize {
        let rest = json.split_once(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("{json}")).1;
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let (start, end) = (number("start"), number("end"));
    assert_eq!(number("lost_bytes"), end - start);
    assert!(
        stderr(&partly).contains(&format!("packfs: lost: {}: ", ByteSpan(start as u64..end as u64))),
        "{}",
        stderr(&partly)
    );
    let mut expected = bytes;
    expected[start..end].fill(0);
    assert!(fs::read(dir.path().join("back")).unwrap() == expected);
}

#[test]
fn outputs_are_overwritten_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    split(dir.path(), 2, &[]);
    fs::write(dir.path().join("old"), "old").unwrap();
    let error = fail(dir.path(), 1, &["join", "p0", "p1", "-o", "old"]);
    assert!(error.contains("old exists; --force replaces it"), "{error}");
    fs::hard_link(dir.path().join("p1"), dir.path().join("again")).unwrap();
    for output in ["p0", "./p1", "again"] {
        let error = fail(dir.path(), 2, &["join", "p0", "p1", "-o", output, "--force"]);
        assert!(error.contains("is one of the parts"), "{error}");
    }
    let error = fail(dir.path(), 2, &["join", "p0", "p1", "-o", "-", "--json"]);
    assert!(error.contains("--json"), "{error}");
    succeed(dir.path(), &["join", "p0", "p1", "-o", "old", "--force"]);
}

#[test]
fn parts_images_and_sets_are_not_mixed() {
    let dir = tempfile::tempdir().unwrap();
    split(dir.path(), 2, &[]);
    for name in ["p0", "p1"] {
        fs::rename(dir.path().join(name), dir.path().join(format!("other-{name}"))).unwrap();
    }
    split(dir.path(), 2, &[]);
    common::sample(dir.path());
    succeed(dir.path(), &["build", "root", "-o", "root.sqfs"]);
    let cases: [(&[&str], &str); 6] = [
        (&["join", "p0", "other-p1", "-o", "x"], "other-p1: belongs to another dump than p0"),
        (&["check", "p0", "p0"], "is part 1 of the dump, as p0 is"),
        (&["info", "p0", "root.sqfs"], "root.sqfs is an image"),
        (&["check", "root.sqfs", "p0"], "root.sqfs is an image"),
        (&["info", "root.sqfs", "root.sqfs"], "one image at a time"),
        (&["cat", "root.sqfs"], "no file named"),
    ];
    for (args, told) in cases {
        let error = fail(dir.path(), 2, args);
        assert!(error.contains(told), "{args:?}: {error}");
    }
    assert!(fail(dir.path(), 1, &["join", "p0", "root.sqfs", "-o", "x"]).contains("not a part of a dump"));
}

#[test]
fn a_full_disk_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    split(dir.path(), 2, &[]);
    let Some(disk) = Mount::tmpfs("a_full_disk_leaves_no_file", dir.path(), "1m") else { return };
    let error = fail(dir.path(), 1, &["join", "p0", "p1", "-o", "disk/back"]);
    assert!(error.contains("No space left"), "{error}");
    assert_eq!(fs::read_dir(dir.path().join("disk")).unwrap().count(), 0);
    drop(disk);
}

#[test]
fn a_block_device_is_written_in_place() {
    const TEST: &str = "a_block_device_is_written_in_place";
    let dir = tempfile::tempdir().unwrap();
    let bytes = split(dir.path(), 3, &["--parity", "1"]);
    // Old data on the device must not show through the dump's zeros.
    fs::write(dir.path().join("image"), vec![0xEE; 6 << 20]).unwrap();
    let Some(device) = LoopDevice::attach(TEST, &dir.path().join("image")) else { return };
    let error = fail(dir.path(), 1, &["join", "p0", "p2", "-o", &device.0]);
    assert!(error.contains("--force"), "{error}");
    succeed(dir.path(), &["join", "p0", "p2", "-o", &device.0, "--force"]);
    drop(device);
    let image = fs::read(dir.path().join("image")).unwrap();
    assert!(image[..bytes.len()] == bytes);
    assert!(image[5_005_000..].iter().all(|byte| *byte == 0xEE));
    fs::write(dir.path().join("small"), vec![0; 4 << 20]).unwrap();
    let Some(device) = LoopDevice::attach(TEST, &dir.path().join("small")) else { return };
    let error = fail(dir.path(), 2, &["join", "p0", "p2", "-o", &device.0, "--force"]);
    assert!(error.contains("too small"), "{error}");
}

/// A small file system, unmounted when dropped.
struct Mount(std::path::PathBuf);

impl Mount {
    fn tmpfs(test: &str, dir: &Path, size: &str) -> Option<Mount> {
        let at = dir.join("disk");
        fs::create_dir(&at).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&at).output();
        if !mounted.is_ok_and(|done| done.status.success()) {
            skip(test, "mounting is not allowed");
            return None;
        }
        Some(Mount(at))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A file as a block device, detached when dropped.
pub(crate) struct LoopDevice(pub(crate) String);

impl LoopDevice {
    pub(crate) fn attach(test: &str, file: &Path) -> Option<LoopDevice> {
        match Command::new("losetup").args(["--find", "--show"]).arg(file).output() {
            Ok(done) if done.status.success() => {
                Some(LoopDevice(String::from_utf8(done.stdout).unwrap().trim().to_owned()))
            }
            _ => {
                skip(test, "losetup is not allowed");
                None
            }
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}
