//! The conductor: submits extents to the pool, packs results in order into segments, and passes
//! segments to the parts.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use packfs_blocks::dedup::RecentPlaces;
use packfs_blocks::io::read_full;
use packfs_blocks::pipeline::{JobTicket, Pool, Window};
use packfs_blocks::{Buffers, Progress};

use super::chunk::{ChunkContext, ChunkWorker, ClassifiedChunk, PackedChunk};
use super::options::SplitOptions;
use super::parity::{StripeAssigner, width};
use super::queue::SegmentQueue;
use super::report::SplitReport;
use super::segment::{SealedSegment, SegmentBuilder};
use super::work::SplitWork;
use crate::Error;
use crate::format::PAGE;
use crate::input::{Input, InputOrigin, Source};

/// Reason why reading the input ended early.
#[derive(Debug)]
pub(super) enum SplitStop {
    /// All parts have failed.
    NoPart,
    /// The input could be read up to here.
    Input { at: u64, why: String },
    /// Any other error, after which the run cannot continue.
    Error(Error),
}

impl SplitStop {
    /// Returns the message about the input.
    pub(super) fn of_input(&self) -> Option<String> {
        match self {
            SplitStop::Input { at, why } => Some(format!("{why}; the dump contains the bytes before {at}")),
            _ => None,
        }
    }
}

/// A stretch of the dump in the pool.
#[derive(Debug)]
struct PendingStretch<T> {
    offset: u64,
    /// Number of bytes requested.
    len: u64,
    /// Number of bytes read, and their result.
    result: Result<(u64, T), StretchFailure>,
}

#[derive(Debug)]
enum StretchFailure {
    Read(io::Error),
    Pack(Error),
}

/// State of the conductor.
pub(super) struct SplitConductor<'a, 'env> {
    pool: &'a Pool<'env, ChunkWorker>,
    queue: &'a SegmentQueue,
    progress: &'a Progress,
    work: &'a SplitWork,
    name: PathBuf,
    begun: Instant,
    shared: Arc<ChunkContext>,
    segments: Buffers,
    gather: SegmentBuilder,
    stripes: StripeAssigner,
    /// Chunks being classified, if equal ones are searched.
    classifying: Window<PendingStretch<ClassifiedChunk>>,
    /// Chunks being compressed.
    packing: Window<PendingStretch<PackedChunk>>,
    coding: Window<Vec<SealedSegment>>,
    seen: Option<RecentPlaces>,
    /// True while earlier work is repeated.
    again: bool,
    /// End of the dump so far.
    end: u64,
    report: SplitReport,
    wait_for_chunks: Duration,
    wait_for_parts: Duration,
    read: Duration,
}

impl<'a, 'env> SplitConductor<'a, 'env> {
    pub(super) fn new(
        pool: &'a Pool<'env, ChunkWorker>,
        work: &'a SplitWork,
        options: &SplitOptions,
        queue: &'a SegmentQueue,
        progress: &'a Progress,
        begun: Instant,
    ) -> Self {
        let plan = &work.plan;
        let shared = ChunkContext {
            codec: options.codec.clone(),
            chunk: plan.chunk,
            verify: options.verify,
            buffers: Buffers::new(plan.chunk),
            read: AtomicU64::new(0),
            code: AtomicU64::new(0),
        };
        // With two stages, each gets a share of the memory.
        let (classifying, packing) = if options.dedup { (plan.window / 2, plan.window / 2) } else { (0, plan.window) };
        SplitConductor {
            pool,
            queue,
            progress,
            work,
            name: PathBuf::new(),
            begun,
            shared: Arc::new(shared),
            segments: Buffers::new(plan.segment),
            gather: SegmentBuilder::new(plan),
            stripes: StripeAssigner::new(options.parity, work.next_stripe),
            classifying: Window::new(classifying),
            packing: Window::new(packing),
            coding: Window::new(1),
            seen: options.dedup.then(|| RecentPlaces::new(RecentPlaces::memory(options.memory))),
            again: false,
            end: 0,
            report: SplitReport::default(),
            wait_for_chunks: Duration::ZERO,
            wait_for_parts: Duration::ZERO,
            read: Duration::ZERO,
        }
    }

