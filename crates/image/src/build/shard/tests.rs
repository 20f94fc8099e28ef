//! Builds in shards: the same files as without, the same bytes every time.

use std::num::NonZeroU32;
use std::path::Path;

use packfs_blocks::io::BlockDevice;

use super::*;
use crate::build::AnyOptions;
use crate::testing::{Node, Piece, Snapshot, Spec, disagreements, is_root, snapshot_tree, whole_seconds};
use crate::{Fs, Plan, erofs, squashfs};

/// Files of every kind; many equal one that lies far away.
pub(super) fn spec() -> Spec {
    let files = (0..160u64).map(|n| {
        let noise = |seed, len| Piece::Noise { seed, len };
        let text = |seed, len| Piece::Text { seed, len };
        let pieces = match n % 8 {
            0 => vec![text(n, n * 37)],
            1 => vec![noise(n % 5, 9000), text(n, 300)],
            2 => vec![text(n % 7, 70_000), Piece::Hole(100_000), noise(n, 9)],
            3 => vec![text(n % 20, 500)],
            4 => vec![noise(n, n % 97), text(n % 3, 60_000)],
            5 => vec![text(3, 200_000), noise(n % 16, 5)],
            6 => vec![Piece::Hole(300_000)],
            _ => Vec::new(),
        };
        let ending = ["", ".txt", ".c"][usize::try_from(n).unwrap() % 3];
        (format!("{n:05}{ending}").into_bytes(), Node::file(pieces))
    });
    let big = vec![Piece::Text { seed: 1, len: 3 << 20 }, Piece::Noise { seed: 2, len: 70_001 }];
    let mut spec =
        Spec::of(files.chain([(b"big".to_vec(), Node::file(big.clone())), (b"a-big".to_vec(), Node::file(big))]));
    spec.links.push((b"00001.txt".to_vec(), b"linked".to_vec()));
    spec
}

pub(super) fn count(n: u32) -> Shards {
    Shards::Count(NonZeroU32::new(n).unwrap())
}

/// Options of both formats that take every path of the data writers.
pub(super) fn cases() -> Vec<AnyOptions> {
    let squashfs = |codec: &str, fragments| {
        let mut options = squashfs::SquashfsOptions { block_size: 16 << 10, fragments, ..Default::default() };
        options.build.codec = codec.parse().unwrap();
        AnyOptions::from(options)
    };
    let plain = |plain_data, plain_fragments| {
        let block_size = 16 << 10;
        AnyOptions::from(squashfs::SquashfsOptions { block_size, plain_data, plain_fragments, ..Default::default() })
    };
    let erofs = |codec: &str, features, block_size| {
        let mut options = erofs::ErofsOptions { cluster_size: 16 << 10, features, block_size, ..Default::default() };
        options.build.codec = codec.parse().unwrap();
        options.target_kernel = "6.15".parse().unwrap();
        AnyOptions::from(options)
    };
    use erofs::Features as F;
    use squashfs::Fragments::{None, Small, Tails};
    vec![
        squashfs("zstd:1", Tails),
        squashfs("none", Small),
        squashfs("gzip:1", None),
        erofs("lz4hc:1", F::FRAGMENTS, 4096),
        erofs("none", F::empty(), 4096),
        erofs("none", F::CHUNKS | F::NO_INLINE, 4096),
        erofs("zstd:1", F::ALL_FRAGMENTS | F::DEDUPE, 4096),
        erofs("lz4", F::ZTAILPACKING | F::DEDUPE | F::FULL_INDEX, 4096),
        erofs("deflate:1", F::FRAGMENTS | F::BITS_48 | F::UNALIGNED, 512),
        erofs("lz4", F::empty(), 4096),
        plain(true, false),
        plain(false, true),
    ]
}

pub(super) fn with(options: &AnyOptions, change: impl FnOnce(&mut SharedOptions)) -> AnyOptions {
    let mut options = options.clone();
    change(options.common_mut());
    options
}

fn built(options: &AnyOptions, image: &Path) -> Vec<u8> {
    let tree = spec().tree().unwrap();
    options.build(image, &Progress::default(), |_| Ok(Plan { tree, order: Vec::new() })).unwrap();
    std::fs::read(image).unwrap()
}

