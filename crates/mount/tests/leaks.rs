//! Mounting and unmounting many times leaves no descriptors, threads or memory behind. Alone in its process, which it
//! measures.

use std::path::PathBuf;

use packfs_image::build::AnyOptions;
use packfs_image::erofs;
use packfs_image::testing::{Node, Piece, Spec};
use packfs_mount::Options;

#[path = "fuse/served.rs"]
mod served;

use served::{Served, build, can_mount, open};

/// Memory that may stay: each thread has a buffer of 16 MiB for requests, which the allocator keeps. In a thousand mounts
/// it is less than 100 KiB for each.
const MEMORY: u64 = 96 << 20;

/// Returns the numbers of open descriptors and of threads.
fn held() -> (usize, usize) {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Mounts an image `count` times and reads all of its files each time.
fn cycle(image: &[u8], count: usize) {
    for _ in 0..count {
        let mount = Served::new(open(image.to_vec(), 1 << 20).unwrap(), Options::default());
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(mount.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), 50);
        for file in files {
            assert_eq!(std::fs::read(file).unwrap().len(), 5000);
        }
    }
}

#[test]
fn a_thousand_mounts_leave_nothing_behind() {
    if !can_mount("a_thousand_mounts_leave_nothing_behind") {
        return;
    }
    let file = |seed| (format!("f{seed:02}").into_bytes(), Node::file(vec![Piece::Text { seed, len: 5000 }]));
    let image = build(&Spec::of((0..50).map(file)), &AnyOptions::Erofs(erofs::Options::default()));
    cycle(&image, 10);
    let (before, held_before) = (memory(), held());
    cycle(&image, 1000);
    assert_eq!(held(), held_before);
    let grown = memory().saturating_sub(before);
    assert!(grown < MEMORY, "{grown} bytes more");
}