    /// Moves the whole input to the parts and makes it durable there. An error says why not all of
    /// it was read; what was read is durable nevertheless, as far as parts are left.
    pub(super) fn conduct(&mut self, input: &mut Input) -> Result<(), SplitStop> {
        self.name = input.name().to_owned();
        let (taken, source) = match input.kind() {
            InputOrigin::Source(source) => {
                let source = Arc::clone(source);
                let mut todo = self.work.todo.iter();
                (todo.try_for_each(|range| self.take_range(&source, range.clone())), Some(source))
            }
            InputOrigin::Stream(stream) => (self.take_stream(stream), None),
        };
        let taken = taken.and_then(|()| self.flush_chunks());
        // The dump ends where its input ended.
        if !matches!(taken, Err(SplitStop::Input { .. })) {
            self.end = self.end.max(self.work.superblock.size.unwrap_or(0));
        }
        let settled = match &taken {
            // Nobody is left to settle with.
            Err(SplitStop::NoPart) => Ok(()),
            _ => self.settle(source.as_ref()),
        };
        self.report.bytes = self.end;
        let loss = self.queue.take_loss();
        self.report.suspect.extend(loss.ranges.iter().map(|range| (range.start, range.end)));
        self.report.weak_stripes += self.stripes.weak() + self.queue.weak() + loss.weakened;
        // Failed parts are worse than a failed input.
        match (taken, settled) {
            (_, Err(SplitStop::NoPart)) => Err(SplitStop::NoPart),
            (taken, settled) => taken.and(settled),
        }
    }

    /// Adds the results to the report.
    pub(super) fn report_to(&mut self, report: &mut SplitReport) {
        let own = std::mem::take(&mut self.report);
        let nanos = |counter: &AtomicU64| Duration::from_nanos(counter.load(Relaxed)).as_secs_f64();
        report.bytes = own.bytes;
        report.chunks += own.chunks;
        report.redone_bytes = own.redone_bytes;
        report.suspect = own.suspect;
        report.weak_stripes = own.weak_stripes;
        report.times = own.times;
        report.times.read = self.read.as_secs_f64() + nanos(&self.shared.read);
        report.times.code = nanos(&self.shared.code);
        report.times.wait_for_chunks = self.wait_for_chunks.as_secs_f64();
        report.times.wait_for_parts = self.wait_for_parts.as_secs_f64();
    }

    /// Submits a range of a source to the pool, without its holes.
    fn take_range(&mut self, source: &Arc<dyn Source>, range: Range<u64>) -> Result<(), SplitStop> {
        let chunk = self.shared.chunk as u64;
        let mut at = range.start;
        while at < range.end {
            // If holes cannot be determined, everything may be data.
            let data = source.data_from(at).unwrap_or(Some(at..range.end));
            let begin = data.as_ref().map_or(range.end, |data| data.start / chunk * chunk).clamp(at, range.end);
            if at < begin {
                self.take_hole(at..begin)?;
            }
            let end = data.map_or(begin, |data| data.end.checked_next_multiple_of(chunk).unwrap_or(u64::MAX));
            at = begin;
            while at < end.min(range.end) {
                let len = (chunk - at % chunk).min(range.end - at);
                self.take_extent(source, at, usize::try_from(len).unwrap_or(self.shared.chunk))?;
                at += len;
            }
        }
        Ok(())
    }

