//! Checks the maps of inodes by the rules of a check, but reads no data: for a build, which has verified that already.

use super::data::{UsedArea, check_fragment, check_map, check_overlap};
use crate::Result;
use crate::erofs::reader::ErofsReader;
use crate::erofs::reader::data::InodeData;
use crate::erofs::reader::inode::InodeType;
use crate::erofs::reader::map::{PieceStorage, StoredBytes};
use crate::image::Nid;
use packfs_tree::{Finding, FindingCollector};

/// Number of areas compared with each other, the first ones: 12 MiB of memory, and all of most images.
const AREAS_MAX: usize = 1 << 19;

/// A check of maps, one inode at a time.
pub(in crate::erofs) struct MapCheck<'r> {
    reader: &'r ErofsReader,
    /// Areas of the image in use.
    areas: Vec<UsedArea>,
}

impl<'r> MapCheck<'r> {
    /// Makes a check of an image whose additional devices, if it has any, need not be there.
    pub(in crate::erofs) fn new(reader: &'r ErofsReader) -> Self {
        MapCheck { reader, areas: vec![UsedArea::of_superblock(reader)] }
    }

    /// Checks an inode; returns the first rule that it breaks.
    pub(in crate::erofs) fn inode(&mut self, nid: Nid) -> Result<Option<Finding>> {
        FindingCollector::first_damage(|report| {
            let checked = self.check(nid, report);
            report.take(checked).map(drop)
        })
    }

    /// Compares the areas of the inodes so far; returns the first overlap.
    pub(in crate::erofs) fn overlap(&mut self) -> Result<Option<Finding>> {
        let mut areas = std::mem::take(&mut self.areas);
        areas.sort_unstable();
        // The same area may serve several files.
        areas.dedup();
        FindingCollector::first_damage(|report| {
            check_overlap(&areas, report);
            Ok(())
        })
    }

    fn check(&mut self, nid: Nid, report: &mut FindingCollector<'_>) -> Result<()> {
        let reader = self.reader;
        let inode = reader.inode(nid)?;
        // Of an inode in a metabox, the metabox's data is the area.
        if let Some(area) = UsedArea::of_inode(&inode) {
            area.add_to(&mut self.areas, AREAS_MAX);
        }
        if inode.size == 0 || !matches!(inode.kind, InodeType::File | InodeType::Dir | InodeType::Symlink) {
            return Ok(());
        }
        let file = InodeData::open(reader, &inode)?;
        check_map(reader, &inode, &file, report)?;
        file.each(&mut |extent| match extent.data {
            PieceStorage::Hole => Ok(()),
            PieceStorage::Fragment(offset) => {
                check_fragment(reader, &inode, &file, offset..offset.saturating_add(extent.len), report)
            }
            PieceStorage::Plain { stored, .. } => self.area(stored, true, report),
            PieceStorage::Packed { stored, .. } => self.area(stored, false, report),
        })
    }

    /// Notes an area that data uses, which has to be in the image.
    fn area(&mut self, stored: StoredBytes, plain: bool, report: &mut FindingCollector<'_>) -> Result<()> {
        let Some(area) = UsedArea::of_data(stored, plain) else { return Ok(()) };
        let len = self.reader.disk.len();
        // A build may refer to devices that are not there.
        if self.reader.superblock.devices.is_empty() && area.end() > len {
            let text = format!("it ends at byte {}, but the image has {len}", area.end());
            report.add("cluster", stored.place.byte(), text);
        }
        area.add_to(&mut self.areas, AREAS_MAX);
        Ok(())
    }
}
