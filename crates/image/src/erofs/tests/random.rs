//! Random trees with random options: the kernel, fsck.erofs, our reader and the check agree on them, and so does a
//! build with another number of threads.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::matrix::mixed;
use super::mount::wrong;
use super::peers::Fsck;
use super::*;
use crate::testing::{Node, Piece, Shape, What, can_mount, random_images, specs};

/// Larger clusters are used only with fast codecs and levels.
const DEAR: u32 = 128 << 10;

fn any_codec(cluster: u32) -> BoxedStrategy<String> {
    let level = |codec: &'static str, min: u32, max: u32| (min..=max).prop_map(move |level| format!("{codec}:{level}"));
    let dear = u32::from(cluster <= DEAR);
    prop_oneof![
        2 => Just("none".to_owned()),
        2 => (1u32..=20).prop_map(|n| format!("lz4:acceleration={n}")),
        2 => level("lz4hc", 1, 12),
        2 => level("deflate", 1, 1 + 8 * dear),
        dear => level("lzma", 0, 6),
        2 => level("zstd", 1, 3 + 19 * dear),
    ]
    .boxed()
}

fn any_features() -> impl Strategy<Value = Features> {
    // Not every tree has only compact inodes.
    let all: Vec<Features> = Features::all().difference(Features::COMPACT_INODES).iter().collect();
    prop_oneof![1 => subsequence(all, 0..=3).prop_map(|some| some.into_iter().collect()), 1 => select(&matrix::PACKED[..])]
}

fn any_options() -> impl Strategy<Value = Options> {
    let block_log = prop_oneof![2 => Just(12u32), 1 => 9u32..=11];
    let sizes =
        (block_log, prop_oneof![3 => 1u32..=20, 1 => 1u32..=256]).prop_map(|(log, blocks)| (1 << log, blocks << log));
    let targets = select(vec!["6.18", "6.18", "6.18", "6.1", "5.4", "5.13", "5.17", "6.6", "6.8", "6.10"]);
    let codec = sizes.prop_flat_map(|(block, cluster)| (Just((block, cluster)), any_codec(cluster)));
    let numbers = (0usize..=3, select(vec![1u64, 1 << 20, 64 << 20]), prop::option::of(0..=i64::from(u32::MAX)));
    let recipes =
        (subsequence(vec!["lz4", "zstd:1", "lzma:0", "deflate:1"], 0..=3), subsequence(vec![1u32, 3, 16], 0..=2));
    let recipes = prop_oneof![2 => Just((vec![], vec![])), 1 => recipes];
    let metabox = select(vec![(1u32, None), (1, Some("lz4")), (4, Some("zstd:3"))]);
    let sizes = (0u32..=5, select(vec![None, Some(0u32), Some(1), Some(u32::MAX)]), prop::option::of(1u32..=8));
    let prefixes = select(vec![vec![], vec!["user.long."], vec!["trusted.overlay.", "user."]]);
    (codec, any_features(), targets, any::<(bool, bool, bool)>(), numbers, prefixes, (recipes, metabox, sizes))
        .prop_map(
            |(
                ((block_size, cluster_size), codec),
                features,
                target,
                (dedup, sparse, verify),
                numbers,
                prefixes,
                (recipes, metabox, sizes),
            )| {
                let (threads, memory, time) = numbers;
                let options = Options {
                    cluster_size,
                    features,
                    target_kernel: target.parse().expect("a kernel"),
                    xattr_prefixes: prefixes.into_iter().map(|prefix| prefix.as_bytes().into()).collect(),
                    ..options(&codec, block_size)
                };
                let clusters: Vec<u32> = recipes.1.into_iter().map(|blocks| blocks * block_size).collect();
                let mut options = mixing(options, &recipes.0, &clusters);
                options.chunk_size = block_size << sizes.0;
                (options.xattr_share, options.fragment_cluster) = (sizes.1, sizes.2.map(|blocks| blocks * block_size));
                options.metabox.cluster_size = metabox.0 * block_size;
                options.metabox.codec = metabox.1.map(|codec| codec.parse().expect("a codec"));
                options.with(|build| {
                    (build.dedup, build.sparse, build.verify) = (dedup, sparse, verify);
                    (build.threads, build.memory, build.time) = (threads, memory, time);
                })
            },
        )
}

/// A tree with files of sizes around multiples of the block, and some around those of the cluster,
/// with parts that repeat.
fn any_tree(block: u32, cluster: u32) -> impl Strategy<Value = Spec> {
    let (block, cluster) = (u64::from(block), u64::from(cluster));
    let lens = vec![1, 700, block - 1, block, block + 1, cluster - 1, cluster, cluster + 1, 2 * cluster + block + 3];
    let pieces = (0u64..3, select(lens), 0u64..6).prop_map(|(seed, len, kind)| match kind {
        0 => vec![Piece::Noise { seed, len }],
        1 => vec![Piece::Text { seed, len }],
        2 => vec![Piece::Zeros(len)],
        3 => vec![Piece::Hole(len)],
        _ => mixed(seed, len),
    });
    let file = prop::collection::vec(pieces, 0..4).prop_map(|pieces| Node::file(pieces.concat()));
    let shape = Shape { block, odd_times: true, ..Shape::default() };
    (specs(shape), prop::collection::vec(file, 0..5)).prop_map(|(mut spec, files)| {
        if let What::Dir(entries) = &mut spec.root.what {
            entries.extend(files.into_iter().enumerate().map(|(n, file)| (format!("edge {n}").into_bytes(), file)));
        }
        spec
    })
}

#[test]
fn random_trees_with_random_options_on_the_kernel() {
    if !can_mount("random_trees_with_random_options_on_the_kernel") {
        return;
    }
    let fsck = Fsck::find("random_trees_with_random_options_on_the_kernel");
    let cases =
        any_options().prop_flat_map(|options| (any_tree(options.block_size, options.cluster_size), Just(options)));
    random_images(
        cases,
        |tree, image, options| write(tree, image, options).map(drop),
        |options| options.with(|build| build.threads = (build.threads + 1) % 3),
        |want, image| wrong(&want, image, fsck.as_ref()),
    );
}
