//! Patches between images of all kinds give the new image bit for bit.

use packfs_delta::DeltaOptions;
use packfs_image::build::OptionDraft;
use packfs_image::erofs::{ErofsOptions, Features, Kernel, OPTIONS};
use packfs_image::squashfs::{Fragments, SquashfsOptions};
use packfs_image::{Builder, Choice, Codec};

use crate::common::{apply, build, make, round_trip, tree, updated};

fn squashfs(codec: &str) -> Builder<'static> {
    Builder::squashfs().codec(codec.parse::<Choice>().unwrap())
}

fn erofs(codec: &str) -> Builder<'static> {
    Builder::erofs().codec(codec.parse::<Choice>().unwrap()).target_kernel(Kernel::new(6, 18))
}

/// Begins an EROFS image for new kernels, with features as `--features` has them.
fn with_features(features: &str) -> Builder<'static> {
    let mut draft = OptionDraft::new(ErofsOptions::default(), 0);
    for (name, value) in [("features", features), ("target-kernel", "6.18")] {
        let option = OPTIONS.iter().find(|option| option.name == name).unwrap();
        draft.set(option, value.as_ref()).unwrap();
    }
    Builder::new(draft.resolve().unwrap())
}

/// Makes a patch from one state of a tree to the next, and applies it.
fn update(what: &str, builder: impl Fn() -> Builder<'static>) {
    let files = tree();
    let old = build(builder(), &files);
    let new = build(builder(), &updated(files));
    let made = round_trip(&old, &new);
    assert!(made.summary.patch_len < new.len() as u64, "{what}: {:?}", made.summary);
}

#[test]
fn squashfs_of_every_codec() {
    for codec in ["zstd", "zstd:3", "gzip:9", "gzip:12", "gzip:4", "lzma", "lzo", "lz4", "lz4hc", "lz4hc:9", "none"] {
        update(codec, || squashfs(codec));
    }
    for codec in ["xz", "xz:3", "xz:6:bcj=auto", "xz:6:dict=64K"] {
        update(codec, || squashfs(codec));
    }
}

#[test]
fn squashfs_of_other_forms() {
    for block_size in [4096, 1 << 20] {
        update("block size", || squashfs("zstd:5").block_size(block_size));
    }
    let mut options = SquashfsOptions::default();
    options.fragments = Fragments::None;
    update("no fragments", || Builder::new(options.clone()).codec("zstd:5".parse::<Choice>().unwrap()));
}

#[test]
fn erofs_of_every_codec() {
    for codec in ["lz4hc:9", "lz4hc:12", "lz4", "zstd:5", "zstd:15", "deflate:6", "deflate:9", "none"] {
        update(codec, || erofs(codec));
    }
}

#[test]
fn erofs_of_lzma() {
    update("lzma", || erofs("lzma:6"));
}

#[test]
fn erofs_of_other_forms() {
    // Codecs that fill clusters in ways of their own, in turn.
    for (features, codec) in [
        ("^fragments,^dedupe", "lz4hc:9"),
        ("^fragments,ztailpacking", "zstd:5"),
        ("fragments,^dedupe", "lz4hc:9"),
        ("all-fragments", "zstd:5"),
        ("dedupe,fragments,ztailpacking", "lz4hc:9"),
        ("48bit,unaligned", "zstd:5"),
        ("compressed-dirs", "lz4hc:9"),
    ] {
        update(features, || with_features(features).codec(codec.parse::<Choice>().unwrap()));
    }
    let mut in_chunks = ErofsOptions::default();
    in_chunks.features |= Features::CHUNKS;
    in_chunks.build.codec = Choice::new(Codec::None);
    update("chunks", || Builder::new(in_chunks.clone()));
    update("clusters of 4K", || erofs("lz4hc:9").block_size(4096));
}

#[test]
fn threads_do_not_change_the_patch() {
    let files = tree();
    let old = build(erofs("lz4hc:9"), &files);
    let new = build(erofs("lz4hc:9"), &updated(files));
    let patches = [0, 1, 5].map(|threads| make(&old, &new, &DeltaOptions::default(), threads).bytes);
    assert!(patches.iter().all(|patch| *patch == patches[0]));
    assert!([0, 1, 5].iter().all(|threads| apply(&old, &patches[0], *threads).unwrap() == new));
}

#[test]
fn equal_images_cost_nothing() {
    let image = build(squashfs("zstd:3"), &tree());
    let made = round_trip(&image, &image);
    assert_eq!(made.summary.copied_bytes, image.len() as u64);
    assert!(made.bytes.len() < 300, "{}", made.bytes.len());
}

#[test]
fn files_of_all_kinds_follow_each_other() {
    let files = &tree()[..80];
    let empty = build(squashfs("zstd:3"), &[]);
    let image = build(squashfs("zstd:3"), files);
    let other = build(erofs("lz4hc:9"), files);
    let text = crate::common::words(100_000, 1);
    let damaged = {
        let mut image = image.clone();
        let end = image.len() - 1000;
        image[end..].fill(0xff);
        image
    };
    let all = [vec![], text, empty, image, other, damaged];
    for old in &all {
        for new in &all {
            let made = make(old, new, &DeltaOptions::default(), 2);
            assert!(apply(old, &made.bytes, 2).unwrap() == *new);
        }
    }
}

/// Small groups have references of their own, and blocks that are chosen.
#[test]
fn a_patch_may_have_many_groups() {
    let files = tree();
    let old = build(erofs("lz4hc:9"), &files);
    let new = build(erofs("lz4hc:9"), &updated(files));
    let whole = make(&old, &new, &DeltaOptions::default(), 2);
    for plain_max in [1, 100_000, 600_000] {
        let options = DeltaOptions::default().set(|all| {
            all.plain_max = plain_max;
            all.reference_max = 700_000;
        });
        let made = make(&old, &new, &options, 2);
        assert!(apply(&old, &made.bytes, 2).unwrap() == new);
        if plain_max > 1 {
            assert!(made.bytes.len() < whole.bytes.len() * 3, "{} {}", made.bytes.len(), whole.bytes.len());
        }
    }
}
