//! Pieces in flight: being cut into chunks, packed or written. Results for the stream of tails are
//! taken a fixed number of jobs later. When a result is taken depends on the jobs submitted, never
//! on which worker is ready first.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use packfs_blocks::Buffer;
use packfs_blocks::pipeline::{JobTicket, Window};
use packfs_blocks::stages::Stage;

use super::chunks::{ContentChunk, cut_chunks};
use crate::build::BuildTools;
use crate::erofs::writer::encode::piece::{PackedPieces, PieceJob};
use crate::erofs::writer::encode::worker::PackWorker;
use crate::erofs::writer::stored::tails::TailSpill;
use crate::{Error, Result};

/// Number of jobs after which a piece of tails is written: enough for it to be ready, few enough not to pile up. The
/// same on all machines, as it decides where the piece lies. Not measured.
const LATE_JOBS: u64 = 8;
/// Maximum number of jobs whose pieces are being cut into chunks. With more, workers are less often idle, and more
/// buffers wait in memory. Not measured.
const MAX_CHUNKING_JOBS: usize = 3;
/// Number of jobs that are likely to be in flight. It is the same on all machines, as the image
/// must not depend on the number of threads. Not measured.
const RECENT_JOBS: usize = 8;

/// Maximum number of bytes that are on their way to the file of data that follows inodes: four writes of it, so that
/// the conductor seldom waits. Not measured.
const MAX_SPILL_BYTES: usize = 4 << 20;

/// The result of a job.
#[derive(Debug)]
pub(super) enum JobResult {
    Packed(PackedPieces),
    /// Number of bytes that the worker wrote.
    Written(u64),
    /// A file, and the number of its bytes that the worker copied, or its error.
    Copied(u32, Result<u64>),
}

/// Pieces of one buffer, with the chunks of each.
pub(super) struct ChunkedPieces {
    pub(super) bytes: Arc<Buffer>,
    pub(super) pieces: Vec<(PieceJob, Vec<ContentChunk>)>,
}

/// Pieces of one buffer whose chunks a worker is looking for.
#[derive(Debug)]
struct PendingChunks {
    bytes: Arc<Buffer>,
    pieces: Vec<PieceJob>,
    /// The chunks of each piece.
    ticket: JobTicket<Vec<Vec<ContentChunk>>>,
}

/// A piece of the stream of tails that is being packed.
#[derive(Debug)]
struct PendingTails {
    /// Number of jobs after which its result is taken.
    due_after: u64,
    ticket: JobTicket<Result<PackedPieces>>,
}

/// Jobs submitted to workers whose results are not taken yet.
#[derive(Debug)]
pub(super) struct PieceJobs<'p, 'env> {
    tools: BuildTools<'p, 'env, PackWorker>,
    window: Window<Result<JobResult>>,
    chunking: VecDeque<PendingChunks>,
    /// Pieces up to this one have been submitted for packing.
    planned: u32,
    /// First pieces of the last jobs, oldest first.
    recent: VecDeque<u32>,
    /// Number of jobs taken out of the window.
    taken: u64,
    late_tails: VecDeque<PendingTails>,
    /// Writes of data that follows inodes.
    spills: Window<io::Result<()>>,
}

impl<'p, 'env> PieceJobs<'p, 'env> {
    /// Makes a window for jobs that hold up to `budget` bytes.
    pub(super) fn new(tools: BuildTools<'p, 'env, PackWorker>, budget: usize) -> Self {
        PieceJobs {
            tools,
            window: Window::new(budget),
            chunking: VecDeque::new(),
            planned: 0,
            recent: VecDeque::new(),
            taken: 0,
            late_tails: VecDeque::new(),
            spills: Window::new(MAX_SPILL_BYTES),
        }
    }

    /// Has pieces cut into chunks of about `average` bytes.
    pub(super) fn cut_into_chunks(&mut self, bytes: Arc<Buffer>, pieces: Vec<PieceJob>, average: usize) {
        let shared = Arc::clone(&bytes);
        let ranges = pieces.iter().map(|piece| piece.range.clone()).collect::<Vec<_>>();
        let stages = &self.tools.progress.stages;
        // First: few pieces are cut at a time. Queued after everything that waits to be packed, they would starve the
        // workers.
        let ticket = self.tools.pool.submit_first(move |_: &mut PackWorker| {
            let chunks = || ranges.into_iter().map(|range| cut_chunks(&shared[range], average)).collect();
            stages.time(Stage::Hash, chunks)
        });
        self.chunking.push_back(PendingChunks { bytes, pieces, ticket });
    }

    /// Returns true if the oldest pieces being cut must be taken before more are submitted.
    pub(super) fn is_chunking_full(&self) -> bool {
        self.chunking.len() > MAX_CHUNKING_JOBS
    }

    /// Waits for the chunks of the oldest pieces.
    pub(super) fn take_chunks(&mut self) -> Option<ChunkedPieces> {
        let PendingChunks { bytes, pieces, ticket } = self.chunking.pop_front()?;
        let chunks = self.tools.progress.stages.time(Stage::Wait, || ticket.wait());
        Some(ChunkedPieces { bytes, pieces: pieces.into_iter().zip(chunks).collect() })
    }

