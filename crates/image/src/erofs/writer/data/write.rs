//! What the workers return: written, noted, shared with what is equal.

use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::pipeline::Ticket;
use packfs_blocks::stages::Stage;

use super::{Data, Done, LATE, PieceEnd, SHARED_PART, Work};
use crate::erofs::page_end;
use crate::erofs::writer::index::{Cluster, Part};
use crate::erofs::writer::keep::Kept;
use crate::erofs::writer::pack::{Cut, Ending, Packed, Piece, Rest, Worker};
use crate::{Error, Result};

impl Data<'_, '_> {
    pub(super) fn push(&mut self, ticket: Ticket<Result<Work>>, held: usize) -> Result<()> {
        self.window.push(ticket, held);
        while self.window.is_full() {
            self.next()?;
        }
        Ok(())
    }

    /// Writes all that was handed to workers. Clusters get their places when they are done, uncompressed pieces
    /// at once: where both come, the order must not depend on how far the workers are.
    pub(super) fn settle(&mut self) -> Result<()> {
        while self.plan()? {}
        while self.next()? {}
        while self.next_late()? {}
        Ok(())
    }

    /// Takes the oldest job's result and, when their time has come, those of ends.
    pub(super) fn next(&mut self) -> Result<bool> {
        let Some(work) = self.tools.progress.stages.time(Stage::Wait, || self.window.pop()) else { return Ok(false) };
        self.taken += 1;
        match work? {
            Work::Packed(packed) => self.write(packed)?,
            Work::Written(len) => Progress::add(&self.tools.progress.written, len),
        }
        while self.late.front().is_some_and(|(due, _)| *due <= self.taken) {
            self.next_late()?;
        }
        Ok(true)
    }

    pub(super) fn next_late(&mut self) -> Result<bool> {
        let Some((_, ticket)) = self.late.pop_front() else { return Ok(false) };
        let packed = self.tools.progress.stages.time(Stage::Wait, || ticket.wait())?;
        self.write(packed)?;
        Ok(true)
    }

    pub(super) fn write(&mut self, packed: Packed) -> Result<()> {
        let Packed { bytes, cuts, pieces } = packed;
        let (mut at, mut written, mut cuts) = (0, 0, &cuts[..]);
        for (seq, count, rest) in pieces {
            let first =
                u32::try_from(self.clusters.len()).map_err(|_| Error::TooMany { what: "clusters", max: 1 << 32 })?;
            let (mine, others) = cuts.split_at(count as usize);
            cuts = others;
            let worth = self.is_sharing_worth_it(mine);
            for cut in mine {
                if let Some(cluster) = cut.reused {
                    self.clusters.push(cluster);
                    self.counts.shared_clusters += 1;
                    continue;
                }
                let end = at + cut.physical as usize;
                match self.shared(cut).filter(|_| worth) {
                    Some(cluster) => {
                        self.write_bytes(&bytes[written..at])?;
                        written = end;
                        self.clusters.push(cluster);
                        self.counts.shared_clusters += 1;
                    }
                    None => {
                        let start = self.pos + (at - written) as u64;
                        let moved = self.moved(cut, start);
                        if moved > 0 {
                            self.write_bytes(&bytes[written..at])?;
                            self.write_bytes(&[0; 2][..moved])?;
                            written = at;
                        }
                        self.cluster(cut, start + moved as u64)?;
                    }
                }
                at = end;
            }
            let end = self.rest(rest)?;
            self.done[seq as usize] = Some(Done { part: Part { first, count }, end });
        }
        self.write_bytes(&bytes[written..at])
    }

