//! Options and trees for tests of whole images: every codec with every feature, and trees with
//! files of sizes around every boundary.

use super::*;
use crate::testing::{Node, Piece, noise, text};

/// Every codec, at a fast level.
pub(in crate::erofs) const CODECS: [&str; 5] = ["lz4", "lz4hc:1", "deflate:1", "lzma:0", "zstd:1"];

/// Bytes of physical clusters.
pub(in crate::erofs) const CLUSTERS: [u32; 5] = [4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20];

/// Features of compressed images.
pub(in crate::erofs) const PACKED: [Features; 20] = [
    Features::empty(),
    Features::FRAGMENTS,
    Features::ALL_FRAGMENTS,
    Features::DEDUPE,
    Features::DEDUPE.union(Features::FRAGMENTS),
    Features::ZTAILPACKING,
    Features::BITS_48,
    Features::BITS_48.union(Features::UNALIGNED),
    Features::BITS_48.union(Features::FRAGMENTS),
    Features::BITS_48.union(Features::FRAGMENTS).union(Features::DEDUPE),
    Features::ALL_FRAGMENTS.union(Features::DEDUPE),
    Features::FULL_INDEX,
    Features::NO_INLINE,
    Features::EXTENDED_INODES,
    Features::COMPRESSED_DIRS,
    Features::COMPRESSED_DIRS.union(Features::FRAGMENTS).union(Features::DEDUPE),
    Features::BITS_48.union(Features::DOT_OMITTED),
    Features::BITS_48.union(Features::METABOX),
    Features::BITS_48.union(Features::METABOX).union(Features::COMPRESSED_DIRS).union(Features::ALL_FRAGMENTS),
    Features::BITS_48
        .union(Features::METABOX)
        .union(Features::UNALIGNED)
        .union(Features::FRAGMENTS)
        .union(Features::DOT_OMITTED),
];

/// Features of images without compression.
pub(in crate::erofs) const PLAIN: [Features; 8] = [
    Features::empty(),
    Features::CHUNKS,
    Features::CHUNKS.union(Features::BITS_48),
    Features::CHUNKS.union(Features::CHUNK_INDEXES),
    Features::CHUNKS.union(Features::CHUNK_INDEXES).union(Features::BITS_48),
    Features::NO_CHECKSUM,
    Features::NO_INLINE,
    Features::EXTENDED_INODES,
];

/// All codecs and features, with clusters of `cluster_size` and blocks of `block_size` bytes.
pub(in crate::erofs) fn all(block_size: u32, cluster_size: u32) -> Vec<ErofsOptions> {
    chosen(block_size, cluster_size, |_, _| true)
}

/// Each feature with one of the codecs, for sizes where [`all`] would take minutes. Another `turn` has other pairs, and five
/// consecutive ones have all.
pub(in crate::erofs) fn one_codec_each(block_size: u32, cluster_size: u32, turn: usize) -> Vec<ErofsOptions> {
    chosen(block_size, cluster_size, |codec, features| (codec + features + turn).is_multiple_of(CODECS.len()))
}

/// The pairs of a number in [`CODECS`] and one in [`PACKED`] that `wanted` takes, and all that is not compressed.
fn chosen(block_size: u32, cluster_size: u32, wanted: impl Fn(usize, usize) -> bool) -> Vec<ErofsOptions> {
    let mut cases = Vec::new();
    for (codec_number, codec) in CODECS.iter().enumerate() {
        for (features_number, features) in PACKED.iter().enumerate() {
            if wanted(codec_number, features_number) {
                cases.push((*codec, *features));
            }
        }
    }
    cases.extend(PLAIN.map(|features| ("none", features)));
    cases
        .into_iter()
        .map(|(codec, features)| ErofsOptions { features, cluster_size, ..options(codec, block_size) })
        .collect()
}

/// Describes options, for messages.
pub(in crate::erofs) fn say(options: &ErofsOptions) -> String {
    let ErofsOptions { build, cluster_size, block_size, features, target_kernel, .. } = options;
    let codec = &build.codec;
    format!("{codec}, clusters of {cluster_size}, blocks of {block_size}, {features:?}, for Linux {target_kernel}")
}

/// Bytes that are partly compressible, in stretches of odd lengths.
pub(in crate::erofs) fn mixed(seed: u64, len: u64) -> Vec<Piece> {
    let (mut pieces, mut left, mut n) = (Vec::new(), len, seed * 1000);
    while left > 0 {
        let noise = Piece::Noise { seed: n, len: left.min(701 + n % 97) };
        left -= noise.len();
        let text = Piece::Text { seed: n * 7, len: left.min(1009 + n % 1013) };
        left -= text.len();
        pieces.extend([noise, text]);
        n += 1;
    }
    pieces
}

