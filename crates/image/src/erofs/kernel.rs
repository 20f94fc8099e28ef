//! The Linux versions that features of the format require, for writing (`--target-kernel`) and for
//! telling what an image needs.

use std::fmt;
use std::str::FromStr;

use packfs_blocks::units::Size;

use super::format::{CLUSTER_BLOCKS_MAX, Compat, Incompat, LZ4_BLOCKS_MAX, algorithm};
use super::writer::{Features, Options, longest_cluster};
use crate::{Error, Result};

/// log2 of the smallest block that every kernel supports. Kernels with larger pages read it only from 6.4 on.
const PAGE_BITS: u8 = 12;

/// A Linux version, as far as it matters: 6.1, 5.15.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel {
    /// Major version.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
}

impl Kernel {
    /// Default target kernel.
    pub const DEFAULT: Kernel = Kernel::new(6, 1);

    /// The first version with EROFS in its present form: plain images, and LZ4 that ends where its cluster ends.
    pub const OLDEST: Kernel = Kernel::new(5, 4);

    /// Makes the version `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Kernel { major, minor }
    }

    /// Returns the oldest version that reads an image with these features.
    pub fn needed(features: &[Feature]) -> Kernel {
        features.iter().map(|feature| feature.since()).max().unwrap_or(Kernel::OLDEST)
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("`{text}` is not a kernel version; expected two numbers, such as 6.1");
        let mut parts = text.split(['.', '-']);
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong);
        Ok(Kernel { major: number()?, minor: number()? })
    }
}

/// A feature of the format that not every kernel supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Feature {
    /// LZ4.
    Lz4,
    /// MicroLZMA.
    Lzma,
    /// Raw deflate.
    Deflate,
    /// Zstandard.
    Zstd,
    /// Physical clusters of several blocks, and records of compression settings.
    BigClusters,
    /// Chunk-based files.
    Chunks,
    /// Additional devices, or files with two algorithms.
    DevicesOrSecondHead,
    /// The last cluster of a file after its inode.
    TailPacking,
    /// Fragments, or clusters shared in part by several files.
    FragmentsOrDedupe,
    /// Blocks smaller than the kernel's pages, without compression.
    SmallBlocks,
    /// Blocks smaller than the kernel's pages, with compressed files.
    SmallCompressedBlocks,
    /// Long prefixes of xattr names.
    XattrPrefixes,
    /// Block addresses of 48 bits, encoded extents, times in compact inodes.
    Bits48,
    /// Inodes in the compressed data of a special inode.
    Metabox,
    /// Uncompressed xattr prefixes in the image, although there is a packed inode to hold them.
    PlainXattrPrefixes,
}

impl Feature {
    /// All features, the oldest first.
    pub const ALL: [Feature; 15] = {
        use Feature::*;
        [
            Lz4,
            BigClusters,
            Chunks,
            Lzma,
            DevicesOrSecondHead,
            TailPacking,
            FragmentsOrDedupe,
            SmallBlocks,
            XattrPrefixes,
            Deflate,
            SmallCompressedBlocks,
            Zstd,
            Bits48,
            Metabox,
            PlainXattrPrefixes,
        ]
    };

    /// Returns the first Linux version that supports the feature.
    pub fn since(self) -> Kernel {
        match self {
            Feature::Lz4 => Kernel::OLDEST,
            Feature::BigClusters => Kernel::new(5, 13),
            Feature::Chunks => Kernel::new(5, 15),
            Feature::Lzma | Feature::DevicesOrSecondHead => Kernel::new(5, 16),
            Feature::TailPacking => Kernel::new(5, 17),
            Feature::FragmentsOrDedupe => Kernel::new(6, 1),
            Feature::SmallBlocks | Feature::XattrPrefixes => Kernel::new(6, 4),
            Feature::Deflate => Kernel::new(6, 6),
            Feature::SmallCompressedBlocks => Kernel::new(6, 8),
            Feature::Zstd => Kernel::new(6, 10),
            Feature::Bits48 => Kernel::new(6, 15),
            Feature::Metabox | Feature::PlainXattrPrefixes => Kernel::new(6, 17),
        }
    }

