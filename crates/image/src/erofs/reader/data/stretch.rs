//! Where a file has data and where holes, from any byte on.

use super::super::Reader;
use super::super::inode::Inode;
use super::super::map::Data;
use super::File;
use crate::Result;
use crate::image::Extent;

/// See [`Image::stretch`](crate::Image::stretch). What is in the packed inode counts as data.
pub(in super::super) fn stretch(reader: &Reader, inode: &Inode, offset: u64) -> Result<Option<Extent>> {
    if offset >= inode.size {
        return Ok(None);
    }
    let file = File::open(reader, inode)?;
    let mut walk = file.map.walk(&file.source, offset);
    let mut found: Option<Extent> = None;
    while let Some(extent) = walk.next()? {
        let hole = matches!(extent.data, Data::Hole);
        match &mut found {
            Some(found) if found.hole != hole => break,
            Some(found) => found.len = found.len.saturating_add(extent.len),
            none => *none = Some(Extent { offset: extent.logical, len: extent.len, hole }),
        }
        if extent.len == 0 {
            return Err(file.error("an extent without data"));
        }
    }
    Ok(found)
}
