//! Writes file data: decides on the conductor, block by block and in order, what is a duplicate,
//! what goes into a fragment and what is compressed; writes the results of the workers.
//!
//! Every written block (data block or fragment block) has a sequence number and, once its size is
//! known, a [`BlockPlace`]. All blocks of a file must be contiguous, so a file either begins at an
//! earlier run of equal blocks or is written whole. In a file written whole, blocks that already
//! exist elsewhere are copied in their compressed form, never compressed again.

mod results;
mod stored;
mod tails;

use std::collections::HashMap;

use packfs_blocks::dedup::{BlockNumber, PlaceIndex, RunIndex};
use packfs_blocks::pipeline::{JobTicket, Window};
use packfs_blocks::stages::Stage;
use packfs_blocks::{Buffer, Buffers, Digest, Progress};

pub(super) use self::stored::FileHoles;
pub(crate) use self::stored::{BlockPlace, TailPlace, WrittenFile};
use self::tails::FillingFragment;
use super::pack::{BlockPacker, PackedBlock};
use super::{Fragments, SquashfsCounts};
use crate::build::{self, BlockWriter, BuildTools, FailedFiles, FedBlocks, FileBlock, PendingWrites, ReuseLedger};
use crate::tree::{DataHandling, FileRecipe};
use crate::{Error, OnError, Result};

/// Options for writing file data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataOptions {
    pub(crate) block_len: usize,
    pub(crate) fragments: Fragments,
    /// True to store the blocks of files as they are.
    pub(crate) plain_data: bool,
    /// True to store fragment blocks as they are.
    pub(crate) plain_fragments: bool,
    pub(crate) dedup: bool,
    pub(crate) on_error: OnError,
}

/// Receives blocks from a [`BlockFeed`](crate::build::BlockFeed) and writes them.
#[derive(Debug)]
pub(crate) struct SquashfsData<'p, 'env> {
    tools: BuildTools<'p, 'env, BlockPacker>,
    /// Offset in the output file from which positions count.
    base: u64,
    rules: DataOptions,
    buffers: Buffers,
    /// Offset of the next block in the image.
    pos: u64,
    window: Window<Result<WriteItem>>,
    writes: PendingWrites<'p, 'env, BlockPacker, Buffer>,
    runs: RunIndex,
    places: Vec<BlockPlace>,
    tails: PlaceIndex<TailPlace>,
    fragment: Option<FillingFragment>,
    fragments: Vec<BlockNumber>,
    open: ArrivingFile,
    files: Vec<WrittenFile>,
    /// Handling of the data of files, for those that are not treated as most are.
    handling: HashMap<u32, DataHandling>,
    failed: FailedFiles,
    counts: SquashfsCounts,
    ledger: ReuseLedger,
}

/// Positions of aligned files are multiples of this.
const ALIGNMENT: u64 = 4096;
/// Bytes that an item without data counts as in the window, so that the number of items that wait has a limit, too.
const EMPTY_ITEM_WEIGHT: usize = 64;

/// Next item to write.
#[derive(Debug)]
enum WriteItem {
    /// A compressed block, and the length of its data.
    Packed(PackedBlock, usize),
    /// A copy of a block that is already placed.
    Copy(BlockNumber),
    /// Zeros up to a multiple of [`ALIGNMENT`].
    Gap,
}

/// The file whose blocks are arriving.
#[derive(Debug, Default)]
struct ArrivingFile {
    digests: Vec<Digest>,
    /// Set with the first block that must be written; until then, the file may still be a duplicate.
    first: Option<BlockNumber>,
    stored: WrittenFile,
}

/// Result of writing all data.
#[derive(Debug)]
pub(crate) struct DataDone {
    pub(crate) pos: u64,
    pub(crate) files: Vec<WrittenFile>,
    pub(crate) places: Vec<BlockPlace>,
    /// The fragment blocks, by their sequence numbers.
    pub(crate) fragments: Vec<BlockNumber>,
    pub(crate) counts: SquashfsCounts,
    pub(crate) ledger: ReuseLedger,
}