    /// Returns the name for messages and listings, which is that of the option if there is one.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Lz4 => "lz4",
            Feature::Lzma => "lzma",
            Feature::Deflate => "deflate",
            Feature::Zstd => "zstd",
            Feature::BigClusters => "big-clusters",
            Feature::Chunks => "chunks",
            Feature::DevicesOrSecondHead => "devices-or-second-algorithm",
            Feature::TailPacking => "ztailpacking",
            Feature::FragmentsOrDedupe => "fragments-or-dedupe",
            Feature::SmallBlocks => "small-blocks",
            Feature::SmallCompressedBlocks => "small-compressed-blocks",
            Feature::XattrPrefixes => "xattr-prefixes",
            Feature::Bits48 => "48bit",
            Feature::Metabox => "metabox",
            Feature::PlainXattrPrefixes => "plain-xattr-prefixes",
        }
    }

    /// Returns the features that an image uses, judging by its superblock. `algorithms` has a bit
    /// for each `algorithm`, whether or not the superblock lists them explicitly.
    pub fn used(compat: Compat, incompat: Incompat, algorithms: u16, block_bits: u8) -> Vec<Feature> {
        let has = |feature: &Feature| match feature {
            Feature::Lz4 => algorithms & 1 << algorithm::LZ4 != 0,
            Feature::Lzma => algorithms & 1 << algorithm::LZMA != 0,
            Feature::Deflate => algorithms & 1 << algorithm::DEFLATE != 0,
            Feature::Zstd => algorithms & 1 << algorithm::ZSTD != 0,
            Feature::BigClusters => incompat.contains(Incompat::BIG_CLUSTERS),
            Feature::Chunks => incompat.contains(Incompat::CHUNKED_FILES),
            Feature::DevicesOrSecondHead => incompat.contains(Incompat::DEVICES_OR_SECOND_HEAD),
            Feature::TailPacking => incompat.contains(Incompat::TAIL_PACKING),
            Feature::FragmentsOrDedupe => incompat.contains(Incompat::FRAGMENTS_OR_DEDUPE),
            Feature::SmallBlocks => block_bits < PAGE_BITS && algorithms == 0,
            Feature::SmallCompressedBlocks => block_bits < PAGE_BITS && algorithms != 0,
            Feature::XattrPrefixes => incompat.contains(Incompat::XATTR_PREFIXES),
            Feature::Bits48 => incompat.contains(Incompat::BITS_48),
            Feature::Metabox => incompat.contains(Incompat::METABOX),
            // Without another place to look for them, older kernels find them in the image, too.
            Feature::PlainXattrPrefixes => {
                let elsewhere = Incompat::FRAGMENTS_OR_DEDUPE | Incompat::METABOX;
                compat.contains(Compat::PLAIN_XATTR_PREFIXES) && incompat.intersects(elsewhere)
            }
        };
        Feature::ALL.into_iter().filter(has).collect()
    }

    /// Returns the features that images built with these options may use.
    pub fn needed_by(options: &Options) -> Vec<Feature> {
        let ids = options.ways().into_iter().filter_map(|(choice, size)| Some((choice.codec().erofs_id()?, size)));
        let ids: Vec<_> = ids.collect();
        let has_id = |id| ids.iter().any(|(known, _)| *known == id);
        let asked = |features: Features| options.features.intersects(features);
        let small = options.block_size < 1 << PAGE_BITS;
        let has = |feature: &Feature| match feature {
            Feature::Lz4 => has_id(algorithm::LZ4),
            Feature::Lzma => has_id(algorithm::LZMA),
            Feature::Deflate => has_id(algorithm::DEFLATE),
            Feature::Zstd => has_id(algorithm::ZSTD),
            Feature::BigClusters => {
                ids.iter().any(|(id, cluster_size)| *id != algorithm::LZ4 || *cluster_size > options.block_size)
            }
            Feature::Chunks => asked(Features::CHUNKS) || options.devices() > 0,
            Feature::DevicesOrSecondHead => options.devices() > 0,
            Feature::TailPacking => asked(Features::ZTAILPACKING),
            Feature::FragmentsOrDedupe => {
                asked(Features::FRAGMENTS | Features::ALL_FRAGMENTS | Features::DEDUPE | Features::COMPRESSED_DIRS)
            }
            Feature::SmallBlocks => small && ids.is_empty(),
            Feature::SmallCompressedBlocks => small && !ids.is_empty(),
            Feature::XattrPrefixes => !options.xattr_prefixes.is_empty() || options.inode_digest.is_some(),
            Feature::Bits48 => asked(Features::BITS_48),
            Feature::Metabox => asked(Features::METABOX),
            // Older kernels look for prefixes in the packed inode. Those of names are used only if a name has one.
            Feature::PlainXattrPrefixes => {
                let packed = Features::FRAGMENTS | Features::ALL_FRAGMENTS | Features::COMPRESSED_DIRS;
                options.inode_digest.is_some() && asked(packed)
            }
        };
        Feature::ALL.into_iter().filter(has).collect()
    }
}

