//! Decodes physical clusters: the only place of the reader that calls a codec.

use std::fmt;

use packfs_blocks::cache::BlockCache;
use packfs_blocks::stock::ToolStock;
use packfs_blocks::{BlockShelf, SharedBlock};
use packfs_codec::{Codec, Decoder};

use super::ErofsReader;
use super::compression::ErofsCompression;
use super::map::{StoredBytes, StoredPosition};
use super::metadata::{MetadataAddress, OffsetSpace};
use crate::erofs::format::{Incompat, algorithm};
use crate::erofs::page_end;
use crate::{Error, Result};

const STRUCTURE: &str = "cluster";
/// Number of bytes that are cached together. Pieces of equal length leave no gaps in memory when they are replaced, and
/// extents may decode to 12 MiB. With a cache of 1 MiB, a mount of a desktop root took 80 MiB before there were slices,
/// and 34 MiB after.
const SLICE: usize = 64 << 10;
/// Minimum cache size: several threads read the files in a cluster of the packed inode one after the other. Two of the
/// largest extents fit as well; otherwise each request for the next bytes of one would decode it again.
const CACHE_MIN: u64 = 4 << 20;
/// Longest buffer for decoded data to keep.
const PLAIN_MAX: usize = 1 << 20;

/// A physical cluster, and the wanted part of its data. Also, with the number of a slice, the key of decoded data: one
/// cluster may serve extents of different lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PhysicalCluster {
    pub(super) stored: StoredBytes,
    /// Space of a position after an inode.
    pub(super) space: OffsetSpace,
    pub(super) algorithm: u8,
    /// True if it decodes to more than `len` bytes.
    pub(super) partial: bool,
    /// Number of bytes it decodes to.
    pub(super) len: usize,
}

/// Decoded extents, and decoders. Decoders keep state and serve one thread at a time: each call
/// borrows one from a pool, so threads wait for each other only while taking one.
pub(super) struct ClusterCache {
    /// Slices of decoded extents, by number.
    decoded: BlockCache<(PhysicalCluster, usize), SharedBlock>,
    shelf: BlockShelf,
    stock: ToolStock<ClusterDecoders>,
}

/// Decoders by algorithm, made when first needed.
type DecoderTable = [Option<Box<dyn Decoder>>; algorithm::COUNT as usize];

/// Decoders and buffers of one thread.
#[derive(Default)]
struct ClusterDecoders {
    decoders: DecoderTable,
    /// Decoders for checks.
    strict: DecoderTable,
    stored: Vec<u8>,
    /// Decoded data on its way into the cache.
    plain: Vec<u8>,
}

/// How much of an extent to decode and cache. It only saves time: which bytes can be read does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodeDepth {
    /// As far as the wanted bytes, if that takes less time than all of it.
    Wanted,
    /// All of it, because the rest is soon wanted, too.
    Whole,
}

impl fmt::Debug for ClusterCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterCache").field("decoded", &self.decoded).finish_non_exhaustive()
    }
}

impl ClusterCache {
    /// Makes a cache of up to `capacity` bytes.
    pub(super) fn new(capacity: u64) -> Self {
        // Slices of one length, so that a new one fits where an old one was.
        let decoded = BlockCache::new(capacity.max(CACHE_MIN), SLICE as u64);
        ClusterCache { decoded, shelf: BlockShelf::new(SLICE), stock: ToolStock::default() }
    }
}

impl ErofsReader {
    /// Reads bytes of an image; `space` is that of a position after an inode.
    pub(super) fn read_stored(
        &self,
        structure: &'static str,
        space: OffsetSpace,
        from: StoredPosition,
        buf: &mut [u8],
    ) -> Result<()> {
        match from {
            StoredPosition::Image(byte) => self.disk.read(structure, byte, buf),
            StoredPosition::Device(device, byte) => self.disk.read_device(structure, device, byte, buf),
            StoredPosition::Meta(byte) => self.read_meta(structure, MetadataAddress { space, byte }, buf),
        }
    }

