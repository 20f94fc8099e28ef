//! Stretches of a piece that clusters of earlier pieces already contain, at any offset in both.
//!
//! Equal chunks are only a hint. Clusters begin where those of an earlier file began, not with
//! chunks: they are read back, decoded and compared, so that a stretch is found to the byte, and
//! reused data is proven equal.

use std::ops::Range;

use packfs_blocks::dedup::RecentPlaces;
use packfs_blocks::hash::HalfDigest;
use packfs_codec::{Codec, Decoder};

use super::chunks::ContentChunk;
use crate::Result;
use crate::erofs::raw_sharing::{SharedCluster, page_offset};
use crate::erofs::writer::encode::piece::ReusedStretch;
use crate::erofs::writer::place::data_zone::DataZone;
use crate::erofs::writer::stored::cluster::{StoredCluster, count, stream_of};

/// Minimum number of chunks remembered; at most twice as many are. Each takes about 40 bytes, so all take 20 to 40 MiB,
/// within the 64 MiB that builds may take beside their tree. More would find data again over a longer distance. Not
/// measured.
const REMEMBERED_CHUNKS: usize = 1 << 19;
/// Number of algorithms of the format.
const ALGORITHMS: usize = 4;

/// Position at which a chunk was first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkOrigin {
    pub(super) piece: u32,
    pub(super) offset: u32,
}

/// Chunks of earlier pieces, and the tools to compare with their clusters.
pub(super) struct StretchFinder {
    chunks: RecentPlaces<ChunkOrigin, HalfDigest>,
    /// Block size in bytes.
    block: usize,
    /// True for encoded extents. Other maps list each block of an uncompressed cluster.
    encoded: bool,
    /// Decoders by number of the algorithm.
    decoders: [Option<Box<dyn Decoder>>; ALGORITHMS],
    stored: Vec<u8>,
    decoded: Vec<u8>,
}

/// Returns the codec that decodes clusters of an algorithm.
fn codec(algorithm: u8) -> Codec {
    Codec::from_erofs_id(algorithm).expect("the number of a codec that packed")
}

/// Returns the end of the leading chunks that were all seen before.
pub(super) fn seen_until(chunks: &[ContentChunk], seen: &[Option<ChunkOrigin>]) -> usize {
    let known = chunks.iter().zip(seen).take_while(|(_, seen)| seen.is_some());
    known.last().map_or(0, |(chunk, _)| chunk.end as usize)
}

impl StretchFinder {
    pub(super) fn new(block: usize, encoded: bool) -> Self {
        let chunks = RecentPlaces::with_most(REMEMBERED_CHUNKS);
        let stored = Vec::new();
        let decoded = Vec::new();
        StretchFinder { chunks, block, encoded, decoders: [const { None }; ALGORITHMS], stored, decoded }
    }

    /// Returns where each chunk was first seen.
    pub(super) fn find(&self, chunks: &[ContentChunk]) -> Vec<Option<ChunkOrigin>> {
        chunks.iter().map(|chunk| self.chunks.find(&chunk.digest)).collect()
    }

    /// Remembers the chunks of a piece that are new.
    pub(super) fn add(&mut self, piece: u32, chunks: &[ContentChunk]) {
        let mut offset = 0;
        for chunk in chunks {
            self.chunks.find_or_add(chunk.digest, ChunkOrigin { piece, offset });
            offset = chunk.end;
        }
    }

    /// Minimum number of bytes worth sharing: the data before ends with its own cluster, which wastes half a block.
    pub(super) fn worthwhile(&self) -> usize {
        self.block / 4 * 3
    }