    fn take_hole(&mut self, hole: Range<u64>) -> Result<(), SplitStop> {
        let len = hole.end - hole.start;
        // Behind the data that is still being classified: a hole that overtook it would need a segment of its own.
        if self.seen.is_some() && !self.again {
            let fill = PendingStretch { offset: hole.start, len, result: Ok((len, ClassifiedChunk::Fill([0; 8]))) };
            return self.queue_classifying(JobTicket::ready(fill), PAGE / 8);
        }
        let fill = PendingStretch { offset: hole.start, len, result: Ok((len, PackedChunk::Fill([0; 8]))) };
        self.pack(JobTicket::ready(fill), 0)
    }

    fn take_extent(&mut self, source: &Arc<dyn Source>, offset: u64, len: usize) -> Result<(), SplitStop> {
        let shared = Arc::clone(&self.shared);
        let source = Arc::clone(source);
        // Data that is written again is stored itself, because chunks elsewhere may refer to it.
        if self.seen.is_some() && !self.again {
            let classify = move |worker: &mut ChunkWorker| {
                let read = worker.read(&shared, &source, offset, len, true).map_err(StretchFailure::Read);
                PendingStretch { offset, len: len as u64, result: read.map(|read| (read.got as u64, read.chunk)) }
            };
            let ticket = self.pool.submit(classify);
            return self.queue_classifying(ticket, len);
        }
        let pack = move |worker: &mut ChunkWorker| {
            let read = worker.read(&shared, &source, offset, len, false).map_err(StretchFailure::Read);
            let result = read.and_then(|read| {
                let packed = worker.pack(&shared, read.chunk).map_err(StretchFailure::Pack)?;
                Ok((read.got as u64, packed))
            });
            PendingStretch { offset, len: len as u64, result }
        };
        let ticket = self.pool.submit(pack);
        self.pack(ticket, len)
    }

