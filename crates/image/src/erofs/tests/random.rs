//! Random trees with random options: the kernel in all its ways of reading, fsck.erofs, our reader and the check agree
//! on them, and so does a build with another number of threads.

use std::num::{NonZeroU32, NonZeroU64};

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::matrix::mixed;
use super::peers::PeerReaders;
use super::*;
use crate::build::{Order, Shards};
use crate::erofs::Kernel;
use crate::testing::{Node, Piece, Shape, What, random_images, sharing_files, specs};
use crate::tree::DataHandling;

/// Largest cluster for slow codecs and levels, which also get no large files.
const DEAR: u32 = 128 << 10;
/// Bytes of the large files of a tree: more would only take time.
const LARGE_TOTAL: u64 = 12 << 20;

/// Options of an image, and wishes for the data of single files.
#[derive(Debug, Clone)]
struct RandomCase {
    options: ErofsOptions,
    /// Of the n-th, (n + length)-th ... inode.
    wishes: Vec<DataHandling>,
}

/// Size of the files of a tree.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FileScale {
    /// Near block and cluster boundaries.
    Small,
    /// Large ones that share long stretches, besides.
    Large,
}

fn any_codec(scale: FileScale, cluster: u32) -> BoxedStrategy<String> {
    let level = |codec: &'static str, min: u32, max: u32| (min..=max).prop_map(move |level| format!("{codec}:{level}"));
    let dear = u32::from(cluster <= DEAR && scale == FileScale::Small);
    prop_oneof![
        2 => Just("none".to_owned()),
        2 => (1u32..=20).prop_map(|n| format!("lz4:acceleration={n}")),
        2 => level("lz4hc", 1, 4 + 8 * dear),
        2 => level("deflate", 1, 1 + 8 * dear),
        1 => level("lzma", 0, 6 * dear),
        2 => level("zstd", 1, 3 + 19 * dear),
    ]
    .boxed()
}

/// Few features, those of the matrix, or any number of them without contradictions. Large files are there to be shared
/// in part, so most images with them do that.
fn any_features(scale: FileScale) -> impl Strategy<Value = Features> {
    // Not every tree has only compact inodes.
    let all: Vec<Features> = Features::all().difference(Features::COMPACT_INODES).iter().collect();
    let of = |some: Vec<Features>| some.into_iter().collect::<Features>();
    let needs_wide = Features::UNALIGNED | Features::METABOX | Features::DOT_OMITTED;
    // Fragments would take the data that does not fill a cluster, which lies beside partly shared clusters.
    let (added, removed) = match scale {
        FileScale::Small => (Just(Features::empty()).boxed(), Just(Features::empty()).boxed()),
        FileScale::Large => {
            let fragments = Features::FRAGMENTS | Features::ALL_FRAGMENTS;
            let added = vec![Features::empty(), Features::DEDUPE, Features::DEDUPE, Features::DEDUPE];
            (select(added).boxed(), select(vec![Features::empty(), fragments]).boxed())
        }
    };
    let features = prop_oneof![
        1 => subsequence(all.clone(), 0..=3).prop_map(of),
        1 => select(&matrix::PACKED[..]),
        2 => subsequence(all.clone(), 0..=all.len()).prop_map(move |some| {
            let some = of(some);
            if some.contains(Features::BITS_48) { some } else { some.difference(needs_wide) }
        }),
    ];
    (features, added, removed).prop_map(|(features, added, removed)| (features | added) - removed)
}

/// Wishes that an image with these options can fulfil.
fn any_wishes(options: &ErofsOptions) -> BoxedStrategy<Vec<DataHandling>> {
    let compressed = options.build.codec.codec() != packfs_codec::Codec::None;
    let chunks: Kernel = "5.15".parse().expect("a kernel");
    let stores = !compressed || (!options.features.contains(Features::BITS_48) && options.target_kernel >= chunks);
    let mut some = vec![DataHandling::empty(), DataHandling::NO_FRAGMENT];
    if stores {
        some.push(DataHandling::STORE);
    }
    prop_oneof![2 => Just(vec![DataHandling::empty()]), 1 => prop::collection::vec(select(some), 1..5)].boxed()
}

fn any_shards() -> impl Strategy<Value = Option<Shards>> {
    prop_oneof![
        4 => Just(None),
        1 => (1u32..5).prop_map(|count| NonZeroU32::new(count).map(Shards::Count)),
        1 => (1u64..5 << 20).prop_map(|size| NonZeroU64::new(size).map(Shards::Size)),
    ]
}

