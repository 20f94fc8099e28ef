//! Options of EROFS images.

use std::path::PathBuf;

use packfs_blocks::units::Size;
use packfs_codec::Choice;

use crate::erofs::format::{CLUSTER_BLOCKS_MAX, LZ4_BLOCKS_MAX, algorithm};
use crate::erofs::kernel::{Feature, Kernel, PAGE_BITS, TARGET_KERNEL};
use crate::{Error, Result, build};

/// Default length of pieces, and of chunks, of uncompressed files in bytes. Shorter ones find more that is equal and
/// take more entries in indexes and in memory. Not measured.
const RAW_PIECE: u32 = 128 << 10;
/// Maximum of [`ErofsOptions::chunk_size`]: workers hold chunks in memory.
pub(super) const CHUNK_MAX: u32 = 16 << 20;

/// Maximum of [`ErofsOptions::data_align`].
pub(super) const ALIGN_MAX: u32 = 16 << 20;

/// Usual name of [`ErofsOptions::inode_digest`]; Linux does not show attributes without a class.
pub const INODE_DIGEST: &str = "erofs.fingerprint.v1";

bitflags::bitflags! {
    /// Optional features of an image.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Features: u32 {
        /// Fragments: tails of files, and files smaller than a cluster, are packed together.
        const FRAGMENTS = 0x1;
        /// All files are packed together.
        const ALL_FRAGMENTS = 0x2;
        /// Parts of files that occur elsewhere are shared.
        const DEDUPE = 0x4;
        /// Tail packing: the last cluster of a file follows its inode.
        const ZTAILPACKING = 0x8;
        /// Encoded extents, 48-bit addresses.
        const BITS_48 = 0x10;
        /// Full indexes of 8 bytes per entry, never compact ones.
        const FULL_INDEX = 0x20;
        /// Uncompressed files are chunk-based.
        const CHUNKS = 0x40;
        /// Uncompressed tails do not follow inodes.
        const NO_INLINE = 0x80;
        /// Every inode is extended.
        const EXTENDED_INODES = 0x100;
        /// Clusters begin and end at any byte ([`Features::BITS_48`]).
        const UNALIGNED = 0x200;
        /// Directories are compressed, in the packed inode.
        const COMPRESSED_DIRS = 0x400;
        /// Inodes are compressed, in the metabox ([`Features::BITS_48`]).
        const METABOX = 0x800;
        /// Directories have no entry `.` ([`Features::BITS_48`]).
        const DOT_OMITTED = 0x1000;
        /// The superblock has no checksum.
        const NO_CHECKSUM = 0x2000;
        /// No inode is extended.
        const COMPACT_INODES = 0x4000;
        /// Addresses of chunks have 8 bytes.
        const CHUNK_INDEXES = 0x8000;
    }
}

