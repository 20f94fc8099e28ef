//! Other programs read our images. Each accepts some images that others refuse, so all are tested. They need no
//! privilege.

use std::process::{Command, Stdio};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::*;
use crate::testing::{
    FuseMount, Node, Piece, Shape, can_mount, can_mount_by_fuse, deep, differences, kernel_disagreements, misreadings,
    reader_disagreements, said_by, skipped, snapshot, snapshot_tree, snapshot_without_xattrs, specs, wide,
};

/// Available readers of images besides our own.
pub(super) struct PeerReaders {
    kernel: bool,
    unsquashfs: bool,
    fuse: bool,
}

impl PeerReaders {
    /// Finds the kernel, unsquashfs and squashfuse. `None` if `test` has to be skipped because there is none.
    pub(super) fn all(test: &str) -> Option<PeerReaders> {
        let unsquashfs = is_installed(test, "unsquashfs");
        let judges = PeerReaders { kernel: can_mount(test), unsquashfs, fuse: can_mount_by_fuse(test, "squashfuse") };
        (judges.kernel || judges.unsquashfs || judges.fuse).then_some(judges)
    }

    /// Has an image of `tree` read by all of them, by the kernel in all its ways, and by our reader and check; returns
    /// the discrepancies.
    pub(super) fn wrong(&self, tree: &Tree, want: &Snapshot, image: &Path) -> Vec<String> {
        let mut wrong = reader_disagreements(want, open(image));
        if self.kernel {
            wrong.extend(kernel_disagreements(want, image, "squashfs"));
            wrong.extend(misreadings(tree, image, "squashfs"));
        }
        if self.unsquashfs {
            wrong.extend(said_by("unsquashfs", unpacked_wrong(unsquashfs, want, image)));
        }
        if self.fuse {
            wrong.extend(said_by("squashfuse", fuse_wrong(want, image)));
        }
        wrong
    }
}

fn is_installed(test: &str, program: &str) -> bool {
    let is = Command::new(program).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !is {
        skipped(test, program);
    }
    is
}

/// Mounts an image with squashfuse and returns the differences.
fn fuse_wrong(want: &Snapshot, image: &Path) -> Vec<String> {
    // Version 0.1.105 numbers each name, and shows some xattrs with the prefix or the value of others, or lists them
    // only.
    let without = |mut snapshot: Snapshot| {
        for entry in snapshot.values_mut() {
            entry.same_as = None;
            entry.xattrs.clear();
        }
        snapshot
    };
    match FuseMount::new("squashfuse", image).map(|mount| snapshot_without_xattrs(&mount.path())) {
        Ok(Ok(got)) => differences(&without(want.clone()), &without(got)),
        Ok(Err(error)) => vec![error.to_string()],
        Err(error) => vec![error],
    }
}

/// Unpacks an image and returns the differences.
fn unpacked_wrong(unpack: Unpack, want: &Snapshot, image: &Path) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let ran = unpack(image, &out).stdin(Stdio::null()).output().unwrap();
    if !ran.status.success() {
        return vec![String::from_utf8_lossy(&ran.stderr).trim().to_owned()];
    }
    differences(want, &snapshot(&out).unwrap())
}

/// Makes the command of a program that unpacks `image` into a directory that it creates.
type Unpack = fn(image: &Path, dir: &Path) -> Command;

fn unsquashfs(image: &Path, dir: &Path) -> Command {
    let mut command = Command::new("unsquashfs");
    command.args(["-strict-errors", "-no-progress", "-d"]).args([dir, image]);
    command
}

fn rdsquashfs(image: &Path, dir: &Path) -> Command {
    let mut command = Command::new("rdsquashfs");
    // Also owners, modes, times and xattrs; holes stay holes.
    command.args(["-q", "-O", "-C", "-T", "-X", "-u", "/", "-p"]).args([dir, image]);
    command
}

fn check(test: &str, program: &str, unpack: Unpack, tolerate: fn(&str) -> bool) {
    if !is_installed(test, program) {
        return;
    }
    let mut runner = TestRunner::deterministic();
    let mut specs: Vec<_> = (0..6).map(|_| specs(Shape::default()).new_tree(&mut runner).unwrap().current()).collect();
    specs.extend([wide(300), wide(3000), deep(20, 50)]);
    let edges = [1u64, 4095, 4096, 4097, 20_000].into_iter().map(|len| {
        let pieces = vec![Piece::Text { seed: len, len }, Piece::Hole(3 * 4096), Piece::Noise { seed: len, len }];
        (format!("edge{len}").into_bytes(), Node::file(pieces))
    });
    specs.push(Spec::of(edges));
    for (n, spec) in specs.iter().enumerate() {
        let codec = CODECS[n % CODECS.len()];
        let built = built(spec, &options(codec, 4096));
        let want = held(snapshot_tree(&spec.tree().unwrap()).unwrap());
        let mut found = unpacked_wrong(unpack, &want, &built.image);
        found.retain(|difference| !tolerate(difference));
        assert_eq!(found, Vec::<String>::new(), "{program}, tree {n}, {codec}");
    }
}

#[test]
fn unsquashfs_unpacks_the_same_tree() {
    check("unsquashfs_unpacks_the_same_tree", "unsquashfs", unsquashfs, |_| false);
}

#[test]
fn rdsquashfs_unpacks_the_same_tree() {
    check("rdsquashfs_unpacks_the_same_tree", "rdsquashfs", rdsquashfs, |difference| {
        // It leaves the root unchanged, and makes a separate file for every name.
        let Some((path, what)) = difference.split_once(": ") else { return false };
        path == "/"
            || what.split_terminator(';').all(|part| {
                let part = part.trim();
                part.starts_with("nlink ") || part.starts_with("same inode ")
            })
    });
}
