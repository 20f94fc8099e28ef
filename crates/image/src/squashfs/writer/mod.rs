//! Builds SquashFS images: data as it arrives, then metadata, then the superblock.

mod data;
mod dir;
mod inode;
mod joined;
mod metadata;
mod numbering;
mod option_table;
mod pack;
mod prove;
mod table;
mod unused;
mod xattr;

use std::path::Path;

use packfs_blocks::io::Scratch;
use packfs_blocks::units::Size;
use packfs_blocks::{Buffers, Output, Progress};
use packfs_codec::{Choice, Codec};
use serde::Serialize;
use zerocopy::IntoBytes;

use self::data::{DataDone, DataOptions, SquashfsData};
use self::metadata::{MetadataWriter, TableOffsets};
use self::numbering::InodeNumbering;
pub use self::option_table::OPTIONS;
pub(crate) use self::option_table::resolve;
use self::pack::{BlockPacker, PackOptions};
use super::compressor;
use super::format::{self, Superblock, SuperblockFlags};
use super::limits;
use crate::build::option::check_shards;
use crate::build::{
    self, AnyOptions, BlockWriter, BuildSummary, BuildTools, CutOptions, FieldDecoder, FormatOptions, ImageFormat,
    Order, Plan, ReusableUnits, ReuseLedger, TreeCensus, WriterStart, WrittenMetadata,
};
use crate::limits::FormatLimits;
use crate::source::Store;
use crate::tree::{Ino, Tree};
use crate::{Error, ExceededLimit, Result};

/// Turns an inode and a reason into an error that names the inode's path.
type ErrorOfInode<'a> = dyn Fn(Ino, ExceededLimit) -> Error + 'a;

/// Images are padded to this: some readers use 4 KiB device blocks.
const PADDING: u64 = 4096;

/// Tail packing: which tails of files share fragment blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fragments {
    /// None: every file has its own blocks. Largest image, fewest bytes decoded for a small read.
    None,
    /// Files shorter than a block.
    Small,
    /// Files shorter than a block, and tails of longer files. Smallest image.
    #[default]
    Tails,
}

/// Options of a build. [`SquashfsOptions::default`] is what the command line uses without options.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SquashfsOptions {
    /// Options that every format has.
    pub build: build::SharedOptions,
    /// Block size in bytes: a power of two from 4096 to 1 MiB.
    pub block_size: u32,
    /// Tail packing.
    pub fragments: Fragments,
    /// True to write the export table, which NFS needs.
    pub export: bool,
    /// True to leave inodes, directories and tables uncompressed.
    pub plain_metadata: bool,
    /// True to leave the blocks of files uncompressed, except those in fragment blocks.
    pub plain_data: bool,
    /// True to leave fragment blocks uncompressed.
    pub plain_fragments: bool,
    /// True to pad the image to a multiple of 4 KiB, which some block devices and readers need.
    pub pad: bool,
    /// True to write from front to back, with the superblock after everything else, so that the output may be a
    /// [`SequentialStorage`](packfs_blocks::io::SequentialStorage). [`complete`](super::complete) makes an image of it that
    /// everything reads. Equal data is stored as often as it occurs.
    pub stream: bool,
}

impl Default for SquashfsOptions {
    fn default() -> Self {
        SquashfsOptions {
            build: build::SharedOptions::new(Choice::new(Codec::Zstd)),
            block_size: 128 << 10,
            fragments: Fragments::default(),
            export: true,
            plain_metadata: false,
            plain_data: false,
            plain_fragments: false,
            pad: true,
            stream: false,
        }
    }
}

/// Counters of the data writer, in bytes except the `..._blocks`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "SquashfsDataCounts"))]
#[non_exhaustive]
pub struct SquashfsCounts {
    /// Number of data and fragment blocks written.
    pub blocks: u64,
    /// Number of blocks stored uncompressed because they do not shrink.
    pub raw_blocks: u64,
    /// Number of blocks copied from elsewhere in the image in their compressed form.
    pub copied_blocks: u64,
    /// File bytes that went to a codec.
    pub packed_bytes: u64,
    /// File bytes that were duplicates of stored data.
    pub duplicate_bytes: u64,
    /// File bytes in holes.
    pub hole_bytes: u64,
}

/// SquashFS-specific figures of a build.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "SquashfsBuildFigures"))]
#[non_exhaustive]
pub struct SquashfsDetails {
    /// Length of the image including padding.
    pub padded_bytes: u64,
    /// Number of fragment blocks.
    pub fragments: u32,
    /// Number of different owners and groups.
    pub ids: u16,
    /// Counters of the data writer.
    pub data: SquashfsCounts,
}

