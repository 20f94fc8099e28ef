//! The length of extents, and the alignment of data.

use std::num::NonZeroU32;
use std::ops::ControlFlow;

use packfs_blocks::testing::Random;

use super::*;
use crate::build::Shards;
use crate::erofs::INODE_DIGEST;
use crate::image::Nid;
use crate::placement::PlacedPiece;
use crate::sink::Walk;
use crate::testing::{ByteStream, Node, Piece, can_mount, damage, disagreements, kernel_disagreements, snapshot_tree};

fn tree() -> Spec {
    let name = |name: &str| name.as_bytes().to_vec();
    let (text, noise) = (|seed, len| Piece::Text { seed, len }, |seed, len| Piece::Noise { seed, len });
    Spec::of([
        (name("equal"), Node::file(vec![text(1, 300_000)])),
        (name("large"), Node::file(vec![text(2, 5_000_001)])),
        (name("mixed"), Node::file(vec![text(3, 70_000), noise(4, 70_000), text(5, 70_000), noise(6, 100)])),
        (name("small"), Node::file(vec![text(7, 900)])),
        (name("sparse"), Node::file(vec![Piece::Hole(4 << 20), text(8, 9000), Piece::Hole(4 << 20), noise(9, 5000)])),
        (name("text"), Node::file(vec![text(1, 300_000)])),
    ])
}

/// Returns the pieces of all files.
fn pieces(image: &Path) -> Vec<Vec<PlacedPiece>> {
    let reader = open_reader(image).unwrap();
    let mut nids: Vec<Nid> = Vec::new();
    let mut walk = Walk::new(&reader, &[]).unwrap();
    while let Some(visit) = walk.step().unwrap() {
        nids.push(visit.nid);
    }
    let of = |nid: &Nid| {
        let mut found = Vec::new();
        let is_file = matches!(reader.stat(*nid).unwrap().kind, crate::image::FileType::File { .. });
        let placed = reader.placement(*nid, &mut |placed| {
            found.extend(Some(placed).filter(|_| is_file));
            ControlFlow::Continue(())
        });
        placed.unwrap();
        found
    };
    nids.iter().map(of).collect()
}

/// Builds an image, and compares what packfs and the kernel read from it.
fn build_and_read(name: &str, options: &ErofsOptions) -> Vec<Vec<PlacedPiece>> {
    let (spec, dir) = (tree(), tempfile::tempdir().unwrap());
    let image = dir.path().join("image");
    write(spec.tree().unwrap(), &image, options).unwrap();
    if can_mount(name) {
        let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
        assert_eq!(disagreements(&want, &image, open(&image), "erofs"), Vec::<String>::new(), "{options:?}");
    }
    pieces(&image)
}

#[test]
fn extents_are_no_longer_than_asked() {
    let cases = [
        ("lz4", Features::empty(), 4096),
        ("lz4", Features::FRAGMENTS | Features::DEDUPE, 5000),
        ("lz4hc:9", Features::ZTAILPACKING, 8192),
        ("zstd:3", Features::FULL_INDEX, 20_001),
        ("lzma:1", Features::BITS_48, 65_536),
        ("deflate:1", Features::BITS_48 | Features::UNALIGNED, 8192),
    ];
    for (codec, features, max) in cases {
        let free = ErofsOptions { features, cluster_size: 16 << 10, ..options(codec, 4096) };
        let longest = |options: &ErofsOptions| {
            let files = build_and_read("extents_are_no_longer_than_asked", options);
            let of_files = files.iter().flatten().filter(|piece| piece.fragment.is_none());
            let packed = of_files.filter(|piece| piece.stored.is_some_and(|stored| stored.codec.is_some()));
            packed.map(|piece| piece.len).max().unwrap_or(0)
        };
        let least = longest(&ErofsOptions { extent_max: Some(max), ..free.clone() });
        let most = longest(&free);
        assert!(least <= max.into() && most > max.into(), "{codec}, {features:?}, {max}: {least}, {most}");
    }
    let short = ErofsOptions { extent_max: Some(4095), ..options("lz4", 4096) };
    let error = write(tree().tree().unwrap(), Path::new("unused"), &short).unwrap_err().to_string();
    assert!(error.contains("at least as long as a block"), "{error}");
}

#[test]
fn what_shrinks_is_compressed_behind_what_does_not() {
    let spec = Spec::of([(
        b"file".to_vec(),
        Node::file(vec![Piece::Noise { seed: 1, len: 700_000 }, Piece::Text { seed: 2, len: 1_300_000 }]),
    )]);
    let dir = tempfile::tempdir().unwrap();
    for (cluster_size, features) in
        [(1 << 20, Features::ALL_FRAGMENTS), (1 << 20, Features::empty()), (64 << 10, Features::empty())]
    {
        let options = ErofsOptions { features, cluster_size, ..options("lzma:6", 4096) };
        let image = dir.path().join("image");
        write(spec.tree().unwrap(), &image, &options).unwrap();
        let len = std::fs::metadata(&image).unwrap().len();
        std::fs::remove_file(&image).unwrap();
        assert!(len < 900_000, "clusters of {cluster_size} bytes, {features:?}: {len} bytes");
    }
}

