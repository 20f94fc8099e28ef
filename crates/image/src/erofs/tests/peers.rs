//! fsck.erofs reads our images. It accepts some images that the kernel refuses, and vice versa.

use crate::name::display;
use std::process::{Command, Stdio};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::*;
use crate::erofs::Incompat;
use crate::testing::{Shape, Snapshot, deep, differences, is_root, skipped, snapshot, snapshot_tree, specs, wide};

/// An fsck.erofs that knows the whole format.
pub(super) struct Fsck;

impl Fsck {
    /// Returns the installed one, if it is of version 1.9 or newer and can set all attributes.
    pub(super) fn find(test: &str) -> Option<Fsck> {
        let version = Command::new("fsck.erofs").arg("-V").output().map_or(Vec::new(), |ran| ran.stdout);
        let text = String::from_utf8_lossy(&version).into_owned();
        let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
        if is_root() && numbers.take(2).collect::<Vec<u32>>() >= vec![1, 9] {
            return Some(Fsck);
        }
        skipped(test, "fsck.erofs 1.9 (as root)");
        None
    }

    /// Extracts an image and returns the differences.
    pub(super) fn wrong(&self, want: &Snapshot, image: &Path) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let ran = Command::new("fsck.erofs")
            .arg(format!("--extract={}", display(&out)))
            .arg("--preserve")
            .arg(image)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        if !ran.status.success() {
            return vec![String::from_utf8_lossy(&ran.stderr).trim().to_owned()];
        }
        lengthen(want, &out);
        // Version 1.9.4 leaves out some xattrs, and takes the tails of files in a metabox, also those of mkfs.erofs, from
        // elsewhere; the kernel and our reader are compared on both.
        let has_metabox = open_reader(image).unwrap().superblock().incompat.contains(Incompat::METABOX);
        let without = |mut snapshot: Snapshot| {
            for entry in snapshot.values_mut() {
                entry.xattrs.clear();
                if has_metabox {
                    entry.hash.clear();
                }
            }
            snapshot
        };
        differences(&without(want.clone()), &without(snapshot(&out).unwrap()))
    }
}

/// Lengthens files that are too short by a hole: version 1.9.4 ends them before their last hole if their chunks have
/// entries of 8 bytes, also in images of mkfs.erofs. Their bytes are compared nevertheless, and the times are kept.
fn lengthen(want: &Snapshot, out: &Path) {
    for (path, entry) in want.iter().filter(|(_, entry)| entry.kind == '-') {
        let Ok(file) = std::fs::File::options().write(true).open(out.join(path)) else { continue };
        let meta = file.metadata().unwrap();
        if meta.len() < entry.size {
            file.set_len(entry.size).unwrap();
            file.set_modified(meta.modified().unwrap()).unwrap();
        }
    }
}

#[test]
fn random_trees_are_extracted() {
    let Some(fsck) = Fsck::find("random_trees_are_extracted") else { return };
    let mut runner = TestRunner::deterministic();
    let mut specs: Vec<_> = (0..9).map(|_| specs(Shape::default()).new_tree(&mut runner).unwrap().current()).collect();
    specs.extend([wide(300), wide(3000), deep(20, 50)]);
    let cases: Vec<_> = matrix::all(4096, 16 << 10);
    for (n, spec) in specs.iter().enumerate() {
        let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
        for options in cases.iter().skip(n % 7).step_by(7) {
            let found = fsck.wrong(&want, &built(spec, options).image);
            assert_eq!(found, Vec::<String>::new(), "tree {n}, {}", matrix::say(options));
        }
    }
}
