//! Processing of one chunk: read, classify, compress and verify it. Runs on the pool's threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use packfs_blocks::encode::{BlockEncoder, is_worth_a_try};
use packfs_blocks::hash::is_zero;
use packfs_blocks::{Buffer, Buffers, Digest};
use packfs_codec::Choice;

use crate::format::{PAGE, sum};
use crate::input::Source;
use crate::{Error, Result};

/// State shared by all threads.
#[derive(Debug)]
pub(super) struct ChunkContext {
    pub(super) codec: Choice,
    pub(super) chunk: usize,
    pub(super) verify: bool,
    pub(super) buffers: Buffers,
    /// Nanoseconds, summed over all threads.
    pub(super) read: AtomicU64,
    pub(super) code: AtomicU64,
}

/// State that a thread keeps between chunks.
pub(super) struct ChunkWorker {
    encoder: Option<BlockEncoder>,
}

/// A chunk in its stored form.
#[derive(Debug)]
pub(super) enum PackedChunk {
    Fill([u8; 8]),
    Same { target: u64, sum: u64 },
    Stored { coded: bool, map: Vec<u8>, body: Buffer, sum: u64 },
}

/// A classified chunk.
#[derive(Debug)]
pub(super) enum ClassifiedChunk {
    Fill([u8; 8]),
    /// Its bytes, and their digest if it was requested.
    Bytes(Buffer, Option<Digest>),
}

/// A chunk that was read.
#[derive(Debug)]
pub(super) struct ReadChunk {
    /// Number of bytes: fewer than requested if the input has become shorter.
    pub(super) got: usize,
    pub(super) chunk: ClassifiedChunk,
}

impl ChunkWorker {
    pub(super) fn new() -> Self {
        ChunkWorker { encoder: None }
    }

    /// Reads `len` bytes at `offset` and classifies them.
    pub(super) fn read(
        &mut self,
        shared: &ChunkContext,
        source: &Arc<dyn Source>,
        offset: u64,
        len: usize,
        digest: bool,
    ) -> io::Result<ReadChunk> {
        let begun = Instant::now();
        let mut bytes = shared.buffers.take(len);
        let got = source.read_at(&mut bytes, offset)?;
        bytes.truncate(got);
        spent(&shared.read, begun);
        Ok(ReadChunk { got, chunk: self.classify(shared, bytes, digest) })
    }

    /// Classifies a chunk.
    pub(super) fn classify(&mut self, shared: &ChunkContext, bytes: Buffer, digest: bool) -> ClassifiedChunk {
        let begun = Instant::now();
        let classified = match repeated(&bytes) {
            Some(pattern) => ClassifiedChunk::Fill(pattern),
            None => {
                let digest = digest.then(|| Digest::of(&bytes));
                ClassifiedChunk::Bytes(bytes, digest)
            }
        };
        spent(&shared.code, begun);
        classified
    }

    /// Makes the stored form of a chunk.
    pub(super) fn pack(&mut self, shared: &ChunkContext, classified: ClassifiedChunk) -> Result<PackedChunk> {
        let raw = match classified {
            ClassifiedChunk::Fill(pattern) => return Ok(PackedChunk::Fill(pattern)),
            ClassifiedChunk::Bytes(raw, _) => raw,
        };
        let begun = Instant::now();
        let packed = self.store(shared, raw);
        spent(&shared.code, begun);
        packed
    }

    fn store(&mut self, shared: &ChunkContext, raw: Buffer) -> Result<PackedChunk> {
        let sum = sum(&raw);
        let (map, squeezed) = squeeze(&raw, &shared.buffers);
        let data = squeezed.as_ref().unwrap_or(&raw);
        if let Some(data) = squeezed.as_ref().filter(|_| shared.verify)
            && !holds_all(&map, data, &raw)
        {
            return Err(Error::Unproven { codec: shared.codec.codec().name() });
        }
        if is_worth_a_try(&shared.codec, data) {
            // A chunk that saves almost nothing is not worth decoding.
            let mut body = shared.buffers.take(data.len() - (data.len() / 64).max(1));
            if let Some(len) = self.encoder(shared).encode(data, &mut body)?.filter(|len| *len > 0) {
                body.truncate(len);
                return Ok(PackedChunk::Stored { coded: true, map, body, sum });
            }
        }
        Ok(PackedChunk::Stored { coded: false, map, body: squeezed.unwrap_or(raw), sum })
    }

    fn encoder(&mut self, shared: &ChunkContext) -> &mut BlockEncoder {
        self.encoder.get_or_insert_with(|| BlockEncoder::new(&shared.codec, shared.chunk, shared.verify))
    }
}

/// Returns true if a reader makes `raw` of the map and the stored pages: it has all of these, in their order, and all
/// others are zeros.
fn holds_all(map: &[u8], mut stored: &[u8], raw: &[u8]) -> bool {
    for (n, page) in raw.chunks(PAGE).enumerate() {
        let is_there = map.get(n / 8).is_some_and(|bits| bits >> (n % 8) & 1 == 1);
        match stored.split_at_checked(page.len()).filter(|_| is_there) {
            Some((own, rest)) if own == page => stored = rest,
            None if !is_there && is_zero(page) => {}
            _ => return false,
        }
    }
    stored.is_empty()
}

fn spent(counter: &AtomicU64, begun: Instant) {
    counter.fetch_add(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX), Relaxed);
}

/// Returns the eight bytes that the whole chunk repeats, if it does.
fn repeated(bytes: &[u8]) -> Option<[u8; 8]> {
    let mut pattern = [0; 8];
    match bytes.split_at_checked(8) {
        // It equals itself, shifted by eight bytes.
        Some((first, rest)) => {
            pattern.copy_from_slice(first);
            (*rest == bytes[..rest.len()]).then_some(pattern)
        }
        None => {
            pattern[..bytes.len()].copy_from_slice(bytes);
            Some(pattern)
        }
    }
}