impl SquashfsOptions {
    /// Returns these options with changes to those that every format has.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut build::SharedOptions)) -> Self {
        change(&mut self.build);
        self
    }
}

impl From<SquashfsOptions> for AnyOptions {
    fn from(options: SquashfsOptions) -> Self {
        AnyOptions::Squashfs(options)
    }
}

impl FormatOptions for SquashfsOptions {
    type CheckedFormat<'o> = SquashfsFormat<'o>;

    fn checked(&self) -> Result<SquashfsFormat<'_>> {
        SquashfsFormat::new(self)
    }
}

/// Builds an image at `target` from the sources that `fill` scans; sources that can be read only
/// once pass their data to the store given to `fill`. The target appears whole, or not at all.
pub fn build(
    target: &Path,
    options: &SquashfsOptions,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<BuildSummary> {
    build::build(target, &options.checked()?, progress, fill)
}

/// Builds an image into `output`, for example in memory, and commits it; otherwise as [`build()`].
/// Whether to replace an existing target is decided by the output, not by the options.
pub fn build_to(
    output: Output,
    options: &SquashfsOptions,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<BuildSummary> {
    build::build_to(output, &options.checked()?, progress, fill)
}

/// Checked options, and values derived from them.
pub(crate) struct SquashfsFormat<'o> {
    options: &'o SquashfsOptions,
    packing: PackOptions,
    /// The compressor options stored after the superblock, if they are not the defaults.
    compressor: Option<Vec<u8>>,
    /// Time of the image, if it is not that of the tree.
    time: Option<u32>,
}

impl<'o> SquashfsFormat<'o> {
    /// Fails, before any work, if the options are invalid.
    fn new(options: &'o SquashfsOptions) -> Result<Self> {
        let build::SharedOptions { codec, verify, time, .. } = &options.build;
        let block_len = checked_block_len(options)?;
        if !options.build.recipes.is_empty() {
            let why = "a SquashFS image has one codec with one level for all files; `store` leaves files uncompressed";
            return Err(Error::option("rules", "codec or cluster of single files", why));
        }
        check_shards(&AnyOptions::Squashfs(options.clone()))?;
        if options.stream {
            check_stream(&options.build)?;
        }
        compressor::id(codec.codec())?;
        // Fails here, before any work, if the codec is not available.
        codec.encoder(block_len)?;
        let buffers = Buffers::new(block_len);
        let how = format!("blocks of {block_len}");
        let units = ReusableUnits::open(&options.build, "squashfs", &how, block_len, || codec.encoder(block_len))?;
        Ok(SquashfsFormat {
            options,
            packing: PackOptions {
                choice: codec.clone(),
                block_len,
                verify: *verify,
                plain_fragments: options.plain_fragments,
                buffers,
                units,
            },
            compressor: compressor::emit(codec.settings(), options.block_size)?,
            time: (*time).map(checked_time).transpose()?,
        })
    }

    /// Number of bytes that keep all workers busy, even if that exceeds the budget.
    fn least_in_flight(&self) -> usize {
        (self.options.build.threads + 2) * self.packing.block_len
    }
}

impl ImageFormat for SquashfsFormat<'_> {
    type WorkerState = BlockPacker;
    type DataPositions = DataDone;

    fn options(&self) -> &build::SharedOptions {
        &self.options.build
    }

    fn units(&self) -> &ReusableUnits {
        &self.packing.units
    }

    fn worker(&self) -> BlockPacker {
        BlockPacker::new(&self.packing)
    }

    /// Linux keeps three decoded fragment blocks and nothing of what it read for them, so files that are read one after the
    /// other have to share them.
    const USUAL_ORDER: Order = Order::Path;

    fn small_max(&self) -> Option<u64> {
        let block_len = self.packing.block_len as u64;
        (self.options.fragments != Fragments::None).then(|| block_len - 1)
    }

    fn check(&self, tree: &mut Tree) -> Result<()> {
        limits::check(self.options, tree)
    }

    fn limits(&self) -> FormatLimits {
        limits::limits(self.options)
    }

    fn checks_alone(&self, _: u32) -> bool {
        true
    }

    fn cutting(&self) -> CutOptions {
        let PackOptions { block_len, ref buffers, .. } = self.packing;
        let options = &self.options.build;
        let budget = options.budget(4, self.least_in_flight(), 32 << 20);
        CutOptions {
            block_len,
            buffers: buffers.clone(),
            sparse: options.sparse,
            whole_holes_are_free: false,
            budget,
            unread: None,
            sums: None,
        }
    }

    fn data_start(&self) -> u64 {
        (size_of::<Superblock>() + self.compressor.as_ref().map_or(0, Vec::len)) as u64
    }

    fn writer<'env>(
        &'env self,
        tools: BuildTools<'_, 'env, BlockPacker>,
        place: WriterStart,
    ) -> Result<impl BlockWriter<DataPositions = DataDone>> {
        let build::SharedOptions { dedup, on_error, offset, .. } = self.options.build;
        // Copies of blocks would have to be read back.
        let dedup = dedup && !self.options.stream;
        if self.options.stream {
            self.begin_stream(tools)?;
        }
        let SquashfsOptions { fragments, plain_data, plain_fragments, .. } = *self.options;
        let block_len = self.packing.block_len;
        let rules = DataOptions { block_len, fragments, plain_data, plain_fragments, dedup, on_error };
        let in_flight = self.options.build.budget(2, 2 * self.least_in_flight(), 256 << 20);
        let ledger = ReuseLedger::new(&self.packing.units, offset);
        Ok(SquashfsData::new(tools, rules, self.packing.buffers.clone(), place, in_flight, ledger))
    }

    fn decode(&self, from: &mut FieldDecoder<'_>, _: Scratch) -> Result<DataDone> {
        DataDone::decode(from)
    }

    fn made_by(&self) -> Result<String> {
        let PackOptions { choice, block_len, .. } = &self.packing;
        build::made_by(choice, *block_len, || choice.encoder(*block_len))
    }

    fn finish(
        &self,
        tools: BuildTools<'_, '_, BlockPacker>,
        tree: &Tree,
        census: &TreeCensus,
        mut data: DataDone,
    ) -> Result<WrittenMetadata> {
        // A stream cannot be written to a second time, so unused data stays in it.
        if !self.options.stream {
            unused::clear(tree, &mut data, &self.packing, tools.output, self.options.build.offset)?;
        }
        let numbering = InodeNumbering::of(tree);
        let metadata = MetadataWriter { tools, options: self.options, tree, data: &data, numbering: &numbering };
        let tables = metadata.write(data.pos)?;
        let padded_bytes = tables.end.next_multiple_of(if self.options.pad { PADDING } else { 1 });
        let padding = vec![0; usize::try_from(padded_bytes - tables.end).expect("less than a page")];
        self.write_at(tools, &padding, tables.end)?;
        let head = self.head(census, &data, &tables)?;
        match self.options.stream {
            true => self.write_at(tools, &head[..size_of::<Superblock>()], padded_bytes)?,
            false => self.write_at(tools, &head, 0)?,
        }
        // A stream cannot be read back.
        if self.options.build.verify && !self.options.stream {
            prove::maps(tools, self.options, tree, &numbering)?;
        }
        let padded_bytes = padded_bytes + if self.options.stream { size_of::<Superblock>() as u64 } else { 0 };
        let fragments = u32::try_from(data.fragments.len()).unwrap_or(u32::MAX);
        let SquashfsCounts { duplicate_bytes, packed_bytes, hole_bytes, .. } = data.counts;
        let details = SquashfsDetails { padded_bytes, fragments, ids: tables.ids, data: data.counts };
        Ok(WrittenMetadata {
            image_bytes: tables.end,
            data_bytes: data.places.iter().map(|place| place.len()).sum(),
            counts: build::DataCounts { duplicate_bytes, packed_bytes, hole_bytes, padded_bytes },
            details: build::FormatDetails::Squashfs(details),
            ledger: data.ledger,
        })
    }
}

