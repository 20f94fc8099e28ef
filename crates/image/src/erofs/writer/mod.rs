//! Builds EROFS images: data as it arrives, then one zone of metadata, then the superblock.

mod chunk;
mod compact;
mod data;
mod dir;
mod epoch;
mod far;
mod fit;
pub(super) mod index;
mod inode;
mod joined;
pub(super) mod keep;
mod lanes;
mod metadata;
mod pack;
mod placing;
mod refer;
pub(super) mod stamp;
mod superblock;
mod unused;
mod xattr;

use std::path::PathBuf;

use packfs_blocks::io::Scratch;
use packfs_blocks::units::Size;
use packfs_blocks::{Buffers, Output};
use packfs_codec::{Choice, Codec};
use serde::Serialize;

use self::data::{Data, DataDone, Rules};
use self::index::Form;
use self::keep::Keep;
use self::lanes::Lanes;
pub(super) use self::pack::longest_cluster;
use self::pack::{Ending, Packing, Worker};
use self::superblock::Head;
use super::format;
use super::kernel::{Feature, Kernel};
use super::limits;
use crate::build::{self, Census, Cutting, Format, Get, Ledger, Order, Place, Summed, Tools, Units, Writer, Written};
use crate::limits::Limits;
use crate::tree::{Handling, Tree};
use crate::{Error, Result};

/// Default length of pieces, and of chunks, of uncompressed files in bytes.
const RAW_PIECE: u32 = 128 << 10;
/// Maximum of [`Options::chunk_size`]: workers hold chunks in memory.
pub const CHUNK_MAX: u32 = 16 << 20;

/// Maximum of [`Options::data_align`].
pub const ALIGN_MAX: u32 = 16 << 20;

/// Usual name of [`Options::inode_digest`]; Linux does not show attributes without a class.
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

/// Options of a build. [`Options::default`] is the default of the command line without [`Features::DEDUPE`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Options that every format has.
    pub build: build::Options,
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
    /// Length of chunks of images without compression in bytes: a power of two from the block to [`CHUNK_MAX`].
    pub chunk_size: u32,
    /// Maximum size in bytes of the physical clusters of the packed inode; by default [`Options::cluster_size`].
    pub fragment_cluster: Option<u32>,
    /// Maximum number of bytes that one cluster decodes to, at least a block; by default as many as fit.
    pub extent_max: Option<u32>,
    /// The data of each file begins at a multiple of this many bytes: a multiple of the block, which is the default, up to
    /// [`ALIGN_MAX`]. Only images without compression have others.
    pub data_align: Option<u32>,
    /// Compression of [`Features::METABOX`].
    pub metabox: Metabox,
    /// Maximum number of sources that become [devices](crate::Tree::devices): the image refers to their data instead of
    /// holding a copy. With 0, all data is copied.
    pub refer: u16,
    /// A file for the data of files, which becomes the only [device](crate::source::Device) of the image. It appears before the
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
    /// Maximum size of a physical cluster in bytes, as [`Options::cluster_size`].
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

impl Default for Options {
    fn default() -> Self {
        Options {
            // Higher levels take up to three times as long for less than a hundredth of the size.
            build: build::Options::new("lz4hc:9".parse().expect("a choice of the table")),
            cluster_size: 64 << 10,
            block_size: 4096,
            features: Features::FRAGMENTS,
            target_kernel: Kernel::DEFAULT,
            xattr_prefixes: Vec::new(),
            inode_digest: None,
            xattr_share: None,
            chunk_size: RAW_PIECE,
            fragment_cluster: None,
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

/// Counters of the data writer, in bytes except the `..._clusters`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Number of physical clusters written.
    pub clusters: u64,
    /// Clusters stored uncompressed because they do not shrink.
    pub raw_clusters: u64,
    /// Clusters for which an equal one already existed.
    pub shared_clusters: u64,
    /// File bytes that went to a codec.
    pub packed_bytes: u64,
    /// File bytes in the packed inode.
    pub fragment_bytes: u64,
    /// File bytes that were duplicates of stored data.
    pub duplicate_bytes: u64,
    /// File bytes in holes.
    pub hole_bytes: u64,
}

impl Counts {
    /// Adds the counters of another shard.
    fn add(&mut self, more: &Counts) {
        let Counts {
            clusters,
            raw_clusters,
            shared_clusters,
            packed_bytes,
            fragment_bytes,
            duplicate_bytes,
            hole_bytes,
        } = more;
        self.clusters += clusters;
        self.raw_clusters += raw_clusters;
        self.shared_clusters += shared_clusters;
        self.packed_bytes += packed_bytes;
        self.fragment_bytes += fragment_bytes;
        self.duplicate_bytes += duplicate_bytes;
        self.hole_bytes += hole_bytes;
    }
}

/// EROFS-specific figures of a build.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Details {
    /// The oldest Linux that reads the image.
    pub kernel: String,
    /// UUID of the image.
    pub uuid: String,
    /// Counters of the data writer.
    pub data: Counts,
    /// File bytes that stay on additional devices, those that several files share once for each.
    pub referred_bytes: u64,
    /// Bytes in [`Options::blob`].
    pub blob_bytes: u64,
}

build::buildable!(Erofs);

/// Checked options, and values derived from them.
struct Builder<'o> {
    options: &'o Options,
    lanes: Lanes,
    rules: Rules,
    /// The first block of the image that data may use.
    first_block: u64,
    /// Buffers for pieces.
    pieces: Buffers,
}