/// A cluster longer than what it holds cannot be in a compact index, which then takes four times the room.
#[test]
fn uncompressed_clusters_within_a_file_are_whole_blocks() {
    let (text, noise) = (|seed, len| Piece::Text { seed, len }, |seed, len| Piece::Noise { seed, len });
    // Files are packed in pieces of 1 to 16 MiB, whose ends are in the noise.
    let file = |begin| Node::file(vec![text(begin, begin), noise(2, 20_000_000), text(3, 100_000)]);
    let spec = Spec::of([300_001, 4095, 4097].map(|begin| (begin.to_string().into_bytes(), file(begin))));
    let dir = tempfile::tempdir().unwrap();
    for (codec, cluster_size) in [("lz4", 4096), ("lz4hc:3", 64 << 10), ("zstd:1", 16 << 10), ("lzma:1", 1 << 20)] {
        let options = ErofsOptions { cluster_size, ..options(codec, 4096) };
        let image = dir.path().join("image");
        write(spec.tree().unwrap(), &image, &options).unwrap();
        for file in pieces(&image).iter().filter(|file| !file.is_empty()) {
            let (_, within) = file.split_last().unwrap();
            let raw = within.iter().filter(|piece| piece.stored.is_some_and(|stored| stored.codec.is_none()));
            let odd: Vec<_> = raw.clone().filter(|piece| piece.len % 4096 > 0).collect();
            assert!(raw.count() > 0 && odd.is_empty(), "{codec}, clusters of {cluster_size} bytes: {odd:?}");
        }
        if can_mount("uncompressed_clusters_within_a_file_are_whole_blocks") {
            let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
            assert_eq!(disagreements(&want, &image, open(&image), "erofs"), Vec::<String>::new(), "{options:?}");
        }
        std::fs::remove_file(&image).unwrap();
    }
}

/// Linux before 6.15 takes the uncompressed clusters of an index for single blocks.
#[test]
fn uncompressed_clusters_have_one_block_unless_extents_are_encoded() {
    let noise = |from, len| Piece::Cut { of: ByteStream::Noise(1), from, len };
    let text = |len| Piece::Text { seed: 1, len };
    let spec = Spec::of([
        (b"a".to_vec(), Node::file(vec![noise(0, 1_200_000)])),
        (b"b".to_vec(), Node::file(vec![noise(0, 1_100_000), text(100_000)])),
        (b"c".to_vec(), Node::file(vec![text(70_000), noise(5, 299_008), noise(5, 100_001), text(5000)])),
        (b"d".to_vec(), Node::file(vec![text(7), noise(0, 9000)])),
    ]);
    let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (codec, block_size) in [("lz4", 4096), ("zstd:1", 4096), ("lz4hc:1", 1024)] {
        for features in
            [Features::empty(), Features::FRAGMENTS, Features::DEDUPE, Features::ZTAILPACKING | Features::DEDUPE]
        {
            for features in [features, features | Features::BITS_48] {
                let options = ErofsOptions { features, cluster_size: 64 << 10, ..options(codec, block_size) };
                let image = dir.path().join("image");
                write(spec.tree().unwrap(), &image, &options).unwrap();
                let all = pieces(&image);
                // A file that is not compressed at all has no index.
                let indexed =
                    all.iter().filter(|file| file.iter().any(|piece| piece.stored.is_some_and(|s| s.codec.is_some())));
                let raw = indexed.flatten().filter(|piece| piece.stored.is_some_and(|stored| stored.codec.is_none()));
                let longest = raw.map(|piece| piece.len).max().unwrap();
                let is_one_block = longest <= u64::from(block_size);
                assert_eq!(is_one_block, !features.contains(Features::BITS_48), "{longest}, {options:?}");
                assert_eq!(damage(&*open(&image).unwrap(), 2), Vec::<String>::new(), "{options:?}");
                if can_mount("uncompressed_clusters_have_one_block_unless_extents_are_encoded") {
                    assert_eq!(kernel_disagreements(&want, &image, "erofs"), Vec::<String>::new(), "{options:?}");
                }
                std::fs::remove_file(&image).unwrap();
            }
        }
    }
}

