//! Locations of file data for an image that refers to this one instead of copying the data.

use super::ErofsReader;
use super::compression::ErofsCompression;
use super::data::{self, InodeData};
use super::inode::Inode;
use super::map::{MappedExtent, PieceStorage, StoredBytes, StoredPosition};
use crate::Result;
use crate::erofs::format::Layout;
use crate::erofs::raw_sharing::PAGE_LEN;
use crate::image::Nid;
use crate::placement::Area;
use crate::source::{ClusterDecoder, ClusteredImage, DataRun, ExtentStorage, PackedStream, StayingData, StoredExtent};

impl ErofsReader {
    /// Returns where the bytes of a file are; `None` if another image cannot refer to all of them.
    pub(crate) fn staying_data(&self, nid: Nid) -> Result<Option<StayingData>> {
        let inode = self.file(nid)?;
        let file = InodeData::open(self, &inode)?;
        match inode.layout {
            Layout::Plain | Layout::Chunks => Ok(self.runs(&file)?.map(StayingData::Runs)),
            Layout::Inline => self.tailed(&inode, &file),
            Layout::CompressedFull | Layout::CompressedCompact => {
                Ok(self.stored_extents(&inode, &file)?.map(StayingData::Extents))
            }
        }
    }

    /// Returns what another image has to know of this one to refer to its compressed files.
    pub(crate) fn clustered_image(&self) -> Result<ClusteredImage> {
        let decoders = self.superblock.compression.iter().map(|one| self.decoder(one)).collect();
        let packed = self.packed.as_ref().map(|inode| self.packed_stream(inode)).transpose()?.flatten();
        let block_size = self.superblock.block_size;
        Ok(ClusteredImage { block_size, decoders, features: self.superblock.incompat.bits(), packed })
    }

    fn decoder(&self, compression: &ErofsCompression) -> ClusterDecoder {
        let cluster_len = match compression {
            ErofsCompression::Lz4 { max_cluster_blocks, .. } => {
                // Of LZ4, another image has to declare clusters at least as long.
                u32::from(*max_cluster_blocks) * self.superblock.block_size
            }
            _ => 0,
        };
        ClusterDecoder { algorithm: compression.number(), window: compression.window(), cluster_len }
    }

    /// Returns the packed inode; `None` if it cannot be joined with those of other images.
    fn packed_stream(&self, inode: &Inode) -> Result<Option<PackedStream>> {
        // Only a compressed one can be appended to, cluster by cluster.
        if !matches!(inode.layout, Layout::CompressedFull | Layout::CompressedCompact) || inode.size == 0 {
            return Ok(None);
        }
        let Some(extents) = self.stored_extents(inode, &InodeData::open(self, inode)?)? else { return Ok(None) };
        // A part that follows the inode does not come along when the inode is written anew.
        if extents.iter().any(|extent| matches!(extent.storage, ExtentStorage::Inline { .. })) {
            return Ok(None);
        }
        // The bytes of the last page come along: what is appended to the packed inode begins within it.
        let start = (inode.size - 1) / PAGE_LEN * PAGE_LEN;
        let mut end = vec![0; usize::try_from(inode.size - start).unwrap_or(0)];
        data::read_file(self, inode, &mut end, start)?;
        Ok(Some(PackedStream { len: inode.size, extents, end: end.into() }))
    }

    /// Returns the runs of uncompressed blocks.
    fn runs(&self, file: &InodeData<'_>) -> Result<Option<Vec<DataRun>>> {
        let mut runs = Vec::<DataRun>::new();
        let mut stays = true;
        file.each_from(0, &mut |MappedExtent { logical, len, data }| {
            if let PieceStorage::Plain { stored, .. } = data {
                let Some(at) = self.position(StoredBytes { len, ..stored }) else {
                    stays = false;
                    return Ok(false);
                };
                // Blocks that follow each other in both are one run.
                match runs.last_mut() {
                    Some(last) if (last.offset + last.len, last.at + last.len) == (logical, at) => last.len += len,
                    _ => runs.push(DataRun { offset: logical, len, at }),
                }
            }
            Ok(true)
        })?;
        Ok(stays.then_some(runs))
    }

