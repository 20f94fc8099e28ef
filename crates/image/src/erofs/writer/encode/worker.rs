//! Processing of file pieces on workers: taking their clusters from an older image, or else cutting them into physical
//! clusters, compressing and verifying these.

use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::encode::BlockProver;
use packfs_blocks::{Buffer, Digest};
use packfs_codec::{EncodedPrefix, Encoder};

use super::fit::ClusterFit;
use super::lanes::PackingOptions;
use super::piece::{PackedCluster, PackedPiece, PackedPieces, PieceJob, PieceTail, TailPolicy};
use crate::Result;
use crate::erofs::writer::stored::cluster::{StoredLen, count};

/// Encoders of one worker for every way to pack a file.
pub(crate) struct PackWorker {
    lanes: Vec<LaneEncoder>,
}

/// Encoders for one way to pack files, made when first needed.
pub(super) struct LaneEncoder {
    pub(super) packing: PackingOptions,
    pub(super) encoder: Option<Box<dyn Encoder>>,
    scout: Option<Box<dyn Encoder>>,
    pub(super) prover: BlockProver,
    pub(super) fit: ClusterFit,
}

/// A job's result under construction.
pub(super) struct PackOutput {
    pub(super) bytes: Buffer,
    pub(super) len: usize,
    pub(super) cuts: Vec<PackedCluster>,
}

/// A position in a [`PackOutput`].
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputMark {
    /// Number of clusters before it.
    cuts: usize,
    /// Number of bytes before it.
    pub(super) len: usize,
}

impl PackWorker {
    pub(crate) fn new(lanes: &[PackingOptions]) -> Self {
        PackWorker { lanes: lanes.iter().map(LaneEncoder::new).collect() }
    }

    /// Packs pieces of `bytes`.
    pub(crate) fn pack(&mut self, bytes: &Arc<Buffer>, pieces: Vec<PieceJob>) -> Result<PackedPieces> {
        let total = pieces.iter().map(|piece| piece.range.len()).sum();
        // All lanes share these buffers.
        let packing = &self.lanes[0].packing;
        let room = packing.buffers.take(packing.bound(total, pieces.len()));
        let mut out = PackOutput { bytes: room, len: 0, cuts: Vec::new() };
        let mut done = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let before = out.mark();
            let src = &bytes[piece.range.clone()];
            let lane = &mut self.lanes[usize::from(piece.lane)];
            let (tail, noted) = lane.pack_piece(&piece, src, &mut out)?;
            // The blocks of a plain file have to be consecutive, so none of them may be replaced by an equal
            // cluster.
            if lane.packing.share && !matches!(tail, PieceTail::Plain(_)) {
                out.digest(before);
            }
            let cuts = count(out.cuts.len() - before.cuts);
            let algorithm = lane.packing.algorithm();
            done.push(PackedPiece { seq: piece.seq, len: src.len(), cuts, algorithm, tail, noted });
        }
        out.bytes.truncate(out.len);
        Ok(PackedPieces { bytes: out.bytes, cuts: out.cuts, pieces: done })
    }
}

impl LaneEncoder {
    fn new(packing: &PackingOptions) -> Self {
        let fit = ClusterFit::new(packing.block);
        let prover = BlockProver::of_clusters(packing.choice.codec(), packing.verify);
        LaneEncoder { packing: packing.clone(), encoder: None, scout: None, prover, fit }
    }

    /// Packs a piece without an older image.
    pub(super) fn pack_fresh(&mut self, piece: &PieceJob, src: &[u8], out: &mut PackOutput) -> Result<PieceTail> {
        let before = out.mark();
        let tail = self.pack_gaps(src, piece.tail_policy, &piece.reuse, out)?;
        if piece.whole && piece.reuse.is_empty() && self.is_no_shorter(out.len - before.len, &tail, src.len()) {
            return Ok(self.store_plain(src, before, out));
        }
        Ok(tail)
    }

    /// Packs a range of a piece.
    pub(super) fn pack_range(
        &mut self,
        src: &[u8],
        range: Range<usize>,
        tail_policy: TailPolicy,
        out: &mut PackOutput,
    ) -> Result<PieceTail> {
        let src = &src[..range.end];
        let mut at = range.start;
        let first = out.cuts.len();
        let block = self.packing.block;
        let end = range.end;
        while at < end {
            if tail_policy == TailPolicy::More && end - at <= block {
                // Too short to shrink, and the next extent may begin in the same block of the file.
                let most = end.saturating_sub(block + 1);
                at = self.shorten(src, at, most.saturating_sub(block / 2)..=most, first, out)?;
            }
            let left = &src[at..];
            if tail_policy == TailPolicy::Fragment && left.len() <= self.hardly_fills(&out.cuts[first..]) {
                return Ok(PieceTail::Fragment(left.to_vec(), Digest::of(left)));
            }
            let hopeless_len = self.hopeless_len(left);
            let found = if hopeless_len == 0 {
                self.compress(&left[..left.len().min(self.packing.extent)], out)?
            } else {
                None
            };
            if let Some(EncodedPrefix { taken, len }) = found {
                // Before anything is decided: `tail_of` may keep these bytes somewhere other than in a
                // cluster.
                self.prover.prove(&left[..taken], &out.bytes[out.len..out.len + len])?;
            }
            if let Some(tail) = self.tail_of(left, found, tail_policy, out) {
                return Ok(tail);
            }
            if let Some(EncodedPrefix { taken, len }) = found {
                let physical = self.packing.physical(len);
                if physical < taken {
                    out.put(physical, len, taken);
                    at += taken;
                    continue;
                }
            }
            if tail_policy == TailPolicy::More && left.len() < block {
                let realigned = self.realign(src, at, first, out)?;
                if realigned > at {
                    return Ok(PieceTail::Nothing);
                }
            }
            if tail_policy == TailPolicy::More && left.len() < 2 * self.packing.cluster.max(block) {
                // Within a file, uncompressed data must be whole blocks.
                let wanted = at / block * block;
                at = self.shorten(src, at, wanted..=wanted, first, out)?;
            }
            let most = if hopeless_len > 0 { hopeless_len } else { self.packing.cluster };
            at += self.store_raw(&src[at..], most, first, out);
        }
        Ok(PieceTail::Nothing)
    }