impl<'o> Builder<'o> {
    /// Fails, before any work, if the options are invalid.
    fn new(options: &'o Options) -> Result<Self> {
        let lanes = lanes(options)?;
        let rules = rules(options, lanes.usual());
        let first_block = Head::new(options)?.blocks();
        Ok(Builder { options, rules, first_block, pieces: Buffers::new(lanes.usual().piece), lanes })
    }

    /// Number of bytes that keep all workers busy, even if that exceeds the budget.
    fn least_in_flight(&self) -> usize {
        (self.options.build.threads + 1) * self.lanes.usual().piece
    }
}

impl Format for Builder<'_> {
    type Worker = Worker;
    type Done = DataDone;

    fn options(&self) -> &build::Options {
        &self.options.build
    }

    fn units(&self) -> &Units {
        &self.lanes.usual().units
    }

    fn worker(&self) -> Worker {
        Worker::new(self.lanes.all())
    }

    fn check(&self, tree: &mut Tree) -> Result<()> {
        self.lanes.check(tree)?;
        check_handling(self.options, tree)?;
        stamp::drop_stale(self.options, tree);
        compact::check(self.options, tree)?;
        limits::check(self.options, tree)
    }

    fn limits(&self) -> Limits {
        limits::limits()
    }

    fn checks_alone(&self, sample: u32) -> bool {
        // Times of compact inodes depend on each other, and attributes are shared by the number of their inodes.
        let compact = self.options.features.contains(Features::COMPACT_INODES);
        // A digest takes the place of an attribute with its name, so that the set of an inode depends on its file.
        let replaces = self.options.inode_digest.as_deref().is_some_and(stamp::is_of_linux);
        !compact && !replaces && self.options.xattr_share.is_none_or(|above| above < sample)
    }

    fn cutting(&self) -> Cutting {
        let budget = self.options.build.budget(8, self.least_in_flight(), 32 << 20);
        let sparse = keeps_holes(self.options);
        Cutting {
            block_len: self.lanes.usual().piece,
            buffers: self.pieces.clone(),
            sparse,
            whole_holes_are_free: true,
            budget,
            unread: self.options.reflink.then_some(self.options.block_size as usize),
            sums: self.options.inode_digest.is_some().then(Summed::default),
        }
    }

    fn begin_blob(&self) -> Result<Option<Output>> {
        let create = |path: &PathBuf| {
            let created = Output::create(path, 0o666, self.options.build.force);
            created.map_err(build::output_error("cannot create", path))
        };
        self.options.blob.as_ref().map(create).transpose()
    }

    fn data_start(&self) -> u64 {
        if self.options.blob.is_some() {
            return 0;
        }
        self.first_block * u64::from(self.options.block_size)
    }

    fn writer<'env>(&'env self, tools: Tools<'_, 'env, Worker>, place: Place) -> Result<impl Writer<Done = DataDone>> {
        let options = &self.options.build;
        // Pieces in flight take their length once more when they are packed.
        let in_flight = options.budget(4, 2 * self.least_in_flight(), 256 << 20);
        let ledger = Ledger::new(&self.lanes.usual().units, options.offset);
        Ok(Data::new(tools, self.rules, &self.lanes, self.pieces.clone(), place, in_flight, ledger))
    }

    /// Linux keeps the clusters that it has read, so files that are read one after the other need not share them.
    const USUAL_ORDER: Order = Order::Type;

    fn small_max(&self) -> Option<u64> {
        (self.rules.ending == Ending::Fragment).then_some(self.rules.fragment_max as u64)
    }

    fn check_len(&self, len: u64) -> Result<()> {
        far::check(self.options, len)
    }

    fn decode(&self, from: &mut Get<'_>, scratch: Scratch) -> Result<DataDone> {
        DataDone::decode(from, self.rules.form, Keep::new(scratch), self.options.inode_digest.is_some())
    }

    fn made_by(&self) -> Result<String> {
        let Packing { choice, window, piece, .. } = self.lanes.usual();
        build::made_by(choice, *piece, || choice.cluster_encoder(*window))
    }

    fn finish(
        &self,
        tools: Tools<'_, '_, Worker>,
        tree: &Tree,
        census: &Census,
        mut data: DataDone,
    ) -> Result<Written> {
        let start = self.data_start();
        let (output, base) = tools.blob.map_or((tools.output, self.options.build.offset), |blob| (blob, 0));
        unused::clear(
            tree,
            &mut data,
            &unused::Place { output, base, start, packing: self.lanes.of_packed(), lanes: &self.lanes },
        )?;
        if tools.blob.is_some() {
            let blocks = std::mem::replace(&mut data.end, self.first_block);
            data.blob_bytes = blocks * u64::from(self.options.block_size);
        }
        let written = metadata::write(tools, &self.lanes, self.options, (tree, census), &mut data)?;
        let image_bytes = written.blocks * u64::from(self.options.block_size);
        let uuid = superblock::show_uuid(&written.uuid);
        let details = Details {
            kernel: written.kernel.to_string(),
            uuid,
            data: data.counts,
            referred_bytes: data.referred_bytes,
            blob_bytes: data.blob_bytes,
        };
        let data_bytes = image_bytes - written.metadata_bytes;
        let Counts { duplicate_bytes, packed_bytes, hole_bytes, .. } = data.counts;
        let counts = build::Counts { duplicate_bytes, packed_bytes, hole_bytes, padded_bytes: image_bytes };
        Ok(Written { image_bytes, data_bytes, counts, details: build::Details::Erofs(details), ledger: data.ledger })
    }
}

