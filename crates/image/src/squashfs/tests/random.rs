//! Random trees with random options: the kernel in all its ways of reading, our reader and the check agree on them, and
//! so does a build with another number of threads.

use std::num::{NonZeroU32, NonZeroU64};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::peers::PeerReaders;
use super::*;
use crate::build::{Order, Shards};
use crate::testing::{Node, Piece, Shape, What, random_images, sharing_files, specs};
use crate::tree::{DataHandling, FileRecipe};

/// Bytes of the large files of a tree: more would only take time.
const LARGE_TOTAL: u64 = 12 << 20;

/// Options of an image, and wishes for the data of single files.
#[derive(Debug, Clone)]
struct RandomCase {
    options: SquashfsOptions,
    /// Of the n-th, (n + length)-th ... inode.
    wishes: Vec<DataHandling>,
}

/// Fast settings, for trees with large files.
fn fast_codec() -> BoxedStrategy<String> {
    let names = vec![
        "none",
        "gzip:1",
        "gzip:4",
        "gzip:2:window=9",
        "xz:0",
        "xz:0:bcj=x86",
        "lzo",
        "lzo:algorithm=lzo1x_1_15",
        "lz4",
        "lz4hc:3",
        "zstd:-5",
        "zstd:1",
        "zstd:3",
    ];
    select(names).prop_map(str::to_owned).boxed()
}

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

/// Wishes for single files, which SquashFS can all fulfil.
fn any_wishes() -> impl Strategy<Value = Vec<DataHandling>> {
    let packing = vec![DataHandling::empty(), DataHandling::NO_FRAGMENT, DataHandling::SMALL, DataHandling::TAILS];
    let others = DataHandling::STORE | DataHandling::NO_DEDUP | DataHandling::NO_SPARSE | DataHandling::ALIGN;
    let others: Vec<DataHandling> = others.iter().collect();
    let wish = (select(packing), subsequence(others, 0..=2))
        .prop_map(|(packing, others)| packing | others.into_iter().collect());
    prop_oneof![2 => Just(vec![DataHandling::empty()]), 1 => vec(wish, 1..5)]
}

fn any_shards() -> impl Strategy<Value = Option<Shards>> {
    prop_oneof![
        4 => Just(None),
        1 => (1u32..5).prop_map(|count| NonZeroU32::new(count).map(Shards::Count)),
        1 => (1u64..5 << 20).prop_map(|size| NonZeroU64::new(size).map(Shards::Size)),
    ]
}

fn any_case(has_large_files: bool) -> impl Strategy<Value = RandomCase> {
    let block_log = prop_oneof![3 => 12u32..=15, 2 => 16u32..=17, 1 => 18u32..=20];
    let fragments = select(vec![Fragments::None, Fragments::Small, Fragments::Tails]);
    let numbers = (0usize..=3, select(vec![1u64, 1 << 20, 64 << 20]), prop::option::of(0..=i64::from(u32::MAX)));
    let order = prop::option::of(select(vec![Order::Path, Order::Type, Order::Similar]));
    let codec =
        block_log.prop_flat_map(move |log| (Just(log), if has_large_files { fast_codec() } else { any_codec(log) }));
    (codec, fragments, any::<[bool; 7]>(), numbers, (order, any_shards()), any_wishes()).prop_map(
        |((block_log, codec), fragments, [dedup, sparse, export, verify, plain @ ..], numbers, placing, wishes)| {
            let (threads, memory, time) = numbers;
            let [plain_metadata, plain_data, plain_fragments] = plain;
            let plain =
                SquashfsOptions { plain_metadata, plain_data, plain_fragments, ..options(&codec, 1 << block_log) };
            let options = SquashfsOptions { fragments, export, ..plain };
            let options = options.with(|build| {
                (build.dedup, build.sparse, build.verify) = (dedup, sparse, verify);
                (build.threads, build.memory, build.time) = (threads, memory, time);
                (build.order, build.shards) = placing;
            });
            RandomCase { options, wishes }
        },
    )
}

/// A tree with files of sizes around multiples of small blocks, and one around those of this image's blocks; if
/// `has_large_files`, also some that share long stretches.
fn any_tree(has_large_files: bool, block: u32) -> impl Strategy<Value = Spec> {
    let block = u64::from(block);
    let piece =
        (0u64..3, select(vec![1, block - 1, block, block + 1]), 0u64..4).prop_map(|(seed, len, kind)| match kind {
            0 => Piece::Noise { seed, len },
            1 => Piece::Text { seed, len },
            2 => Piece::Zeros(len),
            _ => Piece::Hole(len),
        });
    let shape = Shape { block: block.min(32 << 10), ..Shape::default() };
    let large = if has_large_files { sharing_files(5, LARGE_TOTAL) } else { Just(Vec::new()).boxed() };
    (specs(shape), vec(piece, 0..3), large).prop_map(|(mut spec, pieces, large)| {
        if let What::Dir(entries) = &mut spec.root.what {
            entries.insert(b"around the edge".to_vec(), Node::file(pieces));
            entries.extend(large.into_iter().enumerate().map(|(n, file)| (format!("large {n}").into_bytes(), file)));
        }
        spec
    })
}

fn write_case(mut tree: Tree, image: &Path, case: &RandomCase) -> Result<()> {
    for ino in tree.inos() {
        let wish = case.wishes[ino.0 as usize % case.wishes.len()];
        tree.set_storing(ino, wish, FileRecipe::default());
    }
    write(tree, image, &case.options).map(drop)
}

#[test]
fn random_trees_with_random_options_on_the_kernel() {
    let Some(judges) = PeerReaders::all("random_trees_with_random_options_on_the_kernel") else { return };
    let cases = any::<bool>()
        .prop_flat_map(|has_large_files| (Just(has_large_files), any_case(has_large_files)))
        .prop_flat_map(|(has_large_files, case)| (any_tree(has_large_files, case.options.block_size), Just(case)));
    random_images(
        cases,
        write_case,
        |mut case| {
            case.options.build.threads = (case.options.build.threads + 1) % 3;
            case
        },
        |tree, want, image| judges.wrong(tree, &held(want), image),
    );
}
