//! Peak memory of builds and extractions of many small files. A run takes a fixed amount, which is
//! the same for all trees, and some bytes for each inode: the former must be below 64 MiB, the
//! latter is measured by comparing two trees. There are no worker threads, so that only the tree
//! matters.
//!
//! A program of its own: the peak of a child begins with what the process that starts it held at its own peak, and tests
//! of other things hold far more than these limits.

#[allow(dead_code, reason = "these tests use a part of it")]
#[path = "integration/common/mod.rs"]
mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use packfs_blocks::testing::noise;
use wait4::Wait4;

use common::{FORMATS, packfs};

/// Number of files in each directory.
const FILES: u64 = 100;
/// Memory that a build may use in addition to the bytes for each inode.
const FIXED: u64 = 64 << 20;
/// Bytes per inode that a build of a million files may use.
const PER_INODE: u64 = 200;
/// The same limit when trees of a tenth of that are compared: tables grow by doubling, and runs differ a little.
const GROWTH: u64 = 450;
/// Bytes per inode that an extraction may use: it walks an image and keeps nothing about finished entries.
const EXTRACT_GROWTH: u64 = 200;

/// Bytes per inode that buffers of a merge may grow by until they are full.
const MERGE_GROWTH: u64 = 40;

/// Makes a directory with `dirs` directories of [`FILES`] files each, no two of them equal. Returns
/// the number of inodes.
fn many(root: &Path, dirs: u64) -> u64 {
    for dir in 0..dirs {
        let dir = root.join(format!("directory-{dir:05}"));
        std::fs::create_dir_all(&dir).unwrap();
        for file in 0..FILES {
            let path = dir.join(format!("file-{file:05}.txt"));
            std::fs::write(&path, path.as_os_str().as_encoded_bytes()).unwrap();
        }
    }
    1 + dirs * (1 + FILES)
}

/// Runs the program in `dir`; returns its peak memory in bytes.
fn peak(dir: &Path, args: &[&str]) -> u64 {
    let child = packfs(args).current_dir(dir).stdout(Stdio::null()).spawn().expect("packfs starts");
    let ended = child.wait4().expect("packfs ends");
    assert!(ended.status.success(), "packfs {args:?}");
    ended.rusage.maxrss
}

#[test]
fn builds_of_many_files_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (few, many) = (many(&dir.path().join("few"), 50), many(&dir.path().join("many"), 500));
    for format in FORMATS {
        let build = |root| peak(dir.path(), &["build", root, "-o", "image", "--format", format, "-f", "-q", "-j", "0"]);
        let (small, large) = (build("few"), build("many"));
        assert!(large < FIXED + many * PER_INODE, "{format}: {large} bytes for {many} inodes");
        let growth = large.saturating_sub(small) / (many - few);
        assert!(growth < GROWTH, "{format}: {growth} bytes an inode, {small} to {large} in all");
    }
}

/// Files whose data is aligned are written one by one, and each once held a buffer for many.
#[test]
fn merged_plans_take_the_same_memory_for_all_trees() {
    let dir = tempfile::tempdir().unwrap();
    let (few, many) = (many(&dir.path().join("few"), 100), many(&dir.path().join("many"), 1000));
    for root in ["few", "many"] {
        for part in ["0", "1"] {
            peak(dir.path(), &["plan", root, "--scan", &format!("{part}/2"), "-o", &format!("{root}{part}"), "-q"]);
        }
    }
    for format in FORMATS {
        let merge = |root: &str, more: &[&str]| {
            let parts = [format!("{root}0"), format!("{root}1")];
            let plan = ["plan", root, "-o", "plan", "--format", format, "--shards", "4", "-f", "-q", "-j", "0"];
            let options = ["--memory", "8M", "--merge", &parts[0], &parts[1]];
            peak(dir.path(), &[&plan[..], more, &options[..]].concat())
        };
        let growth = |more| merge("many", more).saturating_sub(merge("few", more)) / (many - few);
        // With the tree in memory, to see that the measurement is right.
        let (merged, tree) = (growth(&[]), growth(&["--no-hard-links"]));
        assert!(merged < MERGE_GROWTH && tree > 2 * MERGE_GROWTH, "{format}: {merged} and {tree} bytes an inode");
    }
}

#[test]
fn aligned_files_take_no_more_memory_than_others() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    for n in 0..10_000_u32 {
        std::fs::write(root.join(format!("file-{n:05}")), n.to_le_bytes().repeat(1250)).unwrap();
    }
    let build = |options: &[&str]| {
        let build = ["build", "root", "-o", "image", "--format", "erofs", "--codec", "none", "-f", "-q", "-j", "2"];
        peak(dir.path(), &[&build[..], options].concat())
    };
    let (usual, aligned) = (build(&[]), build(&["--data-align", "8K"]));
    assert!(aligned < usual + (32 << 20), "{aligned} bytes, {usual} without alignment");
}