/// Returns true if holes stay holes: encoded extents and chunks can express them.
fn keeps_holes(options: &Options) -> bool {
    let has_form = options.features.contains(Features::BITS_48) || options.target_kernel >= Feature::Chunks.since();
    options.build.sparse && has_form
}

/// Checks the options that concern file data and derives how workers pack it.
fn lanes(options: &Options) -> Result<Lanes> {
    let block_size = options.block_size;
    if !block_size.is_power_of_two() || !(512..=4096).contains(&block_size) {
        return Err(Error::option(
            "block size",
            Size(block_size.into()),
            "EROFS requires a power of two from 512 to 4K here",
        ));
    }
    let of_files = std::iter::once(options.cluster_size).chain(options.build.recipes.clusters().iter().copied());
    let of_metabox = options.features.contains(Features::METABOX).then_some(options.metabox.cluster_size);
    for cluster_size in of_files.chain(of_metabox).chain(options.fragment_cluster) {
        if cluster_size == 0 || cluster_size % block_size != 0 || u64::from(cluster_size) > format::CLUSTER_MAX {
            let why = format!("EROFS requires a multiple of the block ({}) up to 1 MiB", Size(block_size.into()));
            return Err(Error::option("cluster size", Size(cluster_size.into()), why));
        }
    }
    if !options.chunk_size.is_power_of_two() || !(block_size..=CHUNK_MAX).contains(&options.chunk_size) {
        let why = format!("a chunk is a power of two from the block ({}) to 16 MiB", Size(block_size.into()));
        return Err(Error::option("chunk size", Size(options.chunk_size.into()), why));
    }
    check_features(options)?;
    check_data(options)?;
    refer::check(options)?;
    check_reflink(options)?;
    options.check_target()?;
    options.check_clusters()?;
    Lanes::new(options)
}

/// Checks the length of extents and the alignment of data.
fn check_data(options: &Options) -> Result<()> {
    let block = options.block_size;
    if let Some(max) = options.extent_max.filter(|max| *max < block) {
        let why = format!("an extent is at least as long as a block ({})", Size(block.into()));
        return Err(Error::option("extent length", Size(max.into()), why));
    }
    if let (Some(max), Some(_)) = (options.extent_max, options.build.shards) {
        return Err(Error::option("extent length", Size(max.into()), "shards have extents of any length"));
    }
    let Some(align) = options.data_align else { return Ok(()) };
    let refuse = |why: String| Err(Error::option("data alignment", Size(align.into()), why));
    if align == 0 || align % block != 0 || align > ALIGN_MAX {
        return refuse(format!("it is a multiple of the block ({}) up to 16 MiB", Size(block.into())));
    }
    if options.build.codec.codec() != Codec::None {
        return refuse("only uncompressed data is aligned: the codec has to be none".into());
    }
    if options.build.shards.is_some() {
        return refuse("the data of shards is not aligned".into());
    }
    Ok(())
}

/// Refuses what needs the bytes of files that are not read.
fn check_reflink(options: &Options) -> Result<()> {
    let needs_bytes = [
        (options.build.codec.codec() != Codec::None, "compressed files have to be read: the codec has to be none"),
        (
            options.build.index.is_some() || options.build.reuse.is_some(),
            "an index has digests of files, which are not read",
        ),
        (options.inode_digest.is_some(), "digests of files need their bytes"),
        (options.build.shards.is_some(), "shards are packed from files that are read"),
    ];
    let refused = needs_bytes.iter().find(|(asked, _)| options.reflink && *asked);
    refused.map_or(Ok(()), |(_, why)| Err(Error::option("reflink", "true", *why)))
}