/// Name of the option in errors.
pub(super) const TARGET_KERNEL: &str = "target kernel Linux";

impl Options {
    /// Refuses features that the target kernel does not support, naming the kernel that does.
    pub fn check_target(&self) -> Result<()> {
        let target = self.target_kernel;
        if target < Kernel::OLDEST {
            let why = format!("it cannot read the present form of EROFS: {} is the first that can", Kernel::OLDEST);
            return Err(Error::option(TARGET_KERNEL, target, why));
        }
        let lacking = |feature: &Feature| feature.since() > target;
        let features: Vec<_> = Feature::needed_by(self).into_iter().filter(lacking).collect();
        if features.is_empty() {
            return Ok(());
        }
        let each: Vec<_> =
            features.iter().map(|f| format!("{} (since Linux {})", self.in_words(*f), f.since())).collect();
        Err(Error::option(TARGET_KERNEL, target, format!("this kernel cannot read {}", each.join(", "))))
    }

    /// Refuses clusters with which Linux would not mount the image.
    pub fn check_clusters(&self) -> Result<()> {
        let lz4 = self.ways().into_iter().filter(|(choice, _)| choice.codec().erofs_id() == Some(algorithm::LZ4));
        let longest = lz4.map(|(_, cluster_size)| longest_cluster(self, cluster_size)).max().unwrap_or(0);
        let blocks = longest / self.block_size.max(1);
        if blocks > LZ4_BLOCKS_MAX {
            let (block, most) = (Size(self.block_size.into()), Size((LZ4_BLOCKS_MAX * self.block_size).into()));
            let limit = format!("Linux reads LZ4 in clusters of up to {LZ4_BLOCKS_MAX} blocks");
            let why = format!("{blocks} blocks; {limit}, which are {most} in blocks of {block}");
            return Err(Error::option("cluster size", Size(longest.into()), why));
        }
        let compressed = self.ways().into_iter().filter(|(choice, _)| choice.codec().erofs_id().is_some());
        let longest = compressed.map(|(_, cluster_size)| longest_cluster(self, cluster_size)).max().unwrap_or(0);
        let blocks = longest / self.block_size.max(1);
        if blocks > CLUSTER_BLOCKS_MAX && !self.features.contains(Features::BITS_48) {
            let limit = format!("the index of a file counts up to {CLUSTER_BLOCKS_MAX} blocks of a cluster");
            let why = format!("{blocks} blocks; {limit}: choose larger blocks, or the feature 48bit");
            return Err(Error::option("cluster size", Size(longest.into()), why));
        }
        Ok(())
    }

