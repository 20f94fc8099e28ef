//! Runs of data and holes of a file, from any byte on.

use super::super::ErofsReader;
use super::super::inode::Inode;
use super::super::map::PieceStorage;
use super::InodeData;
use crate::Result;
use crate::image::Extent;

/// See [`Image::stretch`](crate::Image::stretch). What is in the packed inode counts as data.
pub(in super::super) fn stretch(reader: &ErofsReader, inode: &Inode, offset: u64) -> Result<Option<Extent>> {
    if offset >= inode.size {
        return Ok(None);
    }
    let file = InodeData::open(reader, inode)?;
    let mut walk = file.map.walk(&file.source, offset);
    let extents = std::iter::from_fn(|| walk.next().transpose()).map(|extent| {
        let extent = extent?;
        if extent.len == 0 {
            return Err(file.error("an extent without data"));
        }
        Ok(Extent { offset: extent.logical, len: extent.len, hole: matches!(extent.data, PieceStorage::Hole) })
    });
    Extent::run(extents)
}
