//! Builds EROFS images: data as it arrives, then one zone of metadata, then the superblock.

pub(super) mod check;
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
mod options;
mod pack;
mod placing;
mod prove;
mod refer;
pub(super) mod stamp;
mod stream;
mod superblock;
mod unused;
mod xattr;

use std::path::PathBuf;

use packfs_blocks::io::Scratch;
use packfs_blocks::{Buffers, Output};
use packfs_codec::Codec;
use serde::Serialize;

use self::data::{Data, DataDone, Rules};
pub(super) use self::far::longest_file;
use self::index::Form;
use self::keep::Keep;
use self::lanes::Lanes;
pub(crate) use self::lanes::piece_len;
pub use self::options::{ALIGN_MAX, CHUNK_MAX, Features, INODE_DIGEST, Metabox, Options};
pub(super) use self::pack::longest_cluster;
use self::pack::{Ending, Packing, Worker};
use self::superblock::Head;
use super::kernel::Feature;
use super::limits;
use crate::Result;
use crate::build::{self, Census, Cutting, Format, Get, Ledger, Order, Place, Summed, Tools, Units, Writer, Written};
use crate::limits::Limits;
use crate::tree::Tree;

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
        check::options(options)?;
        let lanes = Lanes::new(options)?;
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
        check::handling(self.options, tree)?;
        stamp::drop_stale(self.options, tree);
        compact::check(self.options, tree)?;
        limits::check(self.options, tree)
    }

    fn limits(&self) -> Limits {
        limits::limits(self.options)
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
        // Pieces in flight take their length once more when they are packed. Half of the memory is two to three pieces
        // a thread: results are taken in order, so a piece that takes long holds up all after it. With a quarter, one a
        // thread, half of the workers of 8 and of 16 were idle (lz4hc, fragments and dedupe).
        let in_flight = options.budget(2, 2 * self.least_in_flight(), 512 << 20);
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

/// Fine enough to find the few clusters of a repeated stretch, coarse enough to be fast.
fn chunk_len(cluster: usize) -> usize {
    (cluster / 8).clamp(512, 8 << 10).next_power_of_two()
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
        longest_file: longest_file(options),
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
