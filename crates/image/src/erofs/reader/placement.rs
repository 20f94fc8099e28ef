//! On-disk facts of single inodes.

use std::ops::{ControlFlow, Range};

use super::ErofsReader;
use super::data::InodeData;
use super::inode::{Inode, InodeType};
use super::map::{MappedExtent, PieceStorage, StoredBytes, StoredPosition};
use super::metadata::OffsetSpace;
use super::xattr;
use crate::Result;
use crate::erofs::format::{Layout, algorithm, chunk_format};
use crate::image::{Nid, StoredPiece, StoredUnit};
use crate::placement::{Area, FragmentPosition, PlacedPiece, StoredLocation};

/// Names of the algorithms, by number.
const ALGORITHMS: [&str; algorithm::COUNT as usize] = ["lz4", "lzma", "deflate", "zstd"];

/// Fields of an inode that its attributes do not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodeFacts {
    /// Space in which `position` counts.
    pub area: Area,
    /// Byte offset of the inode.
    pub position: u64,
    /// True for an extended inode of 64 bytes, false for a compact one of 32.
    pub extended: bool,
    /// Data layout; meaningless for devices, pipes and sockets.
    pub layout: Layout,
    /// Length of the data of a file, directory or symbolic link in bytes.
    pub size: u64,
    /// Number of bytes of extended attributes after the inode.
    pub xattr_bytes: u32,
    /// Number of attributes that are stored there.
    pub inline_xattrs: u32,
    /// Number of attributes that are stored once for several inodes.
    pub shared_xattrs: u32,
    /// Number of blocks of compressed data, as counted by the writer; `None` for other layouts.
    pub compressed_blocks: Option<u64>,
    /// Length of a chunk in bytes, with the layout of chunks.
    pub chunk_size: Option<u64>,
}

/// A part of an inode's data that lies in one extent, of its own or of the packed inode.
pub(super) struct PlacedPart {
    /// Offset in the file.
    pub(super) offset: u64,
    /// Position in the decoded extent.
    pub(super) plain: Range<u64>,
    /// Storage of the extent, never another fragment.
    pub(super) data: PieceStorage,
    /// Space of data that follows the inode.
    pub(super) space: OffsetSpace,
    /// Offset in the packed inode.
    pub(super) fragment: Option<u64>,
}

impl ErofsReader {
    /// Returns the on-disk facts of an inode.
    pub fn facts(&self, nid: Nid) -> Result<InodeFacts> {
        let inode = self.inode(nid)?;
        let (area, position) = match inode.place.space {
            OffsetSpace::Metabox | OffsetSpace::Packed => (Area::Metabox, inode.place.byte),
            OffsetSpace::Image => self.disk.locate(0, inode.place.byte),
        };
        let mut inline_xattrs = 0;
        let mut shared_xattrs = 0;
        xattr::each(self, &inode, &mut |pair| match pair.shared {
            Some(_) => shared_xattrs += 1,
            // Some writers pad with an attribute of zeros.
            None => inline_xattrs += u32::from(!pair.is_padding()),
        })?;
        let is_compressed = matches!(inode.layout, Layout::CompressedFull | Layout::CompressedCompact);
        let compressed_blocks = u64::from(inode.data_high) << 32 | u64::from(inode.data);
        let has_chunks = inode.kind == InodeType::File && inode.layout == Layout::Chunks;
        let chunk_bits = inode.data & u32::from(chunk_format::BITS_MASK);
        Ok(InodeFacts {
            area,
            position,
            extended: inode.extended,
            layout: inode.layout,
            size: if has_data(&inode) { inode.size } else { 0 },
            xattr_bytes: inode.xattr_len,
            inline_xattrs,
            shared_xattrs,
            compressed_blocks: is_compressed.then_some(compressed_blocks),
            chunk_size: has_chunks.then(|| u64::from(self.superblock.block_size) << chunk_bits),
        })
    }

    /// See [`AnyImage::placement`](crate::AnyImage::placement).
    pub(crate) fn placement(&self, nid: Nid, visit: &mut dyn FnMut(PlacedPiece) -> ControlFlow<()>) -> Result<()> {
        let inode = self.inode(nid)?;
        if !has_data(&inode) {
            return Ok(());
        }
        let mut hole: Option<PlacedPiece> = None;
        let flow = self.pieces(&inode, 0..inode.size, &mut |part| {
            let placed = self.placed(&part);
            // Adjacent holes are one piece, although fragments may interrupt the map between them.
            match &mut hole {
                Some(run) if placed.stored.is_none() => run.len = run.len.saturating_add(placed.len),
                None if placed.stored.is_none() => hole = Some(placed),
                _ => {
                    if let Some(run) = hole.take() {
                        visit(run)?;
                    }
                    visit(placed)?;
                }
            }
            ControlFlow::Continue(())
        })?;
        // The last hole, unless the visitor broke off.
        if let Some(run) = hole.filter(|_| flow.is_continue()) {
            let _ = visit(run);
        }
        Ok(())
    }