impl<'p, 'env> SquashfsData<'p, 'env> {
    /// Makes a writer; `budget` bounds the bytes in flight.
    pub(crate) fn new(
        tools: BuildTools<'p, 'env, BlockPacker>,
        rules: DataOptions,
        buffers: Buffers,
        build::WriterStart { base, pos, .. }: build::WriterStart,
        budget: usize,
        ledger: ReuseLedger,
    ) -> Self {
        SquashfsData {
            tools,
            base,
            rules,
            buffers,
            pos,
            window: Window::new(budget),
            writes: PendingWrites::new(tools, budget / 4),
            runs: RunIndex::default(),
            places: Vec::new(),
            tails: PlaceIndex::default(),
            fragment: None,
            fragments: Vec::new(),
            open: ArrivingFile::default(),
            files: Vec::new(),
            handling: HashMap::new(),
            failed: Vec::new(),
            counts: SquashfsCounts::default(),
            ledger,
        }
    }

    fn fail(&mut self, file: u32, error: Error) -> Result<()> {
        // More segments of a failed file still arrive; it is reported once. Its blocks already
        // written stay unreferenced.
        self.open = ArrivingFile::default();
        if !self.rules.on_error.skips(&error) {
            return Err(error);
        }
        if self.failed.last().is_none_or(|(last, _)| *last != file) {
            self.failed.push((file, error));
        }
        Ok(())
    }

    /// Receives a whole file that is shorter than a block.
    fn add_small_file(&mut self, file: u32, bytes: &[u8], digest: Digest) -> Result<()> {
        let handling = self.handling(file);
        let packed =
            self.rules.fragments != Fragments::None || handling.intersects(DataHandling::SMALL | DataHandling::TAILS);
        if !packed || handling.contains(DataHandling::NO_FRAGMENT) {
            let mut block = self.buffers.take(bytes.len());
            block.copy_from_slice(bytes);
            self.add_block(block, digest, handling)?;
        } else {
            self.add_tail(bytes, digest, handling)?;
        }
        self.complete_file(file)
    }

    /// Receives the next block or hole of a larger file.
    fn add_cut(&mut self, file: u32, cut: FileBlock) -> Result<()> {
        let handling = self.handling(file);
        if let (FileBlock::Hole(len), true) = (&cut, handling.contains(DataHandling::NO_SPARSE)) {
            return self.fill_hole(file, *len);
        }
        let stored = &self.open.stored;
        let follows_hole = stored.holes().last().is_some_and(|hole| hole.end == stored.blocks);
        let cut = if follows_hole { cut.behind_hole() } else { cut };
        match cut {
            FileBlock::Hole(len) => self.add_hole(len),
            FileBlock::Block(bytes, digest) => {
                let is_tail = match self.tail_packing(handling) {
                    Fragments::Tails => bytes.len() < self.rules.block_len,
                    // A file shorter than a block may arrive as a block too: from a stream, or
                    // because of its holes.
                    Fragments::Small => self.files[file as usize].size < self.rules.block_len as u64,
                    Fragments::None => false,
                };
                if is_tail { self.add_tail(&bytes, digest, handling) } else { self.add_block(bytes, digest, handling) }
            }
        }
    }

    /// Returns the tail packing of a file with this handling.
    fn tail_packing(&self, handling: DataHandling) -> Fragments {
        if handling.contains(DataHandling::NO_FRAGMENT) {
            Fragments::None
        } else if handling.contains(DataHandling::TAILS) {
            Fragments::Tails
        } else if handling.contains(DataHandling::SMALL) {
            Fragments::Small
        } else {
            self.rules.fragments
        }
    }

    /// Stores a hole as blocks of zeros.
    fn fill_hole(&mut self, file: u32, mut len: u64) -> Result<()> {
        while len > 0 {
            let now = usize::try_from(len).unwrap_or(usize::MAX).min(self.rules.block_len);
            let mut bytes = self.buffers.take(now);
            bytes.fill(0);
            let digest = Digest::of(&bytes);
            self.add_cut(file, FileBlock::Block(bytes, digest))?;
            len -= now as u64;
        }
        Ok(())
    }