fn any_case(scale: FileScale) -> impl Strategy<Value = RandomCase> {
    let block_log = prop_oneof![2 => Just(12u32), 1 => 9u32..=11];
    let clusters = match scale {
        FileScale::Small => prop_oneof![3 => 1u32..=20, 1 => 1u32..=256].boxed(),
        FileScale::Large => prop_oneof![2 => 1u32..=20, 1 => 1u32..=256, 2 => Just(256)].boxed(),
    };
    let sizes = (block_log, clusters).prop_map(|(log, blocks)| (1 << log, blocks << log));
    let dedup = proptest::bool::weighted(if scale == FileScale::Large { 0.8 } else { 0.5 });
    let switches = (dedup, any::<bool>(), any::<bool>());
    let targets = select(vec!["6.18", "6.18", "6.18", "6.1", "5.4", "5.13", "5.17", "6.6", "6.8", "6.10"]);
    let codec = sizes.prop_flat_map(move |(block, cluster)| (Just((block, cluster)), any_codec(scale, cluster)));
    let numbers = (0usize..=3, select(vec![1u64, 1 << 20, 64 << 20]), prop::option::of(0..=i64::from(u32::MAX)));
    let recipes =
        (subsequence(vec!["lz4", "zstd:1", "lzma:0", "deflate:1"], 0..=3), subsequence(vec![1u32, 3, 16], 0..=2));
    let recipes = prop_oneof![2 => Just((vec![], vec![])), 1 => recipes];
    let metabox = select(vec![(1u32, None), (1, Some("lz4")), (4, Some("zstd:3"))]);
    let sizes = (0u32..=5, select(vec![None, Some(0u32), Some(1), Some(u32::MAX)]), prop::option::of(1u32..=8));
    let prefixes = select(vec![vec![], vec!["user.long."], vec!["trusted.overlay.", "user."]]);
    let order = prop::option::of(select(vec![Order::Path, Order::Type, Order::Similar]));
    let extent = prop_oneof![3 => Just(None), 1 => (0u32..=10).prop_map(Some)];
    let placing = (order, any_shards(), extent);
    (codec, any_features(scale), targets, switches, numbers, prefixes, (recipes, metabox, sizes, placing))
        .prop_map(
            |(
                ((block_size, cluster_size), codec),
                features,
                target,
                (dedup, sparse, verify),
                numbers,
                prefixes,
                (recipes, metabox, sizes, (order, shards, extent)),
            )| {
                let (threads, memory, time) = numbers;
                let options = ErofsOptions {
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
                options.extent_max = extent.map(|log| block_size << log).filter(|_| shards.is_none());
                options.with(|build| {
                    (build.dedup, build.sparse, build.verify) = (dedup, sparse, verify);
                    (build.threads, build.memory, build.time) = (threads, memory, time);
                    (build.order, build.shards) = (order, shards);
                })
            },
        )
        .prop_flat_map(|options| (any_wishes(&options), Just(options)))
        .prop_map(|(wishes, options)| RandomCase { options, wishes })
}

/// A tree with files of sizes around multiples of the block, and some around those of the cluster,
/// with parts that repeat.
fn any_tree(scale: FileScale, block: u32, cluster: u32) -> impl Strategy<Value = Spec> {
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
    let large = if scale == FileScale::Large { sharing_files(5, LARGE_TOTAL) } else { Just(Vec::new()).boxed() };
    let edges = if scale == FileScale::Large { 0..2 } else { 0..5 };
    let shape = Shape { block, odd_times: true, ..Shape::default() };
    (specs(shape), prop::collection::vec(file, edges), large).prop_map(|(mut spec, files, large)| {
        if let What::Dir(entries) = &mut spec.root.what {
            entries.extend(files.into_iter().enumerate().map(|(n, file)| (format!("edge {n}").into_bytes(), file)));
            entries.extend(large.into_iter().enumerate().map(|(n, file)| (format!("large {n}").into_bytes(), file)));
        }
        spec
    })
}

fn write_case(mut tree: Tree, image: &Path, case: &RandomCase) -> Result<()> {
    for ino in tree.inos() {
        let wish = case.wishes[ino.0 as usize % case.wishes.len()];
        tree.set_storing(ino, wish, tree.inode(ino).recipe);
    }
    write(tree, image, &case.options).map(drop)
}

#[test]
fn random_trees_with_random_options_on_the_kernel() {
    let Some(judges) = PeerReaders::all("random_trees_with_random_options_on_the_kernel") else { return };
    let cases = select(vec![FileScale::Small, FileScale::Large])
        .prop_flat_map(|scale| (Just(scale), any_case(scale)))
        .prop_flat_map(|(scale, case)| {
            (any_tree(scale, case.options.block_size, case.options.cluster_size), Just(case))
        });
    random_images(
        cases,
        write_case,
        |mut case| {
            case.options.build.threads = (case.options.build.threads + 1) % 3;
            case
        },
        |tree, want, image| judges.wrong_in_any_way(tree, &want, image),
    );
}