    /// Fills `out` from byte `from` of a decoded extent, through the cache.
    ///
    /// Bytes of a damaged cluster are returned if the stream decodes as far as their end, as Linux does. Success must
    /// not depend on later bytes: how much is decoded varies with the cache and with how a read is divided, so the same
    /// bytes would be readable in one call and not in another.
    pub(super) fn read_cluster(
        &self,
        cluster: PhysicalCluster,
        from: usize,
        out: &mut [u8],
        depth: DecodeDepth,
    ) -> Result<()> {
        // Saturating, because the offset is not checked before a slice is missing.
        let end = from.saturating_add(out.len());
        match self.read_slices(cluster, from, out, depth) {
            Err(Error::Corrupt { .. }) if end < cluster.len => {
                // Past the cache: the readable part of a damaged cluster must not be mistaken for the whole.
                let mut plain = vec![0; end];
                self.decode(&[PhysicalCluster { partial: true, len: end, ..cluster }], &mut plain)?;
                out.copy_from_slice(&plain[from..]);
                Ok(())
            }
            result => result,
        }
    }

    /// Fills `out` as [`ErofsReader::read_cluster`] does, from a sound cluster.
    fn read_slices(
        &self,
        cluster: PhysicalCluster,
        mut from: usize,
        mut out: &mut [u8],
        depth: DecodeDepth,
    ) -> Result<()> {
        let end = from.saturating_add(out.len());
        while !out.is_empty() {
            let slice = self.slice(cluster, from / SLICE, end, depth)?;
            let rest = slice.get(from % SLICE..).unwrap_or_default();
            let n = rest.len().min(out.len());
            // The caller keeps within the extent, so this is a mistake of the reader itself.
            if n == 0 {
                return Err(Error::Misuse(format!("byte {from} of an extent of {} bytes", cluster.len)));
            }
            let (head, tail) = out.split_at_mut(n);
            head.copy_from_slice(&rest[..n]);
            from += n;
            out = tail;
        }
        Ok(())
    }

    /// Returns slice number `n` of a decoded extent, of which the bytes up to `end` are wanted. Only one thread decodes
    /// an extent, even if others wait for other slices of it.
    fn slice(&self, cluster: PhysicalCluster, n: usize, end: usize, depth: DecodeDepth) -> Result<SharedBlock> {
        let decoded = &self.clusters.decoded;
        if let Some(slice) = decoded.peek(&(cluster, n)) {
            return Ok(slice);
        }
        // Threads that want any slice of an extent first wait for the first one that is missing, so one of
        // them decodes.
        let first = (0..n).find(|first| decoded.peek(&(cluster, *first)).is_none());
        // A reader that comes back for more than was decoded wants the rest, too.
        let decode = |n: usize| {
            let depth = if n == 0 { depth } else { DecodeDepth::Whole };
            let beginning = Some(end).filter(|_| depth == DecodeDepth::Wanted).and_then(|end| beginning(cluster, end));
            self.decode_slices(cluster, n, beginning)
        };
        if let Some(first) = first {
            decoded.get((cluster, first), || decode(first))?;
        }
        decoded.get((cluster, n), || decode(n))
    }

    /// Decodes an extent, or the first `beginning` bytes of it; returns slice number `n` and caches those after it. As
    /// threads wait for the slices of others only in ascending order, none waits for ever.
    fn decode_slices(&self, cluster: PhysicalCluster, n: usize, beginning: Option<usize>) -> Result<SharedBlock> {
        // Room for all slices is made first; otherwise they would replace each other.
        self.clusters.decoded.reserve(CACHE_MIN + 2 * cluster.len as u64);
        let wanted = beginning.map_or(cluster, |len| PhysicalCluster { partial: true, len, ..cluster });
        self.clusters.stock.lend(ClusterDecoders::default, |tools| {
            let mut plain = std::mem::take(&mut tools.plain);
            if plain.len() < wanted.len {
                plain.resize(wanted.len, 0);
            }
            let bytes = plain.get_mut(..wanted.len).unwrap_or_default();
            let result = self.decode_with(tools, &[wanted], bytes).and_then(|()| {
                for (n, slice) in bytes.chunks(SLICE).enumerate().skip(n + 1) {
                    // `get` keeps what is there already, decoded by another thread.
                    self.clusters.decoded.get((cluster, n), || Result::Ok(self.clusters.shelf.copy(slice)))?;
                }
                let slice = bytes.chunks(SLICE).nth(n);
                slice
                    .map(|slice| self.clusters.shelf.copy(slice))
                    .ok_or_else(|| Error::Misuse(format!("an extent has no slice {n}")))
            });
            // A long extent would otherwise keep its memory for each thread.
            if plain.len() <= PLAIN_MAX {
                tools.plain = plain;
            }
            result
        })
    }

