//! Placement: the position of the next block of the data zone, the positions of clusters, and which
//! of them equal existing ones.

use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::dedup::PlaceIndex;
use packfs_blocks::hash::HalfDigest;
use packfs_blocks::{Buffer, Output};

use crate::build::{BuildTools, NotedUnit, PendingWrites, ReuseLedger, UnitStretch, UnreadRange};
use crate::erofs::page_end;
use crate::erofs::raw_sharing::page_offset;
use crate::erofs::writer::counts::ClusterCounts;
use crate::erofs::writer::encode::piece::{PackedCluster, PackedPiece};
use crate::erofs::writer::encode::worker::PackWorker;
use crate::erofs::writer::stored::cluster::{ClusterRange, StoredCluster, cluster_number};
use crate::{Error, Result};

/// Clusters are shared if that saves at least one in this many bytes of a piece: to share a few of many costs more than
/// it saves, as clusters elsewhere need a larger index. The share was not measured.
const SHARED_PART: u64 = 64;

/// The data of an image, from its first block on.
#[derive(Debug)]
pub(crate) struct DataZone<'p, 'env> {
    output: &'env Output,
    /// Clusters on their way to the output.
    writes: PendingWrites<'p, 'env, PackWorker, ClusterRun>,
    /// Offset of the image in the output file.
    base: u64,
    /// Offset of the next data in the image.
    pos: u64,
    clusters: Vec<StoredCluster>,
    /// Clusters by their stored bytes.
    known: PlaceIndex<u32, HalfDigest>,
    counts: ClusterCounts,
    ledger: ReuseLedger,
}

/// The next clusters of a packed piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClustersOfPiece {
    pub(crate) count: u32,
    /// Number of the algorithm of those that are compressed.
    pub(crate) algorithm: u8,
}

impl From<&PackedPiece> for ClustersOfPiece {
    fn from(piece: &PackedPiece) -> ClustersOfPiece {
        ClustersOfPiece { count: piece.cuts, algorithm: piece.algorithm }
    }
}

/// A zone that is written.
#[derive(Debug)]
pub(crate) struct FinishedZone {
    pub(crate) clusters: Vec<StoredCluster>,
    /// Block of the image at which the data ends.
    pub(crate) end: u64,
    /// What was noted for the index.
    pub(crate) ledger: ReuseLedger,
}

/// Bytes that are written at once: consecutive new clusters of a job's result, or zeros between clusters.
#[derive(Debug)]
enum ClusterRun {
    Clusters(Arc<Buffer>, Range<usize>),
    Zeros(usize),
}

impl AsRef<[u8]> for ClusterRun {
    fn as_ref(&self) -> &[u8] {
        match self {
            ClusterRun::Clusters(bytes, range) => &bytes[range.clone()],
            ClusterRun::Zeros(len) => &[0; page_end::MOVED_MAX][..*len],
        }
    }
}

/// A range of the image that a worker fills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReservedRange<'env> {
    output: &'env Output,
    /// Offset in the output.
    at: u64,
}

impl ReservedRange<'_> {
    /// Writes `bytes` at an offset of the range.
    pub(crate) fn write(self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.output.write_all_at(bytes, self.at + offset);
        written.map_err(Error::io("cannot write", self.output.target()))
    }

    /// Copies part of a file to the beginning of the range; returns the error of that file apart.
    pub(crate) fn copy(self, from: &UnreadRange) -> Result<Result<()>> {
        from.copy(self.output, self.at)
    }
}

impl<'p, 'env> DataZone<'p, 'env> {
    /// Makes a zone that begins at byte `pos` of the image, which begins at byte `base` of the output; `budget` bounds
    /// the bytes in flight.
    pub(crate) fn new(
        tools: BuildTools<'p, 'env, PackWorker>,
        base: u64,
        pos: u64,
        budget: usize,
        ledger: ReuseLedger,
    ) -> DataZone<'p, 'env> {
        let output = tools.output;
        let writes = PendingWrites::new(tools, budget);
        let clusters = Vec::new();
        let known = PlaceIndex::default();
        let counts = ClusterCounts::default();
        DataZone { output, writes, base, pos, clusters, known, counts, ledger }
    }

    /// Returns the offset of the next data in the image.
    pub(crate) fn pos(&self) -> u64 {
        self.pos
    }

