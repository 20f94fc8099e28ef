//! Random trees with random options: the kernel, our reader and the check agree on them, and so
//! does a build with another number of threads.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::testing::{Node, Piece, Shape, What, can_mount, disagreements, random_images, specs};

/// Codecs with all their options, slow ones only in small blocks.
fn any_codec(block_log: u32) -> BoxedStrategy<String> {
    let level = |codec: &'static str, max: u32| (1..=max).prop_map(move |level| format!("{codec}:{level}"));
    let dear = if block_log > 17 { 0 } else { 1 };
    let filters = select(vec!["x86", "arm64", "x86+arm+riscv", "auto", "none"]);
    let strategies = select(vec!["default", "default+rle", "filtered+huffman", "fixed"]);
    let lzo = select(vec!["lzo1x_1", "lzo1x_1_11", "lzo1x_1_12", "lzo1x_1_15", "lzo1x_999"]);
    prop_oneof![
        1 => Just("none".to_owned()),
        2 => level("gzip", 9),
        dear => (1u32..=9, 8u32..=15, strategies).prop_map(|(level, window, strategies)| {
            format!("gzip:{level}:window={window},strategies={strategies}")
        }),
        dear => (0u32..=6, filters, 0u32..=2).prop_map(|(level, bcj, pb)| format!("xz:{level}:bcj={bcj},pb={pb}")),
        1 => lzo.prop_map(|name| format!("lzo:algorithm={name}")),
        dear => (1u32..=9).prop_map(|level| format!("lzo:algorithm=lzo1x_999,level={level}")),
        2 => (1u32..=20).prop_map(|n| format!("lz4:acceleration={n}")),
        2 => level("lz4hc", 12),
        2 => (-5i32..=22).prop_filter("no level", |level| *level != 0).prop_map(|level| format!("zstd:{level}")),
    ]
    .boxed()
}

fn any_options() -> impl Strategy<Value = Options> {
    let block_log = prop_oneof![3 => 12u32..=15, 2 => 16u32..=17, 1 => 18u32..=20];
    let fragments = select(vec![Fragments::None, Fragments::Small, Fragments::Tails]);
    let numbers = (0usize..=3, select(vec![1u64, 1 << 20, 64 << 20]), prop::option::of(0..=i64::from(u32::MAX)));
    let codec = block_log.prop_flat_map(|log| (Just(log), any_codec(log)));
    (codec, fragments, any::<[bool; 7]>(), numbers).prop_map(
        |((block_log, codec), fragments, [dedup, sparse, export, verify, plain @ ..], numbers)| {
            let (threads, memory, time) = numbers;
            let [plain_metadata, plain_data, plain_fragments] = plain;
            let plain = Options { plain_metadata, plain_data, plain_fragments, ..options(&codec, 1 << block_log) };
            let options = Options { fragments, export, ..plain };
            options.with(|build| {
                (build.dedup, build.sparse, build.verify) = (dedup, sparse, verify);
                (build.threads, build.memory, build.time) = (threads, memory, time);
            })
        },
    )
}

/// A tree with files of sizes around multiples of small blocks, and one around those of this image's blocks.
fn any_tree(block: u32) -> impl Strategy<Value = Spec> {
    let block = u64::from(block);
    let piece =
        (0u64..3, select(vec![1, block - 1, block, block + 1]), 0u64..4).prop_map(|(seed, len, kind)| match kind {
            0 => Piece::Noise { seed, len },
            1 => Piece::Text { seed, len },
            2 => Piece::Zeros(len),
            _ => Piece::Hole(len),
        });
    let shape = Shape { block: block.min(32 << 10), ..Shape::default() };
    (specs(shape), prop::collection::vec(piece, 0..3)).prop_map(|(mut spec, pieces)| {
        if let What::Dir(entries) = &mut spec.root.what {
            entries.insert(b"around the edge".to_vec(), Node::file(pieces));
        }
        spec
    })
}

#[test]
fn random_trees_with_random_options_on_the_kernel() {
    if !can_mount("random_trees_with_random_options_on_the_kernel") {
        return;
    }
    let cases = any_options().prop_flat_map(|options| (any_tree(options.block_size), Just(options)));
    random_images(
        cases,
        |tree, image, options| write(tree, image, options).map(drop),
        |options| options.with(|build| build.threads = (build.threads + 1) % 3),
        |want, image| disagreements(&held(want), image, open(image), "squashfs"),
    );
}
