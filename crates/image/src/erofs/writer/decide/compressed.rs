//! Pieces for the workers: from batches of small files, from larger files, and from both streams of
//! the packed inode.

use std::sync::Arc;

use packfs_blocks::{Buffer, Digest};

use super::chunks::ContentChunk;
use super::jobs::ChunkedPieces;
use super::layout::{FilePart, PendingLocation};
use super::rules::FilePolicy;
use super::stretches::{ChunkOrigin, seen_until};
use super::writer::DataWriter;
use crate::Result;
use crate::build::BatchPart;
use crate::erofs::raw_sharing::PAGE_LEN;
use crate::erofs::writer::encode::piece::{PieceJob, ReusedStretch, TailPolicy};

/// Factor by which a stretch must be longer to be searched in pieces that may be in flight. A search waits for the
/// piece: with 1, one thread worked at a time in small clusters, as nearly every piece has some chunk of a recent one.
/// Other factors were not measured.
const RECENT_FACTOR: usize = 4;

/// Returns zeros up to the next page of the packed inode: each piece has to begin with one.
pub(super) fn page_padding(len: u64) -> Vec<u8> {
    let missing = len.next_multiple_of(PAGE_LEN) - len;
    vec![0; usize::try_from(missing).expect("less than a page")]
}

impl DataWriter<'_, '_> {
    /// Submits whole files shorter than a piece.
    pub(super) fn pack_batch(&mut self, bytes: Buffer, fresh: Vec<(u32, BatchPart)>) -> Result<()> {
        let mut pieces = Vec::new();
        for (file, (range, digest)) in fresh {
            let len = range.len();
            let policy = self.files.policy(file);
            let rules = self.rules.for_policy(policy);
            // Such a short file would hardly fill a cluster of its own. Of longer ones only the tail goes to the packed
            // inode.
            let is_small = rules.tail_policy == TailPolicy::Fragment && len <= rules.fragment_max;
            let location = if is_small || rules.all_fragments {
                self.cut_small_before(digest, len)?;
                PendingLocation::Fragment(self.put_small(&bytes[range])?)
            } else if rules.follows_inode(len) {
                self.tally.packs(len);
                PendingLocation::Tail(self.keep_tail(&bytes[range])?)
            } else {
                let seq = self.pieces.add()?;
                let tail_policy = rules.tail_policy;
                let digest = Some(digest);
                // A whole file that gets no shorter is stored uncompressed, but only if its tail may follow the inode.
                let whole = rules.inline_tails;
                pieces.push(PieceJob { seq, lane: policy.lane, range, digest, tail_policy, whole, reuse: Vec::new() });
                self.tally.packs(len);
                PendingLocation::Piece(seq)
            };
            self.files.put(file, location);
        }
        if pieces.is_empty() { Ok(()) } else { self.submit(bytes, pieces) }
    }

    /// Returns the number of the next piece of a larger file.
    pub(super) fn add_piece(&mut self, file: u32, bytes: Buffer, digest: Digest, last: bool) -> Result<u32> {
        let len = bytes.len();
        let policy = self.files.policy(file);
        // Older images know a piece by its content alone; this image shares it only with pieces that are packed alike.
        let content = digest;
        let digest = policy.key_digest(digest);
        if let Some(seq) = self.sharing.piece(&digest, last) {
            self.tally.saves(len);
            return Ok(seq);
        }
        let seq = self.pieces.add()?;
        // Already now, before it is packed: an equal piece needs only the number. Its place is looked up at the end.
        self.sharing.add_piece(digest, last, seq);
        self.tally.packs(len);
        let tail_policy = if !last {
            TailPolicy::More
        } else if self.rules.all_fragments {
            // The packed inode holds whole files only.
            TailPolicy::Cluster
        } else {
            self.rules.for_policy(policy).tail_policy
        };
        self.submit_whole(seq, policy.lane, bytes, Some(content), tail_policy)?;
        Ok(seq)
    }

    /// Appends to the stream of small files; returns the offset.
    pub(super) fn put_small(&mut self, bytes: &[u8]) -> Result<u64> {
        self.tally.packs(bytes.len());
        self.tally.fragment(bytes.len());
        let offset = self.packed_inode.small.len();
        let mut left = bytes;
        while !left.is_empty() {
            left = self.packed_inode.small.put(left);
            if let Some(piece) = self.packed_inode.small.take_full() {
                self.send_small(piece, TailPolicy::More)?;
            }
        }
        Ok(offset)
    }

