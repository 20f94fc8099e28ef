//! Builds EROFS images: data as it arrives, then one zone of metadata, then the superblock.
//!
//! | stage | responsibility |
//! |---|---|
//! | [`options`], [`check`] | what was asked for, and what of it is refused |
//! | [`decide`] | the layout of each file, what is shared, what goes to the packed inode |
//! | [`encode`] | pieces become physical clusters, on the workers |
//! | [`place`] | zones and addresses of clusters and inodes |
//! | [`emit`] | indexes, inodes, directories, superblock |
//!
//! [`stored`] has the types that stages pass on. The conductor drives all of it, so `decide` uses `encode` and `place`;
//! `encode` knows neither of them.

pub(super) mod check;
mod counts;
mod decide;
pub(super) mod emit;
mod encode;
mod features;
mod option_table;
pub(super) mod options;
pub(super) mod place;
mod resolution;
pub(super) mod stored;

use std::path::{Path, PathBuf};

use packfs_blocks::io::Scratch;
use packfs_blocks::{Buffers, Output, Progress};

pub use self::counts::{ErofsCounts, ErofsDetails};
use self::decide::rules::{DataRules, rules};
use self::decide::writer::DataWriter;
use self::emit::superblock::ImageHead;
use self::emit::{digest_xattr, metadata};
pub(crate) use self::encode::lanes::piece_len;
use self::encode::lanes::{LaneTable, PackingOptions};
use self::encode::piece::TailPolicy;
use self::encode::worker::PackWorker;
pub use self::option_table::{OPTIONS, uuid_text};
use self::options::keeps_holes;
pub use self::options::{ErofsOptions, Features, INODE_DIGEST, Metabox};
use self::place::{reach, unused};
pub(crate) use self::resolution::resolve;
use self::stored::data::StoredData;
use self::stored::tails::TailStore;
use super::limits;
use crate::Result;
use crate::build::{
    self, AnyOptions, BlockWriter, BuildSummary, BuildTools, CutOptions, FieldDecoder, FileDigests, FormatOptions,
    ImageFormat, Order, Plan, ReusableUnits, ReuseLedger, TreeCensus, WriterStart, WrittenMetadata,
};
use crate::limits::FormatLimits;
use crate::source::Store;
use crate::tree::Tree;

impl ErofsOptions {
    /// Returns these options with changes to those that every format has.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut build::SharedOptions)) -> Self {
        change(&mut self.build);
        self
    }
}

impl From<ErofsOptions> for AnyOptions {
    fn from(options: ErofsOptions) -> Self {
        AnyOptions::Erofs(options)
    }
}

impl FormatOptions for ErofsOptions {
    type CheckedFormat<'o> = ErofsFormat<'o>;

    fn checked(&self) -> Result<ErofsFormat<'_>> {
        ErofsFormat::new(self)
    }
}