    /// Decodes consecutive clusters into `out`, whose length is that of their extents together.
    pub(super) fn decode(&self, clusters: &[PhysicalCluster], out: &mut [u8]) -> Result<()> {
        self.clusters.stock.lend(ClusterDecoders::default, |tools| self.decode_with(tools, clusters, out))
    }

    /// Refuses a cluster that Linux cannot decode, or decodes to other bytes; `out` has the length of its extent.
    pub(super) fn verify(&self, cluster: PhysicalCluster, out: &mut [u8]) -> Result<()> {
        self.clusters.stock.lend(ClusterDecoders::default, |tools| {
            // `decode_with` takes its decoders from `tools`, so the strict ones stand in for the others.
            std::mem::swap(&mut tools.decoders, &mut tools.strict);
            let made = self.make_strict(&mut tools.decoders, cluster.algorithm);
            let result = made.and_then(|()| self.decode_with(tools, &[cluster], out));
            std::mem::swap(&mut tools.decoders, &mut tools.strict);
            result
        })?;
        if self.is_stranded(cluster)? {
            let why =
                format!("Linux cannot read it: only the end of its {} bytes lies on its last page", cluster.stored.len);
            return Err(Error::corrupt(STRUCTURE, cluster.stored.place.byte(), why));
        }
        Ok(())
    }

    /// Makes the strict decoder of an algorithm, if there is none.
    fn make_strict(&self, decoders: &mut DecoderTable, algorithm: u8) -> Result<()> {
        if let (Some(none @ None), Some(codec)) =
            (decoders.get_mut(usize::from(algorithm)), Codec::from_erofs_id(algorithm))
        {
            // Without a record, any window is allowed: images from before there were records have only LZ4.
            let announced = self.superblock.compression.iter().find(|one| one.number() == algorithm);
            *none = Some(codec.strict_cluster_decoder(announced.map_or(u32::MAX, ErofsCompression::window))?);
        }
        Ok(())
    }

    /// Returns true if Linux cannot read a cluster to its end because of its position: see [`page_end`].
    fn is_stranded(&self, cluster: PhysicalCluster) -> Result<bool> {
        let PhysicalCluster { stored, space, algorithm, partial, len } = cluster;
        let (StoredPosition::Image(start) | StoredPosition::Device(_, start)) = stored.place else { return Ok(false) };
        let stranded = page_end::stranded(algorithm, start, stored.len);
        // Of a partial one Linux decodes only as much as it needs.
        if stranded == 0 || partial {
            return Ok(false);
        }
        let mut bytes = vec![0; usize::try_from(stored.len).unwrap_or(0)];
        self.read_stored(STRUCTURE, space, stored.place, &mut bytes)?;
        // The whole extent decodes without the bytes on the last page.
        bytes.truncate(usize::try_from(stored.len - stranded).unwrap_or(0));
        let start = StoredBytes { len: stored.len - stranded, ..stored };
        // Decoders of its own, as those at hand may be the strict ones.
        let mut tools = ClusterDecoders::default();
        let decoded = self.decode_one(
            &mut tools.decoders,
            &PhysicalCluster { stored: start, partial: true, ..cluster },
            &bytes,
            &mut vec![0; len],
        );
        Ok(decoded.is_ok())
    }

