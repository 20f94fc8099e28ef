//! Reads file contents. Plain bytes are read, and whole extents decoded, straight into the caller's
//! buffer; parts of extents, and of the packed inode, go through the cache.

mod announce;
mod stretch;

use std::collections::VecDeque;
use std::sync::Mutex;

use packfs_blocks::mutex;

use super::ErofsReader;
use super::decode::{DecodeDepth, PhysicalCluster};
use super::inode::Inode;
use super::map::{
    AnnouncedFeatures, ExtentMap, IndexBytes, MappedExtent, MappedInode, PieceStorage, StoredBytes, StoredPosition,
};
use super::metadata::{MetadataAddress, OffsetSpace};
use crate::erofs::format::{CLUSTER_MAX, Incompat, algorithm};
use crate::image::Extent;
use crate::{Error, Result};

pub(super) use self::announce::{DeviceRange, announce};
pub(super) use self::stretch::stretch;

/// Plain data is reported in pieces of this length, for several threads to read.
const PIECE: u64 = 1 << 20;
/// Approximate maximum number of pieces reported for a file.
const PIECES: u64 = 1 << 20;
/// Number of extents of the packed inode that are remembered: one or two for each of a few threads.
const RECENT: usize = 8;

/// The most recently used extents of the packed inode. Files in one extent are mostly read one
/// after the other, and then need no search.
#[derive(Debug, Default)]
pub(super) struct RecentExtents(Mutex<VecDeque<MappedExtent>>);

impl RecentExtents {
    /// Returns the extent that holds the `len` bytes from `offset` on.
    fn find(&self, offset: u64, len: u64) -> Option<MappedExtent> {
        let holds = |extent: &&MappedExtent| {
            offset.checked_sub(extent.logical).is_some_and(|skip| skip.saturating_add(len) <= extent.len)
        };
        mutex::lock(&self.0).iter().find(holds).copied()
    }

    fn keep(&self, extent: MappedExtent) {
        let mut extents = mutex::lock(&self.0);
        if !extents.contains(&extent) {
            // Before the new one is added, so the oldest drops out.
            extents.truncate(RECENT - 1);
            extents.push_front(extent);
        }
    }
}

/// The data of an inode.
#[derive(Debug)]
pub(super) struct InodeData<'r> {
    source: IndexSource<'r>,
    map: ExtentMap,
    /// Position of the inode's map.
    place: MetadataAddress,
    /// True if parts of it may be in the packed inode.
    may_have_fragments: bool,
    /// Extents read lately, if this is the packed inode.
    recent: Option<&'r RecentExtents>,
}

/// Position of the index of a file.
#[derive(Debug, Clone, Copy)]
struct IndexSource<'r> {
    reader: &'r ErofsReader,
    space: OffsetSpace,
}

impl IndexBytes for IndexSource<'_> {
    fn read(&self, structure: &'static str, byte: u64, buf: &mut [u8]) -> Result<()> {
        self.reader.read_meta(structure, MetadataAddress { space: self.space, byte }, buf)
    }

    fn error(&self, structure: &'static str, byte: u64, why: String) -> Error {
        MetadataAddress { space: self.space, byte }.error(structure, why)
    }
}

/// Reads from the data of an inode; returns fewer bytes than `buf` holds only at its end.
pub(super) fn read_file(reader: &ErofsReader, inode: &Inode, buf: &mut [u8], offset: u64) -> Result<usize> {
    let left = inode.size.saturating_sub(offset);
    let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
    // At most what is left of the file.
    let buf = &mut buf[..len];
    if !buf.is_empty() {
        InodeData::open(reader, inode)?.read(buf, offset)?;
    }
    Ok(len)
}