/// Refuses features without others that they need.
fn check_features(options: &Options) -> Result<()> {
    let refuse = |feature: &str, why: &str| Err(Error::option("features", feature, why));
    let wide = options.features.contains(Features::BITS_48);
    let need_wide =
        [(Features::UNALIGNED, "unaligned"), (Features::METABOX, "metabox"), (Features::DOT_OMITTED, "dot-omitted")];
    if let Some((_, name)) = need_wide.iter().find(|(feature, _)| options.features.contains(*feature) && !wide) {
        return refuse(name, "it needs the feature 48bit");
    }
    if options.features.contains(Features::COMPACT_INODES | Features::EXTENDED_INODES) {
        return refuse("compact-inodes", "extended-inodes is the opposite");
    }
    if options.features.contains(Features::METABOX) && options.metabox_codec().codec() == Codec::None {
        return refuse("metabox", "it needs a codec: that of the image, or one of its own");
    }
    if options.build.codec.codec() != Codec::None {
        return Ok(());
    }
    if options.features.contains(Features::COMPRESSED_DIRS) {
        return refuse("compressed-dirs", "directories have the codec of files, which is none");
    }
    if !options.build.recipes.is_empty() {
        let why = "an image without compression has no compressed files: choose a codec, and `store` the other files";
        return Err(Error::option("codec", "none", why));
    }
    Ok(())
}

/// Fine enough to find the few clusters of a repeated stretch, coarse enough to be fast.
fn chunk_len(cluster: usize) -> usize {
    (cluster / 8).clamp(512, 8 << 10).next_power_of_two()
}

/// Checks that the attributes of each inode fit after it.
pub(super) fn check_xattrs(options: &Options, tree: &Tree) -> Result<()> {
    xattr::Xattrs::encode(options, tree, options.xattr_share).map(drop)
}

/// Refuses wishes about the data of single files that no layout fulfils.
fn check_handling(options: &Options, tree: &Tree) -> Result<()> {
    let wishes = tree.inos().fold(Handling::empty(), |all, ino| all | tree.inode(ino).handling);
    let refuse = |why: &str| Err(Error::Unsupported(format!("{why} in an EROFS image")));
    if wishes.contains(Handling::NO_DEDUP) {
        return refuse("keeping single files out of dedup");
    }
    if wishes.intersects(Handling::SMALL | Handling::TAILS | Handling::NO_SPARSE | Handling::ALIGN) {
        return refuse("fragments, holes and alignment for single files have no place");
    }
    let compressed = options.build.codec.codec() != Codec::None;
    if compressed && wishes.contains(Handling::STORE) {
        // Files with holes need chunks, which such images do not have.
        if options.target_kernel < Feature::Chunks.since() {
            return refuse("storing single files for a kernel without chunk-based files");
        }
        if options.features.intersects(Features::BITS_48) {
            return refuse("storing single files with 48-bit addresses");
        }
    }
    Ok(())
}

fn rules(options: &Options, packing: &Packing) -> Rules {
    let asked = |features| options.features.intersects(features);
    let raw = options.build.codec.codec() == Codec::None;
    let encoded = asked(Features::BITS_48);
    let ending = if asked(Features::FRAGMENTS | Features::ALL_FRAGMENTS) {
        Ending::Fragment
    } else if asked(Features::ZTAILPACKING) && !encoded {
        Ending::Inline
    } else {
        Ending::Cluster
    };
    let block_bits = u8::try_from(options.block_size.ilog2()).expect("at most 12");
    let algorithm = options.build.codec.codec().erofs_id().unwrap_or(0);
    Rules {
        align: options.data_align.unwrap_or(options.block_size).into(),
        device: u16::from(options.blob.is_some()),
        form: Form { block_bits, algorithm, encoded, compact: !asked(Features::FULL_INDEX) },
        piece: packing.piece,
        fragment_max: packing.fragment_max(),
        ending,
        all_fragments: asked(Features::ALL_FRAGMENTS) && !raw,
        raw,
        chunks: asked(Features::CHUNKS),
        scattered: options.target_kernel >= Feature::Chunks.since(),
        sparse: keeps_holes(options),
        more_packed: asked(Features::COMPRESSED_DIRS),
        inline_tails: !asked(Features::NO_INLINE),
        dedup: options.build.dedup,
        chunk: (options.build.dedup && asked(Features::DEDUPE) && !raw).then(|| chunk_len(packing.cluster)),
        on_error: options.build.on_error,
    }
}
