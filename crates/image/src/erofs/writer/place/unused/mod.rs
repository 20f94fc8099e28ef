//! Clears data that no file of the tree refers to: members of a stream that a later one replaced,
//! and beginnings of files that could not be read completely. None of it stays in the image:
//! clusters of the packed inode that also hold remaining files are packed again without it,
//! clusters of which `dedupe` lets remaining files use the beginning are shortened to that, and
//! everything else becomes zeros.
//!
//! All other sources are merged before their data is written, so most images have no such data.

use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::{Buffers, Output};
use packfs_codec::Decoder;

use crate::build::referenced;
use crate::erofs::page_end;
use crate::erofs::writer::encode::lanes::{LaneTable, PackingOptions};
use crate::erofs::writer::encode::piece::{PieceJob, TailPolicy};
use crate::erofs::writer::encode::worker::PackWorker;
use crate::erofs::writer::stored::cluster::{ClusterRange, StoredCluster, cluster_number, stream_of};
use crate::erofs::writer::stored::data::StoredData;
use crate::erofs::writer::stored::file::{DataView, StoredFile};
use crate::tree::Tree;
use crate::{Error, Result};

mod shorten;

/// Number of bytes cleared at a time: memory for zeros, against calls. Not measured, as few images have unused data.
const CLEAR_LEN: u64 = 1 << 20;

/// Position of an image and its data, and how it is packed.
pub(crate) struct ClearTarget<'a> {
    pub(crate) output: &'a Output,
    /// Offset of the image in the output.
    pub(crate) base: u64,
    /// Offset of the data in the image.
    pub(crate) start: u64,
    /// Clusters of the packed inode.
    pub(crate) packing: &'a PackingOptions,
    /// Packing of all clusters, including that of the packed inode.
    pub(crate) lanes: &'a LaneTable,
}

/// Removes everything from an image that no file of the tree refers to.
pub(crate) fn clear(tree: &Tree, data: &mut StoredData, place: &ClearTarget<'_>) -> Result<()> {
    let Some(used) = referenced(tree, data.files.len()) else { return Ok(()) };
    repack(data, &used, place)?;
    shorten::shorten(data, &used, place)?;
    // Last, because the steps before move clusters, and their old places are cleared with the rest.
    let files = data.files.iter().zip(&used).filter(|(_, used)| **used).map(|(file, _)| file);
    let mut areas = Vec::new();
    files.chain(&data.packed).for_each(|stored| data.areas(stored, &mut areas));
    let mut at = place.start;
    let end = data.end * data.block_len();
    for area in merged(areas).into_iter().chain(std::iter::once(end..end)) {
        place.zeros(at..area.start)?;
        at = area.end;
    }
    Ok(())
}

impl StoredData {
    /// Adds the ranges of the image that a file refers to.
    fn areas(&self, stored: &StoredFile, areas: &mut Vec<Range<u64>>) {
        let block = self.block_len();
        match stored.view() {
            DataView::Plain { start: None, .. } | DataView::Plain { device: 1.., .. } => {}
            DataView::Plain { device: 0, start: Some(start), tail } => {
                let len = (stored.size - tail.len() as u64).next_multiple_of(block);
                areas.push(start * block..start * block + len);
            }
            DataView::Chunks { device, .. } if device != self.device => {}
            DataView::Chunks { device: _, bits, blocks } => {
                let chunk = block << bits;
                for (at, start) in (0u64..).step_by(usize::try_from(chunk).unwrap_or(usize::MAX)).zip(blocks) {
                    if let Some(start) = start {
                        let len = chunk.min(stored.size - at).next_multiple_of(block);
                        areas.push(start * block..start * block + len);
                    }
                }
            }
            DataView::Compressed { parts, tail } => {
                let clusters = self.index(stored.size, parts, tail).used_clusters();
                let clusters = clusters.filter(|cluster| cluster.device == 0);
                areas.extend(clusters.map(|cluster| cluster.start..cluster.start + u64::from(cluster.physical)));
            }
        }
    }
}

/// Sorts ranges, merging those that touch or overlap.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Packs those pieces of the packed inode again that contain bytes of unused files, with zeros in their place.
fn repack(data: &mut StoredData, used: &[bool], place: &ClearTarget<'_>) -> Result<()> {
    let packed = data.packed.as_ref().filter(|packed| matches!(packed.view(), DataView::Compressed { .. }));
    let Some(StoredFile { size, .. }) = packed.cloned() else { return Ok(()) };
    if data.packed_pieces.is_empty() {
        // The packed inode consists of those of additional devices, whose bytes are not in the image.
        return Ok(());
    }
    let used = data.files.iter().zip(used).filter(|(_, used)| **used);
    let fragments = used.filter_map(|(file, _)| file.index(data)?.fragment());
    let wanted = merged(fragments.collect());
    let mut clusters = Vec::new();
    let mut at = 0;
    let mut end = data.end * data.block_len();
    let mut repacker = PackedInodeRepacker { place, algorithm: data.form.algorithm, decoder: None, worker: None };
    for part in &data.packed_pieces {
        let old = &data.clusters[part.first as usize..][..part.count as usize];
        let piece = at..at + old.iter().map(|cluster| u64::from(cluster.logical)).sum::<u64>();
        at = piece.end;
        if unwanted(&piece, &wanted).next().is_none() {
            clusters.extend_from_slice(old);
            continue;
        }
        let mut bytes = repacker.read(old)?;
        for gap in unwanted(&piece, &wanted) {
            let in_piece = |at: u64| usize::try_from(at - piece.start).expect("within a piece");
            bytes[in_piece(gap.start)..in_piece(gap.end)].fill(0);
        }
        let tail_policy = if piece.end == size { TailPolicy::Cluster } else { TailPolicy::More };
        repacker.write(&bytes, tail_policy, &mut end, &mut clusters)?;
    }
    let first = cluster_number(data.clusters.len())?;
    let count = cluster_number(clusters.len())?;
    data.clusters.append(&mut clusters);
    data.packed = Some(StoredFile::of_clusters(size, vec![ClusterRange { first, count }]));
    data.end = end.div_ceil(data.block_len());
    Ok(())
}

