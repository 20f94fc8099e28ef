//! The executor of codec benchmarks: encodes and decodes blocks in memory, on several threads.
//!
//! Threads take batches of blocks. The time runs from the first start to the last end; buffers, encoders and decoders
//! are allocated before. After each pass the result is compared with the source.

use std::sync::{Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use packfs_blocks::mutex;
use packfs_blocks::threads;
use packfs_codec::{Decoder, Encoder};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::clock::thread_time;
use crate::clusters::{PackedRange, pack_clusters, segment_len};
use crate::codecs::CodecMethod;
use crate::executor::CellExecutor;
use crate::matrix::CodecCell;
use crate::metrics::PassSizes;
use crate::policy::{StoragePolicy, StoredSize};
use crate::sample::{CodecSample, PassTiming};
use crate::{Error, Result};

/// Bytes of blocks that a thread takes at once: enough to make the overhead negligible.
const BATCH_LEN: usize = 256 << 10;
/// Minimum number of batches for each thread, for which small data has smaller batches: then all threads end at about
/// the same time.
const BATCHES_PER_THREAD: usize = 8;

/// Measures codecs on this machine.
#[derive(Debug)]
pub struct CodecMachine {
    /// Processors available to this process.
    processors: Vec<usize>,
}

impl CodecMachine {
    /// Creates the executor for this machine.
    pub fn new() -> Self {
        let allowed = sched_getaffinity(None).ok();
        let processors = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.as_ref().is_some_and(|set| set.is_set(*cpu)));
        CodecMachine { processors: processors.collect() }
    }

    /// Pins the calling thread to a processor if there is one for each thread. A single thread is not pinned, because
    /// the scheduler finds an idle processor for it.
    fn pin(&self, thread: usize, threads: usize) {
        let Some(cpu) = self.processors.get(thread).filter(|_| (2..=self.processors.len()).contains(&threads)) else {
            return;
        };
        let mut set = CpuSet::new();
        set.set(*cpu);
        // If pinning is not permitted, measure without it.
        let _ = sched_setaffinity(None, &set);
    }
}

impl Default for CodecMachine {
    fn default() -> Self {
        Self::new()
    }
}

/// A block with its compressed and decompressed form.
struct CodedBlock<'d> {
    raw: &'d [u8],
    /// Buffer for the encoder; empty if the policy does not compress the block.
    packed: Vec<u8>,
    /// Result as one unit. Not in a vector, because that access would cost as much as copying a small block.
    whole: PackedRange,
    /// Result in clusters; their compressed forms are contiguous.
    clusters: Vec<PackedRange>,
    /// Buffer for the decoder.
    back: Vec<u8>,
}

impl CodedBlock<'_> {
    fn pieces(&self) -> &[PackedRange] {
        if self.clusters.is_empty() { std::slice::from_ref(&self.whole) } else { &self.clusters }
    }

    /// Returns true if it decodes to its source.
    fn came_back(&self) -> bool {
        let mut at = 0;
        self.pieces().iter().all(|piece| {
            let range = at..at + piece.raw;
            at = range.end;
            piece.packed.is_none() || self.back[range.clone()] == self.raw[range]
        })
    }

    fn pieces_mut(&mut self) -> &mut [PackedRange] {
        if self.clusters.is_empty() { std::slice::from_mut(&mut self.whole) } else { &mut self.clusters }
    }
}

/// Encoder and decoder of one thread.
struct CodecWorker {
    encoder: Box<dyn Encoder>,
    decoder: Box<dyn Decoder>,
}

impl CodecWorker {
    fn new(cell: &CodecCell) -> Result<Self> {
        let (encoder, decoder) = match (&cell.method, cell.policy) {
            (CodecMethod::Choice(choice), StoragePolicy::Erofs) => {
                let cluster = u32::try_from(cell.block).unwrap_or(u32::MAX);
                (choice.cluster_encoder(choice.cluster_window(cluster))?, choice.codec().cluster_decoder()?)
            }
            (method, StoragePolicy::Erofs) if *method != CodecMethod::Memcpy => {
                return Err(Error::Usage(format!("EROFS has no {method}")));
            }
            (method, _) => (method.encoder(cell.block)?, method.decoder()?),
        };
        Ok(CodecWorker { encoder, decoder })
    }

    fn encode(&mut self, cell: &CodecCell, block: &mut CodedBlock<'_>) -> Result<()> {
        if let (CodecMethod::Choice(choice), StoragePolicy::Erofs) = (&cell.method, cell.policy) {
            block.clusters.clear();
            let encoder = self.encoder.as_mut();
            let CodedBlock { raw, packed, clusters, .. } = block;
            return pack_clusters(encoder, choice.fills(), raw, packed, cell.block, cell.sector, clusters);
        }
        block.whole.packed = match block.packed.is_empty() {
            true => None,
            false => self.encoder.encode(block.raw, &mut block.packed)?,
        };
        Ok(())
    }

