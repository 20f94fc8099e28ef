//! Packs the gaps between parts of a piece that are already stored. An extent begins wherever such
//! a part begins, and no index can express that two begin in one block of the file: the data before
//! must end so that they do not.

use std::ops::{Range, RangeInclusive};

use super::piece::{PackedCluster, PieceTail, ReusedStretch, TailPolicy};
use super::worker::{LaneEncoder, PackOutput};
use crate::Result;
use crate::erofs::writer::stored::cluster::StoredCluster;

/// Number of ends, a block apart, at which a cluster is shortened by trial: encoders do not always fit the beginning of
/// its data into as many bytes as all of it. Each try that fails costs a pass and a block less that is shared. Not
/// measured.
const SHORTENING_TRIES: usize = 4;

impl LaneEncoder {
    /// Packs the gaps between the parts of a piece that are already stored.
    pub(super) fn pack_gaps(
        &mut self,
        src: &[u8],
        tail_policy: TailPolicy,
        reuse: &[ReusedStretch],
        out: &mut PackOutput,
    ) -> Result<PieceTail> {
        self.fit.reset();
        let mut done = 0;
        for ReusedStretch { start, clusters } in reuse {
            let mut start = *start;
            for cluster in clusters {
                if done < start {
                    done = self.pack_before(src, done..start, out)?;
                    if done < start {
                        // Its bytes are packed again, with the data before them.
                        start += cluster.logical as usize;
                        continue;
                    }
                }
                let StoredCluster { physical, logical, raw, .. } = *cluster;
                out.cuts.push(PackedCluster { reused: Some(*cluster), ..PackedCluster::new(physical, logical, raw) });
                start += logical as usize;
                done = start;
            }
        }
        self.pack_range(src, done..src.len(), tail_policy, out)
    }

    /// Packs the data before a part that is already stored, and returns where it ends: earlier than
    /// that part if two extents would begin in one block of the file, which no index can express.
    /// The missing bytes are less than two clusters, to be packed with more.
    fn pack_before(&mut self, src: &[u8], range: Range<usize>, out: &mut PackOutput) -> Result<usize> {
        let first = out.cuts.len();
        let mut end = range.end;
        let block = self.packing.block;
        self.pack_range(src, range, TailPolicy::More, out)?;
        if out.cuts.last().is_some_and(|last| (end - last.logical as usize) / block == end / block) {
            for cut in out.cuts.split_off(first.max(out.cuts.len().saturating_sub(2))) {
                end -= cut.logical as usize;
                out.len -= cut.physical.bytes();
            }
        }
        Ok(end)
    }

    /// Makes the last cluster before `at`, unless it is uncompressed, end within `wanted`, rather
    /// early than late. Returns its end.
    pub(super) fn shorten(
        &mut self,
        src: &[u8],
        at: usize,
        wanted: RangeInclusive<usize>,
        first: usize,
        out: &mut PackOutput,
    ) -> Result<usize> {
        let Some(last) = out.cuts[first..].last().copied().filter(|last| !last.raw) else { return Ok(at) };
        let logical = last.logical as usize;
        let physical = last.physical.bytes();
        let start = at - logical;
        let place = out.len - physical;
        let (early, late) = wanted.into_inner();
        // With fewer bytes than it stores, the cluster would be better off uncompressed.
        let end = early.max(start + physical + 1);
        // Unaligned clusters may begin and end anywhere.
        if self.packing.unaligned || end > late || end >= at {
            return Ok(at);
        }
        let encoder = self.encoder.as_mut().expect("it made the last cluster");
        let mut shorter = vec![0; physical];
        // An encoder may need more room for the beginning than for everything. Then the cluster stays as it
        // was.
        let Some(len) = encoder.encode(&src[start..end], &mut shorter)? else { return Ok(at) };
        self.prover.prove(&src[start..end], &shorter[..len])?;
        out.bytes[place..place + len].copy_from_slice(&shorter[..len]);
        out.len = place;
        out.cuts.pop();
        out.put(self.packing.physical(len), len, end - start);
        Ok(end)
    }

    /// Begins the uncompressed clusters before `at` at a whole block, if the data ends at one: otherwise less than a block
    /// would be left at its end, in a cluster that is longer than what it holds, and the index of such a file takes four
    /// times the room. The compressed cluster before them becomes shorter, or uncompressed, too, if that saves no block.
    /// Returns the new end of what is packed.
    pub(super) fn realign(&mut self, src: &[u8], at: usize, first: usize, out: &mut PackOutput) -> Result<usize> {
        let block = self.packing.block;
        if self.packing.unaligned || !src.len().is_multiple_of(block) {
            return Ok(at);
        }
        // To undo everything: several clusters may be taken back before it turns out that nothing helps.
        let cuts = out.cuts[first..].to_vec();
        let end = out.len;
        let mut start = at;
        let mut given_up = false;
        loop {
            let wanted = start / block * block;
            match out.cuts[first..].last().copied() {
                Some(last) if last.raw => start = take_back(out, start),
                Some(last) if start != wanted => {
                    let least = start - last.logical as usize + last.physical.bytes();
                    for shorter in (0..SHORTENING_TRIES).filter_map(|n| wanted.checked_sub(n * block)) {
                        start = self.shorten(src, start, shorter..=shorter, first, out)?;
                        if start == shorter {
                            break;
                        }
                    }
                    if start.is_multiple_of(block) {
                        break;
                    }
                    if given_up || wanted > least {
                        out.cuts.truncate(first);
                        out.cuts.extend(cuts);
                        out.len = end;
                        return Ok(at);
                    }
                    start = take_back(out, start);
                    given_up = true;
                }
                _ => break,
            }
        }
        while start < src.len() {
            start += self.store_raw(&src[start..], self.packing.cluster, first, out);
        }
        Ok(start)
    }
}

/// Takes back the last cluster; returns where it began.
fn take_back(out: &mut PackOutput, at: usize) -> usize {
    let Some(last) = out.cuts.pop() else { return at };
    out.len -= last.physical.bytes();
    at - last.logical as usize
}