/// Returns the parts of a range that are in none of `wanted`, which are sorted.
fn unwanted<'w>(range: &Range<u64>, wanted: &'w [Range<u64>]) -> impl Iterator<Item = Range<u64>> + 'w {
    let first = wanted.partition_point(|other| other.end <= range.start);
    let Range { start, end } = *range;
    let inside = wanted[first..].iter().take_while(move |other| other.start < end);
    let stops = inside.map(|other| (other.start, other.end)).chain([(end, end)]);
    let gaps = stops.scan(start, |at, (start, next)| {
        let gap = *at..start;
        *at = next;
        Some(gap)
    });
    gaps.filter(|gap| gap.start < gap.end)
}

/// Reads pieces back and packs them again.
struct PackedInodeRepacker<'p> {
    place: &'p ClearTarget<'p>,
    algorithm: u8,
    decoder: Option<Box<dyn Decoder>>,
    worker: Option<PackWorker>,
}

impl PackedInodeRepacker<'_> {
    /// Returns the decoded data of clusters.
    fn read(&mut self, clusters: &[StoredCluster]) -> Result<Vec<u8>> {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(self.place.packing.choice.codec().cluster_decoder()?),
        };
        let mut bytes = Vec::new();
        for cluster in clusters {
            let at = bytes.len();
            bytes.resize(at + cluster.logical as usize, 0);
            self.place.read(cluster, &mut **decoder, &mut bytes[at..])?;
        }
        Ok(bytes)
    }

    /// Packs a piece to the end of the data, at `end`.
    fn write(
        &mut self,
        piece: &[u8],
        tail_policy: TailPolicy,
        end: &mut u64,
        clusters: &mut Vec<StoredCluster>,
    ) -> Result<()> {
        let ClearTarget { output, base, packing, .. } = *self.place;
        // A worker of one lane, that of the packed inode.
        let worker = self.worker.get_or_insert_with(|| PackWorker::new(std::slice::from_ref(packing)));
        let mut bytes = Buffers::new(piece.len()).take(piece.len());
        bytes.copy_from_slice(piece);
        let job = PieceJob {
            seq: 0,
            lane: 0,
            range: 0..piece.len(),
            digest: None,
            tail_policy,
            whole: false,
            reuse: Vec::new(),
        };
        let packed = worker.pack(&Arc::new(bytes), vec![job])?;
        let mut from = 0;
        for cut in &packed.cuts {
            let stored = &packed.bytes[from..from + cut.physical.bytes()];
            from += stored.len();
            if !cut.raw {
                *end += page_end::moved(self.algorithm, *end, stored.len() as u64) as u64;
            }
            output.write_all_at(stored, base + *end).map_err(Error::io("cannot write", output.target()))?;
            clusters.push(StoredCluster {
                device: 0,
                start: *end,
                physical: cut.physical,
                logical: cut.logical,
                raw: cut.raw,
                algorithm: self.algorithm,
                partial: false,
                page_offset: 0,
            });
            *end += stored.len() as u64;
        }
        Ok(())
    }
}

impl ClearTarget<'_> {
    /// Decodes the beginning of a cluster.
    fn read(&self, cluster: &StoredCluster, decoder: &mut dyn Decoder, bytes: &mut [u8]) -> Result<()> {
        let mut stored = vec![0; cluster.physical.bytes()];
        let failed = Error::io("cannot read back", self.output.target());
        self.output.read_exact_at(&mut stored, self.base + cluster.start).map_err(failed)?;
        if cluster.raw {
            bytes.copy_from_slice(&stored[..bytes.len()]);
        } else {
            decoder.decode_prefix(stream_of(&stored), bytes)?;
        }
        Ok(())
    }

    /// Fills a range of the image with zeros.
    fn zeros(&self, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        let zeros = vec![0; usize::try_from(CLEAR_LEN.min(range.end.saturating_sub(at))).expect("a megabyte")];
        while at < range.end {
            let len = CLEAR_LEN.min(range.end - at);
            let part = &zeros[..usize::try_from(len).expect("a megabyte")];
            self.output.write_all_at(part, self.base + at).map_err(Error::io("cannot write", self.output.target()))?;
            at += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_wanted_ranges_are_found() {
        let wanted = merged(vec![30..40, 0..10, 10..12, 35..50, 60..60]);
        assert_eq!(wanted, [0..12, 30..50]);
        type Gaps = &'static [(u64, u64)];
        let table: [(Range<u64>, Gaps); 7] = [
            (0..12, &[]),
            (3..40, &[(12, 30)]),
            (12..30, &[(12, 30)]),
            (13..20, &[(13, 20)]),
            (30..50, &[]),
            (40..70, &[(50, 70)]),
            (0..100, &[(12, 30), (50, 100)]),
        ];
        for (range, want) in table {
            let gaps: Vec<_> = unwanted(&range, &wanted).map(|gap| (gap.start, gap.end)).collect();
            assert_eq!(gaps, want, "{range:?}");
        }
    }
}