    fn add_hole(&mut self, len: u64) -> Result<()> {
        let stored = &mut self.open.stored;
        let count = len.div_ceil(self.rules.block_len as u64);
        let end = u32::try_from(u64::from(stored.blocks) + count).map_err(|_| too_many_blocks())?;
        let holes = stored.holes.get_or_insert_default();
        match holes.ranges.last_mut() {
            Some(last) if last.end == stored.blocks => last.end = end,
            _ => holes.ranges.push(stored.blocks..end),
        }
        holes.bytes += len;
        stored.blocks = end;
        self.counts.hole_bytes += len;
        self.report_saved(len);
        Ok(())
    }

    /// Counts `len` bytes of files as done without compression.
    fn report_saved(&self, len: u64) {
        Progress::add(&self.tools.progress.done, len);
        Progress::add(&self.tools.progress.saved, len);
    }

    /// Returns how the data of a file is to be handled. A file that is to be stored shares nothing.
    fn handling(&self, file: u32) -> DataHandling {
        let handling = self.handling.get(&file).copied().unwrap_or_default();
        match handling.contains(DataHandling::STORE) {
            true => handling | DataHandling::NO_FRAGMENT | DataHandling::NO_DEDUP,
            false => handling,
        }
    }

    fn add_block(&mut self, bytes: Buffer, digest: Digest, handling: DataHandling) -> Result<()> {
        self.open.stored.blocks = self.open.stored.blocks.checked_add(1).ok_or_else(too_many_blocks)?;
        if handling.intersects(DataHandling::NO_DEDUP | DataHandling::ALIGN) {
            // A number to which no digest leads, so nothing shares the block.
            let seq = self.runs.push_other();
            if self.open.first.is_none() {
                self.open.first = Some(seq);
                if handling.contains(DataHandling::ALIGN) {
                    self.push_item(JobTicket::ready(Ok(WriteItem::Gap)), EMPTY_ITEM_WEIGHT)?;
                }
            }
            return self.write_block(bytes, digest, handling.contains(DataHandling::STORE));
        }
        let known = if self.rules.dedup { self.runs.block(&digest) } else { None };
        self.open.digests.push(digest);
        match (known, self.open.first) {
            // All blocks so far are known: decided at the file's end, or at its first new block.
            (Some(_), None) => {
                self.counts.duplicate_bytes += bytes.len() as u64;
                self.report_saved(bytes.len() as u64);
                Ok(())
            }
            // The file is being written, so its run has to go on with a copy.
            (Some(seq), Some(_)) => {
                self.counts.duplicate_bytes += bytes.len() as u64;
                self.report_saved(bytes.len() as u64);
                self.copy_block(seq, digest)
            }
            (None, _) => {
                // The format keeps the blocks of a file together, so the known ones before this one are
                // written first.
                self.commit_known(self.open.digests.len() - 1)?;
                let seq = self.runs.push(digest);
                self.open.first.get_or_insert(seq);
                self.write_block(bytes, digest, false)
            }
        }
    }

    /// Writes a block of a file: uncompressed if its file or the options ask for that.
    fn write_block(&mut self, bytes: Buffer, digest: Digest, store: bool) -> Result<()> {
        if store || self.rules.plain_data { self.store_raw(bytes) } else { self.compress(bytes, Some(digest)) }
    }

    /// Writes copies of the file's first `count` blocks, all of them known, unless that is already done.
    fn commit_known(&mut self, count: usize) -> Result<()> {
        if self.open.first.is_some() {
            return Ok(());
        }
        for n in 0..count {
            let digest = self.open.digests[n];
            let from = self.runs.block(&digest).expect("only known blocks wait");
            self.copy_block(from, digest)?;
        }
        Ok(())
    }

    /// Writes a copy of a known block in its compressed form.
    fn copy_block(&mut self, from: BlockNumber, digest: Digest) -> Result<()> {
        let seq = self.runs.push(digest);
        self.open.first.get_or_insert(seq);
        self.push_item(JobTicket::ready(Ok(WriteItem::Copy(from))), EMPTY_ITEM_WEIGHT)
    }