    /// Ends the piece of small files if a cut comes before this file.
    fn cut_small_before(&mut self, digest: Digest, len: usize) -> Result<()> {
        if !self.rules.cuts.come_before(&digest, len) {
            return Ok(());
        }
        let padding = page_padding(self.packed_inode.small.len());
        self.put_small(&padding)?;
        match self.packed_inode.small.take() {
            Some(piece) => self.send_small(piece, TailPolicy::More),
            None => Ok(()),
        }
    }

    /// Ends the piece of tails if a cut comes before this tail.
    pub(super) fn cut_tails_before(&mut self, digest: Digest, len: usize) -> Result<()> {
        if !self.rules.cuts.come_before(&digest, len) {
            return Ok(());
        }
        let padding = page_padding(self.packed_inode.tails.len());
        self.put_tail(&padding)?;
        match self.packed_inode.tails.take() {
            Some(piece) => self.send_tail(piece, TailPolicy::More),
            None => Ok(()),
        }
    }

    /// Appends zeros to the stream of small files.
    pub(super) fn put_zeros(&mut self, mut len: u64) -> Result<()> {
        let zeros = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(self.rules.piece)];
        while len > 0 {
            let part = usize::try_from(len).unwrap_or(usize::MAX).min(zeros.len());
            self.put_small(&zeros[..part])?;
            len -= part as u64;
        }
        Ok(())
    }

    /// Sends a piece of the stream of small files.
    pub(super) fn send_small(&mut self, piece: Buffer, tail_policy: TailPolicy) -> Result<()> {
        let seq = self.pieces.add()?;
        self.packed_inode.small.sent(seq);
        // Without a digest, as nobody looks for an equal piece. A worker computes it if an older image or an
        // index needs it.
        self.submit_whole(seq, self.lanes.packed(), piece, None, tail_policy)
    }

    /// Appends to the stream of tails; returns the offset.
    pub(super) fn put_tail(&mut self, bytes: &[u8]) -> Result<u64> {
        let offset = self.packed_inode.tails.len();
        let mut left = bytes;
        while !left.is_empty() {
            left = self.packed_inode.tails.put(left);
            if let Some(piece) = self.packed_inode.tails.take_full() {
                self.send_tail(piece, TailPolicy::More)?;
            }
        }
        Ok(offset)
    }

    /// Sends a piece of the stream of tails.
    pub(super) fn send_tail(&mut self, piece: Buffer, tail_policy: TailPolicy) -> Result<()> {
        let seq = self.pieces.add()?;
        self.packed_inode.tails.sent(seq);
        let range = 0..piece.len();
        let lane = self.lanes.packed();
        let job = PieceJob { seq, lane, range, digest: None, tail_policy, whole: false, reuse: Vec::new() };
        // Not by `submit`, which may take results: this runs while one is being taken.
        self.jobs.pack_tails(piece, job);
        Ok(())
    }

    /// Replaces holes by pieces of zeros, one per length: not every form of index has holes.
    pub(super) fn fill_holes(&mut self, file: u32, parts: Vec<FilePart>) -> Result<Vec<FilePart>> {
        let policy = self.files.policy(file);
        let mut filled = Vec::with_capacity(parts.len());
        let count = parts.len();
        for (n, part) in parts.into_iter().enumerate() {
            let FilePart::Hole(mut left) = part else {
                filled.push(part);
                continue;
            };
            while left > 0 {
                let len = left.min(self.rules.piece as u64);
                left -= len;
                let last = left == 0 && n + 1 == count;
                let seq = match self.sharing.zeros(len, last, policy.lane) {
                    Some(seq) => seq,
                    None => self.zero_piece(len, last, policy)?,
                };
                filled.push(FilePart::Piece(seq));
            }
        }
        Ok(filled)
    }

    fn zero_piece(&mut self, len: u64, last: bool, policy: FilePolicy) -> Result<u32> {
        let mut bytes = self.buffers.take(usize::try_from(len).expect("a piece at most"));
        bytes.fill(0);
        let seq = self.pieces.add()?;
        self.sharing.add_zeros(len, last, policy.lane, seq);
        self.submit_whole(seq, policy.lane, bytes, None, if last { TailPolicy::Cluster } else { TailPolicy::More })?;
        Ok(seq)
    }

    /// Submits a buffer that is one piece.
    fn submit_whole(
        &mut self,
        seq: u32,
        lane: u8,
        bytes: Buffer,
        digest: Option<Digest>,
        tail_policy: TailPolicy,
    ) -> Result<()> {
        let range = 0..bytes.len();
        self.submit(bytes, vec![PieceJob { seq, lane, range, digest, tail_policy, whole: false, reuse: Vec::new() }])
    }

    /// Submits pieces to workers, first for cutting into chunks if repeated stretches are searched.
    fn submit(&mut self, bytes: Buffer, pieces: Vec<PieceJob>) -> Result<()> {
        let bytes = Arc::new(bytes);
        let Some(average) = self.rules.chunk else { return self.submit_packing(&bytes, pieces) };
        self.jobs.cut_into_chunks(bytes, pieces, average);
        // Chunks are taken in the order of submission, a few jobs at a time, so what is found depends on the
        // files and not on the workers.
        if self.jobs.is_chunking_full() { self.plan_oldest().map(|_| ()) } else { Ok(()) }
    }

    /// Has pieces packed.
    pub(super) fn submit_packing(&mut self, bytes: &Arc<Buffer>, pieces: Vec<PieceJob>) -> Result<()> {
        self.jobs.pack(bytes, pieces);
        self.make_room()
    }

    /// Submits the oldest pieces that wait for their chunks, with the stretches to reuse; returns
    /// false if there are none.
    pub(super) fn plan_oldest(&mut self) -> Result<bool> {
        let Some(ChunkedPieces { bytes, pieces }) = self.jobs.take_chunks() else { return Ok(false) };
        let mut job = Vec::with_capacity(pieces.len());
        for (mut piece, chunks) in pieces {
            let seen = self.stretches.find(&chunks);
            if seen.iter().flatten().any(|seen| !self.jobs.is_planned(seen.piece)) {
                // Part of the same job: the pieces before go first.
                self.submit_packing(&bytes, std::mem::take(&mut job))?;
            }
            let algorithm = self.lanes.algorithm(piece.lane);
            piece.reuse = self.find_stretches(&bytes[piece.range.clone()], algorithm, &chunks, &seen)?;
            let reused = piece.reuse.iter().flat_map(|reuse| &reuse.clusters);
            self.tally.shares(reused.map(|cluster| u64::from(cluster.logical)).sum());
            // After the search: a piece must not be compared with itself.
            self.stretches.add(piece.seq, &chunks);
            job.push(piece);
        }
        self.submit_packing(&bytes, job)?;
        Ok(true)
    }

    /// Returns stretches of a piece that clusters of earlier pieces contain. `seen` says where each chunk was first
    /// seen.
    fn find_stretches(
        &mut self,
        piece: &[u8],
        algorithm: u8,
        chunks: &[ContentChunk],
        seen: &[Option<ChunkOrigin>],
    ) -> Result<Vec<ReusedStretch>> {
        let mut found = Vec::new();
        let mut done = 0;
        let mut start = 0;
        let mut run = 0..0;
        for (n, (chunk, seen_here)) in chunks.iter().zip(seen).enumerate() {
            let here = start;
            let end = chunk.end as usize;
            start = end;
            // Chunks within the stretch that was found last are covered by it.
            let Some(other) = seen_here.filter(|_| end > done) else { continue };
            // Once for each run of known chunks. Once for each of its chunks would take quadratic time.
            if here >= run.end {
                run = here..seen_until(&chunks[n..], &seen[n..]);
            }
            // A closer look may wait for pieces in flight, while other threads are idle.
            let factor = if self.jobs.is_recent(other.piece) { RECENT_FACTOR } else { 1 };
            if run.len() < self.stretches.worthwhile() * factor || !self.jobs.is_planned(other.piece) {
                continue;
            }
            // Results are taken in the order of jobs, as always, only earlier. So the image does not depend
            // on which worker is first.
            while self.pieces.get(other.piece).is_none() && self.take_result()? {}
            let Some(there) = self.pieces.get(other.piece) else { continue };
            // Clusters are compared by what the output has, so they must have reached it.
            self.zone.settle(there.part)?;
            let clusters = self.zone.clusters(there.part);
            let offset = other.offset as usize;
            let reuse = self.stretches.compare(&self.zone, clusters, offset, piece, algorithm, done..here)?;
            if let Some(reuse) = reuse {
                done = reuse.start + reuse.clusters.iter().map(|cluster| cluster.logical as usize).sum::<usize>();
                found.push(reuse);
            }
        }
        Ok(found)
    }
}
