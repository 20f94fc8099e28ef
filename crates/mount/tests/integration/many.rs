//! Many readers at once, at random places.
#![allow(clippy::cast_possible_truncation, reason = "numbers of a test are small")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use packfs_blocks::testing::Random;
use packfs_image::build::AnyOptions;
use packfs_image::testing::{Node, Piece, Spec};
use packfs_image::{erofs, squashfs};
use packfs_mount::{MountOptions, ReadTrace, UnmountMode, unmount};

use crate::served::{Served, build, can_mount, open};

const LEN: u64 = 24 << 20;

fn formats() -> [AnyOptions; 3] {
    let erofs = |codec: &str| {
        let options = erofs::ErofsOptions::default();
        let options = options.set(|all| (all.cluster_size, all.target_kernel) = (1 << 16, "6.18".parse().unwrap()));
        AnyOptions::Erofs(options.with(|all| all.codec = codec.parse().unwrap()))
    };
    let squashfs = squashfs::SquashfsOptions::default().with(|all| all.codec = "zstd:1".parse().unwrap());
    [AnyOptions::Squashfs(squashfs), erofs("zstd:1"), erofs("lz4")]
}

#[test]
fn random_reads_of_32_threads_equal_the_file() {
    if !can_mount("random_reads_of_32_threads_equal_the_file") {
        return;
    }
    let piece = Piece::Text { seed: 5, len: LEN };
    let spec = Spec::of([(b"f".to_vec(), Node::file(vec![piece]))]);
    let mut want = vec![0; LEN as usize];
    piece.fill(&mut want, 0);
    for options in formats() {
        // A cache that holds a part of it only.
        let image = open(build(&spec, &options), 4 << 20).unwrap();
        let mount = Served::new(image, MountOptions::default().set(|all| all.threads = 4));
        let file = File::open(mount.path().join("f")).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..32 {
                let (file, want) = (&file, &want);
                scope.spawn(move || {
                    let mut random = Random::new(thread);
                    for _ in 0..150 {
                        let at = random.below(LEN as usize);
                        let len = random.below([10, 4096, 50_000, 400_000][thread as usize % 4]);
                        let mut buf = vec![0; len];
                        let got = file.read_at(&mut buf, at as u64).unwrap();
                        let end = (at + got).min(want.len());
                        assert!(buf[..got] == want[at..end] && (got == len || end == want.len()), "{at} {len} {got}");
                    }
                });
            }
        });
    }
}

#[test]
fn a_mount_that_nobody_uses_ends_and_one_in_use_stays() {
    if !can_mount("a_mount_that_nobody_uses_ends_and_one_in_use_stays") {
        return;
    }
    let spec = Spec::of([(b"f".to_vec(), Node::file(vec![Piece::Text { seed: 1, len: 10 }]))]);
    let image = open(build(&spec, &formats()[0]), 4 << 20).unwrap();
    let options = MountOptions::default().set(|all| all.timeout = Some(Duration::from_millis(100)));
    let mount = Served::new(image, options);
    let used = File::open(mount.path().join("f")).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(matches!(unmount(mount.path(), UnmountMode::Now), Err(packfs_mount::Error::Busy { .. })));
    let mut bytes = [0; 10];
    used.read_exact_at(&mut bytes, 0).unwrap();
    drop(used);
    assert!(mount.has_ended());
}

#[derive(Clone, Default)]
struct Out(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_trace_lists_files_in_the_order_of_their_first_use() {
    if !can_mount("a_trace_lists_files_in_the_order_of_their_first_use") {
        return;
    }
    let file = |seed| Node::file(vec![Piece::Text { seed, len: 100 }]);
    let dir = Node::dir([(b"x y".to_vec(), file(1)), (b"z".to_vec(), file(2))]);
    let spec = Spec::of([(b"a".to_vec(), file(3)), (b"dir".to_vec(), dir)]);
    let image = open(build(&spec, &formats()[1]), 4 << 20).unwrap();
    let out = Out::default();
    let mount = Served::new(image, MountOptions::default().set(|all| all.trace = Some(ReadTrace::new(out.clone()))));
    for path in ["dir/z", "dir/x y", "dir/z", "a"] {
        std::fs::read(mount.path().join(path)).unwrap();
    }
    let lines = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    assert_eq!(lines, "/dir/z\n/dir/x y\n/a\n");
}