    /// Returns the rest of a piece as a tail, if the policy stores it apart from clusters. `found` is what its
    /// beginning was encoded to, if it was; the bytes are at the end of `out`.
    fn tail_of(
        &self,
        left: &[u8],
        found: Option<EncodedPrefix>,
        tail_policy: TailPolicy,
        out: &PackOutput,
    ) -> Option<PieceTail> {
        let Some(EncodedPrefix { taken, len }) = found else {
            let fits = tail_policy == TailPolicy::Inline && left.len() < self.inline_max();
            return fits.then(|| PieceTail::Inline { bytes: left.to_vec(), raw: true });
        };
        if taken < left.len() {
            return None;
        }
        let PackingOptions { block, cluster, .. } = self.packing;
        match tail_policy {
            // At least a block of the cluster would stay unused, or a byte where a cluster is one block.
            TailPolicy::Fragment if self.packing.choice.fills() && len + block <= cluster.max(2 * block - 1) => {
                Some(PieceTail::Fragment(left.to_vec(), Digest::of(left)))
            }
            TailPolicy::Inline if len < self.inline_max() => {
                Some(PieceTail::Inline { bytes: out.bytes[out.len..out.len + len].to_vec(), raw: false })
            }
            _ => None,
        }
    }

    /// Returns the number of bytes after these clusters that are not worth filling one more cluster.
    fn hardly_fills(&self, before: &[PackedCluster]) -> usize {
        // The last cluster shows how much data fills one.
        let shrinks = before.last().filter(|last| !last.raw).map_or(0, |last| last.logical as usize / 4 * 3);
        self.packing.fragment_max().max(shrinks)
    }

    /// Compresses a prefix into the free end of `out`.
    fn compress(&mut self, rest: &[u8], out: &mut PackOutput) -> Result<Option<EncodedPrefix>> {
        let PackingOptions { choice, window, cluster, unaligned, .. } = &self.packing;
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => {
                self.scout = choice.scout().map(|scout| scout.cluster_encoder(*window)).transpose()?;
                none.insert(choice.cluster_encoder(*window)?)
            }
        };
        let dst = &mut out.bytes[out.len..out.len + cluster];
        if *unaligned {
            // Without blocks to fill, equal lengths of the file are best for random access.
            let taken = rest.len().min(*cluster);
            // A byte less than the data: a result of the same length is stored uncompressed instead.
            let len = encoder.encode(&rest[..taken], &mut dst[..taken - 1])?;
            return Ok(len.map(|len| EncodedPrefix { taken, len }));
        }
        if choice.fills() {
            return Ok(encoder.encode_prefix(rest, dst)?);
        }
        self.fit.encode_prefix(&mut **encoder, self.scout.as_deref_mut(), rest, dst)
    }

    /// A tail as long as a block would leave no room for anything else next to it.
    fn inline_max(&self) -> usize {
        self.packing.block - self.packing.block / 8
    }
}

impl PackOutput {
    pub(super) fn mark(&self) -> OutputMark {
        OutputMark { cuts: self.cuts.len(), len: self.len }
    }

    /// Takes back everything after a mark.
    pub(super) fn return_to(&mut self, mark: OutputMark) {
        self.cuts.truncate(mark.cuts);
        self.len = mark.len;
    }

    /// Computes the digests of the clusters added since `before`.
    fn digest(&mut self, before: OutputMark) {
        let mut at = before.len;
        for cut in self.cuts[before.cuts..].iter_mut().filter(|cut| cut.reused.is_none()) {
            let bytes = &self.bytes[at..at + cut.physical.bytes()];
            at += bytes.len();
            cut.digest = Some(Digest::of(bytes).half());
        }
    }

    /// Adds the `len` bytes written at the end, moved so that they end with the cluster.
    pub(super) fn put(&mut self, physical: usize, len: usize, taken: usize) {
        let padding = physical - len;
        if padding > 0 {
            self.bytes.copy_within(self.len..self.len + len, self.len + padding);
            self.bytes[self.len..self.len + padding].fill(0);
        }
        self.len += physical;
        self.cuts.push(PackedCluster::new(StoredLen::of_cut(physical), count(taken), false));
    }
}