    /// Reserves the next `len` bytes for a worker.
    pub(crate) fn reserve(&mut self, len: usize) -> ReservedRange<'env> {
        let at = self.base + self.pos;
        self.pos += len as u64;
        ReservedRange { output: self.output, at }
    }

    /// Writes the clusters of packed pieces, each with its number of `cuts` and their algorithm, except clusters that
    /// already exist. Returns the position of each piece.
    pub(crate) fn write_pieces(
        &mut self,
        bytes: Buffer,
        mut cuts: &[PackedCluster],
        pieces: impl Iterator<Item = ClustersOfPiece>,
    ) -> Result<Vec<ClusterRange>> {
        let bytes = Arc::new(bytes);
        // Consecutive new clusters, which are written at once.
        let mut run = 0..0;
        let mut parts = Vec::new();
        for ClustersOfPiece { count, algorithm } in pieces {
            let first = cluster_number(self.clusters.len())?;
            let (mine, others) = cuts.split_at(count as usize);
            cuts = others;
            let share = self.is_sharing_worth_it(mine, algorithm);
            for (cut, page_offset) in with_page_offsets(mine) {
                match cut.reused.or_else(|| self.find_equal(cut, page_offset, algorithm).filter(|_| share)) {
                    Some(cluster) => self.push_shared(cut, cluster, &bytes, &mut run)?,
                    None => self.push_new(cut, page_offset, algorithm, &bytes, &mut run)?,
                }
            }
            parts.push(ClusterRange { first, count });
        }
        self.append(ClusterRun::Clusters(bytes, run))?;
        Ok(parts)
    }

    /// Adds a cluster that already exists; if it was packed again, its bytes are skipped.
    fn push_shared(
        &mut self,
        cut: &PackedCluster,
        cluster: StoredCluster,
        bytes: &Arc<Buffer>,
        run: &mut Range<usize>,
    ) -> Result<()> {
        if cut.reused.is_none() {
            self.append(ClusterRun::Clusters(Arc::clone(bytes), run.clone()))?;
            let end = run.end + cut.physical.bytes();
            *run = end..end;
        }
        self.clusters.push(cluster);
        self.counts.shared += 1;
        Ok(())
    }

    /// Adds the cluster whose bytes follow the run.
    fn push_new(
        &mut self,
        cut: &PackedCluster,
        page_offset: u16,
        algorithm: u8,
        bytes: &Arc<Buffer>,
        run: &mut Range<usize>,
    ) -> Result<()> {
        let PackedCluster { physical, logical, raw, digest, older, .. } = *cut;
        let mut start = self.pos + run.len() as u64;
        // Linux cannot read every cluster at every position.
        let moved = if raw { 0 } else { page_end::moved(algorithm, start, physical.into()) };
        if moved > 0 {
            self.append(ClusterRun::Clusters(Arc::clone(bytes), run.clone()))?;
            self.append(ClusterRun::Zeros(moved))?;
            run.start = run.end;
            start += moved as u64;
        }
        if let Some(digest) = digest {
            self.known.insert(digest, cluster_number(self.clusters.len())?);
        }
        self.ledger.wrote(start, physical.into(), older);
        self.clusters.push(StoredCluster {
            device: 0,
            start,
            physical,
            logical,
            raw,
            algorithm,
            partial: false,
            page_offset,
        });
        self.counts.written += 1;
        self.counts.raw += u64::from(raw);
        run.end += physical.bytes();
        Ok(())
    }

    /// Returns an existing equal cluster that can be used at an offset in a page of the file.
    fn find_equal(&self, cut: &PackedCluster, page_offset: u16, algorithm: u8) -> Option<StoredCluster> {
        let found = self.clusters[self.known.find(&cut.digest?)? as usize];
        let same = (found.physical, found.logical, found.raw) == (cut.physical, cut.logical, cut.raw);
        // An uncompressed cluster has to keep its offset in a page of the file, a compressed one its
        // algorithm.
        let readable = if cut.raw { found.page_offset == page_offset } else { found.algorithm == algorithm };
        (same && readable).then_some(found)
    }

    /// Returns true if sharing saves more than the larger index costs: see [`SHARED_PART`].
    fn is_sharing_worth_it(&self, cuts: &[PackedCluster], algorithm: u8) -> bool {
        let mut saved = 0;
        let mut total = 0;
        for (cut, page_offset) in with_page_offsets(cuts) {
            total += u64::from(cut.logical);
            if self.find_equal(cut, page_offset, algorithm).is_some() {
                saved += u64::from(cut.physical);
            }
        }
        saved * SHARED_PART >= total
    }

    fn append(&mut self, run: ClusterRun) -> Result<()> {
        let len = run.as_ref().len();
        let at = self.base + self.pos;
        self.pos += len as u64;
        if len > 0 { self.writes.write(run, at) } else { Ok(()) }
    }

    /// Waits until the clusters of a piece can be read back.
    pub(crate) fn settle(&mut self, part: ClusterRange) -> Result<()> {
        let end = self.clusters(part).iter().map(|cluster| cluster.start + u64::from(cluster.physical)).max();
        self.writes.until(self.base + end.unwrap_or(0))
    }

    /// Returns the clusters of a piece.
    pub(crate) fn clusters(&self, part: ClusterRange) -> &[StoredCluster] {
        &self.clusters[part.first as usize..][..part.count as usize]
    }

    /// Notes where a piece of `len` bytes lies, for the index.
    pub(crate) fn note_piece(&mut self, noted: NotedUnit, len: u64, rest: u8, part: ClusterRange) {
        // Not `self.clusters(part)`, which would borrow the ledger, too.
        let clusters = &self.clusters[part.first as usize..][..part.count as usize];
        let stretches = clusters.iter().map(|cluster| UnitStretch {
            start: cluster.start,
            stored: cluster.physical.get(),
            content: cluster.logical,
            raw: cluster.raw,
        });
        self.ledger.note(noted, len, rest, stretches);
    }

    /// Reads back the bytes of a cluster that [settled](Self::settle).
    pub(crate) fn read(&self, cluster: &StoredCluster, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.resize(cluster.physical.bytes(), 0);
        let read = self.output.read_exact_at(bytes, self.base + cluster.start);
        read.map_err(Error::io("cannot read back", self.output.target()))
    }

    pub(crate) fn counts(&self) -> ClusterCounts {
        self.counts
    }

    /// Waits until everything is written, and makes the rest of the last block, of `block_len` bytes, zeros.
    pub(crate) fn finish(self, block_len: u64) -> Result<FinishedZone> {
        self.writes.finish()?;
        let end = self.pos.div_ceil(block_len);
        let cleared = self.output.leave_zeros_at(self.base + self.pos, end * block_len - self.pos);
        cleared.map_err(Error::io("cannot write", self.output.target()))?;
        Ok(FinishedZone { clusters: self.clusters, end, ledger: self.ledger })
    }
}