    fn take_stream(&mut self, stream: &mut File) -> Result<(), SplitStop> {
        let mut offset = 0;
        loop {
            let begun = Instant::now();
            let mut bytes = self.shared.buffers.take(self.shared.chunk);
            let got = match read_full(stream, &mut bytes) {
                Ok(got) => got,
                Err(error) => {
                    // What was read before the error is kept.
                    self.flush_chunks()?;
                    return Err(SplitStop::Input { at: offset, why: format!("cannot read: {error}") });
                }
            };
            self.read += begun.elapsed();
            if got == 0 {
                return Ok(());
            }
            let is_last = got < bytes.len();
            bytes.truncate(got);
            let shared = Arc::clone(&self.shared);
            let digest = self.seen.is_some();
            let len = got as u64;
            if digest {
                let classify = move |worker: &mut ChunkWorker| PendingStretch {
                    offset,
                    len,
                    result: Ok((len, worker.classify(&shared, bytes, true))),
                };
                let ticket = self.pool.submit(classify);
                self.queue_classifying(ticket, got)?;
            } else {
                let pack = move |worker: &mut ChunkWorker| {
                    let classified = worker.classify(&shared, bytes, false);
                    let result = worker.pack(&shared, classified).map_err(StretchFailure::Pack);
                    PendingStretch { offset, len, result: result.map(|packed| (len, packed)) }
                };
                let ticket = self.pool.submit(pack);
                self.pack(ticket, got)?;
            }
            offset += len;
            self.end = offset;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Queues a chunk being classified, and continues with those that are ready.
    fn queue_classifying(
        &mut self,
        ticket: JobTicket<PendingStretch<ClassifiedChunk>>,
        bytes: usize,
    ) -> Result<(), SplitStop> {
        self.classifying.push(ticket, bytes);
        while self.classifying.is_full() {
            let step = self.classifying.pop();
            self.handle_classified(step)?;
        }
        Ok(())
    }

    /// Decides whether a chunk occurred before; if not, it is compressed.
    fn handle_classified(&mut self, step: Option<PendingStretch<ClassifiedChunk>>) -> Result<(), SplitStop> {
        let Some(PendingStretch { offset, len, result }) = step else { return Ok(()) };
        let (got, classified) = match result {
            Ok(classified) => classified,
            Err(failure) => {
                return self.pack(JobTicket::ready(PendingStretch { offset, len, result: Err(failure) }), 0);
            }
        };
        if let ClassifiedChunk::Fill(pattern) = classified {
            // A hole has any length, but takes no memory in the queue.
            let fill = PendingStretch { offset, len, result: Ok((got, PackedChunk::Fill(pattern))) };
            return self.pack(JobTicket::ready(fill), 0);
        }
        if let (Some(seen), ClassifiedChunk::Bytes(bytes, Some(digest))) = (&mut self.seen, &classified) {
            // Only full chunks are remembered, so one that refers to another has its length.
            let full = bytes.len() == self.shared.chunk;
            let earlier = if full { seen.find_or_add(*digest, offset) } else { None };
            let may_refer = |target: &u64| offset >= self.work.fresh_from && !self.queue.may_lack(*target);
            if let Some(target) = earlier.filter(may_refer) {
                let same = PackedChunk::Same { target, sum: crate::format::sum(bytes) };
                return self.pack(JobTicket::ready(PendingStretch { offset, len, result: Ok((got, same)) }), 0);
            }
        }
        let shared = Arc::clone(&self.shared);
        let pack = move |worker: &mut ChunkWorker| {
            let result = worker.pack(&shared, classified).map_err(StretchFailure::Pack);
            PendingStretch { offset, len, result: result.map(|packed| (got, packed)) }
        };
        let ticket = self.pool.submit(pack);
        self.pack(ticket, usize::try_from(got).unwrap_or(0))
    }

    /// Queues a chunk being compressed, and packs those that are ready into segments.
    fn pack(&mut self, ticket: JobTicket<PendingStretch<PackedChunk>>, bytes: usize) -> Result<(), SplitStop> {
        // A chunk that takes no memory still counts in the queue.
        self.packing.push(ticket, bytes.max(PAGE / 8));
        while let Some(step) = self.packing.pop_ready() {
            self.packed(step)?;
        }
        while self.packing.is_full() {
            let begun = Instant::now();
            let step = self.packing.pop();
            self.wait_for_chunks += begun.elapsed();
            step.map_or(Ok(()), |step| self.packed(step))?;
        }
        Ok(())
    }

    fn packed(&mut self, step: PendingStretch<PackedChunk>) -> Result<(), SplitStop> {
        if self.progress.is_cancelled() {
            return Err(self.stopped(SplitStop::Error(Error::Cancelled)));
        }
        let PendingStretch { offset, len, result } = step;
        let (got, packed) = match result {
            Ok(packed) => packed,
            Err(StretchFailure::Pack(error)) => return Err(self.stopped(SplitStop::Error(error))),
            Err(StretchFailure::Read(error)) => {
                return Err(self.stopped(SplitStop::Input { at: offset, why: format!("cannot read: {error}") }));
            }
        };
        if got > 0 {
            self.count(got, &packed);
            if self.gather.must_seal_before(offset, &packed) {
                self.seal()?;
            }
            self.gather.add(offset, got, packed);
            self.end = self.end.max(offset + got);
        }
        if got < len {
            let why = "it ends earlier than when it was opened".to_owned();
            return Err(self.stopped(SplitStop::Input { at: offset + got, why }));
        }
        Ok(())
    }

    /// Discards everything after the offset at which the input ended.
    fn stopped(&mut self, stop: SplitStop) -> SplitStop {
        // What is in flight lies after the end. Its jobs are dropped with their tickets.
        (self.classifying, self.packing) = (Window::new(0), Window::new(0));
        if let (SplitStop::Input { at, .. }, false) = (&stop, self.again) {
            self.end = *at;
        }
        stop
    }

    fn count(&mut self, len: u64, packed: &PackedChunk) {
        let chunks = &mut self.report.chunks;
        let costs = match packed {
            PackedChunk::Fill(_) => {
                chunks.fill_bytes += len;
                false
            }
            PackedChunk::Same { .. } => {
                chunks.same_bytes += len;
                false
            }
            PackedChunk::Stored { coded, map, .. } => {
                chunks.add_stored(len, *coded, map);
                true
            }
        };
        if self.again {
            self.report.redone_bytes += len;
        } else {
            Progress::add(&self.progress.done, len);
            Progress::add(if costs { &self.progress.packed } else { &self.progress.saved }, len);
        }
    }

    /// Seals the segment being filled and passes it to the parts.
    fn seal(&mut self) -> Result<(), SplitStop> {
        while let Some(parity) = self.coding.pop_ready() {
            self.push_parity(parity)?;
        }
        let queue = self.queue;
        let head = self.stripes.place(|wanted| {
            let (speeds, behind) = queue.pace();
            width(&speeds, wanted, behind)
        });
        let sealed = Arc::new(self.gather.seal(&self.work.superblock.set, head, &self.segments));
        self.report.chunks.segment_bytes += sealed.bytes.len() as u64;
        let full = self.stripes.add(&sealed);
        self.push(sealed)?;
        let Some(full) = full else { return Ok(()) };
        // One stripe at a time, as each keeps all its segments in memory.
        while let Some(parity) = self.coding.pop() {
            self.push_parity(parity)?;
        }
        let set = self.work.superblock.set;
        let segments = self.segments.clone();
        self.coding.push(self.pool.submit(move |_| full.code(&set, &segments)), 1);
        Ok(())
    }

    fn push_parity(&mut self, parity: Vec<SealedSegment>) -> Result<(), SplitStop> {
        for sealed in parity {
            self.report.chunks.parity_bytes += sealed.bytes.len() as u64;
            self.push(Arc::new(sealed))?;
        }
        Ok(())
    }

    fn push(&mut self, sealed: Arc<SealedSegment>) -> Result<(), SplitStop> {
        if self.queue.push(sealed, &mut self.wait_for_parts) { Ok(()) } else { Err(self.stopped(SplitStop::NoPart)) }
    }

    fn flush_chunks(&mut self) -> Result<(), SplitStop> {
        while let Some(step) = self.classifying.pop() {
            self.handle_classified(Some(step))?;
        }
        while let Some(step) = self.packing.pop() {
            self.packed(step)?;
        }
        Ok(())
    }

    /// Passes all pending data to the parts, in full segments or not.
    fn flush(&mut self) -> Result<(), SplitStop> {
        self.flush_chunks()?;
        if !self.gather.is_empty() {
            self.seal()?;
        }
        // A stripe's segments contain their number, so unneeded ones are written empty.
        while self.stripes.is_open() {
            self.seal()?;
        }
        while let Some(parity) = self.coding.pop() {
            self.push_parity(parity)?;
        }
        Ok(())
    }

    /// Makes everything durable: data lost with failed parts is written again.
    fn settle(&mut self, source: Option<&Arc<dyn Source>>) -> Result<(), SplitStop> {
        loop {
            self.flush()?;
            if !self.queue.drain() {
                return Err(SplitStop::NoPart);
            }
            // Only the first time: later rounds repeat what was lost.
            if self.report.times.to_cache == 0.0 {
                self.report.times.to_cache = self.begun.elapsed().as_secs_f64();
            }
            self.queue.sync();
            let loss = self.queue.take_loss();
            self.report.weak_stripes += loss.weakened;
            if loss.ranges.is_empty() {
                return Ok(());
            }
            let Some(source) = source else {
                self.report.suspect.extend(loss.ranges.iter().map(|range| (range.start, range.end)));
                return Ok(());
            };
            self.again = true;
            for range in loss.ranges {
                let taken = self.take_range(source, range.clone());
                match taken.and_then(|()| self.flush_chunks()) {
                    // It could be read before, and is lost now.
                    Err(SplitStop::Input { .. }) => self.report.suspect.push((range.start, range.end)),
                    taken => taken?,
                }
            }
        }
    }
}
