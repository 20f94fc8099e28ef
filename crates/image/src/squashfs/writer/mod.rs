//! Building SquashFS images: data as it comes, then metadata, then the superblock.

mod data;
mod dir;
mod inode;
mod layout;
mod metadata;
mod pack;
mod table;
mod unused;
mod xattr;

use std::io::Read;
use std::path::Path;

use packfs_blocks::progress::Phase;
use packfs_blocks::stages::{Stage, Stages};
use packfs_blocks::{Buffers, Output, Progress, pipeline};
use packfs_codec::{Choice, Codec};
use serde::Serialize;
use zerocopy::IntoBytes;

use self::data::{Data, DataDone, Rules};
use self::layout::Layout;
use self::metadata::{Metadata, Tables};
use self::pack::{Packing, Worker};
use super::compressor;
use super::format::{self, Superblock, flags};
use crate::feed::Feed;
use crate::source::Store;
use crate::tree::{Ino, Kind, Tree};
use crate::{Error, OnError, Plan, Result, Warnings, plan};

/// Turns an inode and a reason into an error that names the inode's path.
type Blame<'a> = dyn Fn(Ino, String) -> Error + 'a;

/// Images are padded to this: some readers use 4 KiB device blocks.
const PADDING: u64 = 4096;

/// Which ends of files share blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fragments {
    /// None: every file has blocks of its own. Largest image, fewest bytes decoded for a small read.
    None,
    /// Files shorter than a block.
    Small,
    /// Those and the ends of longer files. Smallest image.
    #[default]
    Tails,
}

/// How an image is built. [`Options::default`] is what the command line does without options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Codec, level and options.
    pub codec: Choice,
    /// Bytes a block: a power of two from 4096 to 1 MiB.
    pub block_size: u32,
    /// See [`Fragments`].
    pub fragments: Fragments,
    /// Share equal files, runs of blocks and tails.
    pub dedup: bool,
    /// Turn blocks of zeros into holes.
    pub sparse: bool,
    /// Decode and compare each block as soon as it is encoded.
    pub verify: bool,
    /// Write the table that lets the image be exported over NFS.
    pub export: bool,
    /// Leave inodes, directories and tables uncompressed.
    pub plain_metadata: bool,
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
    /// Bytes that blocks in flight may take.
    pub memory: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            codec: Choice::new(Codec::Zstd),
            block_size: 128 << 10,
            fragments: Fragments::default(),
            dedup: true,
            sparse: true,
            verify: true,
            export: true,
            plain_metadata: false,
            offset: 0,
            time: None,
            force: false,
            on_error: OnError::Stop,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory: 64 << 20,
        }
    }
}

/// What was counted while data was put down. All in bytes but the `..._blocks`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Data and fragment blocks written.
    pub blocks: u64,
    /// Of these, stored as they were because they do not shrink.
    pub raw_blocks: u64,
    /// Of these, copied from elsewhere in the image in their compressed form.
    pub copied_blocks: u64,
    /// File bytes that went to a codec.
    pub packed_bytes: u64,
    /// File bytes found to be there already.
    pub duplicate_bytes: u64,
    /// File bytes in holes.
    pub hole_bytes: u64,
}

/// What was built.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Length of the image without padding.
    pub image_bytes: u64,
    /// Length of the image with padding.
    pub padded_bytes: u64,
    /// Lengths of all files together, each hard-linked file once.
    pub file_bytes: u64,
    /// Bytes of data and fragment blocks in the image.
    pub data_bytes: u64,
    /// Bytes of everything else in the image.
    pub metadata_bytes: u64,
    /// Inodes.
    pub inodes: u32,
    /// Of these, regular files.
    pub files: u32,
    /// Of these, directories.
    pub directories: u32,
    /// Fragment blocks.
    pub fragments: u32,
    /// Different owners and groups.
    pub ids: u16,
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
    let block_len = checked_block_len(options)?;
    compressor::id(options.codec.codec())?;
    let compressor = compressor::emit(options.codec.settings(), options.block_size)?;
    let output = Output::create(target, 0o666, options.force).map_err(plan::output_error("cannot create", target))?;
    let packing =
        Packing { choice: options.codec.clone(), block_len, verify: options.verify, buffers: Buffers::new(block_len) };
    // Fails here, before any work, if the codec cannot be had.
    packing.choice.encoder(block_len)?;
    let summary = pipeline::scope(
        options.threads,
        || Worker::new(&packing),
        |pool| {
            let start = size_of::<Superblock>() as u64 + compressor.as_ref().map_or(0, |block| block.len() as u64);
            let (read_ahead, in_flight) = budgets(options, block_len);
            let rules =
                Rules { block_len, fragments: options.fragments, dedup: options.dedup, on_error: options.on_error };
            let mut store = DataStore {
                feed: Feed::new(pool, block_len, packing.buffers.clone(), options.sparse, read_ahead, &progress.stages),
                data: Data::new(pool, &output, progress, rules, &packing, (options.offset, start), in_flight),
                stages: &progress.stages,
            };
            progress.enter(Phase::Scan);
            let Plan { mut tree, order } = progress.stages.time(Stage::Scan, || fill(&mut store))?;
            progress.enter(Phase::Data);
            let mut data = progress.stages.time(Stage::Data, || store.all(&mut tree, &order, progress))?;
            let left_out = plan::leave_out(&mut tree, &data.failed);
            unused::clear(&tree, &mut data, &output, options.offset)?;
            progress.enter(Phase::Metadata);
            let layout = Layout::of(&tree);
            let metadata =
                Metadata { pool, options, output: &output, progress, tree: &tree, data: &data, layout: &layout };
            let tables = progress.stages.time(Stage::Metadata, || metadata.write(data.pos))?;
            write_head(&output, options, compressor.as_deref(), &tree, &layout, &data, &tables)?;
            let warnings = tree.warnings.clone();
            Ok::<_, Error>(summary(&tree, &layout, &data, &tables, left_out, warnings))
        },
    )?;
    progress.enter(Phase::Flush);
    let flushed = progress.stages.time(Stage::Flush, || pad(&output, options, &summary).and_then(|()| output.commit()));
    flushed.map_err(plan::output_error("cannot finish", target))?;
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
        let file = self.data.add_file(size)?;
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
            let file = self.data.add_file(size)?;
            self.feed.file(file, from, key, size, &mut |fed| self.data.take(fed))?;
            Ok(file)
        })?;
        self.feed.finish(&mut |fed| self.data.take(fed))?;
        self.data.finish()
    }
}

