//! Building EROFS images: data as it comes, then one zone of metadata, then the superblock.

mod chunk;
mod data;
mod dir;
mod epoch;
mod fit;
pub(super) mod index;
mod inode;
pub(super) mod keep;
mod layout;
mod metadata;
mod order;
mod pack;
mod superblock;
mod unused;
mod xattr;

use std::path::Path;

use packfs_blocks::{Buffers, Output, Progress};
use packfs_codec::{Choice, Codec};
use serde::Serialize;

use self::data::{Data, DataDone, Rules};
use self::index::Form;
pub(super) use self::pack::longest_cluster;
use self::pack::{Ending, Packing, Worker};
use self::superblock::Head;
use super::format;
use super::kernel::{Feature, Kernel};
use super::limits;
use crate::build::{self, BATCH_FILES, BATCH_LEN, Census, Cutting, Format, Summary, Tools, Written};
use crate::source::Store;
use crate::tree::{Ino, Tree};
use crate::{Error, Plan, Result};

/// Pieces, and chunks, of files that are not compressed.
const RAW_PIECE: usize = 128 << 10;

bitflags::bitflags! {
    /// What an image may make use of.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Features: u32 {
        /// Ends of files, and files smaller than a cluster, are packed together.
        const FRAGMENTS = 0x1;
        /// All files are packed together.
        const ALL_FRAGMENTS = 0x2;
        /// Parts of files that are found elsewhere are shared.
        const DEDUPE = 0x4;
        /// The last cluster of a file lies behind its inode.
        const ZTAILPACKING = 0x8;
        /// Encoded extents, addresses of 48 bits.
        const BITS_48 = 0x10;
        /// Indexes of 8 bytes an entry, never packs.
        const FULL_INDEX = 0x20;
        /// Uncompressed files in chunks.
        const CHUNKS = 0x40;
        /// No plain tails behind inodes.
        const NO_INLINE = 0x80;
        /// Every inode extended.
        const EXTENDED_INODES = 0x100;
        /// Clusters begin and end at any byte ([`Features::BITS_48`]).
        const UNALIGNED = 0x200;
    }
}

/// How an image is built. [`Options::default`] is what the command line does without options.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Options that every format has.
    pub build: build::Options,
    /// Bytes of the largest physical cluster: a multiple of the block up to 1 MiB.
    pub cluster_size: u32,
    /// Bytes a block: a power of two from 512 to 4096.
    pub block_size: u32,
    /// What to make use of.
    pub features: Features,
    /// The oldest Linux that is to read the image.
    pub target_kernel: Kernel,
    /// Xattr names that begin so are written short: prefixes with their class, such as `user.mime.`.
    pub xattr_prefixes: Vec<Box<[u8]>>,
    /// UUID; without, one made of the image's contents.
    pub uuid: Option<[u8; 16]>,
    /// Label, at most 15 bytes.
    pub label: String,
}

impl Options {
    /// These options with changes to those that every format has.
    pub fn with(mut self, change: impl FnOnce(&mut build::Options)) -> Self {
        change(&mut self.build);
        self
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
            uuid: None,
            label: String::new(),
        }
    }
}

/// Counters of the data writer. All in bytes but the `..._clusters`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Physical clusters written.
    pub clusters: u64,
    /// Of these, stored as they were because they do not shrink.
    pub raw_clusters: u64,
    /// Clusters for which an equal one was there already.
    pub shared_clusters: u64,
    /// File bytes that went to a codec.
    pub packed_bytes: u64,
    /// File bytes in the packed inode.
    pub fragment_bytes: u64,
    /// File bytes found to be there already.
    pub duplicate_bytes: u64,
    /// File bytes in holes.
    pub hole_bytes: u64,
}

/// Figures of a build that only EROFS has.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Details {
    /// The oldest Linux that reads the image.
    pub kernel: String,
    /// UUID of the image.
    pub uuid: String,
    /// What became of the data.
    pub data: Counts,
}