/// Returns the tree as an image of the format holds it.
pub(super) fn held(options: &AnyOptions) -> Snapshot {
    let snapshot = snapshot_tree(&spec().tree().unwrap()).unwrap();
    if options.format() == "squashfs" { whole_seconds(snapshot) } else { snapshot }
}

/// Lets the reader, its check and the kernel read an image.
pub(super) fn assert_reads(options: &AnyOptions, image: &Path, what: &str) {
    let opened = Fs::open(image).map(Fs::into_image);
    if is_root() {
        assert_eq!(disagreements(&held(options), image, opened, options.format()), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn one_shard_gives_the_bytes_of_a_build_without() {
    let dir = tempfile::tempdir().unwrap();
    for (n, options) in cases().iter().enumerate() {
        let plain = built(options, &dir.path().join(format!("plain{n}")));
        let one = built(&with(options, |all| all.shards = Some(count(1))), &dir.path().join(format!("one{n}")));
        assert!(plain == one, "{n}: {options:?}");
    }
}

#[test]
fn shards_hold_the_same_files_whatever_the_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    for (n, options) in cases().iter().enumerate() {
        for shards in [3, 17] {
            let what = format!("case {n}, {shards} shards");
            let build = |threads, memory| {
                let options = with(options, |all| {
                    (all.threads, all.memory, all.shards) = (threads, memory, Some(count(shards)));
                });
                let image = dir.path().join(format!("{n}-{shards}-{threads}"));
                (built(&options, &image), image)
            };
            let (bytes, image) = build(0, 1 << 30);
            assert_reads(options, &image, &what);
            for (threads, memory) in [(1, 1), (3, 64 << 20)] {
                assert!(build(threads, memory).0 == bytes, "{what}: {threads} threads differ");
            }
        }
    }
}

#[test]
fn equal_files_of_different_shards_are_stored_once() {
    let noise = |seed| Node::file(vec![Piece::Noise { seed, len: 100_000 }]);
    let spec = Spec::of((0..16u64).map(|n| (format!("{n:02}").into_bytes(), noise(n % 2))));
    let dir = tempfile::tempdir().unwrap();
    for (n, options) in cases().iter().enumerate() {
        let build = |dedup| {
            let options = with(options, |all| (all.shards, all.dedup) = (Some(count(5)), dedup));
            let (tree, image) = (spec.tree().unwrap(), dir.path().join(format!("{n}-{dedup}")));
            options.build(&image, &Progress::default(), |_| Ok(Plan { tree, order: Vec::new() })).unwrap().image_bytes
        };
        let (shared, apart) = (build(true), build(false));
        assert!(shared < 350_000 && apart > 1_500_000, "case {n}: {shared} and {apart} bytes");
    }
}

/// A device is not empty where nothing is written, as a file is.
#[test]
fn between_shards_a_device_has_the_bytes_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    for (n, options) in cases().iter().enumerate() {
        for shards in [2, 3] {
            let options = with(options, |all| all.shards = Some(count(shards)));
            let image = built(&options, &dir.path().join(format!("{n}-{shards}")));
            let path = dir.path().join("device");
            std::fs::write(&path, vec![0xee; image.len() + (1 << 20)]).unwrap();
            let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
            let output = Output::over(BlockDevice(file), "device");
            let fill = |_: &mut dyn crate::source::Store| Ok(Plan { tree: spec().tree().unwrap(), order: Vec::new() });
            match &options {
                AnyOptions::Squashfs(options) => squashfs::build_to(output, options, &Progress::default(), fill),
                AnyOptions::Erofs(options) => erofs::build_to(output, options, &Progress::default(), fill),
            }
            .unwrap();
            let on_device = std::fs::read(&path).unwrap();
            let first_other = image.iter().zip(&on_device).position(|(one, other)| one != other);
            assert_eq!(first_other, None, "case {n}, {shards} shards");
        }
    }
}

/// Which zeros of a file are holes depends on how it was copied.
#[test]
fn equal_files_are_stored_once_whatever_is_a_hole_in_them() {
    use std::os::unix::fs::FileExt;

    use crate::source::{Dir, Source, dir as dirs};

    const LEN: usize = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let data = [(0, packfs_blocks::testing::noise(5000, 1)), (600_001, packfs_blocks::testing::noise(10_000, 2))];
    let write = |path: &Path, zeros: &[(u64, usize)]| {
        let file = std::fs::File::create(path).unwrap();
        file.set_len(LEN as u64).unwrap();
        for (offset, len) in zeros {
            file.write_all_at(&vec![0; *len], *offset).unwrap();
        }
        for (offset, bytes) in &data {
            file.write_all_at(bytes, *offset).unwrap();
        }
        // The time is part of the metadata, whose length is compared, too.
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    let rows = [vec![], vec![(0, LEN)], vec![(200_000, 100_001)], vec![(5000, 1000), (599_000, 21_000)]];
    for (n, options) in cases().iter().enumerate() {
        let options = with(options, |all| all.shards = Some(count(2)));
        let build = |first: &[(u64, usize)], last: &[(u64, usize)]| {
            let root = dir.path().join("root");
            std::fs::create_dir_all(&root).unwrap();
            write(&root.join("first"), first);
            write(&root.join("last"), last);
            let image = dir.path().join("image");
            let options = with(&options, |all| all.force = true);
            let fill = |store: &mut dyn crate::source::Store| {
                let mut tree = Tree::default();
                Dir::new(&root, dirs::Options::default()).scan(&mut tree, store)?;
                Ok(Plan { tree, order: Vec::new() })
            };
            options.build(&image, &Progress::default(), fill).unwrap().image_bytes
        };
        let expected = build(&rows[0], &rows[0]);
        for first in &rows {
            for last in &rows {
                assert_eq!(build(first, last), expected, "case {n}: {first:?}, {last:?}");
            }
        }
    }
}

#[test]
fn large_files_of_one_name_share_their_equal_parts() {
    let file =
        |seed, own| Node::file(vec![Piece::Noise { seed, len: 128 << 10 }, Piece::Noise { seed: own, len: 50_000 }]);
    let names = || (0..8).map(|seed| (format!("{seed}.mo").into_bytes(), seed));
    let dir = |d: u64| Node::dir(names().map(move |(name, seed)| (name, file(seed, 100 * (d + 1) + seed))));
    let spec = Spec::of((0..8).map(|d| (format!("{d}").into_bytes(), dir(d))));
    let place = tempfile::tempdir().unwrap();
    let len = |order, shards| {
        let options = with(&cases()[3], |all| (all.order, all.shards) = (Some(order), Some(count(shards))));
        let (tree, image) = (spec.tree().unwrap(), place.path().join("image"));
        let options = with(&options, |all| all.force = true);
        options.build(&image, &Progress::default(), |_| Ok(Plan { tree, order: Vec::new() })).unwrap().image_bytes
    };
    use crate::build::Order;
    // Each shard has all files of one name.
    let (one, many) = (len(Order::Type, 1), len(Order::Type, 8));
    assert!(many < one + 8 * 3 * 4096, "{one} and {many} bytes");
    assert!(len(Order::Path, 8) > 2 * many, "by path, each shard has equal parts of its own");
}

#[test]
fn options_that_shards_exclude_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let refused = |change: fn(&mut SharedOptions)| {
        let options = with(&cases()[0], |all| {
            all.shards = Some(count(2));
            change(all);
        });
        let tree = spec().tree().unwrap();
        let built = options.build(&image, &Progress::default(), |_| Ok(Plan { tree, order: Vec::new() }));
        assert!(!image.exists());
        built.unwrap_err().to_string()
    };
    let index = refused(|all| all.index = Some("index".into()));
    assert!(index.contains("shards 2") && index.contains("index"), "{index}");
    let skip = refused(|all| all.on_error = OnError::Skip);
    assert!(skip.contains("shards 2") && skip.contains("cannot leave out"), "{skip}");
}

#[test]
fn a_stream_cannot_be_cut() {
    let dir = tempfile::tempdir().unwrap();
    let options = with(&cases()[0], |all| all.shards = Some(count(2)));
    let built = options.build(&dir.path().join("image"), &Progress::default(), |store| {
        let mut tree = Tree::default();
        let stored = store.put(&mut &b"data"[..], 4, &[(0, 4)])?;
        let kind = Kind::File { size: 4, data: FileData::Stored(stored) };
        let (root, meta) = (crate::tree::ROOT, crate::tree::InodeAttributes::IMPLICIT_DIR);
        tree.add(root, b"streamed", meta, kind, crate::tree::ConflictPolicy::Refuse)?;
        Ok(Plan { tree, order: Vec::new() })
    });
    let error = built.unwrap_err().to_string();
    assert!(error.starts_with("streamed: it can be read only once"), "{error}");
}