/// Builds an image at `target` from the sources that `fill` scans; sources that can be read only
/// once pass their data to the store given to `fill`. The target appears whole, or not at all.
pub fn build(
    target: &Path,
    options: &ErofsOptions,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<BuildSummary> {
    build::build(target, &options.checked()?, progress, fill)
}

/// Builds an image into `output`, for example in memory, and commits it; otherwise as [`build()`].
/// Whether to replace an existing target is decided by the output, not by the options.
pub fn build_to(
    output: Output,
    options: &ErofsOptions,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<BuildSummary> {
    build::build_to(output, &options.checked()?, progress, fill)
}

/// Checked options, and values derived from them.
pub(crate) struct ErofsFormat<'o> {
    options: &'o ErofsOptions,
    lanes: LaneTable,
    rules: DataRules,
    /// The first block of the image that data may use.
    first_block: u64,
    /// Buffers for pieces.
    pieces: Buffers,
}

impl<'o> ErofsFormat<'o> {
    /// Fails, before any work, if the options are invalid.
    fn new(options: &'o ErofsOptions) -> Result<Self> {
        check::options(options)?;
        let lanes = LaneTable::new(options)?;
        let rules = rules(options, lanes.usual());
        let first_block = ImageHead::new(options)?.blocks();
        Ok(ErofsFormat { options, rules, first_block, pieces: Buffers::new(lanes.usual().piece), lanes })
    }

    /// Number of bytes that keep all workers busy, even if that exceeds the budget.
    fn least_in_flight(&self) -> usize {
        (self.options.build.threads + 1) * self.lanes.usual().piece
    }
}

impl ImageFormat for ErofsFormat<'_> {
    type WorkerState = PackWorker;
    type DataPositions = StoredData;

    fn options(&self) -> &build::SharedOptions {
        &self.options.build
    }

    fn units(&self) -> &ReusableUnits {
        &self.lanes.usual().units
    }

    fn worker(&self) -> PackWorker {
        PackWorker::new(self.lanes.all())
    }

    fn check(&self, tree: &mut Tree) -> Result<()> {
        self.lanes.check(tree)?;
        check::handling(self.options, tree)?;
        // Before limits are checked, because it removes attributes.
        digest_xattr::drop_stale(self.options, tree);
        check::compact_inodes(self.options, tree)?;
        limits::check(self.options, tree)
    }

    fn limits(&self) -> FormatLimits {
        limits::limits(self.options)
    }

    fn checks_alone(&self, sample: u32) -> bool {
        // Times of compact inodes depend on each other, and attributes are shared by the number of their inodes.
        let compact = self.options.features.contains(Features::COMPACT_INODES);
        // A digest takes the place of an attribute with its name, so that the set of an inode depends on its file.
        let replaces = self.options.inode_digest.as_deref().is_some_and(digest_xattr::is_of_linux);
        !compact && !replaces && self.options.xattr_share.is_none_or(|above| above < sample)
    }

    fn cutting(&self) -> CutOptions {
        let budget = self.options.build.budget(8, self.least_in_flight(), 32 << 20);
        let sparse = keeps_holes(self.options);
        CutOptions {
            block_len: self.lanes.usual().piece,
            buffers: self.pieces.clone(),
            sparse,
            whole_holes_are_free: true,
            budget,
            unread: self.options.reflink.then_some(self.options.block_size as usize),
            sums: self.options.inode_digest.is_some().then(FileDigests::default),
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

    fn writer<'env>(
        &'env self,
        tools: BuildTools<'_, 'env, PackWorker>,
        place: WriterStart,
    ) -> Result<impl BlockWriter<DataPositions = StoredData>> {
        let options = &self.options.build;
        // Pieces in flight take their length once more when they are packed. Half of the memory is two to three pieces
        // a thread: results are taken in order, so a piece that takes long holds up all after it. With a quarter, one a
        // thread, half of the workers of 8 and of 16 were idle (lz4hc, fragments and dedupe).
        let in_flight = options.budget(2, 2 * self.least_in_flight(), 512 << 20);
        let ledger = ReuseLedger::new(&self.lanes.usual().units, options.offset);
        Ok(DataWriter::new(tools, self.rules, &self.lanes, self.pieces.clone(), place, in_flight, ledger))
    }

    /// Linux keeps the clusters that it has read, so files that are read one after the other need not share them.
    const USUAL_ORDER: Order = Order::Type;

    fn small_max(&self) -> Option<u64> {
        (self.rules.tail_policy == TailPolicy::Fragment).then_some(self.rules.fragment_max as u64)
    }

    fn check_len(&self, len: u64) -> Result<()> {
        reach::check(self.options, len)
    }

    fn decode(&self, from: &mut FieldDecoder<'_>, scratch: Scratch) -> Result<StoredData> {
        StoredData::decode(from, self.rules.form, TailStore::new(scratch), self.options.inode_digest.is_some())
    }

    fn made_by(&self) -> Result<String> {
        let PackingOptions { choice, window, piece, .. } = self.lanes.usual();
        build::made_by(choice, *piece, || choice.cluster_encoder(*window))
    }

    fn finish(
        &self,
        tools: BuildTools<'_, '_, PackWorker>,
        tree: &Tree,
        census: &TreeCensus,
        mut data: StoredData,
    ) -> Result<WrittenMetadata> {
        let start = self.data_start();
        let (output, base) = tools.blob.map_or((tools.output, self.options.build.offset), |blob| (blob, 0));
        unused::clear(
            tree,
            &mut data,
            &unused::ClearTarget { output, base, start, packing: self.lanes.of_packed(), lanes: &self.lanes },
        )?;
        if tools.blob.is_some() {
            // The data is in a file of its own. From here on, `end` is that of the image.
            let blocks = std::mem::replace(&mut data.end, self.first_block);
            data.blob_bytes = blocks * u64::from(self.options.block_size);
        }
        let written = metadata::write(tools, &self.lanes, self.options, tree, census, &mut data)?;
        let image_bytes = written.blocks * u64::from(self.options.block_size);
        let uuid = uuid_text(written.uuid);
        let details = ErofsDetails {
            kernel: written.kernel.to_string(),
            uuid,
            data: data.counts,
            referred_bytes: data.referred_bytes,
            blob_bytes: data.blob_bytes,
        };
        let data_bytes = image_bytes - written.metadata_bytes;
        let ErofsCounts { duplicate_bytes, packed_bytes, hole_bytes, .. } = data.counts;
        let counts = build::DataCounts { duplicate_bytes, packed_bytes, hole_bytes, padded_bytes: image_bytes };
        Ok(WrittenMetadata {
            image_bytes,
            data_bytes,
            counts,
            details: build::FormatDetails::Erofs(details),
            ledger: data.ledger,
        })
    }
}
