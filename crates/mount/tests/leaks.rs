//! Mounting and unmounting many times leaves no descriptors, threads or memory behind. Alone in its process, which it
//! measures.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use packfs_image::build::AnyOptions;
use packfs_image::erofs;
use packfs_image::testing::{Node, Piece, Spec};
use packfs_mount::MountOptions;

#[path = "integration/served.rs"]
mod served;

use served::{Served, build, can_mount, open};

/// Memory that may stay after a thousand mounts: less than half of what one more page of each would take.
const MEMORY: u64 = 2 << 20;

/// Settings of the allocator under which it keeps nothing of threads that ended: each thread of a mount has a buffer of
/// 16 MiB for requests.
const ALLOCATOR: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_TRIM_THRESHOLD_", "65536")];

/// Returns the numbers of open descriptors and of threads.
fn held() -> (usize, usize) {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// Waits until no more is held than before: a thread that was joined may still be listed for a moment.
fn wait_for(before: (usize, usize)) {
    let begun = Instant::now();
    let is_more = |(fds, threads): (usize, usize)| fds > before.0 || threads > before.1;
    while is_more(held()) && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!is_more(held()), "{before:?} descriptors and threads before, now {:?}", held());
}

fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Mounts an image `count` times and reads all of its files each time.
fn cycle(image: &[u8], count: usize) {
    for _ in 0..count {
        let mount = Served::new(open(image.to_vec(), 1 << 20).unwrap(), MountOptions::default());
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(mount.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), 50);
        for file in files {
            assert_eq!(std::fs::read(file).unwrap().len(), 5000);
        }
    }
}

/// Runs the test in a process with [`ALLOCATOR`], which are read when a process starts; returns false in that process.
fn runs_in_another(test: &str) -> bool {
    if std::env::var_os(ALLOCATOR[0].0).is_some() {
        return false;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    let status = again.args(["--exact", test, "--nocapture"]).envs(ALLOCATOR).status().unwrap();
    assert!(status.success(), "{status}");
    true
}

#[test]
fn a_thousand_mounts_leave_nothing_behind() {
    const NAME: &str = "a_thousand_mounts_leave_nothing_behind";
    if !can_mount(NAME) || runs_in_another(NAME) {
        return;
    }
    let file = |seed| (format!("f{seed:02}").into_bytes(), Node::file(vec![Piece::Text { seed, len: 5000 }]));
    let image = build(&Spec::of((0..50).map(file)), &AnyOptions::Erofs(erofs::ErofsOptions::default()));
    cycle(&image, 50);
    let (before, held_before) = (memory(), held());
    cycle(&image, 1000);
    wait_for(held_before);
    let grown = memory().saturating_sub(before);
    println!("{} KiB more after 1,000 mounts", grown >> 10);
    assert!(grown < MEMORY, "{grown} bytes more");
}
