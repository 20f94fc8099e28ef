//! Parts of pieces that are down already: which clusters to use again.

use super::{Data, Done};
use crate::Result;
use crate::erofs::writer::chunk::Repeat;
use crate::erofs::writer::index::Cluster;
use crate::erofs::writer::pack::Reuse;

impl Data<'_, '_> {
    /// Hands the oldest pieces that wait for their chunks to workers, with what to use again; false if there
    /// are none.
    pub(super) fn plan(&mut self) -> Result<bool> {
        let Some((bytes, pieces, ticket)) = self.chunking.pop_front() else { return Ok(false) };
        let mut job = Vec::with_capacity(pieces.len());
        for (mut piece, chunks) in pieces.into_iter().zip(ticket.wait()) {
            let repeats = self.chunks.repeats(&chunks, self.rules.block());
            if repeats.iter().any(|repeat| repeat.piece >= self.planned) {
                // Of the same job: what comes before goes ahead.
                self.submit_planned(&bytes, std::mem::take(&mut job))?;
            }
            for repeat in repeats {
                piece.reuse.extend(self.reuse(repeat)?);
            }
            let reused = piece.reuse.iter().flat_map(|reuse| &reuse.clusters);
            self.counts.duplicate_bytes += reused.map(|cluster| u64::from(cluster.logical)).sum::<u64>();
            self.chunks.add(piece.seq, &chunks);
            job.push(piece);
        }
        self.submit_planned(&bytes, job)?;
        Ok(true)
    }

    /// The clusters of another piece that a repeated stretch consists of, if that saves anything.
    fn reuse(&mut self, repeat: Repeat) -> Result<Option<Reuse>> {
        if repeat.piece >= self.planned {
            return Ok(None);
        }
        // It may still be on its way: what a worker makes of it is not known before.
        while self.done[repeat.piece as usize].is_none() && self.next()? {}
        let Some(Done { part, .. }) = self.done[repeat.piece as usize] else { return Ok(None) };
        let (from, to) = (repeat.offset, repeat.offset + repeat.len);
        let (mut at, mut start, mut clusters) = (0, 0, Vec::<Cluster>::new());
        for cluster in &self.clusters[part.first as usize..][..part.count as usize] {
            let (here, end) = (at, at + cluster.logical as usize);
            at = end;
            if here < from || here >= to {
                continue;
            }
            if clusters.is_empty() {
                start = repeat.start + (here - from);
            }
            if end <= to {
                clusters.push(*cluster);
            } else if to - here >= self.rules.block().max(cluster.logical as usize / 4) {
                // Its beginning is of use too.
                let logical = u32::try_from(to - here).expect("less than a cluster");
                clusters.push(Cluster { logical, partial: true, ..*cluster });
            }
        }
        let saved: usize = clusters.iter().map(|cluster| cluster.physical as usize).sum();
        // What comes before ends with a cluster of its own, half a block of which is lost.
        let long = clusters.iter().all(|cluster| cluster.logical as usize >= self.rules.block());
        Ok((long && saved >= self.rules.block()).then_some(Reuse { start, clusters }))
    }
}
