//! Files whose bytes stay on an additional device: the archives and images that an image refers to.

use crate::source::DataRun;

/// Largest chunk, as log2 of its bytes, which is read on any machine.
const CHUNK_BITS: u32 = 30;
/// Maximum number of chunks of a file, which take 16 bytes each in memory. Only files with very many holes have more.
const CHUNKS_MAX: u64 = 1 << 24;

/// Chunks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReferredChunks {
    /// log2 of the number of blocks in a chunk.
    pub(super) bits: u8,
    /// Block of each chunk; `None` for holes.
    pub(super) blocks: Box<[Option<u64>]>,
}

/// Cuts a file of `size` bytes into chunks, as few as possible; `None` if not all of its bytes lie at multiples of a
/// block, which has `1 << block_bits` bytes.
pub(super) fn cut_referred(size: u64, runs: &[DataRun], block_bits: u8) -> Option<ReferredChunks> {
    let whole = u64::BITS - (size - 1).leading_zeros();
    // The file may end anywhere, as its last chunk may be shorter.
    let ends = |run: &DataRun| Some(run.offset + run.len).filter(|end| *end != size).unwrap_or(0);
    // The bitwise or of offsets has as many trailing zeros as the least aligned of them.
    let within = runs.iter().fold(0, |all, run| all | run.offset | ends(run));
    let bits = whole.max(block_bits.into()).min(CHUNK_BITS).min(within.trailing_zeros());
    let at = runs.iter().fold(0, |all, run| all | run.at);
    let count = size.div_ceil(1 << bits);
    if bits.min(at.trailing_zeros()) < block_bits.into() || count > CHUNKS_MAX {
        return None;
    }
    let mut runs = runs.iter().peekable();
    let blocks = (0..count).map(|n| {
        let offset = n << bits;
        while runs.next_if(|run| run.offset + run.len <= offset).is_some() {}
        let run = runs.peek().filter(|run| run.offset <= offset)?;
        Some((run.at + (offset - run.offset)) >> block_bits)
    });
    let blocks = blocks.collect();
    Some(ReferredChunks { bits: u8::try_from(bits).ok()? - block_bits, blocks })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn run(offset: u64, len: u64, at: u64) -> DataRun {
        DataRun { offset, len, at }
    }

    #[test]
    fn files_get_as_few_chunks_as_their_runs_allow() {
        type Found = Option<(u8, &'static [Option<u64>])>;
        let cases: [(u64, &[DataRun], Found); 10] = [
            (1, &[run(0, 1, 512)], Some((0, &[Some(1)]))),
            (100_000, &[run(0, 100_000, 1024)], Some((8, &[Some(2)]))),
            // Chunks of 1 GiB are the longest.
            (3 << 30, &[run(0, 3 << 30, 0)], Some((21, &[Some(0), Some(1 << 21), Some(2 << 21)]))),
            (4096, &[], Some((3, &[None]))),
            (8192, &[run(4096, 4096, 512)], Some((3, &[None, Some(1)]))),
            (8192, &[run(0, 4096, 512)], Some((3, &[Some(1), None]))),
            (2048, &[run(512, 512, 0), run(1024, 100, 512)], None),
            (1124, &[run(512, 512, 5120), run(1024, 100, 512)], Some((0, &[None, Some(10), Some(1)]))),
            (1024, &[run(0, 1024, 100)], None),
            (1 << 40, &[run(512, 512, 0)], None),
        ];
        for (size, runs, want) in cases {
            let found = cut_referred(size, runs, 9);
            let found = found.as_ref().map(|chunks| (chunks.bits, &chunks.blocks[..]));
            assert_eq!(found, want, "{size}, {runs:?}");
        }
    }
}