/// Options of a build. [`ErofsOptions::default`] is the default of the command line without [`Features::DEDUPE`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ErofsOptions {
    /// Options that every format has.
    pub build: build::SharedOptions,
    /// Maximum size of a physical cluster in bytes: a multiple of the block up to 1 MiB.
    pub cluster_size: u32,
    /// Block size in bytes: a power of two from 512 to 4096.
    pub block_size: u32,
    /// Features to use.
    pub features: Features,
    /// The oldest Linux that must be able to read the image.
    pub target_kernel: Kernel,
    /// Prefixes of xattr names to store in short form, including their class, such as `user.mime.`.
    pub xattr_prefixes: Vec<Box<[u8]>>,
    /// Name of an attribute with the SHA-256 of each file that is not empty, by which Linux shares page cache between images;
    /// [`INODE_DIGEST`] is the usual one.
    pub inode_digest: Option<Box<[u8]>>,
    /// Share attributes that more inodes than this have. By default more than 2, and all long ones.
    pub xattr_share: Option<u32>,
    /// Length of chunks of images without compression in bytes: a power of two from the block to 16 MiB.
    pub chunk_size: u32,
    /// Maximum size in bytes of the physical clusters of the packed inode; by default [`ErofsOptions::cluster_size`].
    pub fragment_cluster: Option<u32>,
    /// Average number of bytes of small files and tails after which new clusters of them begin where their content says so:
    /// later clusters are then the same in an updated image. `None` fills all clusters; at least 16 KiB.
    pub rsyncable: Option<u32>,
    /// Maximum number of bytes that one cluster decodes to, at least a block; by default as many as fit.
    pub extent_max: Option<u32>,
    /// The data of each file begins at a multiple of this many bytes: a multiple of the block, which is the default, up to
    /// 16 MiB. Only images without compression have others.
    pub data_align: Option<u32>,
    /// Compression of [`Features::METABOX`].
    pub metabox: Metabox,
    /// Maximum number of sources that become [devices](crate::Tree::devices): the image refers to their data instead of
    /// holding a copy. With 0, all data is copied.
    pub refer: u16,
    /// A file for the data of files, which becomes the only [device](crate::source::SourceDevice) of the image. It appears before the
    /// image does.
    pub blob: Option<PathBuf>,
    /// Have files of 64 KiB or more copied without reading them; only for images without compression. File systems that can
    /// share blocks with the source do so. Equal files are then stored twice, and only holes of the source stay holes.
    pub reflink: bool,
    /// UUID; by default derived from the image's contents, of which it takes only the length of files that are not read.
    pub uuid: Option<[u8; 16]>,
    /// Label, at most 15 bytes.
    pub label: String,
}

/// Compression of the metabox.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Metabox {
    /// Maximum size of a physical cluster in bytes, as [`ErofsOptions::cluster_size`].
    pub cluster_size: u32,
    /// Codec; by default that of the image.
    pub codec: Option<Choice>,
}

impl Default for Metabox {
    fn default() -> Self {
        // An inode needs all of its cluster.
        Metabox { cluster_size: 4096, codec: None }
    }
}

impl Default for ErofsOptions {
    fn default() -> Self {
        ErofsOptions {
            // Higher levels take up to three times as long for less than a hundredth of the size.
            build: build::SharedOptions::new("lz4hc:9".parse().expect("a choice of the table")),
            cluster_size: 64 << 10,
            block_size: 4096,
            features: Features::FRAGMENTS,
            target_kernel: Kernel::DEFAULT,
            xattr_prefixes: Vec::new(),
            inode_digest: None,
            xattr_share: None,
            chunk_size: RAW_PIECE,
            fragment_cluster: None,
            rsyncable: None,
            extent_max: None,
            data_align: None,
            metabox: Metabox::default(),
            refer: 0,
            blob: None,
            reflink: false,
            uuid: None,
            label: String::new(),
        }
    }
}

impl ErofsOptions {
    /// Returns all codecs with their cluster sizes that an image may have, that of most files first.
    pub(crate) fn ways(&self) -> Vec<(&Choice, u32)> {
        let mut ways = self.ways_of_files();
        ways.push(self.way_of_packed());
        ways.extend(self.way_of_metabox());
        ways
    }

    pub(crate) fn way_of_packed(&self) -> (&Choice, u32) {
        (&self.build.codec, self.fragment_cluster.unwrap_or(self.cluster_size))
    }

    pub(crate) fn way_of_metabox(&self) -> Option<(&Choice, u32)> {
        self.features.contains(Features::METABOX).then(|| (self.metabox_codec(), self.metabox.cluster_size))
    }

    pub(super) fn metabox_codec(&self) -> &Choice {
        self.metabox.codec.as_ref().unwrap_or(&self.build.codec)
    }

    /// Returns those of files, in the order of their numbers.
    pub(crate) fn ways_of_files(&self) -> Vec<(&Choice, u32)> {
        let recipes = &self.build.recipes;
        let mut ways = Vec::new();
        for codec in std::iter::once(&self.build.codec).chain(recipes.codecs()) {
            for cluster in std::iter::once(self.cluster_size).chain(recipes.clusters().iter().copied()) {
                ways.push((codec, cluster));
            }
        }
        ways
    }
}