    pub(super) fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let at = self.base + self.pos;
        let written = self.tools.progress.stages.time(Stage::Write, || self.tools.output.write_all_at(bytes, at));
        written.map_err(Error::io("cannot write", self.tools.output.target()))?;
        Progress::add(&self.tools.progress.written, bytes.len() as u64);
        self.pos += bytes.len() as u64;
        Ok(())
    }

    /// By how many bytes a cluster has to lie behind `start` for Linux to read it.
    fn moved(&self, cut: &Cut, start: u64) -> usize {
        if cut.raw { 0 } else { page_end::moved(self.rules.form.algorithm, start, cut.physical.into()) }
    }

    /// Notes a cluster that lies at `start`.
    pub(super) fn cluster(&mut self, cut: &Cut, start: u64) -> Result<()> {
        let Cut { physical, logical, raw, digest, .. } = *cut;
        if let Some(digest) = digest {
            let n =
                u32::try_from(self.clusters.len()).map_err(|_| Error::TooMany { what: "clusters", max: 1 << 32 })?;
            self.known_clusters.insert(digest, n);
        }
        self.clusters.push(Cluster { start, physical, logical, raw, partial: false });
        self.counts.clusters += 1;
        self.counts.raw_clusters += u64::from(raw);
        Ok(())
    }

    /// A cluster that is down and equal.
    pub(super) fn shared(&self, cut: &Cut) -> Option<Cluster> {
        let found = self.clusters[*self.known_clusters.get(&cut.digest?)? as usize];
        let same = (found.physical, found.logical, found.raw) == (cut.physical, cut.logical, cut.raw);
        same.then_some(found)
    }

    /// Clusters elsewhere cost a larger index: for a few of many it is larger than they are.
    pub(super) fn is_sharing_worth_it(&self, cuts: &[Cut]) -> bool {
        let saved: u64 = cuts.iter().filter(|cut| self.shared(cut).is_some()).map(|cut| u64::from(cut.physical)).sum();
        let all: u64 = cuts.iter().map(|cut| u64::from(cut.logical)).sum();
        saved * SHARED_PART >= all
    }

    pub(super) fn rest(&mut self, rest: Rest) -> Result<PieceEnd> {
        Ok(match rest {
            Rest::Nothing => PieceEnd::Nothing,
            Rest::Inline { bytes, logical, raw } => {
                let kept = self.keep(&bytes)?;
                PieceEnd::Inline { kept, len: logical.into(), raw }
            }
            Rest::Plain(tail) => PieceEnd::Plain(self.keep(&tail)?),
            Rest::Fragment(bytes, digest) => {
                let len = bytes.len() as u64;
                self.counts.fragment_bytes += len;
                if let Some(offset) = self.known_ends.get(&digest).filter(|_| self.rules.dedup) {
                    self.counts.duplicate_bytes += len;
                    return Ok(PieceEnd::Fragment { offset: *offset, len });
                }
                let offset = self.put_end(&bytes)?;
                self.known_ends.insert(digest, offset);
                PieceEnd::Fragment { offset, len }
            }
        })
    }

    pub(super) fn keep(&mut self, bytes: &[u8]) -> Result<Kept> {
        if bytes.is_empty() {
            return Ok(Kept::NONE);
        }
        self.keep.put(bytes).map_err(Error::io("cannot write", "a temporary file"))
    }

    /// Appends to the stream of ends.
    pub(super) fn put_end(&mut self, bytes: &[u8]) -> Result<u64> {
        let (offset, mut left) = (self.ends.len(), bytes);
        while !left.is_empty() {
            left = self.ends.put(left);
            if self.ends.is_full() {
                self.send_ends(Ending::More)?;
            }
        }
        Ok(offset)
    }

    pub(super) fn send_ends(&mut self, ending: Ending) -> Result<()> {
        if let Some(bytes) = self.ends.take() {
            let seq = self.piece()?;
            self.ends.pieces.push(seq);
            let pieces = vec![Piece { seq, range: 0..bytes.len(), ending, whole: false, reuse: Vec::new() }];
            let bytes = Arc::new(bytes);
            let stages = &self.tools.progress.stages;
            let pack = move |worker: &mut Worker| stages.time(Stage::Compress, || worker.pack(&bytes, pieces));
            let ticket = self.tools.pool.submit(pack);
            self.late.push_back((self.taken + LATE, ticket));
        }
        Ok(())
    }
}
