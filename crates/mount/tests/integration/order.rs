//! Small files read in the order of their listing, by several readers: what was stored ahead of them equals the files.
#![allow(clippy::cast_possible_truncation, reason = "numbers of a test are small")]

use std::path::{Path, PathBuf};

use packfs_image::build::AnyOptions;
use packfs_image::erofs::{self, Features};
use packfs_image::squashfs;
use packfs_image::testing::{Node, Piece, Spec};
use packfs_mount::MountOptions;

use crate::served::{Served, build, can_mount, open};

/// Number of directories, and of files in each.
const DIRS: u64 = 12;
const FILES: u64 = 90;

fn content(dir: u64, file: u64) -> Piece {
    let seed = dir * FILES + file;
    // Lengths around those of pages, and some above what is read ahead.
    let len = [0, 1, 100, 4095, 4096, 4097, 9000, 70_000, 131_072, 131_073][seed as usize % 10];
    Piece::Text { seed, len }
}

fn spec() -> Spec {
    let file = |dir, file| (format!("f{file:02}").into_bytes(), Node::file(vec![content(dir, file)]));
    let dir = |dir| (format!("d{dir:02}").into_bytes(), Node::dir((0..FILES).map(|n| file(dir, n))));
    Spec::of((0..DIRS).map(dir))
}

/// Lists everything, which makes its inodes known to the kernel, as `find -ls` does.
fn list(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for dir in 0..DIRS {
        let dir = root.join(format!("d{dir:02}"));
        for entry in std::fs::read_dir(&dir).unwrap() {
            entry.unwrap().metadata().unwrap();
        }
        files.extend((0..FILES).map(|file| dir.join(format!("f{file:02}"))));
    }
    files
}

fn check(path: &Path, n: usize) {
    let piece = content(n as u64 / FILES, n as u64 % FILES);
    let mut want = vec![0; piece.len() as usize];
    piece.fill(&mut want, 0);
    assert!(std::fs::read(path).unwrap() == want, "{path:?}");
}

#[test]
fn files_stored_ahead_of_their_readers_are_whole() {
    if !can_mount("files_stored_ahead_of_their_readers_are_whole") {
        return;
    }
    let squashfs = squashfs::SquashfsOptions::default().with(|all| all.codec = "zstd:1".parse().unwrap());
    let erofs = erofs::ErofsOptions::default().set(|all| all.features = Features::FRAGMENTS);
    let erofs = erofs.with(|all| all.codec = "lz4".parse().unwrap());
    for options in [AnyOptions::Squashfs(squashfs), AnyOptions::Erofs(erofs)] {
        let image = build(&spec(), &options);
        for threads in [1, 4] {
            let options = MountOptions::default().set(|all| all.threads = threads);
            let mount = Served::new(open(image.clone(), 1 << 20).unwrap(), options);
            let files = list(mount.path());
            std::thread::scope(|scope| {
                // Two readers of everything, one from the end to the beginning, and one of every seventh file.
                scope.spawn(|| files.iter().enumerate().for_each(|(n, path)| check(path, n)));
                scope.spawn(|| files.iter().enumerate().for_each(|(n, path)| check(path, n)));
                scope.spawn(|| files.iter().enumerate().rev().for_each(|(n, path)| check(path, n)));
                scope.spawn(|| files.iter().enumerate().step_by(7).for_each(|(n, path)| check(path, n)));
            });
        }
    }
}