impl SquashfsCounts {
    /// Adds the counters of another shard.
    fn add(&mut self, more: &SquashfsCounts) {
        let SquashfsCounts { blocks, raw_blocks, copied_blocks, packed_bytes, duplicate_bytes, hole_bytes } = more;
        self.blocks += blocks;
        self.raw_blocks += raw_blocks;
        self.copied_blocks += copied_blocks;
        self.packed_bytes += packed_bytes;
        self.duplicate_bytes += duplicate_bytes;
        self.hole_bytes += hole_bytes;
    }
}

impl SquashfsFormat<'_> {
    /// Writes the placeholder that a stream has instead of a superblock, and the compressor options after it.
    fn begin_stream(&self, tools: BuildTools<'_, '_, BlockPacker>) -> Result<()> {
        let target = tools.output.target();
        if tools.output.device_len().map_err(Error::io("cannot read the length of", target))?.is_some() {
            // Readers look for it at the end of the device.
            let why = "a block device has another end than the image, where its superblock would be";
            return Err(Error::option("stream", crate::name::display(target), why));
        }
        let mut head = vec![0; size_of::<Superblock>()];
        head[..4].copy_from_slice(&format::MAGIC_STREAMED.to_le_bytes());
        head.extend_from_slice(self.compressor.as_deref().unwrap_or_default());
        self.write_at(tools, &head, 0)
    }

    /// Returns the superblock, and the compressor options after it.
    fn head(&self, census: &TreeCensus, data: &DataDone, tables: &TableOffsets) -> Result<Vec<u8>> {
        let options = self.options;
        let codec = self.options.build.codec.codec();
        let newest = u32::try_from(census.newest).unwrap_or(0);
        let superblock = Superblock {
            s_magic: format::MAGIC.into(),
            inodes: census.inodes.into(),
            mkfs_time: self.time.unwrap_or(newest).into(),
            block_size: options.block_size.into(),
            fragments: u32::try_from(data.fragments.len()).expect("counted in 32 bits").into(),
            compression: compressor::id(codec)?.into(),
            block_log: u16::try_from(options.block_size.ilog2()).expect("at most 20").into(),
            flags: superblock_flags(options, self.compressor.is_some(), data, tables).bits().into(),
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
        head.extend_from_slice(self.compressor.as_deref().unwrap_or_default());
        Ok(head)
    }

    /// Writes `bytes` at an offset of the image.
    fn write_at(&self, tools: BuildTools<'_, '_, BlockPacker>, bytes: &[u8], at: u64) -> Result<()> {
        let output = tools.output;
        output.write_all_at(bytes, self.options.build.offset + at).map_err(Error::io("cannot write", output.target()))
    }
}