/// Returns the clusters of a piece with the offsets in a page at which they begin. Pieces begin with a page of the
/// file.
fn with_page_offsets(cuts: &[PackedCluster]) -> impl Iterator<Item = (&PackedCluster, u16)> {
    cuts.iter().scan(0, |at, cut| {
        let offset = page_offset(*at);
        *at += u64::from(cut.logical);
        Some((cut, offset))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use packfs_blocks::io::Memory;
    use packfs_blocks::{Buffers, Digest, Progress, pipeline};

    use super::*;
    use crate::erofs::format::algorithm::{DEFLATE, ZSTD};
    use crate::erofs::writer::stored::cluster::StoredLen;

    const BLOCK: usize = 4096;

    fn of(count: u32, algorithm: u8) -> ClustersOfPiece {
        ClustersOfPiece { count, algorithm }
    }

    fn cut(bytes: &[u8], logical: u32) -> PackedCluster {
        let physical = StoredLen::of_cut(bytes.len());
        let digest = Some(Digest::of(bytes).half());
        PackedCluster { physical, logical, raw: false, digest, reused: None, older: None }
    }

    fn buffer(parts: &[&[u8]]) -> Buffer {
        let bytes = parts.concat();
        let mut buffer = Buffers::new(bytes.len()).take(bytes.len());
        buffer.copy_from_slice(&bytes);
        buffer
    }

    /// Every write has to be settled before it is seen, for any number of threads.
    fn on_memory(check: impl Fn(&mut DataZone<'_, '_>, &Memory)) {
        for threads in [0, 2] {
            let memory = Arc::new(Memory::default());
            let progress = Progress::default();
            let output = Output::over(Arc::clone(&memory), "image");
            let worker = || PackWorker::new(&[]);
            pipeline::scope(threads, worker, |pool| {
                let tools = BuildTools { pool, output: &output, blob: None, progress: &progress };
                check(&mut DataZone::new(tools, 100, BLOCK as u64, 0, ReuseLedger::default()), &memory);
            });
        }
    }

    #[test]
    fn equal_clusters_are_written_once_and_those_of_other_lengths_again() {
        on_memory(|zone, memory| {
            let a = [1; BLOCK];
            let b = [2; BLOCK];
            let bytes = buffer(&[&a, &b, &a, &a, &b]);
            let cuts = [cut(&a, 5000), cut(&b, 6000), cut(&a, 5000), cut(&a, 7000), cut(&b, 6000)];
            let parts = zone.write_pieces(bytes, &cuts, [of(2, DEFLATE), of(3, DEFLATE)].into_iter()).unwrap();
            assert_eq!(parts, [ClusterRange { first: 0, count: 2 }, ClusterRange { first: 2, count: 3 }]);
            let starts: Vec<_> = zone.clusters.iter().map(|cluster| cluster.start / BLOCK as u64).collect();
            assert_eq!(starts, [1, 2, 1, 3, 2]);
            assert_eq!(zone.counts, ClusterCounts { written: 3, raw: 0, shared: 2 });
            assert_eq!(zone.pos, 4 * BLOCK as u64);
            parts.iter().for_each(|part| zone.settle(*part).unwrap());
            assert_eq!(memory.lock().unwrap().get_ref()[100 + BLOCK..], [a, b, a].concat());
            let mut back = Vec::new();
            zone.read(&zone.clusters(parts[1])[2], &mut back).unwrap();
            assert_eq!(back, b);
        });
    }

    #[test]
    fn equal_bytes_of_other_algorithms_are_written_again() {
        on_memory(|zone, _| {
            let a = [1; BLOCK];
            let raw = [2; BLOCK];
            let cuts = [cut(&a, 5000), PackedCluster { raw: true, ..cut(&raw, 4096) }];
            for algorithm in [DEFLATE, ZSTD, ZSTD] {
                zone.write_pieces(buffer(&[&a, &raw]), &cuts, [of(2, algorithm)].into_iter()).unwrap();
            }
            assert_eq!(zone.counts, ClusterCounts { written: 3, raw: 1, shared: 3 });
        });
    }

    #[test]
    fn one_equal_cluster_among_many_is_written_again() {
        on_memory(|zone, _| {
            let a = [1; BLOCK];
            zone.write_pieces(buffer(&[&a]), &[cut(&a, 5000)], [of(1, DEFLATE)].into_iter()).unwrap();
            let long = PackedCluster { digest: None, ..cut(&a, 64 * 4096) };
            zone.write_pieces(buffer(&[&a, &a]), &[cut(&a, 5000), long], [of(2, DEFLATE)].into_iter()).unwrap();
            assert_eq!(zone.counts, ClusterCounts { written: 3, raw: 0, shared: 0 });
        });
    }

    #[test]
    fn a_stream_whose_end_is_alone_on_a_page_is_moved() {
        on_memory(|zone, memory| {
            let bytes = [7; BLOCK + 1];
            let other = [8; 10];
            zone.write_pieces(
                buffer(&[&other, &bytes]),
                &[cut(&other, 50), cut(&bytes, 9000)],
                [of(2, DEFLATE)].into_iter(),
            )
            .unwrap();
            // From byte 10 of a block on, 4,097 bytes end 11 bytes into the next: nothing is moved.
            assert_eq!(zone.clusters[1].start, BLOCK as u64 + 10);
            let to_block = [9; BLOCK - 11];
            zone.write_pieces(buffer(&[&to_block]), &[cut(&to_block, 9000)], [of(1, DEFLATE)].into_iter()).unwrap();
            let before = zone.pos;
            assert_eq!(before % BLOCK as u64, 0);
            let parts =
                zone.write_pieces(buffer(&[&bytes]), &[cut(&bytes, 9001)], [of(1, DEFLATE)].into_iter()).unwrap();
            zone.settle(parts[0]).unwrap();
            assert_eq!(zone.clusters[3].start, before + 2);
            let image = memory.lock().unwrap();
            let at = 100 + usize::try_from(before).unwrap();
            assert_eq!(image.get_ref()[at..at + 4], [0, 0, 7, 7]);
        });
    }
}
