//! Parts of pieces that are down already: which clusters to use again.
//!
//! A chunk that was seen before is a hint at a cluster that may decode to what is here. It is read back,
//! decoded and compared, so that a stretch is found to the byte, and what is used again is proven.

use packfs_blocks::stages::Stage;

use super::{Data, Done};
use crate::erofs::writer::chunk::Chunk;
use crate::erofs::writer::index::Cluster;
use crate::erofs::writer::pack::Reuse;
use crate::{Error, Result};

/// Jobs that are likely to be on their way. The same number on all machines, as the image must not depend on
/// how many threads there are.
pub(super) const RECENT: usize = 8;
/// How much longer a stretch has to be to be looked for in them.
const RECENT_FACTOR: usize = 4;

impl Data<'_, '_> {
    /// Hands the oldest pieces that wait for their chunks to workers, with what to use again; false if there
    /// are none.
    pub(super) fn plan(&mut self) -> Result<bool> {
        let Some((bytes, pieces, ticket)) = self.chunking.pop_front() else { return Ok(false) };
        let mut job = Vec::with_capacity(pieces.len());
        let chunks = self.tools.progress.stages.time(Stage::Wait, || ticket.wait());
        for (mut piece, chunks) in pieces.into_iter().zip(chunks) {
            if chunks.iter().any(|chunk| self.chunks.find(chunk).is_some_and(|(other, _)| other >= self.planned)) {
                // Of the same job: what comes before goes ahead.
                self.submit_planned(&bytes, std::mem::take(&mut job))?;
            }
            piece.reuse = self.reuse(&bytes[piece.range.clone()], &chunks)?;
            let reused = piece.reuse.iter().flat_map(|reuse| &reuse.clusters);
            self.counts.duplicate_bytes += reused.map(|cluster| u64::from(cluster.logical)).sum::<u64>();
            self.chunks.add(piece.seq, &chunks);
            job.push(piece);
        }
        self.submit_planned(&bytes, job)?;
        Ok(true)
    }

    /// What of a piece can be had from clusters of earlier ones.
    fn reuse(&mut self, piece: &[u8], chunks: &[Chunk]) -> Result<Vec<Reuse>> {
        let (mut found, mut done, mut start, mut run) = (Vec::new(), 0, 0, 0..0);
        for (n, chunk) in chunks.iter().enumerate() {
            let (here, end) = (start, chunk.end as usize);
            start = end;
            let Some((other, offset)) = self.chunks.find(chunk).filter(|_| end > done) else { continue };
            if here >= run.end {
                run = here..self.known_until(chunks, n);
            }
            // Looking closer may mean waiting for what is on its way, while other threads have nothing to do.
            let worthwhile = self.worthwhile() * if other >= self.recent() { RECENT_FACTOR } else { 1 };
            if run.len() < worthwhile {
                continue;
            }
            if let Some(reuse) = self.stretch(piece, done, here, other, offset as usize)? {
                done = reuse.start + reuse.clusters.iter().map(|cluster| cluster.logical as usize).sum::<usize>();
                found.push(reuse);
            }
        }
        Ok(found)
    }

    /// Where the chunks that were seen before end, from number `first` on.
    fn known_until(&self, chunks: &[Chunk], first: usize) -> usize {
        let known = chunks[first..].iter().take_while(|chunk| self.chunks.find(chunk).is_some());
        known.last().map_or(0, |chunk| chunk.end as usize)
    }

    /// The first piece of the last few jobs.
    fn recent(&self) -> u32 {
        self.recent.front().copied().filter(|_| self.recent.len() == RECENT).unwrap_or(0)
    }

    /// Fewer bytes are not worth sharing: what comes before ends with a cluster of its own, half a block of which is
    /// lost.
    fn worthwhile(&self) -> usize {
        self.rules.block() / 4 * 3
    }

    /// The clusters that what is around `here` in a piece consists of, if what is there is at `offset` of another
    /// piece, and nothing before `from` is wanted.
    fn stretch(&mut self, piece: &[u8], from: usize, here: usize, other: u32, offset: usize) -> Result<Option<Reuse>> {
        if other >= self.planned {
            return Ok(None);
        }
        // It may still be on its way: what a worker makes of it is not known before.
        while self.done[other as usize].is_none() && self.next()? {}
        let Some(Done { part, .. }) = self.done[other as usize] else { return Ok(None) };
        let (mut at, mut start, mut clusters, mut saved) = (0, 0, Vec::new(), 0);
        for n in part.first..part.first + part.count {
            let cluster = self.clusters[n as usize];
            let len = cluster.logical as usize;
            at += len;
            if at <= offset {
                continue;
            }
            if clusters.is_empty() {
                // The first cluster begins at or before the chunk.
                match (here + at - len).checked_sub(offset) {
                    Some(begin) if begin >= from => start = begin,
                    _ => return Ok(None),
                }
            }
            let begin = start + clusters.iter().map(|cluster: &Cluster| cluster.logical as usize).sum::<usize>();
            let equal = self.equal(&cluster, &piece[begin.min(piece.len())..])?;
            // A cluster of several blocks needs a logical cluster of its own behind the head to say so.
            let block = self.rules.block();
            if equal < if cluster.physical as usize > block { 2 * block } else { block } {
                break;
            }
            saved += cluster.physical as usize * equal / len;
            let logical = u32::try_from(equal).expect("at most the cluster's");
            clusters.push(Cluster { logical, partial: cluster.partial || equal < len, ..cluster });
            if equal < len {
                break;
            }
        }
        Ok((saved >= self.worthwhile()).then_some(Reuse { start, clusters }))
    }

    /// How many bytes `piece` begins with that the cluster begins with, too.
    fn equal(&mut self, cluster: &Cluster, piece: &[u8]) -> Result<usize> {
        let mut packed = std::mem::take(&mut self.packed);
        let mut raw = std::mem::take(&mut self.unpacked);
        packed.resize(cluster.physical as usize, 0);
        raw.resize(cluster.logical as usize, 0);
        let at = self.base + cluster.start;
        self.tools
            .output
            .read_exact_at(&mut packed, at)
            .map_err(Error::io("cannot read back", self.tools.output.target()))?;
        match &mut self.decoder {
            Some(decoder) if !cluster.raw => {
                let stream = packed.iter().position(|byte| *byte != 0).map_or(&[][..], |first| &packed[first..]);
                decoder.decode_prefix(stream, &mut raw)?;
            }
            _ => std::mem::swap(&mut packed, &mut raw),
        }
        raw.truncate(cluster.logical as usize);
        let equal = raw.iter().zip(piece).take_while(|(a, b)| a == b).count();
        (self.packed, self.unpacked) = (packed, raw);
        Ok(equal)
    }
}
