//! The kernel, fsck.erofs and our own reader read our images: every codec, cluster size, block size
//! and feature, compared with the source.

use std::os::unix::fs::FileExt;

use super::matrix::{self, CLUSTERS, all, edges, one_codec_each, say};
use super::peers::PeerReaders;
use super::*;
use crate::erofs::Kernel;
use crate::source::Contents;
use crate::testing::{Memory, Mount, Node, Piece, can_mount, findings, snapshot_tree};

fn agree(test: &str, spec: &Spec, cases: impl IntoIterator<Item = ErofsOptions>) {
    let Some(judges) = PeerReaders::few(test) else { return };
    let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
    let mut failed = Vec::new();
    for options in cases {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let found = match write(spec.tree().unwrap(), &image, &options) {
            Ok(_) => judges.wrong(&want, &image),
            Err(error) => vec![format!("build: {error}")],
        };
        failed.extend(found.iter().take(5).map(|line| format!("{}: {line}", say(&options))));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Tests every feature at one cluster size, in blocks of 4 KiB.
fn every_feature(test: &str, cluster: u32) {
    agree(test, &edges(4096, cluster.into()), all(4096, cluster));
}

#[test]
fn clusters_of_4k() {
    every_feature("clusters_of_4k", CLUSTERS[0]);
}

#[test]
fn clusters_of_16k() {
    every_feature("clusters_of_16k", CLUSTERS[1]);
}

#[test]
fn clusters_of_64k() {
    every_feature("clusters_of_64k", CLUSTERS[2]);
}

#[test]
fn clusters_of_128k() {
    every_feature("clusters_of_128k", CLUSTERS[3]);
}

#[test]
fn clusters_of_1m() {
    let cluster = CLUSTERS[4];
    agree("clusters_of_1m", &edges(4096, cluster.into()), one_codec_each(4096, cluster, 0));
}

#[test]
fn small_blocks() {
    let sizes = [512, 1024, 2048].into_iter().flat_map(|block| [block, 4096, 16 << 10].map(|cluster| (block, cluster)));
    for (turn, (block, cluster)) in sizes.enumerate() {
        agree("small_blocks", &edges(block.into(), cluster.into()), one_codec_each(block, cluster, turn));
    }
}

#[test]
fn several_codecs_and_cluster_sizes() {
    let (codecs, clusters) = (["lz4hc:12", "zstd:3", "lzma:1", "deflate:4"], [4096, 32 << 10, 256 << 10]);
    let features = matrix::PACKED.into_iter().zip(codecs.iter().cycle());
    let cases = features.map(|(features, codec)| {
        mixing(ErofsOptions { features, cluster_size: 16 << 10, ..options(codec, 4096) }, &codecs, &clusters)
    });
    agree("several_codecs_and_cluster_sizes", &edges(4096, 32 << 10), cases);
}

#[test]
fn files_of_many_pieces() {
    let cases = [
        ("lz4", Features::empty(), 64),
        ("lz4", Features::DEDUPE | Features::FRAGMENTS, 64),
        ("lz4hc:12", Features::FRAGMENTS, 1024),
        ("zstd:1", Features::BITS_48, 128),
        ("zstd:1", Features::BITS_48 | Features::UNALIGNED, 64),
        ("zstd:1", Features::ALL_FRAGMENTS, 1024),
        ("deflate:1", Features::ZTAILPACKING, 4),
        ("lzma:0", Features::FRAGMENTS, 1024),
        ("none", Features::empty(), 4),
        ("none", Features::CHUNKS, 4),
    ];
    let cases =
        cases.map(|(codec, features, kib)| ErofsOptions { features, cluster_size: kib << 10, ..options(codec, 4096) });
    agree("files_of_many_pieces", &matrix::large(), cases);
}

/// Files with holes in every form: fragments and classic indexes have none, chunks and encoded extents do.
#[test]
fn holes_in_every_form() {
    let mib = 1u64 << 20;
    let text = |seed, len| Piece::Text { seed, len };
    let mut many: Vec<_> = (0..8).flat_map(|n| [matrix::mixed(n, mib), vec![Piece::Hole(3 * mib)]].concat()).collect();
    // fsck.erofs does not restore holes at the end of a file.
    many.push(text(5, 9));
    let few = vec![text(1, 9), Piece::Hole(64 * mib), text(2, 99), Piece::Hole(mib + 7), text(5, 4096)];
    let spec = Spec::of([
        (b"few".to_vec(), Node::file(few)),
        (b"many".to_vec(), Node::file(many)),
        (b"shorter".to_vec(), Node::file(vec![Piece::Hole(9 * mib), Piece::Noise { seed: 1, len: 5000 }])),
        (b"small".to_vec(), Node::file(vec![text(7, 700)])),
        (b"zeros".to_vec(), Node::file(vec![text(3, mib), Piece::Zeros(5 * mib), text(4, 3 * mib)])),
    ]);
    let all = Features::ALL_FRAGMENTS;
    let cases = [
        ("lz4", all, 64),
        ("zstd:1", all, 4),
        ("zstd:1", all | Features::DEDUPE, 128),
        ("lz4", all | Features::BITS_48, 64),
        ("zstd:1", all | Features::BITS_48 | Features::UNALIGNED, 64),
        ("lz4", Features::FRAGMENTS, 64),
        ("deflate:1", Features::ZTAILPACKING, 16),
        ("lz4", Features::BITS_48 | Features::FRAGMENTS, 4),
    ];
    let cases =
        cases.map(|(codec, features, kib)| ErofsOptions { features, cluster_size: kib << 10, ..options(codec, 4096) });
    agree("holes_in_every_form", &spec, cases);
}

/// A file of 64 MiB and more is compressed around its holes unless its index would take more room than that saves.
#[test]
fn large_sparse_files_are_compressed() {
    let mib = 1u64 << 20;
    let scattered = (0..8)
        .flat_map(|n| [Piece::Text { seed: n, len: mib }, Piece::Noise { seed: n, len: 9 }, Piece::Hole(31 * mib)]);
    let spec = Spec::of([(b"file".to_vec(), Node::file(scattered.collect()))]);
    for (codec, features, most) in [
        // An entry of 8 bytes for each block of 256 MiB.
        ("lz4", Features::empty(), 700 << 10),
        ("zstd:1", Features::FRAGMENTS, 700 << 10),
        ("zstd:1", Features::ALL_FRAGMENTS, 700 << 10),
        ("zstd:1", Features::BITS_48, 200 << 10),
    ] {
        let options = ErofsOptions { features, cluster_size: 64 << 10, ..options(codec, 4096) };
        let bytes = built(&spec, &options).summary.image_bytes;
        assert!(bytes < most, "{codec}, {features:?}: {bytes} bytes");
    }
}

#[test]
fn images_for_old_kernels() {
    let cases = [
        ("none", "5.4", Features::empty(), 4),
        ("lz4", "5.4", Features::empty(), 4),
        ("lz4hc:1", "5.13", Features::empty(), 64),
        ("lz4", "5.15", Features::FULL_INDEX, 16),
        ("lzma:0", "5.16", Features::empty(), 64),
        ("lz4", "5.17", Features::ZTAILPACKING, 4),
        ("lzma:0", "6.1", Features::FRAGMENTS | Features::DEDUPE, 64),
        ("deflate:1", "6.6", Features::ALL_FRAGMENTS, 16),
        ("zstd:1", "6.10", Features::DEDUPE | Features::NO_INLINE, 128),
    ];
    for (codec, target, features, kib) in cases {
        let target_kernel: Kernel = target.parse().unwrap();
        let options = ErofsOptions { features, target_kernel, cluster_size: kib << 10, ..options(codec, 4096) };
        let spec = edges(4096, options.cluster_size.into());
        agree("images_for_old_kernels", &spec, [options.clone()]);
        let needs: Kernel = built(&spec, &options).summary.erofs().unwrap().kernel.parse().unwrap();
        assert!(needs <= target_kernel, "{} needs Linux {needs}", say(&options));
    }
}

/// Reading all of them would take minutes: this reads only near the boundaries.
#[test]
fn sparse_files_beyond_4_gib() {
    if !can_mount("sparse_files_beyond_4_gib") {
        return;
    }
    let far = vec![
        Piece::Noise { seed: 1, len: 5000 },
        Piece::Hole(5 << 30),
        Piece::Text { seed: 2, len: 100_000 },
        Piece::Hole((1 << 20) + 1),
        Piece::Noise { seed: 3, len: 3 },
    ];
    let spec = Spec::of([
        (b"far".to_vec(), Node::file(far.clone())),
        (b"empty".to_vec(), Node::file(vec![Piece::Hole(9 << 30)])),
    ]);
    let contents = Memory(vec![far.clone()]);
    let second = (5 << 30) + 5000;
    let last = second + 100_000 + (1 << 20) + 1;
    for (codec, features) in [
        ("lz4", Features::empty()),
        ("lz4", Features::FRAGMENTS),
        ("zstd:1", Features::DEDUPE),
        ("lz4", Features::BITS_48),
        ("zstd:1", Features::BITS_48 | Features::UNALIGNED),
        ("none", Features::empty()),
        ("none", Features::CHUNKS),
    ] {
        let what = format!("{codec}, {features:?}");
        let built = built(&spec, &ErofsOptions { features, ..options(codec, 4096) });
        assert!(built.summary.image_bytes < 8 << 20, "{what}: {:?}", built.summary);
        let image = open(&built.image).unwrap();
        let at = |name: &str| crate::sink::lookup(&*image, name.as_bytes()).unwrap().unwrap();
        let mount = Mount::new(&built.image, "erofs").unwrap_or_else(|e| panic!("{what}: {e}"));
        let mounted = |name: &str| std::fs::File::open(mount.path().join(name)).unwrap();
        for (name, len) in [("far", last + 3), ("empty", 9 << 30)] {
            assert_eq!(mounted(name).metadata().unwrap().len(), len, "{what}");
            for from in [0, 4990, 1 << 20, (4 << 30) - 9, second - 9, second + 99_990, last - 9, len - 10] {
                let mut want = vec![0; usize::try_from((len - from).min(20)).unwrap()];
                if name == "far" {
                    contents.open(0).unwrap().read_exact_at(&mut want, from).unwrap();
                }
                let (mut ours, mut kernels) = (vec![1; want.len()], vec![1; want.len()]);
                assert_eq!(image.read_at(at(name), &mut ours, from).unwrap(), want.len(), "{what}");
                mounted(name).read_exact_at(&mut kernels, from).unwrap();
                assert_eq!((&ours, &kernels), (&want, &want), "{what}: {name} at {from}");
            }
        }
        assert_eq!(findings(&*image, 2), Vec::<String>::new(), "{what}");
    }
}
