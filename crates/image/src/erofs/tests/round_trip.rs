//! Images read back by our own reader equal their source and have no defects.

use proptest::prelude::*;

use super::matrix::{CODECS, PACKED, PLAIN};
use super::*;
use crate::testing::{
    Node, Piece, Shape, deep, differences, everything, findings, snapshot_image, snapshot_tree, specs, wide,
};

fn check(spec: &Spec, options: &ErofsOptions) -> BuildSummary {
    let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
    let built = built(spec, options);
    let image = open(&built.image).unwrap();
    assert_eq!(differences(&want, &snapshot_image(&*image).unwrap()), Vec::<String>::new(), "{options:?}");
    assert_eq!(findings(&*image, 2), Vec::<String>::new(), "{options:?}");
    built.summary
}

/// Codecs with compatible features, block and cluster sizes, and every switch.
fn any_options() -> impl Strategy<Value = ErofsOptions> {
    let packed = (prop::sample::select(&CODECS[..]), prop::sample::select(&PACKED[..]));
    let plain = prop::sample::select(&PLAIN[..]).prop_map(|features| ("none", features));
    let more = [Features::empty(), Features::NO_INLINE, Features::EXTENDED_INODES, Features::FULL_INDEX];
    let kind = (prop_oneof![4 => packed, 1 => plain], prop::sample::select(more.to_vec()));
    let sizes = (9u32..=12, 1u32..=40);
    (kind, sizes, any::<(bool, bool, bool)>(), 0usize..3).prop_map(|(kind, sizes, (dedup, sparse, verify), threads)| {
        let (((codec, features), more), (block_log, blocks)) = (kind, sizes);
        let block_size = 1 << block_log;
        ErofsOptions { features: features | more, cluster_size: block_size * blocks, ..options(codec, block_size) }
            .with(|build| {
                build.dedup = dedup;
                build.sparse = sparse;
                build.verify = verify;
                build.threads = threads;
                build.memory = 1;
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_trees((options, spec) in any_options().prop_flat_map(|options| {
        let shape = Shape { block: options.block_size.into(), odd_times: true, ..Shape::default() };
        (Just(options), specs(shape))
    })) {
        check(&spec, &options);
    }

    /// Files of many stretches that repeat in others, of any lengths.
    #[test]
    fn random_files(
        options in any_options(),
        files in prop::collection::vec(prop::collection::vec((0u64..4, 0u64..5, 1u64..9000), 0..40), 1..8),
    ) {
        let piece = |&(kind, seed, len): &(u64, u64, u64)| match kind {
            0 | 1 => Piece::Noise { seed, len },
            2 => Piece::Text { seed, len },
            _ if seed == 0 => Piece::Hole(len * 9),
            _ => Piece::Zeros(len),
        };
        let files = files.iter().enumerate().map(|(n, pieces)| {
            (format!("f{n}").into_bytes(), Node::file(pieces.iter().map(piece).collect()))
        });
        check(&Spec::of(files), &options);
    }
}

#[test]
fn one_of_everything() {
    for features in PACKED {
        check(&everything(4096, 65535), &ErofsOptions { features, ..options("zstd:1", 4096) });
    }
}

#[test]
fn directories_of_every_awkward_size() {
    for entries in [0, 1, 255, 256, 257, 1000, 70_000] {
        check(&wide(entries), &options("zstd:1", 4096));
    }
    check(&deep(300, 200), &options("lz4", 512));
}

#[test]
fn equal_files_and_parts_are_stored_once() {
    let file = |name: &str, pieces| (name.as_bytes().to_vec(), Node::file(pieces));
    let (same, start) = (matrix::mixed(1, 300_000), vec![Piece::Text { seed: 2, len: 12_345 }]);
    let spec = Spec::of([file("a", same.clone()), file("b", same.clone()), file("c", [start, same].concat())]);
    let bytes = |dedup, features| {
        let options =
            ErofsOptions { features, cluster_size: 16 << 10, ..options("lz4", 4096) }.with(|build| build.dedup = dedup);
        check(&spec, &options).data_bytes
    };
    let (all, files, parts) =
        (bytes(false, Features::empty()), bytes(true, Features::empty()), bytes(true, Features::DEDUPE));
    assert!(files * 100 < all * 70, "{files} of {all} bytes");
    assert!(parts * 100 < all * 45, "{parts} of {all} bytes");
}

/// A last part that is already stored has its tail after another file's inode, which only a file in
/// one row can use.
#[test]
fn an_uncompressed_last_part_repeats_after_other_beginnings() {
    let piece = 128 << 10;
    let end = || vec![Piece::Noise { seed: 1, len: piece }, Piece::Text { seed: 1, len: 77 }];
    let starts = [
        vec![],
        vec![Piece::Noise { seed: 2, len: piece }],
        vec![Piece::Hole(piece)],
        vec![Piece::Noise { seed: 1, len: piece }],
        vec![Piece::Hole(piece), Piece::Noise { seed: 2, len: piece }],
    ];
    let files = starts.into_iter().enumerate();
    let files = files.map(|(n, start)| (n.to_string().into_bytes(), Node::file([start, end()].concat())));
    let spec = Spec::of(files.collect::<Vec<_>>());
    for features in PLAIN {
        check(&spec, &ErofsOptions { features, ..options("none", 4096) });
    }
}

#[test]
fn an_image_inside_a_file_keeps_the_start_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let spec = matrix::edges(4096, 4096);
    write(spec.tree().unwrap(), &image, &options("lz4", 4096).with(|build| build.offset = 12_345)).unwrap();
    assert_eq!(std::fs::read(&image).unwrap()[..12_345], [0; 12_345]);
    let file = FileAt::open(&image, 12_345).unwrap();
    let reader = ErofsReader::open(Arc::new(file), ReadOptions::default()).unwrap();
    let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
    assert_eq!(differences(&want, &snapshot_image(&reader).unwrap()), Vec::<String>::new());
}
