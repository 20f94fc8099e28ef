//! Placement: the position of the next block of the data zone, the positions of clusters, and which
//! of them equal existing ones.

use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::dedup::Places;
use packfs_blocks::hash::Half;
use packfs_blocks::{Buffer, Output};

use crate::build::{Ledger, Noted, Stretch, Tools, UnreadRange, Writes};
use crate::erofs::page_end;
use crate::erofs::raw_sharing::page_offset;
use crate::erofs::writer::counts::ClusterCounts;
use crate::erofs::writer::encode::piece::Cut;
use crate::erofs::writer::encode::worker::Worker;
use crate::erofs::writer::stored::cluster::{Cluster, Part};
use crate::{Error, Result};

/// Clusters are shared if that saves at least one in this many bytes of a piece.
const SHARED_PART: u64 = 64;

/// The data of an image, from its first block on.
#[derive(Debug)]
pub(crate) struct Zone<'p, 'env> {
    output: &'env Output,
    /// Clusters on their way to the output.
    writes: Writes<'p, 'env, Worker, Run>,
    /// Offset of the image in the output file.
    base: u64,
    /// Offset of the next data in the image.
    pos: u64,
    clusters: Vec<Cluster>,
    /// Clusters by their stored bytes.
    known: Places<u32, Half>,
    counts: ClusterCounts,
    ledger: Ledger,
}

/// Bytes that are written at once: consecutive new clusters of a job's result, or zeros between clusters.
#[derive(Debug)]
enum Run {
    Clusters(Arc<Buffer>, Range<usize>),
    Zeros(usize),
}

impl AsRef<[u8]> for Run {
    fn as_ref(&self) -> &[u8] {
        match self {
            Run::Clusters(bytes, range) => &bytes[range.clone()],
            Run::Zeros(len) => &[0; page_end::MOVED_MAX][..*len],
        }
    }
}

/// A range of the image that a worker fills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved<'env> {
    output: &'env Output,
    /// Offset in the output.
    at: u64,
}

impl Reserved<'_> {
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

impl<'p, 'env> Zone<'p, 'env> {
    /// Makes a zone that begins at byte `pos` of the image, which begins at byte `base` of the output; `budget` bounds
    /// the bytes in flight.
    pub(crate) fn new(
        tools: Tools<'p, 'env, Worker>,
        (base, pos): (u64, u64),
        budget: usize,
        ledger: Ledger,
    ) -> Zone<'p, 'env> {
        let (output, writes) = (tools.output, Writes::new(tools, budget));
        let (clusters, known, counts) = (Vec::new(), Places::default(), ClusterCounts::default());
        Zone { output, writes, base, pos, clusters, known, counts, ledger }
    }

    /// Returns the offset of the next data in the image.
    pub(crate) fn pos(&self) -> u64 {
        self.pos
    }

