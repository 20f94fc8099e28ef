//! Damaged images under load: errors, but no crash, no hang and no more memory than the cache. Alone in its process, whose
//! memory it measures.
#![allow(clippy::cast_possible_truncation, reason = "numbers of a test are small")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use packfs_blocks::testing::Random;
use packfs_image::build::AnyOptions;
use packfs_image::testing::everything;
use packfs_image::{erofs, squashfs};
use packfs_mount::MountOptions;

#[path = "integration/served.rs"]
mod served;

use served::{Served, build, can_mount, open};

/// Number of damaged images of each format.
const IMAGES: u64 = 40;
/// Number of entries to look at in each: damage may make directories endless.
const ENTRIES: u64 = 6000;
/// Memory that reading damaged images may take, as in the tests of the readers; arenas of the allocator are in it.
const MEMORY: u64 = 256 << 20;
/// Guard against a hang.
const PATIENCE: Duration = Duration::from_secs(300);

/// Does with everything below a directory what programs do, whatever comes of it.
fn walk(dir: &Path, left: &AtomicU64) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
            return;
        }
        let path = entry.path();
        let Ok(found) = path.symlink_metadata() else { continue };
        let _ = rustix::fs::llistxattr(&path, &mut [0; 1000]);
        if found.is_dir() {
            walk(&path, left);
        } else if found.is_symlink() {
            let _ = path.read_link();
        } else if found.is_file()
            && let Ok(file) = File::open(&path)
        {
            let mut buf = vec![0; 100_000];
            for at in [0, found.len() / 2, found.len().saturating_sub(5000)] {
                let _ = file.read_at(&mut buf, at);
            }
            let _ = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0));
        }
    }
}

/// Reads a damaged image by several threads; adds to the number of errors that were told.
fn load(image: &[u8], seed: u64, errors: &Arc<AtomicU64>) {
    let mut bytes = image.to_vec();
    let mut random = Random::new(seed);
    for _ in 0..1 + seed % 8 {
        let place = random.below(bytes.len());
        bytes[place] ^= 1 << random.below(8);
    }
    if seed % 10 == 9 {
        bytes.truncate(bytes.len() * 2 / 3);
    }
    let Ok(image) = open(bytes, 1 << 20) else { return };
    let counted = Arc::clone(errors);
    let report = move |_: &str| {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let mount = Served::new(image, MountOptions::default().set(|all| all.report = Some(Arc::new(report))));
    let left = AtomicU64::new(ENTRIES);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| walk(mount.path(), &left));
        }
    });
}

fn memory_peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn damage_is_an_error_to_readers_and_nothing_worse() {
    if !can_mount("damage_is_an_error_to_readers_and_nothing_worse") {
        return;
    }
    let (done, waiting) = mpsc::channel();
    let work = std::thread::spawn(move || {
        let squashfs = squashfs::SquashfsOptions::default().set(|all| all.block_size = 4096);
        let squashfs = squashfs.with(|all| all.codec = "zstd:1".parse().unwrap());
        let erofs = erofs::ErofsOptions::default().with(|all| all.codec = "lz4".parse().unwrap());
        for options in [AnyOptions::Squashfs(squashfs), AnyOptions::Erofs(erofs)] {
            let image = build(&everything(4096, 300), &options);
            let (before, errors) = (memory_peak(), Arc::default());
            for seed in 0..IMAGES {
                load(&image, seed, &errors);
            }
            assert!(errors.load(Ordering::Relaxed) > 0, "no damage was noticed");
            let grown = memory_peak().saturating_sub(before);
            assert!(grown < MEMORY, "{grown} bytes more");
        }
        done.send(()).unwrap();
    });
    if waiting.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!("a reader of a damaged image hangs");
        std::process::abort();
    }
    work.join().unwrap();
}
