//! Processing of file pieces on workers: taking their clusters from an older image, or else cutting them into physical
//! clusters, compressing and verifying these.

use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::encode::Prover;
use packfs_blocks::hash::Half;
use packfs_blocks::{Buffer, Buffers, Digest};
use packfs_codec::{Choice, Encoder, Prefix};

use super::Options;
use super::fit::Fit;
use super::index::{Cluster, StoredLen};
use crate::Result;
use crate::build::{Noted, Units};
use crate::erofs::kernel::Feature;

mod gaps;
mod older;
mod raw;

/// Number of blocks that an uncompressed cluster may have, if clusters are smaller.
const RAW_BLOCKS: u32 = 4;

/// Returns the size in bytes of the longest cluster, compressed or not, of files whose largest compressed cluster is
/// `cluster_size`.
pub(crate) fn longest_cluster(options: &Options, cluster_size: u32) -> u32 {
    if options.target_kernel < Feature::BigClusters.since() {
        return options.block_size;
    }
    cluster_size.max(RAW_BLOCKS * options.block_size)
}

/// Options for packing pieces; shared by all workers.
#[derive(Debug, Clone)]
pub(crate) struct Packing {
    pub(crate) choice: Choice,
    /// Maximum distance in bytes that an encoder may refer back.
    pub(crate) window: u32,
    /// Size of the largest cluster in bytes.
    pub(crate) cluster: usize,
    /// Size of the largest cluster of any file in bytes.
    pub(crate) room: usize,
    pub(crate) block: usize,
    /// Maximum length of a piece in bytes.
    pub(crate) piece: usize,
    /// Maximum number of bytes that a compressed cluster decodes to.
    pub(crate) extent: usize,
    /// Size of the largest uncompressed cluster in bytes.
    pub(crate) raw: usize,
    /// True if clusters end anywhere, not only at the ends of blocks.
    pub(crate) unaligned: bool,
    /// True to find equal clusters by digests.
    pub(crate) share: bool,
    pub(crate) verify: bool,
    /// Buffers for packed pieces.
    pub(crate) buffers: Buffers,
    pub(crate) units: Units,
}

impl Packing {
    /// Returns the maximum length of tails that go to the packed inode without a try: they would
    /// hardly fill a cluster.
    pub(crate) fn fragment_max(&self) -> usize {
        self.cluster + self.cluster / 2
    }

    /// Returns the number of bytes that a cluster of `len` bytes takes in the image.
    pub(super) fn physical(&self, len: usize) -> usize {
        if self.unaligned { len } else { len.next_multiple_of(self.block) }
    }

    /// Returns an upper bound of the packed size of `pieces` pieces with `bytes` bytes together.
    pub(crate) fn bound(&self, bytes: usize, pieces: usize) -> usize {
        bytes + (pieces + 1) * self.block + self.room
    }

    /// Returns the number of the algorithm that clusters are compressed with.
    pub(crate) fn algorithm(&self) -> u8 {
        self.choice.codec().erofs_id().unwrap_or(0)
    }
}

/// Treatment of the last bytes of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The file continues after the piece.
    More,
    /// They get a cluster of their own.
    Cluster,
    /// If they fit in a cluster, they go to the packed inode.
    Fragment,
    /// If they compress to less than a block, they follow the inode.
    Inline,
}

/// A piece to pack.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) seq: u32,
    /// Number of the lane that packs it.
    pub(crate) lane: u8,
    pub(crate) range: Range<usize>,
    /// Of its bytes, if it is known.
    pub(crate) digest: Option<Digest>,
    pub(crate) ending: Ending,
    /// True for a whole file, which may be stored uncompressed if it gets no shorter.
    pub(crate) whole: bool,
    /// Parts of it that are already stored, in order.
    pub(crate) reuse: Vec<Reuse>,
}

/// A part of a piece that clusters of an earlier piece decode to.
#[derive(Debug)]
pub(crate) struct Reuse {
    /// Offset in the piece.
    pub(crate) start: usize,
    pub(crate) clusters: Vec<Cluster>,
}

/// A cluster of a packed piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) physical: StoredLen,
    pub(crate) logical: u32,
    pub(crate) raw: bool,
    /// Digest of its stored bytes, if an equal cluster may replace it.
    pub(crate) digest: Option<Half>,
    /// The existing cluster, if it is already stored.
    pub(crate) reused: Option<Cluster>,
    /// Its position in an older image, if it is from there.
    pub(crate) older: Option<u64>,
}

impl Cut {
    fn new(physical: StoredLen, logical: u32, raw: bool) -> Self {
        Cut { physical, logical, raw, digest: None, reused: None, older: None }
    }
}

/// The rest of a piece after its clusters.
#[derive(Debug)]
pub(crate) enum Rest {
    Nothing,
    /// Goes to the packed inode.
    Fragment(Vec<u8>, Digest),
    /// A last cluster, which follows the inode.
    Inline {
        bytes: Vec<u8>,
        raw: bool,
    },
    /// The whole file gets no shorter: its clusters are its blocks, and these bytes follow them.
    Plain(Vec<u8>),
}

/// Packed pieces, concatenated.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Buffer,
    pub(crate) cuts: Vec<Cut>,
    pub(crate) pieces: Vec<PackedPiece>,
}

/// A piece of a [`Packed`].
#[derive(Debug)]
pub(crate) struct PackedPiece {
    pub(crate) seq: u32,
    pub(crate) len: usize,
    /// Number of its clusters.
    pub(crate) cuts: u32,
    /// Number of the algorithm of those that are compressed.
    pub(crate) algorithm: u8,
    /// The bytes after its clusters.
    pub(crate) rest: Rest,
    /// For the index, if there is one or an older image.
    pub(crate) noted: Option<Noted>,
}

/// Encoders of one worker for every way to pack a file.
pub(crate) struct Worker {
    lanes: Vec<Lane>,
}

/// Encoders for one way to pack files, made when first needed.
pub(crate) struct Lane {
    packing: Packing,
    encoder: Option<Box<dyn Encoder>>,
    scout: Option<Box<dyn Encoder>>,
    prover: Prover,
    fit: Fit,
}

/// A job's result under construction.
struct Out {
    bytes: Buffer,
    len: usize,
    cuts: Vec<Cut>,
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
    fn anew(&mut self, piece: &Piece, src: &[u8], out: &mut Out) -> Result<Rest> {
        let before = (out.cuts.len(), out.len);
        let rest = self.parts(src, piece.ending, &piece.reuse, out)?;
        if piece.whole && piece.reuse.is_empty() && self.is_no_shorter(out.len - before.1, &rest, src.len()) {
            return Ok(self.plain(src, before, out));
        }
        Ok(rest)
    }

    /// Packs a range of a piece.
    fn piece(&mut self, src: &[u8], range: Range<usize>, ending: Ending, out: &mut Out) -> Result<Rest> {
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
    fn put(&mut self, physical: usize, len: usize, taken: usize) {
        let padding = physical - len;
        if padding > 0 {
            self.bytes.copy_within(self.len..self.len + len, self.len + padding);
            self.bytes[self.len..self.len + padding].fill(0);
        }
        self.len += physical;
        self.cuts.push(Cut::new(StoredLen::of_cut(physical), count(taken), false));
    }
}

/// Lengths within a piece fit in 32 bits.
pub(crate) fn count(n: usize) -> u32 {
    u32::try_from(n).expect("pieces are a few megabytes")
}