/// See [`Image::extents`](crate::Image::extents). Compressed extents decode to at most 12 MiB;
/// plain data is cut into pieces.
pub(super) fn extents(reader: &ErofsReader, inode: &Inode) -> Result<Vec<Extent>> {
    let mut pieces =
        FoundExtents { out: Vec::new(), piece_max: PIECE.max((inode.size / PIECES).next_multiple_of(PIECE)) };
    // An empty file need not have an index at all.
    if inode.size > 0 {
        InodeData::open(reader, inode)?.add_pieces(0, inode.size, 0, &mut pieces)?;
    }
    Ok(pieces.out)
}

impl<'r> InodeData<'r> {
    /// Opens the data of an inode.
    pub(super) fn open(reader: &'r ErofsReader, inode: &Inode) -> Result<InodeData<'r>> {
        let source = IndexSource { reader, space: inode.payload.space };
        let facts = MappedInode {
            size: inode.size,
            layout: inode.layout,
            start_block: inode.start_block(),
            chunk_format: u16::try_from(inode.data & 0xffff).unwrap_or(0),
            payload: inode.payload.byte,
            block_bits: reader.superblock.block_bits(),
        };
        // The packed inode and the metabox have no fragments: these would lead back to themselves.
        let is_special = [&reader.packed, &reader.metabox].into_iter().flatten().any(|other| other.nid == inode.nid);
        let map = ExtentMap::open(&source, &facts)?;
        Ok(InodeData { source, map, place: inode.place, may_have_fragments: !is_special, recent: None })
    }

    /// Calls `wrong` for each defect in the inode's map, whose data is not read; returns true if the map has
    /// uncompressed extents of several blocks.
    ///
    /// # Errors
    ///
    /// Damage that stopped the check.
    pub(super) fn check_map(&self, wrong: &mut dyn FnMut(Error)) -> Result<bool> {
        let superblock = &self.source.reader.superblock;
        // Without records, LZ4 is implied.
        let implied = u16::from(!superblock.incompat.contains(Incompat::BIG_CLUSTERS)) << algorithm::LZ4;
        let algorithms = superblock.compression.iter().fold(implied, |bits, one| bits | 1 << one.number());
        self.map.check(&self.source, AnnouncedFeatures { incompat: superblock.incompat, algorithms }, wrong)
    }

    /// Returns true if the map has uncompressed extents of several blocks, other than encoded ones.
    pub(super) fn has_long_raw(&self) -> Result<bool> {
        self.map.has_long_raw(&self.source)
    }

    /// Returns the end of the inode's index, or of the inode if it has none.
    pub(super) fn index_end(&self) -> u64 {
        self.map.index_end()
    }

    /// Returns the features that the map uses, with their names.
    pub(super) fn needs(&self) -> Vec<(Incompat, &'static str)> {
        self.map.needs()
    }

    /// Calls `visit` for each extent, in order.
    pub(super) fn each(&self, visit: &mut dyn FnMut(&MappedExtent) -> Result<()>) -> Result<()> {
        self.each_from(0, &mut |extent| visit(&extent).map(|()| true))
    }

    /// Calls `visit` for each extent from the one that holds byte `offset` on, until it returns false.
    pub(super) fn each_from(&self, offset: u64, visit: &mut dyn FnMut(MappedExtent) -> Result<bool>) -> Result<()> {
        // The walk begins with the extent that holds the offset, not with the offset.
        let mut walk = self.map.walk(&self.source, offset);
        let mut at = None;
        while let Some(extent) = walk.next()? {
            let continues = match at {
                Some(at) => extent.logical == at,
                None => extent.logical <= offset,
            };
            // Without progress the walk would never end.
            if !continues || extent.len == 0 {
                let at = at.unwrap_or(offset);
                return Err(self.error(format!("its extent at byte {} does not begin at byte {at}", extent.logical)));
            }
            at = Some(extent.logical.saturating_add(extent.len));
            if !visit(extent)? {
                break;
            }
        }
        Ok(())
    }

    /// Fills `buf` from byte `offset`; the file has at least that many bytes after it.
    fn read(&self, mut buf: &mut [u8], mut offset: u64) -> Result<()> {
        // From one extent to the next without a search.
        let mut walk = self.map.walk(&self.source, offset);
        let begin = offset;
        let mut run = AdjacentClusters::default();
        while run.out < buf.len() {
            let Some(extent) = walk.next()? else { return Err(self.error("its data ends before its size")) };
            let skip = offset.saturating_sub(extent.logical);
            let left = usize::try_from(extent.len.saturating_sub(skip)).unwrap_or(usize::MAX);
            if left == 0 {
                return Err(self.error("an extent without data"));
            }
            if let Some(recent) = self.recent {
                recent.keep(extent);
            }
            let n = left.min(buf.len() - run.out);
            offset += n as u64;
            // Only whole clusters can be decoded straight into the buffer.
            let whole = self.cluster(&extent).filter(|cluster| cluster.len == n);
            if whole.as_ref().is_none_or(|cluster| !run.takes(cluster)) {
                // The run has to be decoded before what comes after it: both fill the buffer from its front.
                buf = run.decode(self.source.reader, buf)?;
            }
            match whole {
                Some(cluster) => run.push(cluster),
                None => {
                    let (part, rest) = buf.split_at_mut(n);
                    match self.cluster(&extent).filter(|_| extent.logical > begin) {
                        // The read came from the extent before, so the next one probably continues in this one.
                        Some(cluster) => self.source.reader.read_cluster(cluster, 0, part, DecodeDepth::Whole)?,
                        None => self.read_extent(&extent, skip, part)?,
                    }
                    buf = rest;
                }
            }
        }
        // The last clusters of the buffer.
        run.decode(self.source.reader, buf).map(drop)
    }

    /// Returns the cluster of a compressed extent.
    fn cluster(&self, extent: &MappedExtent) -> Option<PhysicalCluster> {
        // Only these have clusters.
        let PieceStorage::Packed { stored, algorithm, partial } = extent.data else { return None };
        let len = usize::try_from(extent.len).ok()?;
        Some(PhysicalCluster { stored, space: self.source.space, algorithm, partial, len })
    }

    /// Reads an extent for a check; if it is compressed, `out` must have room for all of it.
    /// Refuses data that Linux cannot read, or reads as other bytes.
    pub(super) fn verify_extent(&self, extent: &MappedExtent, skip: u64, out: &mut [u8]) -> Result<()> {
        // A check asks for whole compressed extents; everything else is read as usual.
        match self.cluster(extent).filter(|cluster| cluster.len == out.len()) {
            Some(cluster) => self.source.reader.verify(cluster, out),
            None => self.read_extent(extent, skip, out),
        }
    }

    /// Fills `out` from byte `skip` of an extent, whose end it does not exceed.
    pub(super) fn read_extent(&self, extent: &MappedExtent, skip: u64, out: &mut [u8]) -> Result<()> {
        let IndexSource { reader, space } = self.source;
        match extent.data {
            PieceStorage::Hole => {
                out.fill(0);
                Ok(())
            }
            PieceStorage::Fragment(offset) => self.read_packed(offset.saturating_add(skip), out),
            PieceStorage::Plain { stored, rotated: false } => {
                reader.read_stored("data", space, stored.place.skip(skip), out)
            }
            PieceStorage::Plain { stored, rotated: true } => self.read_rotated(extent, stored, skip, out),
            PieceStorage::Packed { .. } => {
                // No buffer is that long.
                let bad = || self.error("an extent exceeds the maximum length");
                let cluster = self.cluster(extent).ok_or_else(bad)?;
                // Straight into the buffer, without the cache.
                if out.len() == cluster.len {
                    return reader.decode(&[cluster], out);
                }
                let from = usize::try_from(skip).unwrap_or(usize::MAX);
                // Bytes after the extent are not of this file, even if the stream has more.
                from.checked_add(out.len()).filter(|end| *end <= cluster.len).ok_or_else(bad)?;
                reader.read_cluster(cluster, from, out, DecodeDepth::Wanted)
            }
        }
    }

    /// In a rotated cluster, the bytes up to the end of their first block in the file are at the
    /// same offset of the cluster's last block, the others at the cluster's beginning.
    fn read_rotated(&self, extent: &MappedExtent, stored: StoredBytes, skip: u64, out: &mut [u8]) -> Result<()> {
        let IndexSource { reader, space } = self.source;
        let block = u64::from(reader.superblock.block_size);
        let first = block - extent.logical % block;
        // The first block of a rotated cluster is as long as what is left of the block of the file where the
        // extent begins.
        let Some(base) = stored.len.checked_sub(first) else {
            return Err(self.error("a rotated cluster of less than a block"));
        };
        let n = usize::try_from(first.saturating_sub(skip)).unwrap_or(usize::MAX).min(out.len());
        let (head, rest) = out.split_at_mut(n);
        if !head.is_empty() {
            reader.read_stored("data", space, stored.place.skip(base + skip), head)?;
        }
        if !rest.is_empty() {
            let from = (skip + head.len() as u64) - first;
            reader.read_stored("data", space, stored.place.skip(from), rest)?;
        }
        Ok(())
    }

    /// Fills `out` from byte `offset` of the packed inode.
    fn read_packed(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let len = out.len() as u64;
        let inode = self.packed_inode(offset, len)?;
        let reader = self.source.reader;
        match reader.recent.find(offset, len).filter(|extent| matches!(extent.data, PieceStorage::Packed { .. })) {
            // Positions after an inode count from where the inode is: both have to be in the same space.
            Some(extent) if inode.payload.space == self.source.space => {
                self.read_extent(&extent, offset - extent.logical, out)
            }
            _ => self.open_packed(inode)?.read(out, offset),
        }
    }

    /// Returns the packed inode, which must have `len` bytes from `offset` on.
    pub(super) fn packed_inode(&self, offset: u64, len: u64) -> Result<&'r Inode> {
        let reader = self.source.reader;
        let Some(packed) = reader.packed.as_ref().filter(|_| self.may_have_fragments) else {
            let why = if self.may_have_fragments { "the image has no packed inode" } else { "it would contain itself" };
            return Err(self.error(format!("a part is in the packed inode, but {why}")));
        };
        // Fragments are given by untrusted offsets.
        if offset.checked_add(len).is_none_or(|end| end > packed.size) {
            let why = format!("{len} bytes at offset {offset} of the packed inode, which has {}", packed.size);
            return Err(self.error(why));
        }
        Ok(packed)
    }