/// Builds an image at `target` from what `fill` says; sources that can be read only once hand their data
/// to the store `fill` is given. The target appears whole, or not at all.
pub fn build(
    target: &Path,
    options: &Options,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<Summary> {
    build::build(target, &Builder::new(options)?, progress, fill)
}

/// Builds an image into `output`, in memory for example, and commits it; otherwise as [`build()`]. Whether to replace an
/// existing target is for the output to know, not for the options.
pub fn build_to(
    output: Output,
    options: &Options,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<Summary> {
    build::build_to(output, &Builder::new(options)?, progress, fill)
}

/// Checked options, and what follows from them.
struct Builder<'o> {
    options: &'o Options,
    packing: Packing,
    rules: Rules,
    /// The first block of the image that data may take.
    first_block: u64,
    /// Buffers for pieces.
    pieces: Buffers,
}

impl<'o> Builder<'o> {
    /// Fails, before any work, if the options cannot be had.
    fn new(options: &'o Options) -> Result<Self> {
        let packing = packing(options)?;
        let rules = rules(options, &packing);
        let first_block = Head::new(options)?.blocks();
        Ok(Builder { options, rules, first_block, pieces: Buffers::new(packing.piece), packing })
    }

    /// Bytes that keep all workers busy, even if that is more than allowed.
    fn least_in_flight(&self) -> usize {
        (self.options.build.threads + 1) * self.packing.piece
    }
}

impl Format for Builder<'_> {
    type Worker = Worker;
    type Writer<'p, 'env>
        = Data<'p, 'env>
    where
        Self: 'env,
        'env: 'p;

    const WHOLE_HOLES_ARE_FREE: bool = true;

    fn options(&self) -> &build::Options {
        &self.options.build
    }

    fn worker(&self) -> Worker {
        Worker::new(&self.packing)
    }

    fn check(&self, tree: &mut Tree) -> Result<()> {
        limits::check(self.options, tree)
    }

    fn cutting(&self) -> Cutting {
        let budget = self.options.build.budget(8, self.least_in_flight(), 32 << 20);
        let sparse = keeps_holes(self.options);
        Cutting { block_len: self.packing.piece, buffers: self.pieces.clone(), sparse, budget }
    }

    fn writer<'p, 'env>(&'env self, tools: Tools<'p, 'env, Worker>) -> Result<Data<'p, 'env>>
    where
        'env: 'p,
    {
        let options = &self.options.build;
        // Pieces in flight take their length once more when they are packed.
        let in_flight = options.budget(4, 2 * self.least_in_flight(), 256 << 20);
        let start = (options.offset, self.first_block * u64::from(self.options.block_size));
        Ok(Data::new(tools, self.rules, self.pieces.clone(), start, in_flight))
    }

    fn order(&self, tree: &Tree, asked: Vec<Ino>) -> Result<Vec<Ino>> {
        match self.rules.ending {
            Ending::Fragment => order::similar(tree, asked, self.rules.fragment_max as u64),
            _ => Ok(asked),
        }
    }

    fn finish<'p, 'env>(
        &'env self,
        tools: Tools<'p, 'env, Worker>,
        tree: &Tree,
        census: &Census,
        mut data: DataDone,
    ) -> Result<Written>
    where
        'env: 'p,
    {
        let start = self.first_block * u64::from(self.options.block_size);
        let (output, base) = (tools.output, self.options.build.offset);
        unused::clear(tree, &mut data, &unused::Place { output, base, start, packing: &self.packing })?;
        let written = metadata::write(tools, self.options, tree, census, &data)?;
        let image_bytes = written.blocks * u64::from(self.options.block_size);
        let uuid = superblock::show_uuid(&written.uuid);
        let details = Details { kernel: written.kernel.to_string(), uuid, data: data.counts };
        let data_bytes = image_bytes - written.metadata_bytes;
        Ok(Written { image_bytes, data_bytes, details: build::Details::Erofs(details) })
    }
}

/// Whether holes stay holes: what can say so are encoded extents and chunks.
fn keeps_holes(options: &Options) -> bool {
    let has_form = options.features.contains(Features::BITS_48) || options.target_kernel >= Feature::Chunks.since();
    options.build.sparse && has_form
}

/// Checks the options that concern file data and says how workers pack it.
fn packing(options: &Options) -> Result<Packing> {
    let Options { block_size, cluster_size, .. } = *options;
    if !block_size.is_power_of_two() || !(512..=4096).contains(&block_size) {
        return Err(Error::option("block size", block_size, "EROFS takes powers of two from 512 to 4K here"));
    }
    if cluster_size == 0 || cluster_size % block_size != 0 || u64::from(cluster_size) > format::CLUSTER_MAX {
        let why = format!("EROFS takes multiples of the block ({block_size}) up to 1M");
        return Err(Error::option("cluster size", cluster_size, why));
    }
    if options.features.contains(Features::UNALIGNED) && !options.features.contains(Features::BITS_48) {
        return Err(Error::option("features", "unaligned", "unaligned clusters need the feature 48bit"));
    }
    options.check_target()?;
    options.check_clusters()?;
    let window = options.build.codec.cluster_window(cluster_size);
    if options.build.codec.codec() != Codec::None {
        // Fails here, before any work, if the codec cannot be had.
        options.build.codec.cluster_encoder(window)?;
    }
    let (block, cluster) = (block_size as usize, cluster_size as usize);
    let mut packing = Packing {
        choice: options.build.codec.clone(),
        window,
        cluster,
        block,
        piece: if options.build.codec.codec() == Codec::None {
            RAW_PIECE
        } else {
            piece_len(&options.build.codec, cluster)
        },
        raw: pack::longest_cluster(options) as usize,
        unaligned: options.features.contains(Features::UNALIGNED),
        share: options.build.dedup && options.target_kernel >= Feature::FragmentsOrDedupe.since(),
        verify: options.build.verify,
        buffers: Buffers::new(0),
    };
    packing.buffers = Buffers::new(packing.bound(packing.piece.max(BATCH_LEN), BATCH_FILES));
    Ok(packing)
}

/// Long enough for what is lost at the ends of pieces not to matter, short enough for all workers to have one.
/// Fast codecs wait for memory sooner than others.
fn piece_len(choice: &Choice, cluster: usize) -> usize {
    let least = if choice.gives_up_early() { 1 << 20 } else { 2 << 20 };
    (cluster * 8).next_power_of_two().max(least)
}

/// Fine enough to find the few clusters of a repeated stretch, coarse enough not to take long.
fn chunk_len(cluster: usize) -> usize {
    (cluster / 8).clamp(512, 8 << 10).next_power_of_two()
}

/// Checks that the attributes of each inode fit behind it.
pub(super) fn check_xattrs(options: &Options, tree: &Tree) -> Result<()> {
    xattr::Xattrs::encode(options, tree).map(drop)
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
        form: Form { block_bits, algorithm, encoded, compact: !asked(Features::FULL_INDEX) },
        piece: packing.piece,
        fragment_max: packing.fragment_max(),
        ending,
        all_fragments: asked(Features::ALL_FRAGMENTS) && !raw,
        raw,
        chunks: asked(Features::CHUNKS),
        scattered: options.target_kernel >= Feature::Chunks.since(),
        sparse: keeps_holes(options),
        inline_tails: !asked(Features::NO_INLINE),
        codec: options.build.codec.codec(),
        dedup: options.build.dedup,
        chunk: (options.build.dedup && asked(Features::DEDUPE) && !raw).then(|| chunk_len(packing.cluster)),
        on_error: options.build.on_error,
    }
}
