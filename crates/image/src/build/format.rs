//! The format-specific part of a build: [`ImageFormat`], implemented by its checked options, and
//! [`BlockWriter`], which writes file data.

use packfs_blocks::io::Scratch;
use packfs_blocks::pipeline::Pool;
use packfs_blocks::{Output, Progress};

use super::summary::DataCounts;
use super::{
    CutOptions, FedBlocks, FieldDecoder, FormatDetails, Order, ReusableUnits, ReuseLedger, ShardData, SharedOptions,
    TreeCensus, WriterStart,
};
use crate::limits::FormatLimits;
use crate::source::{SourceDevice, StayingData};
use crate::tree::{DataHandling, FileRecipe, Tree};
use crate::{Error, Result};

/// Options of one format as users give them.
pub(crate) trait FormatOptions {
    /// The checked options.
    type CheckedFormat<'o>: ImageFormat
    where
        Self: 'o;

    /// Fails, before any work, if the options are invalid.
    fn checked(&self) -> Result<Self::CheckedFormat<'_>>;
}

/// The format-specific part of a build: the checked options of a format.
pub(crate) trait ImageFormat: Sync {
    /// State of a worker thread: encoders, decoders, scratch buffers.
    type WorkerState;
    /// Positions of all file data, for the metadata to refer to.
    type DataPositions: ShardData;

    /// Returns the options that every format has.
    fn options(&self) -> &SharedOptions;

    /// Returns the units of an older image, and whether those of this one are noted.
    fn units(&self) -> &ReusableUnits;

    /// Makes the state of a new worker.
    fn worker(&self) -> Self::WorkerState;

    /// Returns how files are cut for the writer.
    fn cutting(&self) -> CutOptions;

    /// Creates the file for file data, if that does not go to the image.
    fn begin_blob(&self) -> Result<Option<Output>> {
        Ok(None)
    }

    /// Returns the first byte of the image, or of the file for file data, that file data may use.
    fn data_start(&self) -> u64;

    /// Makes a writer of file data.
    fn writer<'env>(
        &'env self,
        tools: BuildTools<'_, 'env, Self::WorkerState>,
        place: WriterStart,
    ) -> Result<impl BlockWriter<DataPositions = Self::DataPositions>>;

    /// Refuses data that ends at byte `end` of the image if the format cannot address it.
    fn check_len(&self, _end: u64) -> Result<()> {
        Ok(())
    }

    /// Takes the data of a shard from what [`ShardData::encode`] wrote.
    fn decode(&self, from: &mut FieldDecoder<'_>, scratch: Scratch) -> Result<Self::DataPositions>;

    /// Returns all that compressed bytes depend on besides the options.
    fn made_by(&self) -> Result<String>;

    /// Checks the scanned tree against the limits of the format, before any data is read.
    fn check(&self, tree: &mut Tree) -> Result<()>;

    /// Returns the limits of single entries, which [`ImageFormat::check`] checks among others.
    fn limits(&self) -> FormatLimits;

    /// Returns true if a tree passes [`ImageFormat::check`] when its entries are within the [limits](ImageFormat::limits)
    /// and a smaller tree passes, in which no more than `sample` inodes of a type have the same extended attributes.
    fn checks_alone(&self, sample: u32) -> bool;

    /// Order of file data where none is asked for and files share blocks.
    const USUAL_ORDER: Order;

    /// Returns the length of the longest files that share a block with others as a whole; `None` if no file does.
    fn small_max(&self) -> Option<u64>;

    /// Writes everything except file data.
    fn finish(
        &self,
        tools: BuildTools<'_, '_, Self::WorkerState>,
        tree: &Tree,
        census: &TreeCensus,
        data: Self::DataPositions,
    ) -> Result<WrittenMetadata>;
}

/// Writes file data: decides, block by block and in order, what is stored and where.
pub(crate) trait BlockWriter {
    /// Positions of all file data.
    type DataPositions: ShardData;

    /// Returns the number of a new file of `size` bytes; `data_len` computes how many of them are not in holes.
    fn add_file(&mut self, size: u64, how: (DataHandling, FileRecipe), data_len: &dyn Fn() -> u64) -> Result<u32>;

    /// Adds the next additional device, before any file that stays on it.
    fn add_device(&mut self, _device: &SourceDevice) -> Result<()> {
        Ok(())
    }

    /// Adds a file of `size` bytes, not 0, whose bytes stay on the additional device of this number; `None` if the format
    /// cannot refer to them there.
    fn refer(&mut self, _size: u64, _device: u16, _staying: &StayingData) -> Result<Option<u32>> {
        Ok(None)
    }

    /// Receives the next blocks, in the order in which files were submitted.
    fn take(&mut self, fed: FedBlocks) -> Result<()>;

    /// Writes everything that is still in flight.
    fn finish(self) -> Result<(Self::DataPositions, FailedFiles)>;
}

/// Files that could not be read, by number, with their errors.
pub(crate) type FailedFiles = Vec<(u32, Error)>;

/// Resources of a build that a format uses.
pub(crate) struct BuildTools<'p, 'env, W> {
    /// The worker threads.
    pub(crate) pool: &'p Pool<'env, W>,
    /// The image being written.
    pub(crate) output: &'env Output,
    /// The file for file data, if that does not go to the image.
    pub(crate) blob: Option<&'env Output>,
    /// Counters that a user interface may poll.
    pub(crate) progress: &'env Progress,
}

impl<W> Clone for BuildTools<'_, '_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for BuildTools<'_, '_, W> {}

impl<W> std::fmt::Debug for BuildTools<'_, '_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tools").field("pool", self.pool).field("output", self.output).finish_non_exhaustive()
    }
}

/// Result of a format's metadata writer, for the [`Summary`](super::BuildSummary).
#[derive(Debug)]
pub(crate) struct WrittenMetadata {
    /// Length of the image.
    pub(crate) image_bytes: u64,
    /// Bytes of file data in the image.
    pub(crate) data_bytes: u64,
    /// Figures that every format has.
    pub(crate) counts: DataCounts,
    /// Format-specific figures.
    pub(crate) details: FormatDetails,
    /// Notes on the units of the image.
    pub(crate) ledger: ReuseLedger,
}