    /// Returns the blocks of a file of which the last part follows the inode.
    fn tailed(&self, inode: &Inode, file: &InodeData<'_>) -> Result<Option<StayingData>> {
        let mut start = None;
        let mut tail = Vec::new();
        let mut stays = true;
        file.each_from(0, &mut |extent| {
            match extent.data {
                PieceStorage::Plain { stored: StoredBytes { place: StoredPosition::Meta(_), .. }, .. } => {
                    tail.resize(usize::try_from(extent.len).unwrap_or(0), 0);
                    file.read_extent(&extent, 0, &mut tail)?;
                }
                PieceStorage::Plain { stored, .. } => {
                    start = self.position(stored);
                    stays &= start.is_some();
                }
                _ => stays = false,
            }
            Ok(stays)
        })?;
        // All data is in blocks or after the inode.
        stays &= start.is_some() || inode.size == tail.len() as u64;
        Ok(stays.then(|| StayingData::Tailed { start, tail: tail.into() }))
    }

    /// Returns the extents of a compressed file.
    fn stored_extents(&self, inode: &Inode, file: &InodeData<'_>) -> Result<Option<Vec<StoredExtent>>> {
        let mut extents = Vec::new();
        let mut stays = true;
        file.each_from(0, &mut |extent| {
            match self.extent_storage(inode, extent)? {
                Some(storage) => extents.push(StoredExtent { len: extent.len, storage }),
                None => stays = false,
            }
            Ok(stays)
        })?;
        Ok(stays.then_some(extents))
    }

    fn extent_storage(&self, inode: &Inode, extent: MappedExtent) -> Result<Option<ExtentStorage>> {
        let (stored, algorithm, is_partial) = match extent.data {
            PieceStorage::Hole => return Ok(Some(ExtentStorage::Hole)),
            PieceStorage::Fragment(at) => return Ok(Some(ExtentStorage::Packed(at))),
            // The bytes of a rotated cluster are in their order if it is one block, which begins with a block of the file.
            PieceStorage::Plain { stored, rotated: true }
                if stored.len > self.superblock.block_size.into()
                    || !extent.logical.is_multiple_of(self.superblock.block_size.into()) =>
            {
                return Ok(None);
            }
            PieceStorage::Plain { stored, .. } => (stored, None, false),
            // The new image says that all streams end where their clusters end.
            PieceStorage::Packed { algorithm, .. } if !self.is_padded(algorithm) => return Ok(None),
            PieceStorage::Packed { stored, algorithm, partial } => (stored, Some(algorithm), partial),
        };
        if let StoredPosition::Meta(_) = stored.place {
            let mut bytes = vec![0; usize::try_from(stored.len).unwrap_or(0)];
            // Copied, as it lies where the inode is, and the new image has an inode of its own.
            self.read_stored("data", inode.payload.space, stored.place, &mut bytes)?;
            return Ok(Some(ExtentStorage::Inline { bytes: bytes.into(), algorithm }));
        }
        // Longer clusters do not exist in a sound image.
        let Ok(len) = u32::try_from(stored.len) else { return Ok(None) };
        let cluster = |start| ExtentStorage::Cluster { start, len, algorithm, is_partial };
        Ok(self.position(stored).map(cluster))
    }

    /// Returns the offset in the image of stored bytes; `None` if they follow an inode, or lie on a device or beyond the
    /// end. A copy of the latter fails.
    fn position(&self, stored: StoredBytes) -> Option<u64> {
        let (area, offset) = match stored.place {
            StoredPosition::Image(byte) => self.disk.locate(0, byte),
            StoredPosition::Device(device, byte) => self.disk.locate(device, byte),
            StoredPosition::Meta(_) => return None,
        };
        // A file that was cut off may still be read by others, but not referred to.
        let is_held = offset.checked_add(stored.len).is_some_and(|end| end <= self.disk.len());
        (area == Area::Image && is_held).then_some(offset)
    }
}
