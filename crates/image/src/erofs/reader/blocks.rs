//! Enumeration of stored blocks: see [`AnyImage::stored_blocks`](crate::AnyImage::stored_blocks).

use packfs_codec::Codec;

use super::ErofsReader;
use super::data::InodeData;
use super::inode::{Inode, InodeType};
use super::map::{PieceStorage, StoredPosition};
use super::metadata::OffsetSpace;
use crate::Result;
use crate::image::Nid;
use crate::placement::Area;
use crate::stored_blocks::{BlockCoding, DecodedLen, FilePosition, StoredBlock};

impl ErofsReader {
    /// Returns the length of the file that the image is in, without additional devices.
    pub(crate) fn image_len(&self) -> u64 {
        self.disk.len()
    }

    /// Calls `visit` for the clusters of the packed inode and of the metabox.
    pub(crate) fn special_blocks(&self, visit: &mut dyn FnMut(StoredBlock)) -> Result<()> {
        for inode in [&self.packed, &self.metabox].into_iter().flatten() {
            self.clusters_of(inode, visit)?;
        }
        Ok(())
    }

    /// Calls `visit` for the clusters of an inode, those in the packed inode left out.
    pub(crate) fn inode_blocks(&self, nid: Nid, visit: &mut dyn FnMut(StoredBlock)) -> Result<()> {
        let inode = self.inode(nid)?;
        match inode.kind {
            InodeType::File | InodeType::Dir | InodeType::Symlink if inode.size > 0 => self.clusters_of(&inode, visit),
            _ => Ok(()),
        }
    }

    fn clusters_of(&self, inode: &Inode, visit: &mut dyn FnMut(StoredBlock)) -> Result<()> {
        InodeData::open(self, inode)?.each(&mut |extent| {
            let PieceStorage::Packed { stored, algorithm, partial } = extent.data else { return Ok(()) };
            let (area, position) = match stored.place {
                StoredPosition::Image(byte) => self.disk.locate(0, byte),
                StoredPosition::Device(device, byte) => self.disk.locate(device, byte),
                StoredPosition::Meta(byte) if inode.payload.space == OffsetSpace::Image => self.disk.locate(0, byte),
                // In a cluster of the metabox, which is listed itself.
                StoredPosition::Meta(_) => return Ok(()),
            };
            let codec = Codec::from_erofs_id(algorithm).filter(|_| self.is_padded(algorithm));
            let (Area::Image, Some(codec)) = (area, codec) else { return Ok(()) };
            let decoded_len = if partial { DecodedLen::AtLeast(extent.len) } else { DecodedLen::Exactly(extent.len) };
            visit(StoredBlock {
                position,
                len: stored.len,
                coding: BlockCoding::Cluster(codec),
                decoded_len,
                continuation: Some(FilePosition { nid: inode.nid, offset: extent.logical.saturating_add(extent.len) }),
            });
            Ok(())
        })
    }
}