    fn decode(&mut self, block: &mut CodedBlock<'_>) -> Result<()> {
        let mut raw_at = 0;
        let mut packed_at = 0;
        let CodedBlock { packed, whole, clusters, back, .. } = block;
        let pieces = if clusters.is_empty() { std::slice::from_ref(whole) } else { clusters };
        for piece in pieces {
            if let Some(len) = piece.packed {
                let piece_packed = &packed[packed_at..packed_at + len];
                self.decoder.decode(piece_packed, &mut back[raw_at..raw_at + piece.raw])?;
                packed_at += len;
            }
            raw_at += piece.raw;
        }
        Ok(())
    }
}

impl CellExecutor<CodecCell> for CodecMachine {
    fn run(&mut self, cell: &CodecCell, min_time: Duration) -> Result<CodecSample> {
        let mut blocks = cut_blocks(cell);
        let mut workers = (0..cell.threads).map(|_| CodecWorker::new(cell)).collect::<Result<Vec<CodecWorker>>>()?;
        let encode =
            self.repeat_passes(&mut workers, &mut blocks, min_time, |worker, block| worker.encode(cell, block))?;
        let sizes = decide_storage(cell, &mut blocks);
        if sizes.kept == 0 {
            return Ok(CodecSample { sizes, encode, decode: None });
        }
        let decode = self.repeat_passes(&mut workers, &mut blocks, min_time, |worker, block| worker.decode(block))?;
        if !blocks.iter().all(CodedBlock::came_back) {
            return Err(Error::Damage(cell.method.to_string()));
        }
        Ok(CodecSample { sizes, encode, decode: Some(decode) })
    }
}

/// Time that one thread, or all threads together, spent on a pass.
struct WorkSpan {
    start: Instant,
    end: Instant,
    cpu: Duration,
}

