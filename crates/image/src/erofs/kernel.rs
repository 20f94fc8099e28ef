//! The Linux versions that features of the format require, for writing (`--target-kernel`) and for
//! telling what an image needs.

use std::fmt;
use std::str::FromStr;

use super::format::{Compat, Incompat, algorithm};

/// log2 of the smallest block that every kernel supports. Kernels with larger pages read it only from 6.4 on.
pub(super) const PAGE_BITS: u8 = 12;

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
}

/// Kernels that make a difference to EROFS images, and those with long-term support.
const KNOWN: [&str; 15] =
    ["5.4", "5.10", "5.13", "5.15", "5.16", "5.17", "6.1", "6.4", "6.6", "6.8", "6.10", "6.12", "6.15", "6.17", "6.18"];

impl Kernel {
    /// Returns kernels that make a difference to EROFS images, and those with long-term support, the oldest first.
    pub fn known() -> Vec<&'static str> {
        KNOWN.to_vec()
    }
}

/// Name of the option in errors.
pub(super) const TARGET_KERNEL: &str = "target-kernel";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_that_a_feature_needs_is_offered() {
        let offered: Vec<Kernel> = KNOWN.iter().map(|kernel| kernel.parse().unwrap()).collect();
        assert!(offered.is_sorted(), "{offered:?}");
        for feature in Feature::ALL {
            assert!(offered.contains(&feature.since()), "{}: {}", feature.name(), feature.since());
        }
    }

    fn kernel(text: &str) -> Kernel {
        text.parse().unwrap()
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
}
