//! Other programs read our images. Each accepts some images that others refuse, so all are tested.

use std::process::{Command, Stdio};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::*;
use crate::testing::{Node, Piece, Shape, deep, differences, is_root, skipped, snapshot, snapshot_tree, specs, wide};

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
    if !is_root() || Command::new(program).stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return skipped(test, &format!("{program} (as root)"));
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
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let ran = unpack(&built.image, &out).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{program}, tree {n}, {codec}: {said}");
        let want = held(snapshot_tree(&spec.tree().unwrap()).unwrap());
        let mut found = differences(&want, &snapshot(&out).unwrap());
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
