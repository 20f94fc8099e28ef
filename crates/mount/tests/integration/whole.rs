//! Everything in an image is in its mount: each codec of both formats, holes, hard links, devices, attributes.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use packfs_image::build::AnyOptions;
use packfs_image::erofs::{self, Features};
use packfs_image::squashfs;
use packfs_image::testing::{
    Node, Piece, Spec, differences, everything, owned, snapshot, snapshot_tree, whole_seconds, wide,
};
use packfs_mount::MountOptions;
use rustix::fs::{SeekFrom, seek};

use crate::served::{Served, build, can_mount, open};

const SQUASHFS: [&str; 7] = ["none", "gzip:1", "xz:1", "lzo", "lz4", "lz4hc", "zstd:3"];
const EROFS: [(&str, Features); 9] = [
    ("none", Features::empty()),
    ("none", Features::CHUNKS),
    ("lz4", Features::ZTAILPACKING),
    ("lz4hc:1", Features::FRAGMENTS),
    ("lzma:0", Features::FRAGMENTS.union(Features::DEDUPE)),
    ("deflate:1", Features::ALL_FRAGMENTS),
    ("zstd:1", Features::FRAGMENTS),
    ("zstd:1", Features::FULL_INDEX),
    ("zstd:3", Features::BITS_48.union(Features::FRAGMENTS)),
];

fn squashfs(codec: &str, block: u32) -> AnyOptions {
    let options = squashfs::SquashfsOptions::default().set(|all| all.block_size = block);
    AnyOptions::Squashfs(options.with(|all| all.codec = codec.parse().unwrap()))
}

fn erofs(codec: &str, features: Features) -> AnyOptions {
    let options = erofs::ErofsOptions::default().set(|all| {
        (all.cluster_size, all.features) = (1 << 16, features);
        all.target_kernel = "6.18".parse().unwrap();
    });
    AnyOptions::Erofs(options.with(|all| all.codec = codec.parse().unwrap()))
}

fn compare(spec: &Spec, options: &AnyOptions, what: &str) {
    let image = open(build(spec, options), 1 << 20).unwrap();
    let nanos = image.holds_nanoseconds();
    let mount = Served::new(image, MountOptions::default());
    let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
    let want = if nanos { want } else { whole_seconds(want) };
    assert_eq!(differences(&want, &snapshot(mount.path()).unwrap()), Vec::<String>::new(), "{what}");
}

#[test]
fn squashfs_of_every_codec() {
    if can_mount("squashfs_of_every_codec") {
        for codec in SQUASHFS {
            compare(&everything(4096, 300), &squashfs(codec, 4096), codec);
        }
        compare(&everything(1 << 17, 300), &squashfs("zstd:1", 1 << 17), "128K");
    }
}

#[test]
fn erofs_of_every_codec() {
    if can_mount("erofs_of_every_codec") {
        for (codec, features) in EROFS {
            let options = erofs(codec, features);
            compare(&everything(4096, 300), &options, &format!("{codec}, {features:?}"));
        }
    }
}

#[test]
fn a_directory_of_many_entries_is_whole_and_its_numbers_never_change() {
    if !can_mount("a_directory_of_many_entries_is_whole_and_its_numbers_never_change") {
        return;
    }
    let spec = wide(20_000);
    let numbers = |options: &AnyOptions| {
        let image = open(build(&spec, options), 1 << 20).unwrap();
        let mount = Served::new(image, MountOptions::default());
        let entries = std::fs::read_dir(mount.path()).unwrap().map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name(), std::os::unix::fs::DirEntryExt::ino(&entry))
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort();
        let (name, number) = &entries[777];
        assert_eq!(mount.path().join(name).metadata().unwrap().ino(), *number);
        entries
    };
    for options in [squashfs("zstd:1", 1 << 17), AnyOptions::Erofs(erofs::ErofsOptions::default())] {
        let first = numbers(&options);
        assert_eq!(first.len(), 20_000);
        assert_eq!(first, numbers(&options));
    }
}

