//! Positions of everything that an image stores, for statistics.

use std::ops::{ControlFlow, Range};

use super::ErofsReader;
use super::data::InodeData;
use super::inode::{Inode, InodeType};
use super::map::{PieceStorage, StoredBytes, StoredPosition};
use super::metadata::{MetadataAddress, OffsetSpace};
use super::xattr::{self, LongPrefix};
use crate::Result;
use crate::erofs::format::XattrEntry;
use crate::image::Nid;
use crate::placement::{OccupiedSpace, StoredRange};

/// Alignment of shared xattrs, whose ids count in this unit, and of long prefixes.
const XATTR_UNIT: u64 = 4;
/// Length of a long prefix without its characters.
const PREFIX_HEADER_LEN: u64 = 3;

impl OccupiedSpace for ErofsReader {
    fn len(&self) -> u64 {
        self.disk.total_len()
    }

    fn file(&self, nid: Nid, visit: &mut dyn FnMut(StoredRange)) -> Result<()> {
        let inode = self.inode(nid)?;
        self.data(&inode, 0..inode.size, &mut |piece| match piece {
            FilePartPosition::Data(piece) => visit(piece),
            // The inode's space is metadata, and counted there.
            FilePartPosition::InMetabox(plain) => visit(StoredRange { stored: 0..0, plain, fragment: false }),
        })
    }

