//! Pieces under way: being cut into chunks, being packed or written, and such of the stream of ends, whose results
//! are taken a fixed number of jobs later. What is taken when depends on the jobs handed in, never on which worker is
//! ready first.

use std::collections::VecDeque;
use std::sync::Arc;

use packfs_blocks::Buffer;
use packfs_blocks::pipeline::{Ticket, Window};
use packfs_blocks::stages::Stage;

use crate::Result;
use crate::build::Tools;
use crate::erofs::writer::chunk::{self, Chunk};
use crate::erofs::writer::pack::{Packed, Piece, Worker};

/// Jobs after which a piece of file ends is written: enough for it to be ready, few enough not to pile up.
const LATE: u64 = 8;
/// Jobs whose pieces are being cut into chunks at a time.
const CHUNKING: usize = 3;
/// Jobs that are likely to be on their way. The same number on all machines, as the image must not depend on
/// how many threads there are.
const RECENT: usize = 8;

/// The result of a job.
#[derive(Debug)]
pub(super) enum Work {
    Packed(Packed),
    /// So many bytes were written by the worker.
    Written(u64),
}

/// Pieces of one buffer, with the chunks of each.
pub(super) struct Chunked {
    pub(super) bytes: Arc<Buffer>,
    pub(super) pieces: Vec<(Piece, Vec<Chunk>)>,
}

type Chunking = (Arc<Buffer>, Vec<Piece>, Ticket<Vec<Vec<Chunk>>>);

/// Jobs handed to workers whose results were not taken yet.
#[derive(Debug)]
pub(super) struct Jobs<'p, 'env> {
    tools: Tools<'p, 'env, Worker>,
    window: Window<Result<Work>>,
    chunking: VecDeque<Chunking>,
    /// Pieces up to this have been handed to workers to be packed.
    planned: u32,
    /// First pieces of the last jobs, oldest first.
    recent: VecDeque<u32>,
    /// Jobs taken out of the window.
    taken: u64,
    /// Pieces of the stream of ends, and after how many jobs each is due.
    late: VecDeque<(u64, Ticket<Result<Packed>>)>,
}

impl<'p, 'env> Jobs<'p, 'env> {
    /// Jobs that hold up to `budget` bytes.
    pub(super) fn new(tools: Tools<'p, 'env, Worker>, budget: usize) -> Self {
        let (chunking, recent, late) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Jobs { tools, window: Window::new(budget), chunking, planned: 0, recent, taken: 0, late }
    }

    /// Has pieces cut into chunks of about `average` bytes.
    pub(super) fn chunk(&mut self, bytes: Arc<Buffer>, pieces: Vec<Piece>, average: usize) {
        let (shared, ranges) = (Arc::clone(&bytes), pieces.iter().map(|piece| piece.range.clone()).collect::<Vec<_>>());
        let stages = &self.tools.progress.stages;
        let ticket = self.tools.pool.submit(move |_: &mut Worker| {
            let chunks = || ranges.into_iter().map(|range| chunk::chunks(&shared[range], average)).collect();
            stages.time(Stage::Hash, chunks)
        });
        self.chunking.push_back((bytes, pieces, ticket));
    }

    /// True if the oldest pieces being cut have to be taken before more are handed in.
    pub(super) fn is_chunking_full(&self) -> bool {
        self.chunking.len() > CHUNKING
    }

    /// Waits for the chunks of the oldest pieces.
    pub(super) fn chunked(&mut self) -> Option<Chunked> {
        let (bytes, pieces, ticket) = self.chunking.pop_front()?;
        let chunks = self.tools.progress.stages.time(Stage::Wait, || ticket.wait());
        Some(Chunked { bytes, pieces: pieces.into_iter().zip(chunks).collect() })
    }

    /// Has pieces packed, at least one.
    pub(super) fn pack(&mut self, bytes: &Arc<Buffer>, pieces: Vec<Piece>) {
        let Some(last) = pieces.last() else { return };
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(self.planned);
        self.planned = last.seq + 1;
        // The pieces and what they are packed into.
        let held = pieces.iter().map(|piece| piece.range.len()).sum::<usize>() * 2;
        let bytes = Arc::clone(bytes);
        let stages = &self.tools.progress.stages;
        let pack = move |worker: &mut Worker| stages.time(Stage::Compress, || worker.pack(&bytes, pieces));
        let ticket = self.tools.pool.submit(move |worker: &mut Worker| pack(worker).map(Work::Packed));
        self.window.push(ticket, held);
    }

    /// Has a worker write bytes of which it returns the number; the job holds `held` bytes.
    pub(super) fn write(&mut self, held: usize, write: impl FnOnce() -> Result<u64> + Send + 'env) {
        let stages = &self.tools.progress.stages;
        let ticket = self.tools.pool.submit(move |_| stages.time(Stage::WriteApart, write).map(Work::Written));
        self.window.push(ticket, held);
    }

    /// Has a piece of the stream of ends packed.
    pub(super) fn pack_late(&mut self, bytes: Buffer, piece: Piece) {
        let stages = &self.tools.progress.stages;
        let bytes = Arc::new(bytes);
        let pack = move |worker: &mut Worker| stages.time(Stage::Compress, || worker.pack(&bytes, vec![piece]));
        self.late.push_back((self.taken + LATE, self.tools.pool.submit(pack)));
    }

    /// True if results have to be taken before more is handed in.
    pub(super) fn is_full(&self) -> bool {
        self.window.is_full()
    }

    /// Waits for the oldest job but those of the stream of ends.
    pub(super) fn next(&mut self) -> Option<Result<Work>> {
        let work = self.tools.progress.stages.time(Stage::Wait, || self.window.pop())?;
        self.taken += 1;
        Some(work)
    }

    /// The oldest piece of the stream of ends, once it is due.
    pub(super) fn due(&mut self) -> Option<Result<Packed>> {
        if self.late.front()?.0 <= self.taken { self.late() } else { None }
    }

    /// The oldest piece of the stream of ends.
    pub(super) fn late(&mut self) -> Option<Result<Packed>> {
        let (_, ticket) = self.late.pop_front()?;
        Some(self.tools.progress.stages.time(Stage::Wait, || ticket.wait()))
    }

    /// True if a piece was handed to workers to be packed.
    pub(super) fn is_planned(&self, seq: u32) -> bool {
        seq < self.planned
    }

    /// True if a piece is of the last few jobs.
    pub(super) fn is_recent(&self, seq: u32) -> bool {
        let first = self.recent.front().copied().filter(|_| self.recent.len() == RECENT);
        seq >= first.unwrap_or(0)
    }
}