#[test]
fn names_are_looked_up_by_many_threads_and_missing_ones_are_not_found() {
    if !can_mount("names_are_looked_up_by_many_threads_and_missing_ones_are_not_found") {
        return;
    }
    let (count, spec) = (5000, wide(5000));
    for options in [squashfs("zstd:1", 1 << 17), AnyOptions::Erofs(erofs::ErofsOptions::default())] {
        let mount = Served::new(open(build(&spec, &options), 1 << 20).unwrap(), MountOptions::default());
        // Nothing was listed, so each name is a request.
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let dir = mount.path();
                scope.spawn(move || {
                    for n in (thread..count).step_by(4) {
                        assert!(dir.join(format!("entry-{n:06}")).symlink_metadata().is_ok(), "{n}");
                        let missing = [format!("entry-{n:06}x"), format!("{n}"), format!("entry-{n:06}/x")];
                        for name in missing {
                            assert!(dir.join(&name).symlink_metadata().is_err(), "{name}");
                        }
                    }
                });
            }
        });
        let long = mount.path().join("x".repeat(256)).symlink_metadata().unwrap_err();
        assert_eq!(long.raw_os_error(), Some(rustix::io::Errno::NAMETOOLONG.raw_os_error()));
    }
}

#[test]
fn holes_and_data_are_found_by_seeking() {
    if !can_mount("holes_and_data_are_found_by_seeking") {
        return;
    }
    let block = 1u64 << 18;
    let noise = |blocks: u64| Piece::Noise { seed: blocks, len: blocks * block };
    let pieces = vec![noise(2), Piece::Hole(300 * block), noise(1), Piece::Hole(5 * block)];
    let spec = Spec::of([(b"f".to_vec(), Node::file(pieces)), (b"full".to_vec(), Node::file(vec![noise(3)]))]);
    let spec = Spec { root: owned(spec.root), links: Vec::new() };
    for options in [squashfs("lz4", 1 << 16), erofs("none", Features::CHUNKS)] {
        let mount = Served::new(open(build(&spec, &options), 1 << 20).unwrap(), MountOptions::default());
        assert_eq!(stretches(&mount.path().join("f")), [(0, 2 * block), (302 * block, 303 * block)], "{options:?}");
        assert_eq!(stretches(&mount.path().join("full")), [(0, 3 * block)], "{options:?}");
        let file = File::open(mount.path().join("f")).unwrap();
        assert_eq!(seek(&file, SeekFrom::Hole(303 * block + 5)).unwrap(), 303 * block + 5);
        assert!(seek(&file, SeekFrom::Data(303 * block)).is_err() && seek(&file, SeekFrom::Hole(1 << 40)).is_err());
    }
}

/// Returns begin and end of each stretch of data.
fn stretches(path: &Path) -> Vec<(u64, u64)> {
    let file = File::open(path).unwrap();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Ok(begin) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(begin)).unwrap();
        out.push((begin, at));
    }
    out
}

#[test]
fn owners_subdirectories_and_the_whole_are_as_told() {
    if !can_mount("owners_subdirectories_and_the_whole_are_as_told") {
        return;
    }
    let spec = everything(4096, 10);
    let image = open(build(&spec, &squashfs("lz4", 4096)), 1 << 20).unwrap();
    let options = MountOptions::default().set(|all| {
        (all.uid, all.gid, all.bytes) = (Some(12), Some(34), 40_960);
        all.subdir = "wide-256".into();
    });
    let mount = Served::new(image, options);
    let found = mount.path().join("entry number 7").metadata().unwrap();
    assert_eq!((found.uid(), found.gid()), (12, 34));
    assert_eq!(std::fs::read_dir(mount.path()).unwrap().count(), 256);
    let whole = rustix::fs::statvfs(mount.path()).unwrap();
    assert_eq!((whole.f_blocks * whole.f_frsize, whole.f_bfree, whole.f_namemax), (40_960, 0, 255));
    assert!(std::fs::write(mount.path().join("new"), "x").is_err());
}
