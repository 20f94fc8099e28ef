//! Many programs that read everything at once, below the root or a directory: sums of all files by `md5sum`, eight at a
//! time, are those of the files that were packed.

use std::path::Path;
use std::process::Command;

use packfs_image::build::AnyOptions;
use packfs_image::testing::{Node, Piece, Spec};
use packfs_image::{erofs, squashfs};
use packfs_mount::MountOptions;

use crate::served::{Served, build, can_mount, open};

/// Files of all lengths around those of blocks and pages, in directories.
fn spec() -> Spec {
    let len =
        |n: u64| [0, 1, 4095, 4096, 4097, 70_000, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 300_001][(n % 10) as usize];
    let file = |n| (format!("file {n:03}").into_bytes(), Node::file(vec![Piece::Text { seed: n, len: len(n) }]));
    let dir = |n: u64| (format!("dir {n}").into_bytes(), Node::dir((0..40).map(|m| file(n * 40 + m))));
    Spec::of((0..8).map(dir).chain([(b"large".to_vec(), Node::file(vec![Piece::Text { seed: 9999, len: 6 << 20 }]))]))
}

/// Returns the sums of all files below a directory, in the order of their names.
fn sums(dir: &Path) -> String {
    let line = "find . -type f -print0 | xargs -0 -n 3 -P 8 md5sum | sort -k 2";
    let output = Command::new("sh").args(["-ec", line]).current_dir(dir).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn sums_by_eight_programs_at_once_are_those_of_the_source() {
    if !can_mount("sums_by_eight_programs_at_once_are_those_of_the_source") {
        return;
    }
    let (spec, source) = (spec(), tempfile::tempdir().unwrap());
    spec.create(source.path()).unwrap();
    let want = sums(source.path());
    assert_eq!(want.lines().count(), 321);
    let below = sums(&source.path().join("dir 5"));
    let squashfs = |codec: &str| {
        AnyOptions::Squashfs(squashfs::SquashfsOptions::default().with(|all| all.codec = codec.parse().unwrap()))
    };
    let erofs = |codec: &str| {
        let options = erofs::ErofsOptions::default().set(|all| all.target_kernel = "6.18".parse().unwrap());
        AnyOptions::Erofs(options.with(|all| all.codec = codec.parse().unwrap()))
    };
    for options in [squashfs("gzip:1"), squashfs("xz:1"), erofs("deflate:1"), erofs("lz4")] {
        let image = build(&spec, &options);
        let mount = Served::new(open(image.clone(), 4 << 20).unwrap(), MountOptions::default());
        assert_eq!(sums(mount.path()), want, "{options:?}");
        drop(mount);
        let options = MountOptions::default().set(|all| all.subdir = "dir 5".into());
        let mount = Served::new(open(image, 4 << 20).unwrap(), options);
        assert_eq!(sums(mount.path()), below);
        assert!(!mount.path().join("dir 5").exists() && !mount.path().join("large").exists());
    }
}