    /// Has pieces packed, at least one.
    pub(super) fn pack(&mut self, bytes: &Arc<Buffer>, pieces: Vec<PieceJob>) {
        let Some(last) = pieces.last() else { return };
        if self.recent.len() == RECENT_JOBS {
            self.recent.pop_front();
        }
        self.recent.push_back(self.planned);
        self.planned = last.seq + 1;
        // The pieces and their packed form.
        let held = pieces.iter().map(|piece| piece.range.len()).sum::<usize>() * 2;
        let bytes = Arc::clone(bytes);
        let stages = &self.tools.progress.stages;
        let pack = move |worker: &mut PackWorker| stages.time(Stage::Compress, || worker.pack(&bytes, pieces));
        let ticket = self.tools.pool.submit(move |worker: &mut PackWorker| pack(worker).map(JobResult::Packed));
        self.window.push(ticket, held);
    }

    /// Has a worker write bytes and return their number; the job holds `held` bytes.
    pub(super) fn write(&mut self, held: usize, write: impl FnOnce() -> Result<u64> + Send + 'env) {
        let stages = &self.tools.progress.stages;
        let ticket = self.tools.pool.submit(move |_| stages.time(Stage::Write, write).map(JobResult::Written));
        self.window.push(ticket, held);
    }

    /// Has a worker copy bytes of a file and return their number; the job holds `held` bytes. The inner error is one of
    /// the file, which may be left out.
    pub(super) fn copy(&mut self, held: usize, file: u32, copy: impl FnOnce() -> Result<Result<u64>> + Send + 'env) {
        let stages = &self.tools.progress.stages;
        let copy =
            move |_: &mut PackWorker| stages.time(Stage::Write, copy).map(|copied| JobResult::Copied(file, copied));
        self.window.push(self.tools.pool.submit(copy), held);
    }

    /// Has a piece of the stream of tails packed. [`due_tails`](Self::due_tails) returns it a fixed number of jobs
    /// later.
    pub(super) fn pack_tails(&mut self, bytes: Buffer, piece: PieceJob) {
        let stages = &self.tools.progress.stages;
        let bytes = Arc::new(bytes);
        let pack = move |worker: &mut PackWorker| stages.time(Stage::Compress, || worker.pack(&bytes, vec![piece]));
        // First: it is due after a fixed number of jobs, of which more are in flight with many threads.
        let ticket = self.tools.pool.submit_first(pack);
        // Counted in results taken, never in time: the piece lies at the same place on all machines.
        self.late_tails.push_back(PendingTails { due_after: self.taken + LATE_JOBS, ticket });
    }

    /// Has data that follows inodes written to its file. The image does not depend on when that is done.
    pub(super) fn spill(&mut self, spill: TailSpill) -> Result<()> {
        let len = spill.len();
        let stages = &self.tools.progress.stages;
        // First: a write frees the memory of its bytes.
        self.spills.push(self.tools.pool.submit_first(move |_| stages.time(Stage::Write, || spill.write())), len);
        while self.spills.is_full() {
            self.wait_for_spill()?;
        }
        Ok(())
    }

    /// Waits for the oldest write of data that follows inodes; returns false if there is none.
    pub(super) fn wait_for_spill(&mut self) -> Result<bool> {
        let Some(spilled) = self.tools.progress.stages.time(Stage::Wait, || self.spills.pop()) else {
            return Ok(false);
        };
        spilled.map_err(Error::io("cannot write", "a temporary file"))?;
        Ok(true)
    }

    /// Returns true if results must be taken before more is submitted.
    pub(super) fn is_full(&self) -> bool {
        self.window.is_full()
    }

    /// Waits for the oldest job except those of the stream of tails.
    pub(super) fn take_result(&mut self) -> Option<Result<JobResult>> {
        let work = self.tools.progress.stages.time(Stage::Wait, || self.window.pop())?;
        self.taken += 1;
        Some(work)
    }

    /// Returns the oldest piece of the stream of tails once it is due.
    pub(super) fn due_tails(&mut self) -> Option<Result<PackedPieces>> {
        if self.late_tails.front()?.due_after <= self.taken { self.next_tails() } else { None }
    }

    /// Returns the oldest piece of the stream of tails.
    pub(super) fn next_tails(&mut self) -> Option<Result<PackedPieces>> {
        let PendingTails { ticket, .. } = self.late_tails.pop_front()?;
        Some(self.tools.progress.stages.time(Stage::Wait, || ticket.wait()))
    }

    /// Returns true if a piece was submitted for packing.
    pub(super) fn is_planned(&self, seq: u32) -> bool {
        seq < self.planned
    }

    /// Returns true if a piece belongs to the last few jobs.
    pub(super) fn is_recent(&self, seq: u32) -> bool {
        // Until there are so many jobs, all pieces are recent.
        let first = self.recent.front().copied().filter(|_| self.recent.len() == RECENT_JOBS);
        seq >= first.unwrap_or(0)
    }
}