    fn open_packed(&self, inode: &Inode) -> Result<InodeData<'r>> {
        let reader = self.source.reader;
        Ok(InodeData { recent: Some(&reader.recent), ..InodeData::open(reader, inode)? })
    }

    /// Adds the pieces of the `len` bytes from `offset` on. They begin at byte `to` of the file that is asked about,
    /// which is another one if this is the packed inode.
    fn add_pieces(&self, offset: u64, len: u64, to: u64, out: &mut FoundExtents) -> Result<()> {
        let end = offset.saturating_add(len);
        let mut walk = self.map.walk(&self.source, offset);
        let mut at = offset;
        while at < end {
            let Some(extent) = walk.next()? else { return Err(self.error("its data ends before its size")) };
            let n = extent.logical.saturating_add(extent.len).min(end).saturating_sub(at);
            if n == 0 {
                return Err(self.error("an extent without data"));
            }
            if let Some(recent) = self.recent {
                recent.keep(extent);
            }
            let to = to + (at - offset);
            match extent.data {
                PieceStorage::Hole => out.add_hole(to, n),
                PieceStorage::Fragment(from) => {
                    let from = from.saturating_add(at - extent.logical);
                    let packed = self.packed_inode(from, n)?;
                    match self.source.reader.recent.find(from, n) {
                        // It is in one extent of the packed inode, so it is one piece of the file as well.
                        Some(MappedExtent { data: PieceStorage::Packed { .. }, .. }) => out.add_data(to, n),
                        _ => self.open_packed(packed)?.add_pieces(from, n, to, out)?,
                    }
                }
                PieceStorage::Plain { stored, .. } => {
                    // A length from the image would otherwise make millions of pieces.
                    self.check_last_byte(stored)?;
                    out.add_plain(to, n);
                }
                PieceStorage::Packed { .. } => out.add_data(to, n),
            }
            at += n;
        }
        Ok(())
    }

    /// Refuses data that extends past the end of the image although the `len` bytes in use do not.
    pub(super) fn check_stored(&self, stored: StoredBytes, len: u64) -> Result<()> {
        self.check_last_byte(stored)?;
        let IndexSource { reader, space } = self.source;
        match stored.len.checked_sub(1).filter(|_| stored.len > len) {
            // If the last byte can be read, all can.
            Some(last) => reader.read_stored("data", space, stored.place.skip(last), &mut [0]),
            None => Ok(()),
        }
    }

    /// Refuses data that extends past the end of the image before it becomes many pieces.
    pub(super) fn check_last_byte(&self, stored: StoredBytes) -> Result<()> {
        let IndexSource { reader, space } = self.source;
        // Shorter ones are one piece, and fail when it is read.
        match stored.len.checked_sub(1).filter(|last| *last >= PIECE) {
            Some(last) => reader.read_stored("data", space, stored.place.skip(last), &mut [0]),
            None => Ok(()),
        }
    }

    /// Makes an error about this inode.
    fn error(&self, why: impl Into<String>) -> Error {
        self.place.error("inode", why)
    }
}

