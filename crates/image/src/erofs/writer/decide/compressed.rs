//! Pieces for the workers: from batches of small files, from larger files, and from both streams of
//! the packed inode.

use std::sync::Arc;

use packfs_blocks::{Buffer, Digest};

use super::chunks::Chunk;
use super::jobs::Chunked;
use super::layout::{FilePart, What};
use super::rules::How;
use super::stretches::{Seen, seen_until};
use super::writer::Data;
use crate::Result;
use crate::build::Part as Read;
use crate::erofs::writer::encode::piece::{Ending, Piece, Reuse};

/// Factor by which a stretch must be longer to be searched in pieces that may be in flight.
const RECENT_FACTOR: usize = 4;

impl Data<'_, '_> {
    /// Submits whole files shorter than a piece.
    pub(super) fn pack_batch(&mut self, bytes: Buffer, fresh: Vec<(u32, Read)>) -> Result<()> {
        let mut pieces = Vec::new();
        for (file, (range, digest)) in fresh {
            let (len, how) = (range.len(), self.files.how(file));
            let rules = self.rules.of(how);
            let fragment = rules.ending == Ending::Fragment && len <= rules.fragment_max;
            let what = if fragment || rules.all_fragments {
                What::Fragment(self.put_small(&bytes[range])?)
            } else if rules.is_tail(len) {
                self.tally.packs(len);
                What::Tail(self.keep(&bytes[range])?)
            } else {
                let (seq, ending) = (self.pieces.add()?, rules.ending);
                let (digest, whole) = (Some(digest), rules.inline_tails);
                pieces.push(Piece { seq, lane: how.lane, range, digest, ending, whole, reuse: Vec::new() });
                self.tally.packs(len);
                What::Piece(seq)
            };
            self.files.put(file, what);
        }
        if pieces.is_empty() { Ok(()) } else { self.submit(bytes, pieces) }
    }

    /// Returns the number of the next piece of a larger file.
    pub(super) fn piece(&mut self, file: u32, bytes: Buffer, digest: Digest, last: bool) -> Result<u32> {
        let (len, how) = (bytes.len(), self.files.how(file));
        // Older images know the piece by its content alone.
        let content = digest;
        let digest = how.keyed(digest);
        if let Some(seq) = self.sharing.piece(&digest, last) {
            self.tally.saves(len);
            return Ok(seq);
        }
        let seq = self.pieces.add()?;
        self.sharing.add_piece(digest, last, seq);
        self.tally.packs(len);
        let ending = match last {
            false => Ending::More,
            // The packed inode holds whole files only.
            true if self.rules.all_fragments => Ending::Cluster,
            true => self.rules.of(how).ending,
        };
        self.submit_whole((seq, how), bytes, Some(content), ending)?;
        Ok(seq)
    }

