//! Processing of file pieces on workers: taking their clusters from an older image, or else cutting them into physical
//! clusters, compressing and verifying these.

use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::encode::Prover;
use packfs_blocks::{Buffer, Digest};
use packfs_codec::{Encoder, Prefix};

use super::fit::Fit;
use super::lanes::Packing;
use super::piece::{Cut, Ending, Packed, PackedPiece, Piece, Rest};
use crate::Result;
use crate::erofs::writer::stored::cluster::{StoredLen, count};

/// Encoders of one worker for every way to pack a file.
pub(crate) struct Worker {
    lanes: Vec<Lane>,
}

/// Encoders for one way to pack files, made when first needed.
pub(super) struct Lane {
    pub(super) packing: Packing,
    pub(super) encoder: Option<Box<dyn Encoder>>,
    scout: Option<Box<dyn Encoder>>,
    pub(super) prover: Prover,
    pub(super) fit: Fit,
}

/// A job's result under construction.
pub(super) struct Out {
    pub(super) bytes: Buffer,
    pub(super) len: usize,
    pub(super) cuts: Vec<Cut>,
}

impl Worker {
    pub(crate) fn new(lanes: &[Packing]) -> Self {
        Worker { lanes: lanes.iter().map(Lane::new).collect() }
    }

    /// Packs pieces of `bytes`.
    pub(crate) fn pack(&mut self, bytes: &Arc<Buffer>, pieces: Vec<Piece>) -> Result<Packed> {
        let total = pieces.iter().map(|piece| piece.range.len()).sum();
        let packing = &self.lanes[0].packing;
        let room = packing.buffers.take(packing.bound(total, pieces.len()));
        let mut out = Out { bytes: room, len: 0, cuts: Vec::new() };
        let mut done = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let (before, src) = ((out.cuts.len(), out.len), &bytes[piece.range.clone()]);
            let lane = &mut self.lanes[usize::from(piece.lane)];
            let (rest, noted) = lane.whole(&piece, src, &mut out)?;
            if lane.packing.share && !matches!(rest, Rest::Plain(_)) {
                out.digest(before);
            }
            let cuts = count(out.cuts.len() - before.0);
            let algorithm = lane.packing.algorithm();
            done.push(PackedPiece { seq: piece.seq, len: src.len(), cuts, algorithm, rest, noted });
        }
        out.bytes.truncate(out.len);
        Ok(Packed { bytes: out.bytes, cuts: out.cuts, pieces: done })
    }
}

impl Lane {
    fn new(packing: &Packing) -> Self {
        let fit = Fit::new(packing.block);
        let prover = Prover::of_clusters(packing.choice.codec(), packing.verify);
        Lane { packing: packing.clone(), encoder: None, scout: None, prover, fit }
    }

    /// Packs a piece anew.
    pub(super) fn anew(&mut self, piece: &Piece, src: &[u8], out: &mut Out) -> Result<Rest> {
        let before = (out.cuts.len(), out.len);
        let rest = self.parts(src, piece.ending, &piece.reuse, out)?;
        if piece.whole && piece.reuse.is_empty() && self.is_no_shorter(out.len - before.1, &rest, src.len()) {
            return Ok(self.plain(src, before, out));
        }
        Ok(rest)
    }

    /// Packs a range of a piece.
    pub(super) fn piece(&mut self, src: &[u8], range: Range<usize>, ending: Ending, out: &mut Out) -> Result<Rest> {
        let (src, mut at, first) = (&src[..range.end], range.start, out.cuts.len());
        let (block, end) = (self.packing.block, range.end);
        while at < end {
            if ending == Ending::More && end - at <= block {
                // Too short to shrink, and the next extent may begin in the same block of the file.
                let most = end.saturating_sub(block + 1);
                at = self.shorten(src, at, most.saturating_sub(block / 2)..=most, first, out)?;
            }
            let rest = &src[at..];
            if ending == Ending::Fragment && rest.len() <= self.hardly_fills(&out.cuts[first..]) {
                return Ok(Rest::Fragment(rest.to_vec(), Digest::of(rest)));
            }
            let hopeless = self.hopeless(rest);
            let found = match hopeless {
                0 => self.compress(&rest[..rest.len().min(self.packing.extent)], out)?,
                _ => None,
            };
            match found {
                Some(Prefix { taken, len }) => {
                    self.prover.prove(&rest[..taken], &out.bytes[out.len..out.len + len])?;
                    let last = taken == rest.len();
                    if ending == Ending::Fragment
                        && last
                        && self.packing.choice.fills()
                        && len + self.packing.block <= self.packing.cluster.max(2 * self.packing.block - 1)
                    {
                        return Ok(Rest::Fragment(rest.to_vec(), Digest::of(rest)));
                    }
                    if ending == Ending::Inline && last && len < self.inline_max() {
                        let bytes = out.bytes[out.len..out.len + len].to_vec();
                        return Ok(Rest::Inline { bytes, raw: false });
                    }
                    let physical = self.packing.physical(len);
                    if physical < taken {
                        out.put(physical, len, taken);
                        at += taken;
                        continue;
                    }
                }
                None if ending == Ending::Inline && rest.len() < self.inline_max() => {
                    return Ok(Rest::Inline { bytes: rest.to_vec(), raw: true });
                }
                None => {}
            }
            if ending == Ending::More && rest.len() < block {
                let realigned = self.realign(src, at, first, out)?;
                if realigned > at {
                    return Ok(Rest::Nothing);
                }
            }
            if ending == Ending::More && rest.len() < 2 * self.packing.cluster.max(block) {
                // Within a file, uncompressed data must be whole blocks.
                let wanted = at / block * block;
                at = self.shorten(src, at, wanted..=wanted, first, out)?;
            }
            let most = if hopeless > 0 { hopeless } else { self.packing.cluster };
            at += self.raw(&src[at..], most, first, out);
        }
        Ok(Rest::Nothing)
    }

    /// Returns the number of bytes after these clusters that are not worth filling one more cluster.
    fn hardly_fills(&self, before: &[Cut]) -> usize {
        let shrinks = before.last().filter(|last| !last.raw).map_or(0, |last| last.logical as usize / 4 * 3);
        self.packing.fragment_max().max(shrinks)
    }

    /// Compresses a prefix into the free end of `out`.
    fn compress(&mut self, rest: &[u8], out: &mut Out) -> Result<Option<Prefix>> {
        let Packing { choice, window, cluster, unaligned, .. } = &self.packing;
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
            let len = encoder.encode(&rest[..taken], &mut dst[..taken - 1])?;
            return Ok(len.map(|len| Prefix { taken, len }));
        }
        if choice.fills() {
            return Ok(encoder.encode_prefix(rest, dst)?);
        }
        self.fit.prefix(&mut **encoder, self.scout.as_deref_mut(), rest, dst)
    }

    /// A tail as long as a block would leave no room for anything else next to it.
    fn inline_max(&self) -> usize {
        self.packing.block - self.packing.block / 8
    }
}

impl Out {
    /// Computes the digests of the clusters added since `before`.
    fn digest(&mut self, before: (usize, usize)) {
        let mut at = before.1;
        for cut in self.cuts[before.0..].iter_mut().filter(|cut| cut.reused.is_none()) {
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
        self.cuts.push(Cut::new(StoredLen::of_cut(physical), count(taken), false));
    }
}
