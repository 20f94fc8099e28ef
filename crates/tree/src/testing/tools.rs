//! Other programs as oracles: runs them, and compares their output with its input.

use crate::name::display;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use packfs_blocks::Progress;

use super::{Snapshot, Spec, differences, snapshot, snapshot_image, whole_seconds};
use crate::{Image, Severity};

/// Runs a shell command line, which must succeed.
///
/// # Panics
/// If it fails.
pub fn sh(line: &str) {
    let output = Command::new("sh").args(["-ec", line]).output().expect("there is a shell");
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}\n{out}{err}");
}

/// Returns true if a program can be run.
pub fn have(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// Returns true if erofs-utils are recent enough for the features of packfs, version 1.9; otherwise
/// reports `test` as skipped. An old version is not an error even if oracles are required: some
/// systems have no other.
#[allow(clippy::print_stderr, reason = "a test that does not run says so")]
pub fn erofs_utils(test: &str) -> bool {
    let Ok(output) = Command::new("mkfs.erofs").arg("-V").output() else {
        super::skipped(test, "mkfs.erofs");
        return false;
    };
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    let new = numbers.take(2).collect::<Vec<u32>>() >= vec![1, 9];
    if !new {
        eprintln!("SKIPPED {test}: erofs-utils is older than 1.9 (scripts/build-peers.sh makes a newer one)");
    }
    new
}

/// A directory to make images from. It is on tmpfs if possible, which accepts xattrs of any length.
#[derive(Debug)]
pub struct Source {
    dir: tempfile::TempDir,
    want: OnceCell<Snapshot>,
}

impl Source {
    /// Creates the tree.
    ///
    /// # Panics
    /// If the system refuses it.
    pub fn new(spec: &Spec) -> Source {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.expect("there is room for a tree");
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).and_then(|()| spec.create(&tree)).expect("there is room for a tree");
        Source { dir, want: OnceCell::new() }
    }

    /// Returns the directory of the tree.
    pub fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Runs a command line that makes `$IMAGE` from `$TREE`; returns the path of the image. The
    /// command line may leave more files beside it, in `$DIR`.
    pub fn make(&self, line: &str) -> PathBuf {
        let dir = self.dir.path();
        let image = self.dir.path().join("image");
        let tree = self.tree();
        let place = display(&image);
        sh(&format!("rm -f {place}; DIR={} TREE={} IMAGE={place}; {line}", display(&dir), display(&tree)));
        image
    }

    /// Compares an image that `line` made with the tree, and has it checked.
    ///
    /// # Panics
    /// If they differ, or anything is wrong with the image.
    pub fn compare(&self, line: &str, image: &dyn Image) {
        let want = self.want.get_or_init(|| snapshot(&self.tree()).expect("the tree can be read"));
        let whole = (!image.holds_nanoseconds()).then(|| whole_seconds(want.clone()));
        let got = snapshot_image(image).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(differences(whole.as_ref().unwrap_or(want), &got), Vec::<String>::new(), "{line}");
        let found = damage(image, 2);
        assert_eq!(found, Vec::<String>::new(), "{line}");
    }
}

/// Returns all findings of a check of an image, with notes marked as such.
///
/// # Panics
/// If the check fails.
pub fn findings(image: &dyn Image, threads: usize) -> Vec<String> {
    let mut findings = Vec::new();
    let checked = image.check(threads, &Progress::default(), &mut |finding| {
        let mark = if finding.severity == Severity::Note { "note: " } else { "" };
        findings.push(format!("{mark}{finding}"));
    });
    checked.expect("only damage is found");
    findings
}

/// Returns the findings of a check of an image, without notes.
///
/// # Panics
/// If the check fails.
pub fn damage(image: &dyn Image, threads: usize) -> Vec<String> {
    let mut found = findings(image, threads);
    found.retain(|finding| !finding.starts_with("note: "));
    found
}

/// Exercises an image in every way, whatever the result: at most `inodes` of its inodes, and
/// `extents` of each. Only the check must end by itself.
///
/// # Panics
/// If the check ends with an error instead of findings.
pub fn exercise(image: &dyn Image, inodes: usize, extents: usize) {
    let mut stack = vec![image.root()];
    let mut left = inodes;
    let mut buf = vec![0; 5000];
    while let Some(nid) = stack.pop() {
        left -= 1;
        if left == 0 {
            break;
        }
        let _ = image.stat(nid);
        let _ = image.xattrs(nid);
        let _ = image.lookup(nid, b"link");
        if let Ok(entries) = image.read_dir(nid) {
            stack.extend(entries.into_iter().map(|entry| entry.nid));
        }
        for offset in [0, 4090, u64::MAX - 5] {
            let _ = image.read_at(nid, &mut buf, offset);
        }
        for extent in image.extents(nid).unwrap_or_default().iter().take(extents) {
            let _ = image.read_at(nid, &mut buf, extent.offset);
        }
    }
    image.check(0, &Progress::default(), &mut |_| {}).expect("damage is found, not an error");
}
