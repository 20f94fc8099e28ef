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
mod stream;
mod superblock;
mod xattr;

use std::io::Read;
use std::path::Path;

use packfs_blocks::progress::Phase;
use packfs_blocks::stages::{Stage, Stages};
use packfs_blocks::{Buffers, Output, Progress, pipeline};
use packfs_codec::{Choice, Codec};
use serde::Serialize;

use self::data::{Data, DataDone, Rules};
use self::index::Form;
use self::keep::Keep;
use self::metadata::Written;
pub(super) use self::pack::longest_cluster;
use self::pack::{Ending, Packing, Worker};
use self::superblock::Head;
use super::format;
use super::kernel::{Feature, Kernel};
use crate::feed::{self, Feed};
use crate::source::{Contents, Store};
use crate::tree::{Ino, Tree};
use crate::{Error, OnError, Plan, Result, Warnings, plan};

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
pub struct Options {
    /// Codec, level and options.
    pub codec: Choice,
    /// Bytes of the largest physical cluster: a multiple of the block up to 1 MiB.
    pub cluster_size: u32,
    /// Bytes a block: a power of two from 512 to 4096.
    pub block_size: u32,
    /// What to make use of.
    pub features: Features,
    /// The oldest Linux that is to read the image.
    pub target_kernel: Kernel,
    /// Share equal files and large parts of files.
    pub dedup: bool,
    /// Turn blocks of zeros into holes.
    pub sparse: bool,
    /// Decode and compare each cluster as soon as it is encoded.
    pub verify: bool,
    /// Xattr names that begin so are written short: prefixes with their class, such as `user.mime.`.
    pub xattr_prefixes: Vec<Box<[u8]>>,
    /// UUID; without, one made of the image's contents.
    pub uuid: Option<[u8; 16]>,
    /// Label, at most 15 bytes.
    pub label: String,
    /// Bytes left free before the image (the file's start belongs to somebody else).
    pub offset: u64,
    /// The image's own time, in seconds since 1970; without, the newest time in the tree.
    pub time: Option<u32>,
    /// Replace an existing target.
    pub force: bool,
    /// What a file means that cannot be read or changes meanwhile.
    pub on_error: OnError,
    /// Compression threads; 0 does everything on the calling thread.
    pub threads: usize,
    /// Bytes that data in flight may take.
    pub memory: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            // Higher levels take up to three times as long for less than a hundredth of the size.
            codec: "lz4hc:9".parse().expect("a choice of the table"),
            cluster_size: 64 << 10,
            block_size: 4096,
            features: Features::FRAGMENTS,
            target_kernel: Kernel::DEFAULT,
            dedup: true,
            sparse: true,
            verify: true,
            xattr_prefixes: Vec::new(),
            uuid: None,
            label: String::new(),
            offset: 0,
            time: None,
            force: false,
            on_error: OnError::Stop,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory: 64 << 20,
        }
    }
}

/// What was counted while data was put down. All in bytes but the `..._clusters`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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

/// What was built.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Length of the image.
    pub image_bytes: u64,
    /// Lengths of all files together, each hard-linked file once.
    pub file_bytes: u64,
    /// Bytes of file data in the image.
    pub data_bytes: u64,
    /// Bytes of everything else in the image.
    pub metadata_bytes: u64,
    /// Inodes.
    pub inodes: u32,
    /// Of these, regular files.
    pub files: u32,
    /// Of these, directories.
    pub directories: u32,
    /// The oldest Linux that reads the image.
    pub kernel: String,
    /// UUID of the image.
    pub uuid: String,
    /// What became of the data.
    pub data: Counts,
    /// Files left out because they could not be read, and why.
    pub left_out: Vec<(String, String)>,
    /// Warnings about sources and entries.
    pub warnings: Warnings,
}