    /// Reserves the next `len` bytes for a worker.
    pub(crate) fn reserve(&mut self, len: usize) -> Reserved<'env> {
        let at = self.base + self.pos;
        self.pos += len as u64;
        Reserved { output: self.output, at }
    }

    /// Writes the clusters of packed pieces, each with its number of `cuts` and their algorithm, except clusters that
    /// already exist. Returns the position of each piece.
    pub(crate) fn write(
        &mut self,
        bytes: Buffer,
        mut cuts: &[Cut],
        pieces: impl Iterator<Item = (u32, u8)>,
    ) -> Result<Vec<Part>> {
        let bytes = Arc::new(bytes);
        // Range written at once: consecutive new clusters.
        let mut run = 0..0;
        let mut parts = Vec::new();
        for (count, algorithm) in pieces {
            let first = number(self.clusters.len())?;
            let (mine, others) = cuts.split_at(count as usize);
            cuts = others;
            let share = self.is_sharing_worth_it(mine, algorithm);
            for (cut, page_offset) in with_page_offsets(mine) {
                match cut.reused.or_else(|| self.equal(cut, page_offset, algorithm).filter(|_| share)) {
                    Some(cluster) => self.push_shared(cut, cluster, &bytes, &mut run)?,
                    None => self.push_new(cut, page_offset, algorithm, &bytes, &mut run)?,
                }
            }
            parts.push(Part { first, count });
        }
        self.append(Run::Clusters(bytes, run))?;
        Ok(parts)
    }

    /// Adds a cluster that already exists; if it was packed again, its bytes are skipped.
    fn push_shared(&mut self, cut: &Cut, cluster: Cluster, bytes: &Arc<Buffer>, run: &mut Range<usize>) -> Result<()> {
        if cut.reused.is_none() {
            self.append(Run::Clusters(Arc::clone(bytes), run.clone()))?;
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
        cut: &Cut,
        page_offset: u16,
        algorithm: u8,
        bytes: &Arc<Buffer>,
        run: &mut Range<usize>,
    ) -> Result<()> {
        let Cut { physical, logical, raw, digest, older, .. } = *cut;
        let mut start = self.pos + run.len() as u64;
        // Linux cannot read every cluster at every position.
        let moved = if raw { 0 } else { page_end::moved(algorithm, start, physical.into()) };
        if moved > 0 {
            self.append(Run::Clusters(Arc::clone(bytes), run.clone()))?;
            self.append(Run::Zeros(moved))?;
            run.start = run.end;
            start += moved as u64;
        }
        if let Some(digest) = digest {
            self.known.insert(digest, number(self.clusters.len())?);
        }
        self.ledger.wrote(start, physical.into(), older);
        self.clusters.push(Cluster { start, physical, logical, raw, algorithm, partial: false, page_offset });
        self.counts.written += 1;
        self.counts.raw += u64::from(raw);
        run.end += physical.bytes();
        Ok(())
    }

    /// Returns an existing equal cluster that can be used at an offset in a page of the file.
    fn equal(&self, cut: &Cut, page_offset: u16, algorithm: u8) -> Option<Cluster> {
        let found = self.clusters[self.known.find(&cut.digest?)? as usize];
        let same = (found.physical, found.logical, found.raw) == (cut.physical, cut.logical, cut.raw);
        let readable = if cut.raw { found.page_offset == page_offset } else { found.algorithm == algorithm };
        (same && readable).then_some(found)
    }

    /// Returns true if sharing pays off: clusters elsewhere need a larger index, which for a few of
    /// many outweighs their size.
    fn is_sharing_worth_it(&self, cuts: &[Cut], algorithm: u8) -> bool {
        let cuts_with_offsets = with_page_offsets(cuts);
        let shared = cuts_with_offsets.filter(|(cut, page_offset)| self.equal(cut, *page_offset, algorithm).is_some());
        let saved: u64 = shared.map(|(cut, _)| u64::from(cut.physical)).sum();
        let all: u64 = cuts.iter().map(|cut| u64::from(cut.logical)).sum();
        saved * SHARED_PART >= all
    }

    fn append(&mut self, run: Run) -> Result<()> {
        let (len, at) = (run.as_ref().len(), self.base + self.pos);
        self.pos += len as u64;
        if len > 0 { self.writes.write(run, at) } else { Ok(()) }
    }

    /// Waits until the clusters of a piece can be read back.
    pub(crate) fn settle(&mut self, part: Part) -> Result<()> {
        let end = self.clusters(part).iter().map(|cluster| cluster.start + u64::from(cluster.physical)).max();
        self.writes.until(self.base + end.unwrap_or(0))
    }

    /// Returns the clusters of a piece.
    pub(crate) fn clusters(&self, part: Part) -> &[Cluster] {
        &self.clusters[part.first as usize..][..part.count as usize]
    }

    /// Notes where a piece of `len` bytes lies, for the index.
    pub(crate) fn note(&mut self, noted: Noted, len: u64, rest: u8, part: Part) {
        let clusters = &self.clusters[part.first as usize..][..part.count as usize];
        let stretches = clusters.iter().map(|cluster| Stretch {
            start: cluster.start,
            stored: cluster.physical.get(),
            content: cluster.logical,
            raw: cluster.raw,
        });
        self.ledger.note(noted, len, rest, stretches);
    }

    /// Reads back the bytes of a cluster that [settled](Self::settle).
    pub(crate) fn read(&self, cluster: &Cluster, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.resize(cluster.physical.bytes(), 0);
        let read = self.output.read_exact_at(bytes, self.base + cluster.start);
        read.map_err(Error::io("cannot read back", self.output.target()))
    }

    pub(crate) fn counts(&self) -> ClusterCounts {
        self.counts
    }

    /// Waits until everything is written. Returns all clusters, the byte of the image at which the data ends, and what
    /// was noted.
    pub(crate) fn finish(self) -> Result<(Vec<Cluster>, u64, Ledger)> {
        self.writes.finish()?;
        Ok((self.clusters, self.pos, self.ledger))
    }
}

/// Returns the clusters of a piece with the offsets in a page at which they begin. Pieces begin with a page of the
/// file.
fn with_page_offsets(cuts: &[Cut]) -> impl Iterator<Item = (&Cut, u16)> {
    cuts.iter().scan(0, |at, cut| {
        let offset = page_offset(*at);
        *at += u64::from(cut.logical);
        Some((cut, offset))
    })
}