#[test]
fn compression_of_archives_keeps_to_its_memory() {
    const LIMIT: u64 = 64 << 20;
    let dir = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(dir.path().join("noise")).unwrap();
    // In pieces: the peak of a program includes what this one held when it started it.
    for seed in 0..96 {
        file.write_all(&noise(1 << 20, seed)).unwrap();
    }
    common::succeed(dir.path(), &["build", "noise", "-o", "image", "-c", "none", "-f", "-q"]);
    let tar = |out: &str, memory: &str| {
        let line = ["tar", "image", "-o", out, "--compress", "zstd:1", "-q", "-j", "6", "--memory", memory];
        peak(dir.path(), &line)
    };
    let (bounded, free) = (tar("bounded", "64M"), tar("free", "1G"));
    assert!(bounded < LIMIT + (16 << 20), "{bounded} bytes");
    // To see that the measurement is right.
    assert!(free > LIMIT + (16 << 20), "{free} bytes");
    // By a program of its own, for the same reason.
    let same = Command::new("cmp").args(["bounded", "free"]).current_dir(dir.path()).status().unwrap();
    assert!(same.success(), "the archive does not depend on the memory");

    let least = "--memory 64 MiB: too little to compress with xz:9: give 1090M or more, or a lower level";
    let xz = ["tar", "image", "-o", "b.tar.xz", "--compress", "xz:9", "--memory", "64M"];
    let refused = packfs(xz).current_dir(dir.path()).output().unwrap();
    let shown = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && shown.contains(least), "{shown}");
    assert!(!dir.path().join("b.tar.xz").exists());
}

/// Jobs that list a large directory share its names: they once kept room for all of them each.
#[test]
fn a_directory_of_many_files_is_bounded() {
    const NAMES: u64 = 200_000;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    for n in 0..NAMES {
        std::fs::File::create(root.join(format!("file-{n:06}"))).unwrap();
    }
    for format in FORMATS {
        let most = FIXED + NAMES * PER_INODE;
        let taken = peak(dir.path(), &["build", "root", "-o", "image", "--format", format, "-f", "-q", "-j", "2"]);
        assert!(taken < most, "{format}: {taken} bytes for {NAMES} inodes, more than {most}");
    }
}

#[test]
fn extractions_of_many_files_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    // As many that what two runs differ by anyway, up to 2 MiB on a busy machine, is a small part of the limit.
    let (few, many) = (many(&dir.path().join("few"), 50), many(&dir.path().join("many"), 500));
    for format in FORMATS {
        let extract = |root: &str| {
            common::succeed(dir.path(), &["build", root, "-o", "image", "--format", format, "-f", "-q"]);
            let (out, path) = (format!("{format}-{root}"), dir.path());
            let taken = peak(path, &["extract", "image", "-C", &out, "-q", "-j", "0"]);
            std::fs::remove_dir_all(path.join(out)).unwrap();
            taken
        };
        let (small, large) = (extract("few"), extract("many"));
        assert!(large < FIXED, "{format}: {large} bytes for {many} inodes");
        let growth = large.saturating_sub(small) / (many - few);
        assert!(growth < EXTRACT_GROWTH, "{format}: {growth} bytes an inode, {small} to {large} in all");
    }
}

/// As with signatures (IMA), where every file has a set of attributes of its own.
#[test]
fn each_set_of_attributes_is_in_memory_once() {
    const FILES: u64 = 20_000;
    const VALUE: usize = 2000;
    let dir = tempfile::tempdir().unwrap();
    let archive = |name: &str, value: &dyn Fn(u64) -> Vec<u8>| {
        let mut archive = tar::Builder::new(std::fs::File::create(dir.path().join(name)).unwrap());
        for n in 0..FILES {
            archive.append_pax_extensions([("SCHILY.xattr.user.signature", &*value(n))]).unwrap();
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            header.set_mode(0o644);
            archive.append_data(&mut header, format!("file-{n}"), std::io::empty()).unwrap();
        }
        archive.finish().unwrap();
    };
    archive("alike.tar", &|_| vec![b'a'; VALUE]);
    archive("distinct.tar", &|n| format!("{n:020}").into_bytes().repeat(VALUE / 20));
    // In SquashFS, whose table is compressed while it is made: the sets are all that is kept.
    let build = |tar| peak(dir.path(), &["build", tar, "-o", "image", "-f", "-q", "-j", "0", "--memory", "8M"]);
    let bytes = FILES * VALUE as u64;
    let growth = build("distinct.tar").saturating_sub(build("alike.tar"));
    assert!(growth > bytes && growth < bytes * 8 / 5, "{growth} bytes for {bytes} bytes of attributes");
}
