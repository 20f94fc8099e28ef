//! Cuts pieces into content-defined chunks, which find parts of files that are already stored.
//!
//! Chunks end where a rolling hash of the last bytes has a given pattern, so equal stretches have
//! equal chunks at any offset. A chunk is identified by half a BLAKE3 digest; its bytes are not
//! kept.
//!
//! Source of the algorithm: gear hashing with a minimum and a maximum, as in Xia et al., FastCDC, USENIX ATC 2016.

use packfs_blocks::Digest;
use packfs_blocks::hash::HalfDigest;

use crate::erofs::writer::stored::cluster::count;

/// A chunk of a piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentChunk {
    /// End of the chunk in the piece.
    pub(crate) end: u32,
    pub(crate) digest: HalfDigest,
}

/// Random numbers, one per byte value (SplitMix64).
const GEAR: [u64; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    let mut state = 0u64;
    while n < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[n] = z ^ z >> 31;
        n += 1;
    }
    table
};

/// Cuts a piece into chunks of about `average` bytes (a power of two), from a quarter to four times as long.
pub(crate) fn cut_chunks(bytes: &[u8], average: usize) -> Vec<ContentChunk> {
    let mut chunks = Vec::with_capacity(bytes.len() / average + 1);
    let mut start = 0;
    while start < bytes.len() {
        let len = first(&bytes[start..], average);
        let digest = Digest::of(&bytes[start..start + len]);
        start += len;
        chunks.push(ContentChunk { end: count(start), digest: digest.half() });
    }
    chunks
}

/// Returns the length of the first chunk.
fn first(bytes: &[u8], average: usize) -> usize {
    let least = average / 4;
    let most = bytes.len().min(4 * average);
    // The top bits depend on the most bytes.
    let mask = !0 << (u64::BITS - average.ilog2());
    let mut hash = 0u64;
    // As in FastCDC, bytes below the minimum are not hashed: no chunk may end there.
    for (n, byte) in bytes[..most].iter().enumerate().skip(least) {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
        if hash & mask == 0 {
            return n + 1;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use packfs_blocks::testing::noise;

    use super::*;

    #[test]
    fn chunks_cover_a_piece_within_their_bounds() {
        for len in [0, 1, 255, 256, 1024, 100_000] {
            let bytes = noise(len, 7);
            let chunks = cut_chunks(&bytes, 1024);
            assert_eq!(chunks.last().map_or(0, |chunk| chunk.end as usize), len);
            let mut start = 0;
            for (n, chunk) in chunks.iter().enumerate() {
                let here = chunk.end - start;
                assert!(here <= 4096 && (here > 256 || n + 1 == chunks.len()), "{here}");
                start = chunk.end;
            }
        }
        let count = cut_chunks(&noise(1 << 20, 3), 1024).len();
        assert!((600..1400).contains(&count), "{count}");
    }

    #[test]
    fn a_stretch_is_found_wherever_it_lies() {
        let old = noise(50_000, 1);
        let before = noise(7_777, 2);
        let new = [&before[..], &old[10_000..40_000], &before[..100]].concat();
        let starts = |chunks: Vec<ContentChunk>| {
            let mut start = 0;
            let begins = move |chunk: ContentChunk| (chunk.digest, std::mem::replace(&mut start, chunk.end), chunk.end);
            chunks.into_iter().map(begins).collect::<Vec<_>>()
        };
        let known = starts(cut_chunks(&old, 1024));
        let find = |digest| known.iter().find(|(known, ..)| *known == digest);
        let mut found = 0;
        for (digest, start, end) in starts(cut_chunks(&new, 1024)) {
            if let Some((_, offset, _)) = find(digest) {
                assert_eq!(i64::from(*offset) - i64::from(start), 10_000 - 7_777);
                found += end - start;
            }
        }
        assert!((20_000..=30_000).contains(&found), "{found}");
        assert!(cut_chunks(&before, 1024).iter().all(|chunk| find(chunk.digest).is_none()));
    }
}