/// Fails if an option needs positions to be written, or read, twice.
fn check_stream(options: &build::SharedOptions) -> Result<()> {
    let build::SharedOptions { offset, prefix, reuse, index, .. } = options;
    let impossible = [
        (*offset > 0 || prefix.is_some(), "an offset or a prefix"),
        (reuse.is_some() || index.is_some(), "an index or an older image"),
    ];
    match impossible.iter().find(|(given, _)| *given) {
        Some((_, what)) => Err(Error::option("stream", what, "an image that is streamed cannot have it")),
        None => Ok(()),
    }
}

fn checked_time(secs: i64) -> Result<u32> {
    u32::try_from(secs).map_err(|_| Error::option("time", secs, "SquashFS supports 1970 to 2106-02-07T06:28:15Z"))
}

fn checked_block_len(options: &SquashfsOptions) -> Result<usize> {
    let block_size = options.block_size;
    if !block_size.is_power_of_two() || !format::BLOCK_SIZES.contains(&block_size) {
        return Err(Error::option(
            "block-size",
            Size(block_size.into()),
            "a SquashFS block is a power of two from 4K to 1M",
        ));
    }
    Ok(block_size as usize)
}

fn superblock_flags(
    options: &SquashfsOptions,
    has_compressor_block: bool,
    data: &DataDone,
    tables: &TableOffsets,
) -> SuperblockFlags {
    let raw = options.build.codec.codec() == Codec::None;
    let of = |set: bool, flag| if set { flag } else { SuperblockFlags::empty() };
    of(
        raw || options.plain_metadata,
        SuperblockFlags::RAW_INODES | SuperblockFlags::RAW_XATTRS | SuperblockFlags::RAW_IDS,
    ) | of(raw || options.plain_data, SuperblockFlags::RAW_DATA)
        | of(raw || options.plain_fragments, SuperblockFlags::RAW_FRAGMENTS)
        | of(options.fragments == Fragments::None && data.fragments.is_empty(), SuperblockFlags::NO_FRAGMENTS)
        | of(options.fragments == Fragments::Tails, SuperblockFlags::ALWAYS_FRAGMENTS)
        | of(options.build.dedup && !options.stream, SuperblockFlags::DUPLICATES)
        | of(options.export, SuperblockFlags::EXPORTABLE)
        | of(tables.xattr == format::NO_TABLE, SuperblockFlags::NO_XATTRS)
        | of(has_compressor_block, SuperblockFlags::COMPRESSOR_OPTIONS)
}
