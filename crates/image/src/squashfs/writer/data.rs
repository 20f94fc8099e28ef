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
    /// Wishes about the data of files that have any.
    handling: HashMap<u32, DataHandling>,
    failed: FailedFiles,
    counts: SquashfsCounts,
    ledger: ReuseLedger,
}

/// Positions of aligned files are multiples of this.
const ALIGNMENT: u64 = 4096;

/// Next item to write.
#[derive(Debug)]
enum WriteItem {
    /// A compressed block, and the length of its data.
    Packed(PackedBlock, usize),
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

    fn small(&mut self, file: u32, bytes: &[u8], digest: Digest) -> Result<()> {
        let handling = self.handling(file);
        let packed =
            self.rules.fragments != Fragments::None || handling.intersects(DataHandling::SMALL | DataHandling::TAILS);
        if !packed || handling.contains(DataHandling::NO_FRAGMENT) {
            let mut block = self.buffers.take(bytes.len());
            block.copy_from_slice(bytes);
            self.block(block, digest, handling)?;
        } else {
            self.tail(bytes, digest, handling)?;
        }
        self.end(file)
    }

    fn cut(&mut self, file: u32, cut: FileBlock) -> Result<()> {
        let handling = self.handling(file);
        if let (FileBlock::Hole(len), true) = (&cut, handling.contains(DataHandling::NO_SPARSE)) {
            return self.zeros(file, *len);
        }
        let stored = &self.open.stored;
        let follows_hole = stored.holes().last().is_some_and(|hole| hole.end == stored.blocks);
        match if follows_hole { cut.behind_hole() } else { cut } {
            FileBlock::Hole(len) => self.hole(len),
            FileBlock::Block(bytes, digest) => {
                let tail = match self.packing(handling) {
                    Fragments::Tails => bytes.len() < self.rules.block_len,
                    // A file shorter than a block may arrive as a block too: from a stream, or
                    // because of its holes.
                    Fragments::Small => self.files[file as usize].size < self.rules.block_len as u64,
                    Fragments::None => false,
                };
                if tail { self.tail(&bytes, digest, handling) } else { self.block(bytes, digest, handling) }
            }
        }
    }

    /// Returns how the end of a file with these wishes is packed.
    fn packing(&self, handling: DataHandling) -> Fragments {
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

    /// Takes a hole as the blocks of zeros that it stands for.
    fn zeros(&mut self, file: u32, mut len: u64) -> Result<()> {
        while len > 0 {
            let now = usize::try_from(len).unwrap_or(usize::MAX).min(self.rules.block_len);
            let mut bytes = self.buffers.take(now);
            bytes.fill(0);
            let digest = Digest::of(&bytes);
            self.cut(file, FileBlock::Block(bytes, digest))?;
            len -= now as u64;
        }
        Ok(())
    }

    fn hole(&mut self, len: u64) -> Result<()> {
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
        self.save(len);
        Ok(())
    }

    fn save(&self, len: u64) {
        Progress::add(&self.tools.progress.done, len);
        Progress::add(&self.tools.progress.saved, len);
    }

    /// Returns the wishes about the data of a file; one to be stored shares nothing.
    fn handling(&self, file: u32) -> DataHandling {
        let handling = self.handling.get(&file).copied().unwrap_or_default();
        match handling.contains(DataHandling::STORE) {
            true => handling | DataHandling::NO_FRAGMENT | DataHandling::NO_DEDUP,
            false => handling,
        }
    }

    fn block(&mut self, bytes: Buffer, digest: Digest, handling: DataHandling) -> Result<()> {
        self.open.stored.blocks = self.open.stored.blocks.checked_add(1).ok_or_else(too_many_blocks)?;
        if handling.intersects(DataHandling::NO_DEDUP | DataHandling::ALIGN) {
            // A number to which no digest leads, so nothing shares the block.
            let seq = self.runs.push_other();
            if self.open.first.is_none() {
                self.open.first = Some(seq);
                if handling.contains(DataHandling::ALIGN) {
                    // It holds no data. A small weight limits how many can wait.
                    self.push(JobTicket::ready(Ok(WriteItem::Gap)), 64)?;
                }
            }
            return self.put(bytes, digest, handling.contains(DataHandling::STORE));
        }
        let known = if self.rules.dedup { self.runs.block(&digest) } else { None };
        self.open.digests.push(digest);
        match (known, self.open.first) {
            // All blocks so far are known: decided at the file's end, or at its first new block.
            (Some(_), None) => {
                self.counts.duplicate_bytes += bytes.len() as u64;
                self.save(bytes.len() as u64);
                Ok(())
            }
            // The file is being written, so its run has to go on with a copy.
            (Some(seq), Some(_)) => {
                self.counts.duplicate_bytes += bytes.len() as u64;
                self.save(bytes.len() as u64);
                self.copy(seq, digest)
            }
            (None, _) => {
                // The format keeps the blocks of a file together, so the known ones before this one are
                // written first.
                self.commit_known(self.open.digests.len() - 1)?;
                let seq = self.runs.push(digest);
                self.open.first.get_or_insert(seq);
                self.put(bytes, digest, false)
            }
        }
    }

    /// Writes a block of a file: as it is if its file asks for that or the options do.
    fn put(&mut self, bytes: Buffer, digest: Digest, store: bool) -> Result<()> {
        if store || self.rules.plain_data { self.store(bytes) } else { self.submit(bytes, Some(digest)) }
    }

    /// Writes copies of the file's first `count` blocks, all of them known, unless that is already done.
    fn commit_known(&mut self, count: usize) -> Result<()> {
        if self.open.first.is_some() {
            return Ok(());
        }
        for n in 0..count {
            let digest = self.open.digests[n];
            let from = self.runs.block(&digest).expect("only known blocks wait");
            self.copy(from, digest)?;
        }
        Ok(())
    }

    fn copy(&mut self, from: BlockNumber, digest: Digest) -> Result<()> {
        let seq = self.runs.push(digest);
        self.open.first.get_or_insert(seq);
        self.push(JobTicket::ready(Ok(WriteItem::Copy(from))), 64)
    }

    /// Has a block packed; the digest of one that is no fragment block is known.
    fn submit(&mut self, bytes: Buffer, digest: Option<Digest>) -> Result<()> {
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
        self.push(ticket, held)
    }

    /// Writes a block as it is.
    fn store(&mut self, bytes: Buffer) -> Result<()> {
        let len = bytes.len();
        self.counts.packed_bytes += len as u64;
        Progress::add(&self.tools.progress.done, len as u64);
        Progress::add(&self.tools.progress.packed, len as u64);
        self.push(JobTicket::ready(Ok(WriteItem::Packed(PackedBlock::raw(bytes), len))), len)
    }

    fn end(&mut self, file: u32) -> Result<()> {
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
                        Ok((range, digest)) => self.small(file, &bytes[range], digest)?,
                        Err(e) => self.fail(file, e)?,
                    }
                }
                Ok(())
            }
            FedBlocks::Blocks { file, cuts, last } => match cuts {
                Ok(cuts) => {
                    cuts.into_iter().try_for_each(|cut| self.cut(file, cut))?;
                    if last { self.end(file) } else { Ok(()) }
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
        while let Some(work) = self.oldest() {
            self.write(work)?;
        }
        let SquashfsData { writes, pos, files, places, fragments, failed, counts, ledger, .. } = self;
        writes.finish()?;
        Ok((DataDone { pos, files, places, fragments, counts, ledger }, failed))
    }
}

fn too_many_blocks() -> Error {
    Error::TooMany { what: "blocks in a file; larger blocks hold more", max: u32::MAX.into() }
}