    /// Returns the name of a feature as in the option that requests it.
    fn in_words(&self, feature: Feature) -> &'static str {
        match feature {
            Feature::BigClusters if self.build.codec.codec().erofs_id() == Some(algorithm::LZ4) => {
                "clusters larger than a block"
            }
            Feature::FragmentsOrDedupe if self.features.intersects(Features::FRAGMENTS | Features::ALL_FRAGMENTS) => {
                "fragments"
            }
            Feature::FragmentsOrDedupe if self.features.intersects(Features::DEDUPE) => "dedupe",
            Feature::FragmentsOrDedupe => "compressed-dirs",
            Feature::SmallBlocks => "blocks smaller than 4K",
            Feature::SmallCompressedBlocks => "compression in blocks smaller than 4K",
            Feature::XattrPrefixes if self.inode_digest.is_some() => "inode digests",
            Feature::XattrPrefixes => "prefixes of xattr names",
            Feature::PlainXattrPrefixes => "inode digests beside a packed inode",
            Feature::DevicesOrSecondHead => "additional devices",
            other => other.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use packfs_codec::{Choice, Codec};

    use super::*;

    fn kernel(text: &str) -> Kernel {
        text.parse().unwrap()
    }

    fn for_kernel(text: &str) -> Options {
        Options { target_kernel: kernel(text), ..Options::default() }
    }

    #[test]
    fn versions_are_ordered_by_number() {
        assert!(kernel("5.4") < kernel("5.15") && kernel("5.19") < kernel("6.1") && kernel("6.1") < kernel("6.10"));
        for (text, shown) in [("6.1", "6.1"), ("6.12.63", "6.12"), ("6.18-rc3", "6.18"), ("5.10.0-28-amd64", "5.10")] {
            assert_eq!(kernel(text).to_string(), shown);
        }
        for wrong in ["", "6", "six.one", "6.x", "-1.2", "70000.1"] {
            assert!(wrong.parse::<Kernel>().unwrap_err().contains("such as 6.1"), "{wrong}");
        }
    }

    #[test]
    fn all_features_are_listed_once_and_by_age() {
        let ages: Vec<_> = Feature::ALL.iter().map(|feature| feature.since()).collect();
        assert!(ages.is_sorted(), "{ages:?}");
        let names: std::collections::HashSet<_> = Feature::ALL.iter().map(|feature| feature.name()).collect();
        assert_eq!(names.len(), Feature::ALL.len());
    }

    #[test]
    fn an_image_needs_what_its_superblock_says() {
        use Feature::*;
        let (none, padded) = (Incompat::empty(), Incompat::ZERO_PADDING);
        let plain_prefixes = Compat::PLAIN_XATTR_PREFIXES | Compat::MTIME;
        type Case<'a> = (Compat, Incompat, u16, u8, &'a [Feature], &'a str);
        let (prefixes, fragments) = (Incompat::XATTR_PREFIXES, Incompat::FRAGMENTS_OR_DEDUPE);
        let table: [Case<'_>; 15] = [
            (Compat::MTIME | Compat::XATTR_FILTER, none, 0, 12, &[], "5.4"),
            (Compat::MTIME, padded, 1, 12, &[Lz4], "5.4"),
            (Compat::MTIME, padded | Incompat::BIG_CLUSTERS, 1, 12, &[Lz4, BigClusters], "5.13"),
            (Compat::MTIME, Incompat::CHUNKED_FILES, 0, 12, &[Chunks], "5.15"),
            (Compat::MTIME, Incompat::DEVICES_OR_SECOND_HEAD, 0, 12, &[DevicesOrSecondHead], "5.16"),
            (Compat::MTIME, padded | Incompat::BIG_CLUSTERS, 2, 12, &[BigClusters, Lzma], "5.16"),
            (Compat::MTIME, padded | Incompat::TAIL_PACKING, 1, 12, &[Lz4, TailPacking], "5.17"),
            (Compat::MTIME, padded | Incompat::FRAGMENTS_OR_DEDUPE, 1, 12, &[Lz4, FragmentsOrDedupe], "6.1"),
            (Compat::MTIME, none, 0, 9, &[SmallBlocks], "6.4"),
            (Compat::MTIME, padded, 1, 11, &[Lz4, SmallCompressedBlocks], "6.8"),
            (Compat::MTIME, Incompat::BIG_CLUSTERS, 0b1101, 12, &[Lz4, BigClusters, Deflate, Zstd], "6.10"),
            (Compat::MTIME, Incompat::BITS_48 | Incompat::XATTR_PREFIXES, 0, 12, &[XattrPrefixes, Bits48], "6.15"),
            (plain_prefixes, Incompat::METABOX, 0, 12, &[Metabox, PlainXattrPrefixes], "6.17"),
            (plain_prefixes, prefixes, 0, 12, &[XattrPrefixes], "6.4"),
            (
                plain_prefixes,
                prefixes | fragments,
                0,
                12,
                &[FragmentsOrDedupe, XattrPrefixes, PlainXattrPrefixes],
                "6.17",
            ),
        ];
        for (compat, incompat, algorithms, block_bits, features, since) in table {
            let used = Feature::used(compat, incompat, algorithms, block_bits);
            assert_eq!((&used[..], Kernel::needed(&used)), (features, kernel(since)));
        }
    }

    #[test]
    fn options_that_the_target_lacks_are_refused_by_name() {
        let refused = |options: &Options| options.check_target().unwrap_err().to_string();
        type Change = fn(&mut Options);
        let table: [(&str, Change, &str); 11] = [
            (
                "6.9",
                |o| o.build.codec = Choice::new(Codec::Zstd),
                "Linux 6.9: this kernel cannot read zstd (since Linux 6.10)",
            ),
            ("6.5", |o| o.build.codec = Choice::new(Codec::Deflate), "deflate (since Linux 6.6)"),
            ("5.15", |o| o.build.codec = Choice::new(Codec::Lzma), "lzma (since Linux 5.16)"),
            ("5.10", |o| o.features = Features::empty(), "clusters larger than a block (since Linux 5.13)"),
            ("6.0", |_| {}, "fragments (since Linux 6.1)"),
            ("6.0", |o| o.features = Features::DEDUPE, "dedupe (since Linux 6.1)"),
            ("6.14", |o| o.features = Features::BITS_48, "48bit (since Linux 6.15)"),
            ("6.7", |o| o.block_size = 1024, "compression in blocks smaller than 4K (since Linux 6.8)"),
            ("6.3", |o| o.xattr_prefixes = vec![b"user.a."[..].into()], "prefixes of xattr names (since Linux 6.4)"),
            ("5.16", |o| o.features = Features::ZTAILPACKING, "ztailpacking (since Linux 5.17)"),
            ("4.19", |_| {}, "5.4 is the first"),
        ];
        for (target, change, message) in table {
            let mut options = for_kernel(target);
            change(&mut options);
            let shown = refused(&options);
            assert!(shown.contains(message), "{target}: {shown}");
        }
        let mut both = for_kernel("5.16");
        both.features = Features::DEDUPE | Features::BITS_48;
        assert_eq!(
            refused(&both),
            "target kernel Linux 5.16: this kernel cannot read dedupe (since Linux 6.1), 48bit (since Linux 6.15)"
        );
    }

    #[test]
    fn the_defaults_suit_the_default_target() {
        Options::default().check_target().unwrap();
        let oldest = Options { features: Features::empty(), cluster_size: 4096, ..for_kernel("5.4") };
        oldest.check_target().unwrap();
        let plain = Options { features: Features::empty(), ..for_kernel("5.4") };
        let plain = plain.with(|build| build.codec = Choice::new(Codec::None));
        plain.check_target().unwrap();
    }
}