/// Consecutive clusters, as most of a file's are, which are read at once.
#[derive(Default)]
struct AdjacentClusters {
    clusters: Vec<PhysicalCluster>,
    /// End of the run; `None` if it is empty.
    end: Option<StoredPosition>,
    /// Number of stored bytes.
    stored: u64,
    /// Number of decoded bytes: those at the beginning of the buffer to fill.
    out: usize,
}

impl AdjacentClusters {
    /// Returns true if a cluster continues the run, or the run is empty.
    fn takes(&self, cluster: &PhysicalCluster) -> bool {
        let StoredBytes { place, len } = cluster.stored;
        // Bounded, since all stored bytes of a run are in memory at once.
        self.end.is_none_or(|end| end == place && self.stored + len <= CLUSTER_MAX)
    }

    fn push(&mut self, cluster: PhysicalCluster) {
        let StoredBytes { place, len } = cluster.stored;
        self.end = Some(place.skip(len));
        self.stored += len;
        self.out += cluster.len;
        self.clusters.push(cluster);
    }

    /// Decodes the run into the beginning of `buf` and returns the rest; the run is then empty.
    fn decode<'b>(&mut self, reader: &ErofsReader, buf: &'b mut [u8]) -> Result<&'b mut [u8]> {
        let (part, rest) = buf.split_at_mut(self.out);
        reader.decode(&self.clusters, part)?;
        self.clusters.clear();
        self.end = None;
        self.stored = 0;
        self.out = 0;
        Ok(rest)
    }
}

/// Extents found so far.
struct FoundExtents {
    out: Vec<Extent>,
    /// Maximum length of a piece of plain data.
    piece_max: u64,
}

impl FoundExtents {
    fn add_hole(&mut self, offset: u64, len: u64) {
        // A hole may have any length, so adjacent ones become one.
        match self.out.last_mut() {
            Some(last) if last.hole => last.len += len,
            _ => self.out.push(Extent { offset, len, hole: true }),
        }
    }

    fn add_data(&mut self, offset: u64, len: u64) {
        self.out.push(Extent { offset, len, hole: false });
    }

    /// Adds plain data in pieces.
    fn add_plain(&mut self, mut offset: u64, mut len: u64) {
        while len > 0 {
            let n = len.min(self.piece_max);
            self.add_data(offset, n);
            offset += n;
            len -= n;
        }
    }
}

#[cfg(test)]
mod tests;