    /// Has a worker compress a block. Only fragment blocks come without a digest.
    fn compress(&mut self, bytes: Buffer, digest: Option<Digest>) -> Result<()> {
        let len = bytes.len();
        self.counts.packed_bytes += bytes.len() as u64;
        Progress::add(&self.tools.progress.done, bytes.len() as u64);
        Progress::add(&self.tools.progress.packed, bytes.len() as u64);
        // The block and its compressed form.
        let held = len * 2;
        let stages = &self.tools.progress.stages;
        let pack = move |worker: &mut BlockPacker| {
            let packed = stages.time(Stage::Compress, || worker.pack(bytes, digest))?;
            Ok(WriteItem::Packed(packed, len))
        };
        let ticket = self.tools.pool.submit(pack);
        self.push_item(ticket, held)
    }

    /// Writes a block uncompressed.
    fn store_raw(&mut self, bytes: Buffer) -> Result<()> {
        let len = bytes.len();
        self.counts.packed_bytes += len as u64;
        Progress::add(&self.tools.progress.done, len as u64);
        Progress::add(&self.tools.progress.packed, len as u64);
        self.push_item(JobTicket::ready(Ok(WriteItem::Packed(PackedBlock::raw(bytes), len))), len)
    }

    /// Completes the open file.
    fn complete_file(&mut self, file: u32) -> Result<()> {
        if self.failed.last().is_some_and(|(failed, _)| *failed == file) {
            self.open = ArrivingFile::default();
            return Ok(());
        }
        if self.open.first.is_none() && !self.open.digests.is_empty() {
            // All blocks are known. If they also lie in a row somewhere, the file begins there.
            match self.runs.run(&self.open.digests) {
                Some(seq) => self.open.first = Some(seq),
                None => self.commit_known(self.open.digests.len())?,
            }
        } else if let Some(first) = self.open.first.filter(|_| !self.open.digests.is_empty()) {
            self.runs.push_whole(&self.open.digests, first);
        }
        let mut open = std::mem::take(&mut self.open);
        open.stored.first = open.first.unwrap_or(0);
        open.stored.size = self.files[file as usize].size;
        self.files[file as usize] = open.stored;
        // Keeps the allocation for the next file.
        open.digests.clear();
        self.open.digests = open.digests;
        Ok(())
    }
}

impl BlockWriter for SquashfsData<'_, '_> {
    type DataPositions = DataDone;

    fn add_file(&mut self, size: u64, (handling, _): (DataHandling, FileRecipe), _: &dyn Fn() -> u64) -> Result<u32> {
        let file = u32::try_from(self.files.len()).map_err(|_| Error::TooMany { what: "files", max: 1 << 32 })?;
        self.files.push(WrittenFile { size, ..WrittenFile::default() });
        if !handling.is_empty() {
            self.handling.insert(file, handling);
        }
        Ok(file)
    }

    fn take(&mut self, fed: FedBlocks) -> Result<()> {
        match fed {
            FedBlocks::Small { bytes, files } => {
                self.tails.touch(files.iter().filter_map(|(_, read)| Some(&read.as_ref().ok()?.1)));
                for (file, read) in files {
                    match read {
                        Ok((range, digest)) => self.add_small_file(file, &bytes[range], digest)?,
                        Err(e) => self.fail(file, e)?,
                    }
                }
                Ok(())
            }
            FedBlocks::Blocks { file, cuts, last } => match cuts {
                Ok(cuts) => {
                    cuts.into_iter().try_for_each(|cut| self.add_cut(file, cut))?;
                    if last { self.complete_file(file) } else { Ok(()) }
                }
                Err(e) => self.fail(file, e),
            },
            FedBlocks::Unread { .. } => {
                Err(Error::Misuse("SquashFS blocks have lengths that only a reader knows".into()))
            }
        }
    }

    fn finish(mut self) -> Result<(DataDone, FailedFiles)> {
        self.send_fragment()?;
        while let Some(item) = self.take_oldest() {
            self.write_item(item?)?;
        }
        let SquashfsData { writes, pos, files, places, fragments, failed, counts, ledger, .. } = self;
        writes.finish()?;
        Ok((DataDone { pos, files, places, fragments, counts, ledger }, failed))
    }
}

fn too_many_blocks() -> Error {
    Error::TooMany { what: "blocks in a file; larger blocks hold more", max: u32::MAX.into() }
}