/// Encoders do not always fit the beginning of a cluster's data into as many bytes as all of it.
#[test]
fn clusters_that_save_much_stay_compressed_at_the_end_of_a_piece() {
    let mut numbers = Random::new(1);
    let mut random = |limit: u64| numbers.number() % limit;
    // Files are packed in pieces of 1 MiB, which end shortly after the texts.
    let files: Vec<(u64, Vec<Piece>)> = (0..60)
        .map(|_| {
            let texts: Vec<(u64, u64)> = (0..random(300)).map(|_| (50 + random(3000), random(1 << 30))).collect();
            let (end, seed) = (random(9000), random(1 << 30));
            let noise = (1 << 20) - end - texts.iter().map(|(len, _)| len).sum::<u64>();
            let mut pieces = vec![Piece::Noise { seed: random(1 << 30), len: noise }];
            pieces.extend(texts.into_iter().map(|(len, seed)| Piece::Text { seed, len }));
            pieces.push(Piece::Noise { seed, len: end + 10_000 });
            (noise + end + 10_000, pieces)
        })
        .collect();
    let node = |(n, (_, pieces)): (usize, &(u64, Vec<Piece>))| (format!("{n:02}").into(), Node::file(pieces.clone()));
    let (spec, dir) = (Spec::of(files.iter().enumerate().map(node)), tempfile::tempdir().unwrap());
    for cluster_size in [4096, 8192] {
        let image = dir.path().join("image");
        write(spec.tree().unwrap(), &image, &ErofsOptions { cluster_size, ..options("lz4", 4096) }).unwrap();
        let built = pieces(&image);
        let raw = |file: &Vec<PlacedPiece>| {
            let raw = file.iter().filter(|piece| piece.stored.is_some_and(|stored| stored.codec.is_none()));
            raw.map(|piece| piece.len).sum::<u64>()
        };
        let stored: Vec<u64> = built.iter().filter(|file| !file.is_empty()).map(raw).collect();
        assert_eq!(stored.len(), files.len());
        for ((noise, _), stored) in files.iter().zip(stored) {
            assert!(stored < noise + (32 << 10), "clusters of {cluster_size} bytes: {stored} bytes of {noise}");
        }
        std::fs::remove_file(&image).unwrap();
    }
}

#[test]
fn files_begin_at_multiples_of_the_alignment() {
    for (features, block, align) in [
        (Features::empty(), 4096, 65_536),
        (Features::CHUNKS, 4096, 1 << 20),
        (Features::NO_INLINE, 512, 1536),
        (Features::NO_INLINE, 4096, 4096),
    ] {
        let options = ErofsOptions { features, data_align: Some(align), ..options("none", block) };
        let files = build_and_read("files_begin_at_multiples_of_the_alignment", &options);
        let first =
            |file: &Vec<PlacedPiece>| file.iter().find_map(|piece| piece.stored.filter(|stored| !stored.inline));
        let starts: Vec<u64> = files.iter().filter_map(first).map(|stored| stored.position).collect();
        assert!(starts.len() >= 5, "{starts:?}");
        assert!(starts.iter().all(|start| start % u64::from(align) == 0), "{features:?}, {align}: {starts:?}");
    }
    for (codec, align, why) in [
        ("none", 5000, "a multiple of the block"),
        ("none", 32 << 20, "up to 16 MiB"),
        ("lz4", 8192, "the codec has to be none"),
    ] {
        let options = ErofsOptions { data_align: Some(align), ..options(codec, 4096) };
        let error = write(tree().tree().unwrap(), Path::new("unused"), &options).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn files_that_are_not_read_are_stored_like_others() {
    for (features, block, align, target) in [
        (Features::empty(), 4096, None, "6.1"),
        (Features::empty(), 4096, None, "5.4"),
        (Features::CHUNKS, 4096, None, "6.1"),
        (Features::NO_INLINE, 4096, Some(65_536), "6.1"),
        (Features::empty(), 512, None, "6.4"),
        (Features::BITS_48, 4096, None, "6.15"),
    ] {
        let target_kernel = target.parse().unwrap();
        let of =
            |reflink| ErofsOptions { features, data_align: align, target_kernel, reflink, ..options("none", block) };
        let files = build_and_read("files_that_are_not_read_are_stored_like_others", &of(true));
        let end = |files: &[Vec<PlacedPiece>]| -> u64 {
            let stored = files.iter().flatten().filter_map(|piece| piece.stored).filter(|stored| !stored.inline);
            stored.map(|stored| stored.position + stored.len).max().unwrap()
        };
        // Both of the equal files are stored; Linux 5.4 has no chunks, so that files of several pieces are not shared.
        let read = build_and_read("files_that_are_not_read_are_stored_like_others", &of(false));
        let more = end(&files) - end(&read);
        assert!(more >= if target == "5.4" { 0 } else { 100_000 }, "{features:?}, {block}, {target}: {more}");
    }
    type Change = fn(&mut ErofsOptions);
    let cases: [(Change, &str); 4] = [
        (|all| all.build.codec = "lz4".parse().unwrap(), "the codec has to be none"),
        (|all| all.build.index = Some("unused".into()), "an index has digests of files"),
        (|all| all.inode_digest = Some(INODE_DIGEST.as_bytes().into()), "digests of files need their bytes"),
        (|all| all.build.shards = Some(Shards::Count(NonZeroU32::MIN)), "shards are packed from files that are read"),
    ];
    for (change, why) in cases {
        let mut options =
            ErofsOptions { reflink: true, target_kernel: "7.0".parse().unwrap(), ..options("none", 4096) };
        change(&mut options);
        let error = write(tree().tree().unwrap(), Path::new("unused"), &options).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