impl ErofsOptions {
    /// Returns the maximum number of additional devices.
    pub(crate) fn devices(&self) -> u16 {
        if self.blob.is_some() { 1 } else { self.refer }
    }
}

/// Number of blocks that an uncompressed cluster may have, if clusters are smaller.
const RAW_BLOCKS: u32 = 4;

/// Returns the size in bytes of the longest cluster, compressed or not, of files whose largest compressed cluster is
/// `cluster_size`.
pub(crate) fn longest_cluster(options: &ErofsOptions, cluster_size: u32) -> u32 {
    if options.target_kernel < Feature::BigClusters.since() {
        return options.block_size;
    }
    cluster_size.max(RAW_BLOCKS * options.block_size)
}

/// Returns true if holes stay holes: encoded extents and chunks can express them.
pub(crate) fn keeps_holes(options: &ErofsOptions) -> bool {
    let has_form = options.features.contains(Features::BITS_48) || options.target_kernel >= Feature::Chunks.since();
    options.build.sparse && has_form
}

impl Feature {
    /// Returns the features that images built with these options may use.
    pub fn needed_by(options: &ErofsOptions) -> Vec<Feature> {
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

impl ErofsOptions {
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
            let block = Size(self.block_size.into());
            let most = Size((LZ4_BLOCKS_MAX * self.block_size).into());
            let limit = format!("Linux reads LZ4 in clusters of up to {LZ4_BLOCKS_MAX} blocks");
            let why = format!("{blocks} blocks; {limit}, which are {most} in blocks of {block}");
            return Err(Error::option("block-size", Size(longest.into()), why));
        }
        let compressed = self.ways().into_iter().filter(|(choice, _)| choice.codec().erofs_id().is_some());
        let longest = compressed.map(|(_, cluster_size)| longest_cluster(self, cluster_size)).max().unwrap_or(0);
        let blocks = longest / self.block_size.max(1);
        if blocks > CLUSTER_BLOCKS_MAX && !self.features.contains(Features::BITS_48) {
            let limit = format!("the index of a file counts up to {CLUSTER_BLOCKS_MAX} blocks of a cluster");
            let why = format!("{blocks} blocks; {limit}: choose larger blocks, or the feature 48bit");
            return Err(Error::option("block-size", Size(longest.into()), why));
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
    use packfs_codec::Codec;

    use super::*;

    fn kernel(text: &str) -> Kernel {
        text.parse().unwrap()
    }

    fn for_kernel(text: &str) -> ErofsOptions {
        ErofsOptions { target_kernel: kernel(text), ..ErofsOptions::default() }
    }

    #[test]
    fn options_that_the_target_lacks_are_refused_by_name() {
        let refused = |options: &ErofsOptions| options.check_target().unwrap_err().to_string();
        type Change = fn(&mut ErofsOptions);
        let table: [(&str, Change, &str); 11] = [
            (
                "6.9",
                |o| o.build.codec = Choice::new(Codec::Zstd),
                "target-kernel 6.9: this kernel cannot read zstd (since Linux 6.10)",
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
            "target-kernel 5.16: this kernel cannot read dedupe (since Linux 6.1), 48bit (since Linux 6.15)"
        );
    }

    #[test]
    fn the_defaults_suit_the_default_target() {
        ErofsOptions::default().check_target().unwrap();
        let oldest = ErofsOptions { features: Features::empty(), cluster_size: 4096, ..for_kernel("5.4") };
        oldest.check_target().unwrap();
        let plain = ErofsOptions { features: Features::empty(), ..for_kernel("5.4") };
        let plain = plain.with(|build| build.codec = Choice::new(Codec::None));
        plain.check_target().unwrap();
    }
}