/// Builds an image at `target` from what `fill` says; sources that can be read only once hand their data
/// to the store `fill` is given. The target appears whole, or not at all.
pub fn build(
    target: &Path,
    options: &Options,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<Summary> {
    let packing = packing(options)?;
    let rules = rules(options, &packing);
    let start = Head::new(options)?.blocks() * u64::from(options.block_size);
    let output = Output::create(target, 0o666, options.force).map_err(plan::output_error("cannot create", target))?;
    let out = &output;
    let summary = pipeline::scope(
        options.threads,
        || Worker::new(&packing),
        |pool| {
            let (read_ahead, in_flight) = budgets(options, rules.piece);
            let start = (options.offset, start);
            let pieces = Buffers::new(rules.piece);
            let keep = Keep::new(target.parent().unwrap_or(Path::new("")).to_owned());
            let decoder = rules.chunk.map(|_| options.codec.codec().cluster_decoder()).transpose()?;
            let mut store = DataStore {
                feed: Feed::new(pool, rules.piece, pieces.clone(), keeps_holes(options), read_ahead, &progress.stages),
                data: Data::new(pool, out, progress, rules, pieces, start, in_flight, keep, decoder),
                stages: &progress.stages,
            };
            progress.enter(Phase::Scan);
            let Plan { mut tree, order } = progress.stages.time(Stage::Scan, || fill(&mut store))?;
            progress.enter(Phase::Data);
            let order = match rules.ending {
                Ending::Fragment => order::similar(&tree, order, rules.fragment_max as u64)?,
                _ => order,
            };
            let data = progress.stages.time(Stage::Data, || store.all(&mut tree, &order, progress))?;
            let left_out = plan::leave_out(&mut tree, &data.failed);
            progress.enter(Phase::Metadata);
            let write = || metadata::write(out, options, &tree, &data, progress);
            let written = progress.stages.time(Stage::Metadata, write)?;
            Ok::<_, Error>(summary(options, &data, &written, left_out, tree.warnings))
        },
    )?;
    progress.enter(Phase::Flush);
    progress.stages.time(Stage::Flush, || output.commit()).map_err(plan::output_error("cannot finish", target))?;
    progress.enter(Phase::Done);
    Ok(summary)
}

/// Data on its way from sources into the image.
struct DataStore<'p, 'env> {
    feed: Feed<'p, 'env, Worker>,
    data: Data<'p, 'env>,
    stages: &'env Stages,
}

impl Store for DataStore<'_, '_> {
    fn put(&mut self, from: &mut dyn Read, size: u64, data: &[(u64, u64)]) -> Result<u32> {
        let file = self.data.add_file(size, &|| data.iter().map(|(_, len)| len).sum())?;
        if size > 0 {
            let DataStore { feed, data: taker, stages } = self;
            let put = || feed.stream(file, from, size, data, &mut |fed| taker.take(fed));
            stages.time(Stage::Put, put)?;
        }
        Ok(file)
    }
}

impl DataStore<'_, '_> {
    /// Puts down the data of all files that sources left for later, first in the order given.
    fn all(mut self, tree: &mut Tree, order: &[Ino], progress: &Progress) -> Result<DataDone> {
        plan::put_files(tree, order, progress, |from, key, size| {
            let file = self.data.add_file(size, &|| data_len(&**from, key))?;
            self.feed.file(file, from, key, size, &mut |fed| self.data.take(fed))?;
            Ok(file)
        })?;
        self.feed.finish(&mut |fed| self.data.take(fed))?;
        self.data.finish()
    }
}

/// Bytes of a file that are not in holes; what cannot be told counts as data, and is told when it is read.
fn data_len(from: &dyn Contents, key: u64) -> u64 {
    let Ok(mut file) = from.open(key) else { return u64::MAX };
    let (mut at, mut len) = (0, 0);
    loop {
        match file.next_data(at) {
            Ok(Some((start, end))) if end > at => {
                len += end - start;
                at = end;
            }
            Ok(None) => return len,
            _ => return u64::MAX,
        }
    }
}

/// Whether holes stay holes: what can say so are encoded extents and chunks.
fn keeps_holes(options: &Options) -> bool {
    let has_form = options.features.contains(Features::BITS_48) || options.target_kernel >= Feature::Chunks.since();
    options.sparse && has_form
}

/// Checks the options that concern file data and says how workers pack it.
fn packing(options: &Options) -> Result<Packing> {
    let Options { block_size, cluster_size, .. } = *options;
    if !block_size.is_power_of_two() || !(512..=4096).contains(&block_size) {
        return Err(Error::Usage(format!("block size {block_size}: EROFS takes powers of two from 512 to 4K here")));
    }
    if cluster_size == 0 || cluster_size % block_size != 0 || u64::from(cluster_size) > format::CLUSTER_MAX {
        let text = format!("cluster size {cluster_size}: EROFS takes multiples of the block ({block_size}) up to 1M");
        return Err(Error::Usage(text));
    }
    if options.features.contains(Features::UNALIGNED) && !options.features.contains(Features::BITS_48) {
        return Err(Error::Usage("unaligned clusters need the feature 48bit".into()));
    }
    options.check_target()?;
    options.check_clusters()?;
    let window = options.codec.cluster_window(cluster_size);
    if options.codec.codec() != Codec::None {
        // Fails here, before any work, if the codec cannot be had.
        options.codec.cluster_encoder(window)?;
    }
    let (block, cluster) = (block_size as usize, cluster_size as usize);
    let mut packing = Packing {
        choice: options.codec.clone(),
        window,
        cluster,
        block,
        piece: if options.codec.codec() == Codec::None { RAW_PIECE } else { piece_len(&options.codec, cluster) },
        raw: pack::longest_cluster(options) as usize,
        unaligned: options.features.contains(Features::UNALIGNED),
        share: options.dedup && options.target_kernel >= Feature::FragmentsOrDedupe.since(),
        verify: options.verify,
        buffers: Buffers::new(0),
    };
    packing.buffers = Buffers::new(packing.bound(packing.piece.max(feed::BATCH_LEN), feed::BATCH_FILES));
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

fn rules(options: &Options, packing: &Packing) -> Rules {
    let asked = |features| options.features.intersects(features);
    let raw = options.codec.codec() == Codec::None;
    let encoded = asked(Features::BITS_48);
    let ending = if asked(Features::FRAGMENTS | Features::ALL_FRAGMENTS) {
        Ending::Fragment
    } else if asked(Features::ZTAILPACKING) && !encoded {
        Ending::Inline
    } else {
        Ending::Cluster
    };
    let block_bits = u8::try_from(options.block_size.ilog2()).expect("at most 12");
    let algorithm = options.codec.codec().erofs_id().unwrap_or(0);
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
        dedup: options.dedup,
        chunk: (options.dedup && asked(Features::DEDUPE) && !raw).then(|| chunk_len(packing.cluster)),
        on_error: options.on_error,
    }
}

/// Shares the memory allowed: an eighth for what is read ahead, a quarter for pieces in flight, which take their
/// length once more when they are packed. Enough to keep all workers busy even if that is more than allowed.
fn budgets(options: &Options, piece: usize) -> (usize, usize) {
    let memory = usize::try_from(options.memory).unwrap_or(usize::MAX);
    let least = (options.threads + 1) * piece;
    ((memory / 8).clamp(least, least.max(32 << 20)), (memory / 4).clamp(2 * least, (2 * least).max(256 << 20)))
}

fn summary(
    options: &Options,
    data: &DataDone,
    written: &Written,
    left_out: Vec<(String, String)>,
    warnings: Warnings,
) -> Summary {
    let image_bytes = written.blocks * u64::from(options.block_size);
    Summary {
        image_bytes,
        file_bytes: written.file_bytes,
        data_bytes: image_bytes - written.metadata_bytes,
        metadata_bytes: written.metadata_bytes,
        inodes: written.inodes,
        files: written.files,
        directories: written.directories,
        kernel: written.kernel.to_string(),
        uuid: superblock::show_uuid(&written.uuid),
        data: data.counts,
        left_out,
        warnings,
    }
}