    /// Calls `visit` for each part of a range of an inode's data until it breaks.
    pub(super) fn pieces(
        &self,
        inode: &Inode,
        range: Range<u64>,
        visit: &mut dyn FnMut(PlacedPart) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut flow = ControlFlow::Continue(());
        if range.is_empty() {
            return Ok(flow);
        }
        let file = InodeData::open(self, inode)?;
        file.each_from(range.start, &mut |extent| {
            if extent.logical >= range.end {
                return Ok(false);
            }
            let plain = overlap(&extent, &range);
            let offset = extent.logical + plain.start;
            flow = match extent.data {
                PieceStorage::Fragment(at) => {
                    // Whole extents are checked: they come from the file's own map.
                    let packed = file.packed_inode(at, extent.len)?;
                    let from = at + plain.start;
                    // The packed inode has no fragments, so this goes one level deep.
                    self.pieces(packed, from..from + (plain.end - plain.start), &mut |part| {
                        visit(PlacedPart { offset: offset + (part.offset - from), fragment: Some(part.offset), ..part })
                    })?
                }
                data => visit(PlacedPart { offset, plain, data, space: inode.payload.space, fragment: None }),
            };
            Ok(flow.is_continue())
        })?;
        Ok(flow)
    }

    /// See [`Image::stored_pieces`](crate::Image::stored_pieces).
    pub(super) fn visit_pieces(&self, nid: Nid, range: Range<u64>, visit: &mut dyn FnMut(StoredPiece)) -> Result<()> {
        let inode = self.inode(nid)?;
        let _ = self.pieces(&inode, range, &mut |part| {
            let len = part.plain.end - part.plain.start;
            let unit = match part.data {
                PieceStorage::Packed { algorithm, partial, .. } => self.placed(&part).stored.map(|stored| StoredUnit {
                    area: match stored.area {
                        Area::Image => 0,
                        Area::Device(device) => device.into(),
                        // Larger than any number of a device.
                        Area::Metabox => u32::MAX,
                    },
                    position: stored.position,
                    len: stored.len,
                    // The same stored bytes decode to the same bytes only if these are equal, too.
                    coding: u32::from(algorithm) << 1 | u32::from(partial),
                }),
                // Plain bytes need no decoding, so there is none to share.
                PieceStorage::Hole | PieceStorage::Plain { .. } | PieceStorage::Fragment(_) => None,
            };
            visit(StoredPiece { offset: part.offset, len, unit, within: part.plain.start });
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    fn placed(&self, part: &PlacedPart) -> PlacedPiece {
        let stored = match part.data {
            PieceStorage::Hole | PieceStorage::Fragment(_) => None,
            // Only the bytes of this fragment: the extent has those of others, too.
            PieceStorage::Plain { stored, rotated: false } if part.fragment.is_some() => {
                let place = stored.place.skip(part.plain.start);
                let len = part.plain.end - part.plain.start;
                Some(self.locate_stored(part, StoredBytes { place, len }, None, false))
            }
            PieceStorage::Plain { stored, .. } => Some(self.locate_stored(part, stored, None, false)),
            PieceStorage::Packed { stored, algorithm, partial } => {
                let codec = ALGORITHMS.get(usize::from(algorithm)).copied();
                Some(self.locate_stored(part, stored, codec, partial))
            }
        };
        let fragment = part.fragment.map(|offset| FragmentPosition { index: None, offset });
        PlacedPiece { offset: part.offset, len: part.plain.end - part.plain.start, stored, fragment }
    }

    fn locate_stored(
        &self,
        part: &PlacedPart,
        stored: StoredBytes,
        codec: Option<&'static str>,
        partial: bool,
    ) -> StoredLocation {
        let (area, position) = match stored.place {
            StoredPosition::Device(device, byte) => self.disk.locate(device, byte),
            StoredPosition::Image(byte) => self.disk.locate(0, byte),
            StoredPosition::Meta(byte) if part.space == OffsetSpace::Image => self.disk.locate(0, byte),
            StoredPosition::Meta(byte) => (Area::Metabox, byte),
        };
        let inline = matches!(stored.place, StoredPosition::Meta(_));
        StoredLocation { area, position, len: stored.len, codec, partial, inline }
    }
}

/// Returns true for the types of inodes that have data.
fn has_data(inode: &Inode) -> bool {
    matches!(inode.kind, InodeType::File | InodeType::Dir | InodeType::Symlink)
}

/// Returns the part of an extent that lies in a range of the file, as offsets in the extent.
fn overlap(extent: &MappedExtent, range: &Range<u64>) -> Range<u64> {
    let end = range.end.saturating_sub(extent.logical).min(extent.len);
    range.start.saturating_sub(extent.logical).min(end)..end
}