/// Returns the number of the next cluster.
fn number(len: usize) -> Result<u32> {
    u32::try_from(len).map_err(|_| Error::TooMany { what: "clusters", max: 1 << 32 })
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

    fn cut(bytes: &[u8], logical: u32) -> Cut {
        let physical = StoredLen::of_cut(bytes.len());
        let digest = Some(Digest::of(bytes).half());
        Cut { physical, logical, raw: false, digest, reused: None, older: None }
    }

    fn buffer(parts: &[&[u8]]) -> Buffer {
        let bytes = parts.concat();
        let mut buffer = Buffers::new(bytes.len()).take(bytes.len());
        buffer.copy_from_slice(&bytes);
        buffer
    }

    /// Every write has to be settled before it is seen, for any number of threads.
    fn on_memory(check: impl Fn(&mut Zone<'_, '_>, &Memory)) {
        for threads in [0, 2] {
            let (memory, progress) = (Arc::new(Memory::default()), Progress::default());
            let output = Output::over(Arc::clone(&memory), "image");
            let worker = || Worker::new(&[]);
            pipeline::scope(threads, worker, |pool| {
                let tools = Tools { pool, output: &output, blob: None, progress: &progress };
                check(&mut Zone::new(tools, (100, BLOCK as u64), 0, Ledger::default()), &memory);
            });
        }
    }

    #[test]
    fn equal_clusters_are_written_once_and_those_of_other_lengths_again() {
        on_memory(|zone, memory| {
            let (a, b) = ([1; BLOCK], [2; BLOCK]);
            let bytes = buffer(&[&a, &b, &a, &a, &b]);
            let cuts = [cut(&a, 5000), cut(&b, 6000), cut(&a, 5000), cut(&a, 7000), cut(&b, 6000)];
            let parts = zone.write(bytes, &cuts, [(2, DEFLATE), (3, DEFLATE)].into_iter()).unwrap();
            assert_eq!(parts, [Part { first: 0, count: 2 }, Part { first: 2, count: 3 }]);
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
            let (a, raw) = ([1; BLOCK], [2; BLOCK]);
            let cuts = [cut(&a, 5000), Cut { raw: true, ..cut(&raw, 4096) }];
            for algorithm in [DEFLATE, ZSTD, ZSTD] {
                zone.write(buffer(&[&a, &raw]), &cuts, [(2, algorithm)].into_iter()).unwrap();
            }
            assert_eq!(zone.counts, ClusterCounts { written: 3, raw: 1, shared: 3 });
        });
    }

    #[test]
    fn one_equal_cluster_among_many_is_written_again() {
        on_memory(|zone, _| {
            let a = [1; BLOCK];
            zone.write(buffer(&[&a]), &[cut(&a, 5000)], [(1, DEFLATE)].into_iter()).unwrap();
            let long = Cut { digest: None, ..cut(&a, 64 * 4096) };
            zone.write(buffer(&[&a, &a]), &[cut(&a, 5000), long], [(2, DEFLATE)].into_iter()).unwrap();
            assert_eq!(zone.counts, ClusterCounts { written: 3, raw: 0, shared: 0 });
        });
    }

    #[test]
    fn a_stream_whose_end_is_alone_on_a_page_is_moved() {
        on_memory(|zone, memory| {
            let bytes = [7; BLOCK + 1];
            let other = [8; 10];
            zone.write(buffer(&[&other, &bytes]), &[cut(&other, 50), cut(&bytes, 9000)], [(2, DEFLATE)].into_iter())
                .unwrap();
            // From byte 10 of a block on, 4,097 bytes end 11 bytes into the next: nothing is moved.
            assert_eq!(zone.clusters[1].start, BLOCK as u64 + 10);
            let to_block = [9; BLOCK - 11];
            zone.write(buffer(&[&to_block]), &[cut(&to_block, 9000)], [(1, DEFLATE)].into_iter()).unwrap();
            let before = zone.pos;
            assert_eq!(before % BLOCK as u64, 0);
            let parts = zone.write(buffer(&[&bytes]), &[cut(&bytes, 9001)], [(1, DEFLATE)].into_iter()).unwrap();
            zone.settle(parts[0]).unwrap();
            assert_eq!(zone.clusters[3].start, before + 2);
            let image = memory.lock().unwrap();
            let at = 100 + usize::try_from(before).unwrap();
            assert_eq!(image.get_ref()[at..at + 4], [0, 0, 7, 7]);
        });
    }
}