impl CodecMachine {
    /// Repeats passes over all blocks until `min_time` has passed. Returns their mean.
    fn repeat_passes(
        &self,
        workers: &mut [CodecWorker],
        blocks: &mut [CodedBlock<'_>],
        min_time: Duration,
        step: impl Fn(&mut CodecWorker, &mut CodedBlock<'_>) -> Result<()> + Sync,
    ) -> Result<PassTiming> {
        let mut wall = Duration::ZERO;
        let mut cpu = Duration::ZERO;
        let mut passes = 0;
        // At least one pass, whatever the time.
        while passes == 0 || wall < min_time {
            let pass = self.run_pass(workers, blocks, &step)?;
            wall += pass.end - pass.start;
            cpu += pass.cpu;
            passes += 1;
        }
        Ok(PassTiming { passes, ..PassTiming::of(wall / passes, cpu / passes) })
    }

    /// Runs one pass. Returns the span from the first start to the last end.
    fn run_pass(
        &self,
        workers: &mut [CodecWorker],
        blocks: &mut [CodedBlock<'_>],
        step: &(impl Fn(&mut CodecWorker, &mut CodedBlock<'_>) -> Result<()> + Sync),
    ) -> Result<WorkSpan> {
        let threads = workers.len();
        let queue = Mutex::new(cut_batches(blocks, threads));
        let barrier = Barrier::new(threads);
        let work = |number: usize, worker: &mut CodecWorker| -> Result<WorkSpan> {
            self.pin(number, threads);
            // The time begins when all threads are ready.
            barrier.wait();
            let start = Instant::now();
            let cpu_at_start = thread_time();
            loop {
                let batch = mutex::lock(&queue).pop();
                let Some(batch) = batch else { break };
                for block in batch {
                    step(worker, block)?;
                }
            }
            Ok(WorkSpan { start, end: Instant::now(), cpu: thread_time().saturating_sub(cpu_at_start) })
        };
        if let [worker] = workers {
            // No new thread for a single worker: its caches would be cold.
            return work(0, worker);
        }
        let spans = std::thread::scope(|scope| {
            // They meet at the barrier only once all have started: if one is refused, the others must not wait for it.
            let mut starts = Vec::new();
            let mut handles = Vec::new();
            for (number, worker) in workers.iter_mut().enumerate() {
                let (start, started) = mpsc::channel::<()>();
                let work = &work;
                let begin = move || started.recv().ok().map(|()| work(number, worker));
                let handle = threads::named("packfs-bench").start_in(scope, begin);
                handles.push(handle.map_err(|error| Error::Usage(format!("{threads} threads: {error}")))?);
                starts.push(start);
            }
            for start in starts {
                // It fails only if the thread has ended, which its result tells.
                let _ = start.send(());
            }
            let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            handles.into_iter().filter_map(join).collect::<Result<Vec<_>>>()
        })?;
        // A matrix has no cell with 0 threads, so there is a span.
        let now = Instant::now();
        let start = spans.iter().map(|span| span.start).min().unwrap_or(now);
        let end = spans.iter().map(|span| span.end).max().unwrap_or(now);
        Ok(WorkSpan { start, end, cpu: spans.iter().map(|span| span.cpu).sum() })
    }
}

/// Cuts the data of the cell into blocks with all their buffers, and touches every page.
fn cut_blocks(cell: &CodecCell) -> Vec<CodedBlock<'_>> {
    let len = if cell.policy == StoragePolicy::Erofs { segment_len(cell.block) } else { cell.block };
    let raws = cell.data.files.iter().flat_map(|file| file.chunks(len));
    raws.map(|raw| {
        let room = match cell.method {
            CodecMethod::Memcpy => raw.len(),
            _ => cell.policy.encoder_room(raw, cell.block, cell.sector).unwrap_or(0),
        };
        let whole = PackedRange { raw: raw.len(), packed: None };
        // Not zeros: every page is touched, and a decoder that writes nothing is noticed.
        CodedBlock { raw, packed: vec![0xA5; room], whole, clusters: Vec::new(), back: vec![0x5A; raw.len()] }
    })
    .collect()
}

/// Decides by the policy which blocks are kept compressed, and sums up the sizes. Copies are always kept, so that
/// decoding them is timed.
fn decide_storage(cell: &CodecCell, blocks: &mut [CodedBlock<'_>]) -> PassSizes {
    let mut sizes = PassSizes::default();
    for block in blocks {
        let data = block.raw;
        let mut at = 0;
        for piece in block.pieces_mut() {
            let raw = &data[at..at + piece.raw];
            let stored = match cell.method {
                CodecMethod::Memcpy => StoredSize { bytes: raw.len(), compressed: true },
                _ => cell.policy.stored_size(raw, piece.packed, cell.sector),
            };
            sizes.blocks += 1;
            sizes.raw += raw.len() as u64;
            sizes.stored += stored.bytes as u64;
            if stored.compressed {
                sizes.decoded += raw.len() as u64;
                sizes.kept += 1;
            } else {
                // Blocks that do not pay are stored as they are, so they are not decoded either.
                piece.packed = None;
            }
            at += piece.raw;
        }
    }
    sizes
}

/// Divides blocks into batches. Threads take batches from the end, so the first ones are last.
fn cut_batches<'b, 'd>(blocks: &'b mut [CodedBlock<'d>], threads: usize) -> Vec<&'b mut [CodedBlock<'d>]> {
    let count = blocks.len().max(1);
    let bytes: usize = blocks.iter().map(|block| block.raw.len()).sum();
    // By the mean length of blocks.
    let blocks_per_batch = (BATCH_LEN * count / bytes.max(1)).min(count / (threads * BATCHES_PER_THREAD)).max(1);
    let mut batches: Vec<_> = blocks.chunks_mut(blocks_per_batch).collect();
    batches.reverse();
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::DataSet;
    use crate::memory::PageShares;
    use std::sync::Arc;

    fn cell(codec: &str, threads: usize) -> CodecCell {
        CodecCell {
            data: Arc::new(DataSet::memory(1_000_001, 1, PageShares::default())),
            method: codec.parse().unwrap(),
            block: 16_384,
            sector: 4096,
            policy: StoragePolicy::Sector,
            threads,
        }
    }

    #[test]
    fn sizes_do_not_depend_on_threads_and_passes() {
        let one = CodecMachine::new().run(&cell("lz4", 1), Duration::ZERO).unwrap();
        let three = CodecMachine::new().run(&cell("lz4", 3), Duration::from_millis(30)).unwrap();
        assert_eq!(one.sizes, three.sizes);
        assert_eq!((one.sizes.raw, one.sizes.blocks), (1_000_001, 62));
        assert!(one.sizes.kept > 20 && one.sizes.stored < 800_000, "{:?}", one.sizes);
        assert!(one.encode.wall > 0 && one.encode.passes == 1 && one.decode.is_some());
    }

    #[test]
    fn sizes_are_those_of_a_plain_loop() {
        let cell = cell("zstd:3", 1);
        let sample = CodecMachine::new().run(&cell, Duration::ZERO).unwrap();
        let mut encoder = cell.method.encoder(cell.block).unwrap();
        let mut stored = 0;
        let mut dst = vec![0; 1 << 16];
        for raw in cell.data.files[0].chunks(cell.block) {
            let len = encoder.encode(raw, &mut dst).unwrap().unwrap().next_multiple_of(4096);
            stored += len.min(raw.len().next_multiple_of(4096));
        }
        assert_eq!(sample.sizes.stored, stored as u64);
    }

    #[test]
    fn copies_are_timed_both_ways_and_save_nothing() {
        let sample = CodecMachine::new().run(&cell("memcpy", 2), Duration::ZERO).unwrap();
        assert_eq!((sample.sizes.ratio(), sample.sizes.share()), (1.0, 1.0));
        assert!(sample.decode.is_some_and(|decode| decode.wall > 0));
    }
}
