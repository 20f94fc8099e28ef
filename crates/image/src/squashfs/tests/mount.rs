//! The kernel reads our images: every codec, block size and option, compared with the source.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::*;
use crate::testing::{Mount, Node, Piece, Shape, can_mount, deep, differences, snapshot, snapshot_tree, specs, wide};

fn mounted_equals(spec: &Spec, options: &SquashfsOptions, what: &str) {
    let built = built(spec, options);
    let mount = Mount::new(&built.image, "squashfs").unwrap_or_else(|e| panic!("{what}: {e}"));
    let want = held(snapshot_tree(&spec.tree().unwrap()).unwrap());
    assert_eq!(differences(&want, &snapshot(&mount.path()).unwrap()), Vec::<String>::new(), "{what}");
}

/// Makes a tree with files of sizes around multiples of `block` bytes, and random entries.
fn spec_for(block: u64, runner: &mut TestRunner) -> Spec {
    let shape = Shape { block, ..Shape::default() };
    let mut spec = specs(shape).new_tree(runner).unwrap().current();
    let crate::testing::What::Dir(entries) = &mut spec.root.what else { panic!("the root is a directory") };
    for (n, len) in [1, block - 1, block, block + 1, 3 * block + 5].into_iter().enumerate() {
        let seed = n as u64;
        let pieces = vec![Piece::Text { seed, len }, Piece::Hole(2 * block), Piece::Noise { seed, len }];
        entries.insert(format!("edge{n}").into_bytes(), Node::file(pieces));
    }
    spec
}

#[test]
fn every_codec_at_every_block_size() {
    if !can_mount("every_codec_at_every_block_size") {
        return;
    }
    let mut runner = TestRunner::deterministic();
    for block_size in [4096, 1 << 17, 1 << 20] {
        let spec = spec_for(u64::from(block_size), &mut runner);
        for codec in CODECS {
            mounted_equals(&spec, &options(codec, block_size), &format!("{codec}, blocks of {block_size}"));
        }
    }
}

#[test]
fn every_layout_option() {
    if !can_mount("every_layout_option") {
        return;
    }
    let mut runner = TestRunner::deterministic();
    for n in 0..16 {
        let spec = spec_for(4096, &mut runner);
        for fragments in [Fragments::None, Fragments::Small, Fragments::Tails] {
            let bit = |bit: u32| n >> bit & 1 == 1;
            let options =
                SquashfsOptions { fragments, export: bit(2), plain_metadata: bit(3), ..options("zstd:1", 4096) }.with(
                    |build| {
                        build.dedup = bit(0);
                        build.sparse = bit(1);
                    },
                );
            mounted_equals(&spec, &options, &format!("{options:?}"));
        }
    }
}

/// Blocks of files and fragment blocks are uncompressed where the options say so, and nowhere else.
#[test]
fn every_choice_of_what_is_compressed() {
    if !can_mount("every_choice_of_what_is_compressed") {
        return;
    }
    let spec = spec_for(4096, &mut TestRunner::deterministic());
    for n in 0..16 {
        let bit = |bit: u32| n >> bit & 1 == 1;
        for fragments in [Fragments::None, Fragments::Small, Fragments::Tails] {
            let (plain_data, plain_fragments) = (bit(0), bit(1));
            let options = SquashfsOptions {
                fragments,
                plain_data,
                plain_fragments,
                plain_metadata: bit(3),
                ..options("zstd:1", 4096)
            }
            .with(|build| build.dedup = bit(2));
            mounted_equals(&spec, &options, &format!("{options:?}"));
        }
    }
}

#[test]
fn wide_and_deep_directories() {
    if !can_mount("wide_and_deep_directories") {
        return;
    }
    for entries in [0, 1, 255, 256, 257, 70_000] {
        mounted_equals(&wide(entries), &options("gzip:1", 4096), &format!("{entries} entries"));
    }
    // The kernel resolves paths of up to 4096 bytes.
    mounted_equals(&deep(30, 100), &options("gzip:1", 4096), "deep");
}