    /// Returns a stretch of `piece` that consists of some of `clusters`, those of an earlier piece. The hint is that
    /// byte `within.end` of `piece` equals byte `offset` of the earlier one. The stretch begins no earlier than
    /// `within.start`, and its compressed clusters have the algorithm of `piece`.
    pub(super) fn compare(
        &mut self,
        zone: &DataZone<'_, '_>,
        clusters: &[StoredCluster],
        offset: usize,
        piece: &[u8],
        algorithm: u8,
        within: Range<usize>,
    ) -> Result<Option<ReusedStretch>> {
        let mut at = 0;
        let mut start = 0;
        let mut end = 0;
        let mut found = Vec::new();
        let mut saved = 0u64;
        for cluster in clusters {
            let len = cluster.logical as usize;
            at += len;
            if at <= offset {
                continue;
            }
            if found.is_empty() {
                // The first cluster begins at or before the chunk.
                match (within.end + at - len).checked_sub(offset) {
                    Some(begin) if begin >= within.start => (start, end) = (begin, begin),
                    _ => return Ok(None),
                }
            }
            if !cluster.raw && cluster.algorithm != algorithm {
                break;
            }
            let common = self.common_len(zone, cluster, &piece[end.min(piece.len())..])?;
            let equal = if cluster.raw { self.usable_raw(cluster, end, common) } else { common };
            // A cluster of several blocks needs a second logical cluster after the head to store their number.
            let stored = cluster.physical.bytes();
            let least = if stored > self.block { 2 * self.block } else { self.block };
            if equal < least {
                break;
            }
            // Both may have a megabyte: their product takes more than the 32 bits that a usize may have.
            saved += stored as u64 * equal as u64 / len as u64;
            end += equal;
            // An extent shorter than its cluster needs `partial`: without that mark Linux fails to read it.
            found.push(StoredCluster { logical: count(equal), partial: cluster.partial || equal < len, ..*cluster });
            if equal < len {
                break;
            }
        }
        Ok((saved >= self.worthwhile() as u64).then_some(ReusedStretch { start, clusters: found }))
    }

    /// Returns how many of the first `equal` bytes of an uncompressed cluster an extent may use that begins `at` bytes
    /// after the start of a piece, which begins with a page of the file.
    fn usable_raw(&self, cluster: &StoredCluster, at: usize, equal: usize) -> usize {
        let len = cluster.logical as usize;
        let shared = SharedCluster { len, page_offset: cluster.page_offset };
        let usable = shared.usable_len(at as u64, equal);
        if self.encoded || usable < len || len.is_multiple_of(self.block) {
            return usable;
        }
        // Its last block is shorter: the next extent could begin in the same block of the file.
        usable.saturating_sub(page_offset((at + usable) as u64).into())
    }

    /// Returns how many bytes `piece` and the cluster have in common at their beginnings.
    fn common_len(&mut self, zone: &DataZone<'_, '_>, cluster: &StoredCluster, piece: &[u8]) -> Result<usize> {
        zone.read(cluster, &mut self.stored)?;
        let len = cluster.logical as usize;
        let bytes = if cluster.raw {
            &self.stored[..len]
        } else {
            let decoder = match &mut self.decoders[usize::from(cluster.algorithm)] {
                Some(decoder) => decoder,
                none => none.insert(codec(cluster.algorithm).cluster_decoder()?),
            };
            self.decoded.resize(len, 0);
            decoder.decode_prefix(stream_of(&self.stored), &mut self.decoded)?;
            &self.decoded
        };
        Ok(common_start(bytes, piece))
    }
}