    fn decode_with(&self, tools: &mut ClusterDecoders, clusters: &[PhysicalCluster], mut out: &mut [u8]) -> Result<()> {
        let Some(PhysicalCluster { stored: StoredBytes { place, .. }, space, .. }) = clusters.first() else {
            return Ok(());
        };
        let ClusterDecoders { decoders, stored, .. } = tools;
        // Saturating: the sum comes from the image, and nothing that long is read.
        let len = clusters.iter().map(|cluster| cluster.stored.len).fold(0, u64::saturating_add);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if stored.len() < len {
            stored.resize(len, 0);
        }
        let mut bytes = stored.get_mut(..len).unwrap_or_default();
        // One read, because the clusters are consecutive.
        self.read_stored(STRUCTURE, *space, *place, bytes)?;
        for cluster in clusters {
            // Both buffers hold the data of all clusters together.
            let (packed, packed_rest) = bytes.split_at_mut(usize::try_from(cluster.stored.len).unwrap_or(len));
            let (plain, plain_rest) = out.split_at_mut(cluster.len);
            self.decode_one(decoders, cluster, packed, plain)?;
            bytes = packed_rest;
            out = plain_rest;
        }
        Ok(())
    }

    fn decode_one(
        &self,
        decoders: &mut DecoderTable,
        cluster: &PhysicalCluster,
        bytes: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let PhysicalCluster { stored, algorithm, partial, .. } = *cluster;
        let wrong = |why: String| Error::corrupt(STRUCTURE, stored.place.byte(), why);
        let padded = self.is_padded(algorithm);
        let stream = if padded { self.without_padding(stored, bytes).map_err(wrong)? } else { bytes };
        let decoder = match (decoders.get_mut(usize::from(algorithm)), Codec::from_erofs_id(algorithm)) {
            (Some(Some(decoder)), _) => decoder,
            (Some(none), Some(codec)) => none.insert(codec.cluster_decoder()?),
            _ => return Err(wrong(format!("unknown algorithm {algorithm}"))),
        };
        // Without padding, any bytes may follow the stream, and a partial extent ends before its stream does.
        let decoded =
            if partial || !padded { decoder.decode_prefix(stream, out) } else { decoder.decode(stream, out).map(drop) };
        decoded.map_err(|error| match error {
            packfs_codec::Error::Corrupt { .. } => wrong(error.to_string()),
            other => other.into(),
        })
    }

    /// Returns true if streams are at the end of their clusters. Those of LZ4 originally were not,
    /// and any bytes may follow them.
    pub(super) fn is_padded(&self, algorithm: u8) -> bool {
        algorithm != algorithm::LZ4 || self.superblock.incompat.contains(Incompat::ZERO_PADDING)
    }

    /// Returns the stream at the end of a cluster. No stream begins with a zero, and none begins
    /// after the first block.
    fn without_padding<'s>(&self, stored: StoredBytes, bytes: &'s [u8]) -> std::result::Result<&'s [u8], String> {
        let block = u64::from(self.superblock.block_size);
        // Up to the end of the first block, where Linux looks for the stream too (`z_erofs_fixup_insize`).
        let left = usize::try_from(block - stored.place.byte() % block).unwrap_or(bytes.len());
        let start = bytes.iter().take(left).position(|byte| *byte != 0);
        start.and_then(|start| bytes.get(start..)).ok_or_else(|| "no stream begins in its first block".into())
    }
}

/// Returns the number of bytes to decode for those up to `end`, unless decoding the whole extent takes about as long.
fn beginning(cluster: PhysicalCluster, end: usize) -> Option<usize> {
    let piece = Codec::from_erofs_id(cluster.algorithm).and_then(Codec::piece_len)?;
    // As for SquashFS: nearly all of it is not worth another decoding later.
    Some(end.next_multiple_of(piece.max(SLICE))).filter(|len| *len <= cluster.len / 4 * 3)
}