fn checked_block_len(options: &Options) -> Result<usize> {
    let block_size = options.block_size;
    if !block_size.is_power_of_two() || !format::BLOCK_SIZES.contains(&block_size) {
        return Err(Error::Usage(format!("block size {block_size}: SquashFS takes powers of two from 4K to 1M")));
    }
    Ok(block_size as usize)
}

/// Shares the memory allowed between blocks read ahead and blocks being packed; enough to keep all
/// workers busy even if that is more than allowed.
fn budgets(options: &Options, block_len: usize) -> (usize, usize) {
    let memory = usize::try_from(options.memory).unwrap_or(usize::MAX);
    let least = (options.threads + 2) * block_len;
    ((memory / 4).clamp(least, least.max(32 << 20)), (memory / 2).clamp(2 * least, (2 * least).max(256 << 20)))
}

fn write_head(
    output: &Output,
    options: &Options,
    compressor: Option<&[u8]>,
    tree: &Tree,
    layout: &Layout,
    data: &DataDone,
    tables: &Tables,
) -> Result<()> {
    let superblock = Superblock {
        s_magic: format::MAGIC.into(),
        inodes: layout.count.into(),
        mkfs_time: options.time.unwrap_or_else(|| plan::newest(tree)).into(),
        block_size: options.block_size.into(),
        fragments: u32::try_from(data.fragments.len()).expect("counted in 32 bits").into(),
        compression: compressor::id(options.codec.codec())?.into(),
        block_log: u16::try_from(options.block_size.ilog2()).expect("at most 20").into(),
        flags: superblock_flags(options, compressor.is_some(), tables).into(),
        no_ids: tables.ids.into(),
        s_major: format::VERSION.0.into(),
        s_minor: format::VERSION.1.into(),
        root_inode: tables.root.into(),
        bytes_used: tables.end.into(),
        id_table_start: tables.id.into(),
        xattr_id_table_start: tables.xattr.into(),
        inode_table_start: tables.inode.into(),
        directory_table_start: tables.directory.into(),
        fragment_table_start: tables.fragment.into(),
        lookup_table_start: tables.export.into(),
    };
    let mut head = superblock.as_bytes().to_vec();
    head.extend_from_slice(compressor.unwrap_or_default());
    output.write_all_at(&head, options.offset).map_err(Error::io("cannot write", output.target()))
}

fn superblock_flags(options: &Options, has_compressor_block: bool, tables: &Tables) -> u16 {
    let raw_data = options.codec.codec() == Codec::None;
    let raw_metadata = raw_data || options.plain_metadata;
    let of = |set: bool, flag: u16| if set { flag } else { 0 };
    of(raw_metadata, flags::RAW_INODES | flags::RAW_XATTRS | flags::RAW_IDS)
        | of(raw_data, flags::RAW_DATA | flags::RAW_FRAGMENTS)
        | of(options.fragments == Fragments::None, flags::NO_FRAGMENTS)
        | of(options.fragments == Fragments::Tails, flags::ALWAYS_FRAGMENTS)
        | of(options.dedup, flags::DUPLICATES)
        | of(options.export, flags::EXPORTABLE)
        | of(tables.xattr == format::NO_TABLE, flags::NO_XATTRS)
        | of(has_compressor_block, flags::COMPRESSOR_OPTIONS)
}

fn summary(
    tree: &Tree,
    layout: &Layout,
    data: &DataDone,
    tables: &Tables,
    left_out: Vec<(String, String)>,
    warnings: Warnings,
) -> Summary {
    let (mut files, mut file_bytes) = (0, 0);
    for ino in &layout.plain {
        if let Kind::File { size, .. } = tree.inode(*ino).kind {
            files += 1;
            file_bytes += size;
        }
    }
    let data_bytes = data.places.iter().map(|place| place.len()).sum();
    Summary {
        image_bytes: tables.end,
        padded_bytes: tables.end.next_multiple_of(PADDING),
        file_bytes,
        data_bytes,
        metadata_bytes: tables.end - data_bytes,
        inodes: layout.count,
        files,
        directories: layout.count - u32::try_from(layout.plain.len()).unwrap_or(0),
        fragments: u32::try_from(data.fragments.len()).unwrap_or(u32::MAX),
        ids: tables.ids,
        data: data.counts,
        left_out,
        warnings,
    }
}

fn pad(output: &Output, options: &Options, summary: &Summary) -> std::io::Result<()> {
    let padding = usize::try_from(summary.padded_bytes - summary.image_bytes).expect("less than a page");
    output.write_all_at(&vec![0; padding], options.offset + summary.image_bytes)
}