/// Files with lengths around every block and cluster boundary, with contents of every kind.
pub(in crate::erofs) fn edges(block: u64, cluster: u64) -> Spec {
    let mut files = Vec::new();
    let mut add = |name: String, pieces: Vec<Piece>| files.push((name.into_bytes(), Node::file(pieces)));
    let mut lens = vec![0, 1, block - 1, block, block + 1, 2 * block, 3 * block + 1];
    lens.extend([cluster - 1, cluster, cluster + 1]);
    lens.sort_unstable();
    lens.dedup();
    for len in lens {
        add(format!("text{len}"), vec![text(len, len)]);
        add(format!("noise{len}"), vec![noise(len, len)]);
        add(format!("mixed{len}"), mixed(len, len));
    }
    add("long-text".into(), vec![text(1, 3 * cluster + 5)]);
    add("long-mixed".into(), mixed(1, 3 * cluster + block + 7));
    // Compressible and incompressible stretches, and the boundaries between them.
    add("noise-text".into(), vec![noise(2, cluster / 2 + 1), text(3, cluster + 77), noise(4, block - 1)]);
    add("text-noise".into(), vec![text(5, block + 9), noise(6, 2 * block + 1), text(7, 5 * block - 3), noise(8, 1)]);
    add("noise-tail".into(), vec![noise(9, 4 * block), text(9, 3)]);
    // Holes and zeros.
    for len in [1, block, cluster + 1] {
        add(format!("hole{len}"), vec![Piece::Hole(len)]);
        add(format!("zeros{len}"), vec![Piece::Zeros(len)]);
    }
    add("hole-first".into(), vec![Piece::Hole(3 * block), text(1, 100), noise(1, 100)]);
    add("hole-last".into(), vec![noise(3, block + 3), Piece::Hole(cluster + 5)]);
    add(
        "holes".into(),
        vec![text(2, block), Piece::Hole(4 * block), noise(2, block), Piece::Hole(cluster), text(4, 9)],
    );
    add("odd-holes".into(), vec![text(2, 99), Piece::Hole(5 * block + 1), noise(2, 99), Piece::Hole(7), text(4, 9999)]);
    add("zero-runs".into(), vec![text(3, block / 2), Piece::Zeros(3 * block), noise(1, 777), Piece::Zeros(cluster)]);
    repeats(block, cluster, &mut add);
    Spec::of(files)
}

/// Duplicates: whole files side by side and far apart, and parts of files at odd offsets.
fn repeats(block: u64, cluster: u64, add: &mut dyn FnMut(String, Vec<Piece>)) {
    let base = mixed(50, 2 * cluster + 20 * block);
    let tail = |from: usize| base[from..].to_vec();
    add("a-base".into(), base.clone());
    add("a-base-again".into(), base.clone());
    add("z-base".into(), base.clone());
    add("b-small".into(), vec![text(77, 300)]);
    add("z-small".into(), vec![text(77, 300)]);
    add("c-behind-others".into(), [vec![noise(60, 333)], tail(0)].concat());
    add("d-middle".into(), [vec![text(61, block + 1)], base[3..base.len() - 3].to_vec(), vec![noise(62, 55)]].concat());
    add("e-end".into(), tail(7));
    add("f-twice".into(), [tail(5), vec![noise(63, 1)], tail(9)].concat());
    add("g-start".into(), base[..base.len() / 2].to_vec());
    add("h-pieces".into(), (0..base.len() - 9).step_by(23).flat_map(|at| base[at..at + 9].to_vec()).collect());
}

/// Files of lengths around the size that a worker packs at once, 16 MiB, and window sizes.
pub(in crate::erofs) fn large() -> Spec {
    let mut files = Vec::new();
    for (n, around) in [2u64 << 20, 4 << 20, 16 << 20].into_iter().enumerate() {
        for len in [around - 1, around, around + 1] {
            let seed = n as u64 + 100;
            // Most of it is the same in all three, so that dedup finds it where it can.
            let mut pieces = mixed(seed, len - (1 << 20));
            pieces.push(text(seed, 1 << 20));
            files.push((format!("around{len}").into_bytes(), Node::file(pieces)));
        }
    }
    let noise = Node::file(vec![noise(1, (2 << 20) + 4095), text(3, 5 << 20), noise(9, (1 << 20) + 1)]);
    files.push((b"noise".to_vec(), noise));
    let holes = vec![text(3, 10_001), Piece::Hole((5 << 20) + 1), text(4, 4 << 20), Piece::Hole(16 << 20), text(5, 9)];
    files.push((b"holes".to_vec(), Node::file(holes)));
    Spec::of(files)
}