    fn inode(&self, nid: Nid, visit: &mut dyn FnMut(&'static str, StoredRange)) -> Result<()> {
        let inode = self.inode(nid)?;
        self.record(&inode, visit)?;
        let what = match inode.kind {
            InodeType::Dir => "directories",
            InodeType::Symlink => "symlink targets",
            _ => return Ok(()),
        };
        self.data_as(what, &inode, visit)
    }

    fn tables(&self, visit: &mut dyn FnMut(&'static str, StoredRange)) -> Result<()> {
        // Up to the end of the records of algorithms.
        visit("superblock", StoredRange::metadata(0..self.superblock.end));
        visit("device table", StoredRange::metadata(self.superblock.device_table.clone()));
        self.long_prefixes(visit)?;
        if let Some(packed) = &self.packed {
            self.record(packed, visit)?;
        }
        if let Some(metabox) = &self.metabox {
            self.record(metabox, visit)?;
            self.data_as("metabox", metabox, visit)?;
        }
        Ok(())
    }
}

/// Position of a part of a file.
enum FilePartPosition {
    Data(StoredRange),
    /// In the metabox, after its inode.
    InMetabox(Range<u64>),
}

impl ErofsReader {
    /// Calls `visit` for an inode, its index and its xattrs. In the metabox, these are bytes of its data.
    fn record(&self, inode: &Inode, visit: &mut dyn FnMut(&'static str, StoredRange)) -> Result<()> {
        // The bytes of the metabox are counted once, as data.
        if inode.place.space == OffsetSpace::Image {
            let start = self.disk.position(0, inode.place.byte);
            let xattrs = inode.payload.byte.saturating_sub(inode.xattr_len.into());
            visit("inodes", StoredRange::metadata(start..self.disk.position(0, xattrs)));
            visit(
                "xattrs",
                StoredRange::metadata(self.disk.position(0, xattrs)..self.disk.position(0, inode.payload.byte)),
            );
            if matches!(inode.kind, InodeType::File | InodeType::Dir | InodeType::Symlink) && inode.size > 0 {
                let end = InodeData::open(self, inode)?.index_end();
                visit(
                    "indexes",
                    StoredRange::metadata(self.disk.position(0, inode.payload.byte)..self.disk.position(0, end)),
                );
            }
        }
        xattr::each(self, inode, &mut |pair| {
            let Some(id) = pair.shared else { return };
            let len = (size_of::<XattrEntry>() + pair.name.len() + pair.value.len()) as u64;
            let start = u64::from(id).saturating_mul(XATTR_UNIT).saturating_add(self.superblock.xattr_start);
            let start = self.disk.position(0, start);
            // Padding up to the next attribute belongs to the one before it.
            visit(
                "shared xattrs",
                StoredRange::metadata(start..start.saturating_add(len.next_multiple_of(XATTR_UNIT))),
            );
        })?;
        Ok(())
    }

    /// Calls `visit` for the table of long xattr prefixes.
    fn long_prefixes(&self, visit: &mut dyn FnMut(&'static str, StoredRange)) -> Result<()> {
        let MetadataAddress { space, byte } = xattr::prefix_place(&self.superblock);
        let len = |prefix: &LongPrefix| (PREFIX_HEADER_LEN + prefix.infix.len() as u64).next_multiple_of(XATTR_UNIT);
        let range = byte..self.prefixes.iter().map(len).fold(byte, u64::saturating_add);
        match (space, &self.packed) {
            // Without prefixes nothing is at that position.
            _ if range.is_empty() => Ok(()),
            (OffsetSpace::Image, _) => {
                visit(
                    "xattrs",
                    StoredRange::metadata(self.disk.position(0, range.start)..self.disk.position(0, range.end)),
                );
                Ok(())
            }
            (OffsetSpace::Packed, Some(packed)) => self.data(packed, range, &mut |found| match found {
                FilePartPosition::Data(piece) => visit("xattrs", piece),
                FilePartPosition::InMetabox(_) => {}
            }),
            _ => Ok(()),
        }
    }

    /// Calls `visit` for the data of an inode that is metadata.
    fn data_as(
        &self,
        what: &'static str,
        inode: &Inode,
        visit: &mut dyn FnMut(&'static str, StoredRange),
    ) -> Result<()> {
        self.data(inode, 0..inode.size, &mut |found| match found {
            FilePartPosition::Data(piece) => visit(what, piece),
            FilePartPosition::InMetabox(_) => {}
        })
    }

    /// Calls `visit` for each piece of a range of an inode's data.
    fn data(&self, inode: &Inode, range: Range<u64>, visit: &mut dyn FnMut(FilePartPosition)) -> Result<()> {
        // The visitor never breaks.
        let _ = self.pieces(inode, range, &mut |part| {
            let fragment = part.fragment.is_some();
            let mut visit = |found| {
                visit(match found {
                    FilePartPosition::Data(piece) => FilePartPosition::Data(StoredRange { fragment, ..piece }),
                    other => other,
                });
            };
            match part.data {
                PieceStorage::Hole | PieceStorage::Fragment(_) => {}
                PieceStorage::Plain { stored, rotated } => {
                    self.piece(part.space, stored, part.plain, !rotated, &mut visit)
                }
                PieceStorage::Packed { stored, .. } => self.piece(part.space, stored, part.plain, false, &mut visit),
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Calls `visit` for the part `plain` of stored bytes; `as_is` if plain bytes lie at the same offsets as stored ones.
    fn piece(
        &self,
        space: OffsetSpace,
        stored: StoredBytes,
        plain: Range<u64>,
        as_is: bool,
        visit: &mut dyn FnMut(FilePartPosition),
    ) {
        // In compressed or rotated bytes a part has no place of its own.
        let (skip, len) = if as_is { (plain.start, plain.end - plain.start) } else { (0, stored.len) };
        let start = match stored.place.skip(skip) {
            StoredPosition::Image(byte) => self.disk.position(0, byte),
            StoredPosition::Device(device, byte) => self.disk.position(device, byte),
            // Data that follow an inode of the image are in the image.
            StoredPosition::Meta(byte) if space == OffsetSpace::Image => self.disk.position(0, byte),
            StoredPosition::Meta(_) => return visit(FilePartPosition::InMetabox(plain)),
        };
        let plain = if as_is { 0..len } else { plain };
        visit(FilePartPosition::Data(StoredRange { stored: start..start.saturating_add(len), plain, fragment: false }));
    }
}