/// Returns the pages of the chunk that are not zeros, concatenated, and the map that identifies
/// them; no pages if all are stored.
fn squeeze(raw: &[u8], buffers: &Buffers) -> (Vec<u8>, Option<Buffer>) {
    let mut map = Vec::new();
    let mut kept = 0;
    let mut out = None;
    for (n, page) in raw.chunks(PAGE).enumerate() {
        let zero = is_zero(page);
        if zero && out.is_none() {
            // The first page to be left out: all before it are stored.
            map = vec![0; raw.len().div_ceil(PAGE).div_ceil(8)];
            (0..n).for_each(|before| map[before / 8] |= 1 << (before % 8));
            let mut begun = buffers.take(raw.len());
            kept = n * PAGE;
            begun[..kept].copy_from_slice(&raw[..kept]);
            out = Some(begun);
        }
        if let (false, Some(out)) = (zero, &mut out) {
            map[n / 8] |= 1 << (n % 8);
            out[kept..kept + page.len()].copy_from_slice(page);
            kept += page.len();
        }
    }
    if let Some(out) = &mut out {
        out.truncate(kept);
    }
    (map, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{ChunkDecoder, fill};

    fn shared(codec: &str) -> ChunkContext {
        ChunkContext {
            codec: codec.parse().unwrap(),
            chunk: 1 << 16,
            verify: true,
            buffers: Buffers::new(1 << 16),
            read: AtomicU64::new(0),
            code: AtomicU64::new(0),
        }
    }

    fn back(shared: &ChunkContext, packed: &PackedChunk, len: usize) -> Vec<u8> {
        let mut out = vec![0xEE; len];
        match packed {
            PackedChunk::Fill(pattern) => fill(*pattern, 0, &mut out),
            PackedChunk::Same { .. } => panic!("no chunk is compared here"),
            PackedChunk::Stored { coded, map, body, sum } => {
                let stored = [&map[..], body].concat();
                let mut decoder = ChunkDecoder::new(shared.codec.codec()).unwrap();
                decoder.decode(&stored, *coded, !map.is_empty(), *sum, &mut out).unwrap();
            }
        }
        out
    }

    #[test]
    fn every_kind_of_chunk_round_trips() {
        let noise: Vec<u8> = (0..1u32 << 16).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        let mut holes = noise.clone();
        holes[PAGE..3 * PAGE].fill(0);
        holes[15 * PAGE..].fill(0);
        let mut text = b"all work and no play ".repeat(3000);
        text.truncate(50_001);
        let mut last = vec![0; 2 * PAGE + 5];
        last[2 * PAGE + 4] = 1;
        let words = [1u8, 2, 3, 4, 5, 6, 7, 8].repeat(100);
        let chunks = [noise, holes, text, last, words, vec![7; 4096], vec![0; 9], b"seven b".to_vec(), vec![5]];
        for codec in ["none", "lz4", "zstd:3", "lzo"] {
            let shared = shared(codec);
            let mut worker = ChunkWorker::new();
            for chunk in &chunks {
                let mut bytes = shared.buffers.take(chunk.len());
                bytes.copy_from_slice(chunk);
                let classified = worker.classify(&shared, bytes, false);
                let packed = worker.pack(&shared, classified).unwrap();
                assert!(back(&shared, &packed, chunk.len()) == *chunk, "{codec}: {} bytes", chunk.len());
            }
        }
    }

    #[test]
    fn a_wrong_map_or_page_is_noticed() {
        let mut raw: Vec<u8> = (1..=10u8).flat_map(|n| vec![n; PAGE]).collect();
        raw[2 * PAGE..5 * PAGE].fill(0);
        raw.truncate(9 * PAGE + 100);
        let (map, stored) = squeeze(&raw, &Buffers::new(raw.len()));
        let stored = stored.unwrap().to_vec();
        assert!(holds_all(&map, &stored, &raw));
        for bit in 0..10 {
            let mut other = map.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!holds_all(&other, &stored, &raw), "page {bit}");
        }
        for at in [0, PAGE, 6 * PAGE + 99] {
            let mut other = stored.clone();
            other[at] ^= 1;
            assert!(!holds_all(&map, &other, &raw), "byte {at}");
        }
        assert!(!holds_all(&map, &stored[1..], &raw) && !holds_all(&map, &[&stored[..], &[0]].concat(), &raw));
        assert!(!holds_all(&[], &stored, &raw));
    }

    #[test]
    fn zeros_and_patterns_take_no_room_and_zero_pages_are_left_out() {
        let shared = shared("none");
        let mut worker = ChunkWorker::new();
        let mut pack = |chunk: &[u8]| {
            let mut bytes = shared.buffers.take(chunk.len());
            bytes.copy_from_slice(chunk);
            let classified = worker.classify(&shared, bytes, false);
            worker.pack(&shared, classified).unwrap()
        };
        assert!(matches!(pack(&[0; 1 << 16]), PackedChunk::Fill([0, 0, 0, 0, 0, 0, 0, 0])));
        assert!(matches!(pack(&b"abcdefgh".repeat(512)), PackedChunk::Fill(pattern) if pattern == *b"abcdefgh"));
        let mut mixed = vec![0; 16 * PAGE];
        mixed[5 * PAGE..6 * PAGE].fill(1);
        let PackedChunk::Stored { coded: false, map, body, .. } = pack(&mixed) else { panic!("a page is there") };
        assert_eq!((map, body.len()), (vec![1 << 5, 0], PAGE));
    }
}
