//! Files that share stretches of data: no cluster is longer than Linux reads.

use super::*;
use crate::testing::{Node, Piece, differences, findings, snapshot_image, snapshot_tree};

fn noise(seed: u64, len: u64) -> Piece {
    Piece::Noise { seed, len }
}

fn text(seed: u64, len: u64) -> Piece {
    Piece::Text { seed, len }
}

fn files(files: &[&[Piece]]) -> Spec {
    let named = files.iter().enumerate().map(|(n, pieces)| (format!("f{n}").into_bytes(), Node::file(pieces.to_vec())));
    Spec::of(named)
}

/// Trees whose files share data that does not shrink.
fn trees() -> [(&'static str, Spec); 1] {
    // A whole file is stored uncompressed, and another one has most of it.
    [("more than a mebibyte", files(&[&[noise(1, 1_200_000)], &[noise(1, 1_100_000), text(2, 300_000)]]))]
}

fn cases() -> Vec<Options> {
    let dedupe = Features::DEDUPE;
    let mut cases = Vec::new();
    for (codec, features, kib) in [
        ("lz4hc:4", dedupe, 64),
        ("lz4hc:4", dedupe, 1024),
        ("lz4", dedupe | Features::FRAGMENTS, 1024),
        ("lz4", dedupe | Features::ALL_FRAGMENTS, 256),
        ("zstd:1", dedupe | Features::ZTAILPACKING, 1024),
        ("zstd:1", dedupe, 4),
        ("deflate:1", dedupe | Features::FULL_INDEX, 512),
        ("lzma:0", dedupe, 1024),
        ("lz4", dedupe | Features::BITS_48, 1024),
        ("zstd:1", dedupe | Features::BITS_48 | Features::UNALIGNED, 64),
    ] {
        cases.push(Options { features, cluster_size: kib << 10, ..options(codec, 4096) });
    }
    cases.push(Options { features: dedupe, cluster_size: 16 << 10, ..options("lz4", 1024) });
    cases
}

#[test]
fn shared_data_reads_back_and_check_finds_nothing() {
    for (name, spec) in trees() {
        let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
        for options in cases() {
            let what = format!("{name}: {}", matrix::say(&options));
            let built = built(&spec, &options);
            let image = open(&built.image).unwrap();
            assert_eq!(differences(&want, &snapshot_image(&*image).unwrap()), Vec::<String>::new(), "{what}");
            assert_eq!(findings(&*image, 2), Vec::<String>::new(), "{what}");
        }
    }
}