/// Returns how many bytes two slices have in common at their beginnings.
fn common_start(one: &[u8], other: &[u8]) -> usize {
    /// Bytes compared at once, because compilers make no wide comparisons of a loop that may end early. Not tuned.
    const STEP: usize = 64;
    let equal_steps = one.chunks_exact(STEP).zip(other.chunks_exact(STEP)).take_while(|(one, other)| one == other);
    let start = STEP * equal_steps.count();
    let equal_bytes = one[start..].iter().zip(&other[start..]).take_while(|(one, other)| one == other);
    start + equal_bytes.count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use packfs_blocks::io::Memory;
    use packfs_blocks::testing::noise;
    use packfs_blocks::{Buffers, Output, Progress, pipeline};

    use super::*;
    use crate::build::{BuildTools, ReuseLedger};
    use crate::erofs::writer::encode::piece::PackedCluster;
    use crate::erofs::writer::encode::worker::PackWorker;
    use crate::erofs::writer::place::data_zone::ClustersOfPiece;
    use crate::erofs::writer::stored::cluster::StoredLen;

    const BLOCK: usize = 4096;

    #[test]
    fn the_common_start_ends_at_the_first_difference() {
        let one = noise(300, 1);
        for len in [0, 1, 63, 64, 65, 128, 300] {
            assert_eq!(common_start(&one, &one[..len]), len);
            assert_eq!(common_start(&one[..len], &one), len);
        }
        for at in 0..one.len() {
            let mut other = one.clone();
            other[at] ^= 1;
            assert_eq!(common_start(&one, &other), at);
        }
    }

    #[test]
    fn a_stretch_is_found_to_the_byte_and_begins_with_a_cluster() {
        let output = Output::over(Arc::new(Memory::default()), "image");
        let progress = Progress::default();
        pipeline::scope(
            0,
            || PackWorker::new(&[]),
            |pool| {
                let tools = BuildTools { pool, output: &output, blob: None, progress: &progress };
                find_stretches(&mut DataZone::new(tools, 0, 0, 0, ReuseLedger::default()));
            },
        );
    }

    fn find_stretches(zone: &mut DataZone<'_, '_>) {
        let old = noise(4 * 2 * BLOCK, 7);
        let len = count(2 * BLOCK);
        let physical = StoredLen::of_cut(2 * BLOCK);
        let cut = PackedCluster { physical, logical: len, raw: true, digest: None, reused: None, older: None };
        let mut bytes = Buffers::new(old.len()).take(old.len());
        bytes.copy_from_slice(&old);
        let part =
            zone.write_pieces(bytes, &[cut; 4], [ClustersOfPiece { count: 4, algorithm: 0 }].into_iter()).unwrap()[0];
        zone.settle(part).unwrap();
        let mut stretches = StretchFinder::new(BLOCK, false);
        // The second and third cluster of the old piece and half of the fourth, after other bytes.
        let before = noise(BLOCK, 9);
        let piece = [&before[..], &old[2 * BLOCK..7 * BLOCK + 5], &noise(5000, 11)].concat();
        // The hint is in the middle of the second cluster.
        let mut find = |from: usize, here, offset| {
            stretches.compare(zone, zone.clusters(part), offset, &piece, 0, from..here).unwrap()
        };
        let reuse = find(0, BLOCK + 100, 2 * BLOCK + 100).expect("a stretch");
        let lens: Vec<_> = reuse.clusters.iter().map(|cluster| (cluster.logical as usize, cluster.partial)).collect();
        assert_eq!(
            (reuse.start, &lens[..]),
            (BLOCK, &[(2 * BLOCK, false), (2 * BLOCK, false)][..]),
            "a block is too little"
        );
        assert!(find(BLOCK + 1, BLOCK + 100, 2 * BLOCK + 100).is_none(), "what is before is taken");
        assert!(find(0, BLOCK + 100, 100).is_none(), "other bytes lie there");
        assert!(find(0, 99, 2 * BLOCK + 100).is_none(), "the chunk would begin before the piece");
    }

    #[test]
    fn chunks_seen_in_a_row_end_where_one_is_new() {
        let chunks: Vec<_> = [100, 200, 300, 400]
            .into_iter()
            .map(|end| ContentChunk { end, digest: packfs_blocks::Digest::of(&end.to_le_bytes()).half() })
            .collect();
        let mut stretches = StretchFinder::new(BLOCK, false);
        stretches.add(5, &chunks[..2]);
        stretches.add(6, &chunks[1..2]);
        let seen = stretches.find(&chunks);
        let at = |offset| Some(ChunkOrigin { piece: 5, offset });
        assert_eq!(seen, [at(0), at(100), None, None]);
        assert_eq!((seen_until(&chunks, &seen), seen_until(&chunks[1..], &seen[1..])), (200, 200));
        assert_eq!(seen_until(&chunks[2..], &seen[2..]), 0);
    }
}
