//! Divides the memory budget among chunks in progress, the segments being filled, and those waiting for a part.

use packfs_blocks::dedup::RecentPlaces;
use packfs_blocks::units::Size;
use packfs_codec::Choice;

use super::options::SplitOptions;
use crate::format::{ALIGN, CHUNK, SEGMENT_MAX};
use crate::{Error, Result};

/// Memory of the program before it holds any byte of the dump.
const PROGRAM_MEMORY: u64 = 10 << 20;
/// Room of a segment beyond its chunks: header, records, maps of pages, padding; and room for the
/// records of a parity segment beside a payload as long as the longest segment.
const SEGMENT_OVERHEAD: u64 = 16 << 10;
/// Part of [`SEGMENT_OVERHEAD`] that only parity may use.
const PARITY_ROOM: u64 = 2 * ALIGN as u64;
/// Approximate least length of segments, if memory suffices for as many as needed. Each takes one write, so shorter
/// ones cost calls.
const MIN_SEGMENT_LEN: u64 = 256 << 10;
/// Approximate greatest length of segments; longer ones cost memory.
const MAX_SEGMENT_LEN: u64 = 4 << 20;

/// Sizes derived from the options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemoryPlan {
    pub(super) chunk: usize,
    /// Maximum length of any segment.
    pub(super) segment: usize,
    /// Maximum length of a data segment.
    pub(super) data_segment: usize,
    /// Maximum number of segments that wait for a part or are being written.
    pub(super) queue: usize,
    /// Maximum number of bytes of chunks in progress.
    pub(super) window: usize,
    /// Maximum number of chunks in a segment, as each may hold a whole buffer until the segment is sealed.
    pub(super) held: usize,
}

impl MemoryPlan {
    /// Divides `options.memory` among `parts`.
    pub(super) fn new(options: &SplitOptions, parts: usize) -> Result<Self> {
        let chunk = u64::from(options.chunk);
        if !CHUNK.contains(&options.chunk) || !options.chunk.is_power_of_two() {
            return Err(Error::option("chunk size", Size(chunk), "accepted: a power of two from 4K to 16M"));
        }
        // Memory of the index of earlier chunks.
        let memory = options.memory - if options.dedup { RecentPlaces::memory(options.memory) } else { 0 };
        let threads = options.threads.max(1) as u64;
        let parts = parts as u64;
        let parity = u64::from(options.parity);
        let fixed = PROGRAM_MEMORY + threads * per_thread(&options.codec, chunk);
        let flight = (2 * threads + 2) * chunk;
        // Two for each part, one being filled; one stripe waiting for its parity and one in progress.
        let segments = 2 * parts + 2 + if parity > 0 { 2 * (parts + parity) } else { 0 };
        let room = |per_segment: u64| {
            let held = 2 * per_segment / chunk + 2;
            // The contents of the segment being filled, and its sealed form, exist at the same time.
            fixed + flight + (segments + 1) * (per_segment + SEGMENT_OVERHEAD) + held * chunk
        };
        let mut per_segment = MAX_SEGMENT_LEN.max(chunk);
        while per_segment > MIN_SEGMENT_LEN.max(chunk) && room(per_segment) > memory {
            per_segment /= 2;
        }
        let needed = room(per_segment);
        if needed > memory {
            let chunk = Size(chunk);
            let needed = Size(needed.next_multiple_of(1 << 20));
            let why = format!("too little: {parts} parts, {threads} threads and chunks of {chunk} need {needed}");
            return Err(Error::option("memory", Size(options.memory), why));
        }
        let segment = per_segment + SEGMENT_OVERHEAD;
        if segment > u64::from(SEGMENT_MAX) {
            return Err(Error::option("chunk size", Size(chunk), "larger than a segment"));
        }
        // The rest goes to the queue and, in a smaller share, to the window.
        let left = memory - needed;
        let queue = 2 * parts + 1 + left * 2 / 3 / segment;
        let window = flight + (left / 4).min(64 * chunk * threads);
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(MemoryPlan {
            chunk: size(chunk),
            segment: size(segment),
            data_segment: size(segment - PARITY_ROOM),
            queue: size(queue.min(4096)),
            window: size(window),
            held: size(2 * per_segment / chunk + 2),
        })
    }
}

impl MemoryPlan {
    /// Divides the same memory for segments of another length.
    pub(super) fn with_segment(self, segment: usize) -> Result<Self> {
        let per_segment = segment.saturating_sub(size_of_slack());
        if per_segment < self.chunk {
            return Err(Error::option(
                "chunk size",
                Size(self.chunk as u64),
                format!("larger than the segments of {}", Size(segment as u64)),
            ));
        }
        let data_segment = segment - (self.segment - self.data_segment);
        let queue = (self.queue * self.segment / segment).max(2);
        Ok(MemoryPlan { segment, data_segment, queue, held: 2 * per_segment / self.chunk + 2, ..self })
    }
}

fn size_of_slack() -> usize {
    usize::try_from(SEGMENT_OVERHEAD).unwrap_or(usize::MAX)
}

/// Memory of a codec, and of buffers for a chunk as it is read, squeezed, compressed and decoded again.
fn per_thread(codec: &Choice, chunk: u64) -> u64 {
    let len = usize::try_from(chunk).unwrap_or(usize::MAX);
    codec.encoder_memory(len) as u64 + 4 * chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(memory: u64, threads: usize, chunk: u32, parity: u16) -> SplitOptions {
        SplitOptions { memory, threads, chunk, parity, ..SplitOptions::default() }
    }

    #[test]
    fn what_is_planned_fits_the_memory() {
        for (memory, threads, chunk, parts, parity) in [
            (64 << 20, 2, 1 << 18, 8, 0),
            (64 << 20, 2, 1 << 18, 8, 2),
            (64 << 20, 0, 1 << 12, 1, 0),
            (256 << 20, 16, 1 << 17, 4, 1),
            (4 << 30, 2, 1 << 24, 2, 0),
        ] {
            let plan = MemoryPlan::new(&options(memory, threads, chunk, parity), parts).unwrap();
            let stripes = if parity > 0 { 2 * (parts + usize::from(parity)) } else { 0 };
            let segments = (plan.queue + 2 + stripes) * plan.segment;
            let chunks = plan.window + plan.held * plan.chunk + threads.max(1) * 4 * plan.chunk;
            let all = (segments + chunks) as u64 + PROGRAM_MEMORY;
            assert!(all <= memory, "{plan:?}: {all}");
            assert!(plan.queue > 2 * parts && plan.data_segment > plan.chunk + 4096, "{plan:?}");
        }
    }

    #[test]
    fn too_little_memory_is_refused_with_the_amount_needed() {
        let refused = MemoryPlan::new(&options(32 << 20, 2, 1 << 24, 0), 8).unwrap_err().to_string();
        assert!(refused.contains("chunks of 16 MiB need 603 MiB"), "{refused}");
        assert!(MemoryPlan::new(&options(1 << 30, 2, 5000, 0), 1).is_err());
    }
}