    /// Appends to the stream of small files; returns the offset.
    pub(super) fn put_small(&mut self, bytes: &[u8]) -> Result<u64> {
        self.tally.packs(bytes.len());
        self.tally.fragment(bytes.len());
        let (offset, mut left) = (self.packed.small.len(), bytes);
        while !left.is_empty() {
            left = self.packed.small.put(left);
            if let Some(piece) = self.packed.small.take_full() {
                self.send_small(piece, Ending::More)?;
            }
        }
        Ok(offset)
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
    pub(super) fn send_small(&mut self, piece: Buffer, ending: Ending) -> Result<()> {
        let seq = self.pieces.add()?;
        self.packed.small.sent(seq);
        let how = How { lane: self.lanes.packed(), alone: false };
        self.submit_whole((seq, how), piece, None, ending)
    }

    /// Appends to the stream of tails; returns the offset.
    pub(super) fn put_end(&mut self, bytes: &[u8]) -> Result<u64> {
        let (offset, mut left) = (self.packed.ends.len(), bytes);
        while !left.is_empty() {
            left = self.packed.ends.put(left);
            if let Some(piece) = self.packed.ends.take_full() {
                self.send_end(piece, Ending::More)?;
            }
        }
        Ok(offset)
    }

    /// Sends a piece of the stream of tails.
    pub(super) fn send_end(&mut self, piece: Buffer, ending: Ending) -> Result<()> {
        let seq = self.pieces.add()?;
        self.packed.ends.sent(seq);
        let range = 0..piece.len();
        let lane = self.lanes.packed();
        let piece_of = Piece { seq, lane, range, digest: None, ending, whole: false, reuse: Vec::new() };
        self.jobs.pack_late(piece, piece_of);
        Ok(())
    }

    /// Replaces holes by pieces of zeros, one per length: not every form of index has holes.
    pub(super) fn fill_holes(&mut self, file: u32, parts: Vec<FilePart>) -> Result<Vec<FilePart>> {
        let how = self.files.how(file);
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
                let seq = match self.sharing.zeros(len, last, how.lane) {
                    Some(seq) => seq,
                    None => self.zero_piece(len, last, how)?,
                };
                filled.push(FilePart::Piece(seq));
            }
        }
        Ok(filled)
    }

    fn zero_piece(&mut self, len: u64, last: bool, how: How) -> Result<u32> {
        let mut bytes = self.buffers.take(usize::try_from(len).expect("a piece at most"));
        bytes.fill(0);
        let seq = self.pieces.add()?;
        self.sharing.add_zeros(len, last, how.lane, seq);
        self.submit_whole((seq, how), bytes, None, if last { Ending::Cluster } else { Ending::More })?;
        Ok(seq)
    }

    fn submit_whole(
        &mut self,
        (seq, how): (u32, How),
        bytes: Buffer,
        digest: Option<Digest>,
        ending: Ending,
    ) -> Result<()> {
        let (range, lane) = (0..bytes.len(), how.lane);
        self.submit(bytes, vec![Piece { seq, lane, range, digest, ending, whole: false, reuse: Vec::new() }])
    }

    /// Submits pieces to workers, first for cutting into chunks if repeated stretches are searched.
    fn submit(&mut self, bytes: Buffer, pieces: Vec<Piece>) -> Result<()> {
        let bytes = Arc::new(bytes);
        let Some(average) = self.rules.chunk else { return self.pack(&bytes, pieces) };
        self.jobs.chunk(bytes, pieces, average);
        if self.jobs.is_chunking_full() { self.plan().map(|_| ()) } else { Ok(()) }
    }

    /// Has pieces packed.
    pub(super) fn pack(&mut self, bytes: &Arc<Buffer>, pieces: Vec<Piece>) -> Result<()> {
        self.jobs.pack(bytes, pieces);
        self.make_room()
    }

    /// Submits the oldest pieces that wait for their chunks, with the stretches to reuse; returns
    /// false if there are none.
    pub(super) fn plan(&mut self) -> Result<bool> {
        let Some(Chunked { bytes, pieces }) = self.jobs.chunked() else { return Ok(false) };
        let mut job = Vec::with_capacity(pieces.len());
        for (mut piece, chunks) in pieces {
            let seen = self.stretches.find(&chunks);
            if seen.iter().flatten().any(|seen| !self.jobs.is_planned(seen.piece)) {
                // Part of the same job: the pieces before go first.
                self.pack(&bytes, std::mem::take(&mut job))?;
            }
            let algorithm = self.lanes.algorithm(piece.lane);
            piece.reuse = self.reuse((&bytes[piece.range.clone()], algorithm), &chunks, &seen)?;
            let reused = piece.reuse.iter().flat_map(|reuse| &reuse.clusters);
            self.tally.shares(reused.map(|cluster| u64::from(cluster.logical)).sum());
            self.stretches.add(piece.seq, &chunks);
            job.push(piece);
        }
        self.pack(&bytes, job)?;
        Ok(true)
    }

    /// Returns stretches of a piece that clusters of earlier pieces contain, those of the piece's algorithm.
    fn reuse(
        &mut self,
        (piece, algorithm): (&[u8], u8),
        chunks: &[Chunk],
        seen: &[Option<Seen>],
    ) -> Result<Vec<Reuse>> {
        let (mut found, mut done, mut start, mut run) = (Vec::new(), 0, 0, 0..0);
        for (n, (chunk, seen_here)) in chunks.iter().zip(seen).enumerate() {
            let (here, end) = (start, chunk.end as usize);
            start = end;
            let Some(other) = seen_here.filter(|_| end > done) else { continue };
            if here >= run.end {
                run = here..seen_until(&chunks[n..], &seen[n..]);
            }
            // A closer look may wait for pieces in flight, while other threads are idle.
            let factor = if self.jobs.is_recent(other.piece) { RECENT_FACTOR } else { 1 };
            if run.len() < self.stretches.worthwhile() * factor || !self.jobs.is_planned(other.piece) {
                continue;
            }
            while self.pieces.get(other.piece).is_none() && self.next()? {}
            let Some(there) = self.pieces.get(other.piece) else { continue };
            self.zone.settle(there.part)?;
            let clusters = self.zone.clusters(there.part);
            let offset = other.offset as usize;
            if let Some(reuse) =
                self.stretches.compare(&self.zone, (clusters, offset), (piece, algorithm), done..here)?
            {
                done = reuse.start + reuse.clusters.iter().map(|cluster| cluster.logical as usize).sum::<usize>();
                found.push(reuse);
            }
        }
        Ok(found)
    }
}
