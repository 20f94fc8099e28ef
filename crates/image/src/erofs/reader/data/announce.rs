//! Announces the stored bytes of a range of a file to a source that takes time to read them.

use std::ops::Range;

use super::super::Reader;
use super::super::inode::Inode;
use super::super::map::{Data, Walk, Where};
use super::File;
use crate::Result;

/// Number of stored bytes that may be more than those of the file if its extents are taken to lie one after the other.
const SLACK: u64 = 1 << 20;
/// Number of extents that are looked up if they do not.
const EXTENTS: usize = 1024;
/// Gap between two extents that are announced as one.
const GAP: u64 = 128 << 10;

/// See [`Image::will_read`](crate::Image::will_read).
pub(in super::super) fn announce(reader: &Reader, inode: &Inode, range: Range<u64>) -> Result<()> {
    let Range { start, end } = range.start..range.end.min(inode.size);
    if start >= end {
        return Ok(());
    }
    File::open(reader, inode)?.announce(&(start..end))
}

/// Stored bytes: the device by its number as in chunks, and the range on it.
type Run = (u16, Range<u64>);

impl File<'_> {
    fn announce(&self, range: &Range<u64>) -> Result<()> {
        let disk = &self.source.reader.disk;
        let tell = |(device, run): Run| disk.will_read(device, run.start, run.end - run.start);
        let (mut walk, mut at) = (self.map.walk(&self.source, range.start), range.start);
        if let Some((whole, until)) = self.whole(range)? {
            // Between its ends nothing has to be looked up, which may mean to fetch a long index.
            tell(whole);
            (walk, at) = (self.map.walk(&self.source, until), until);
        }
        let mut pending: Option<Run> = None;
        for _ in 0..EXTENTS {
            if at >= range.end {
                break;
            }
            let Some(next) = self.next(&mut walk, range, &mut at)? else { continue };
            pending = match pending {
                Some((device, run)) if device == next.0 && (run.start..=run.end + GAP).contains(&next.1.start) => {
                    Some((device, run.start..run.end.max(next.1.end)))
                }
                before => {
                    before.into_iter().for_each(tell);
                    Some(next)
                }
            };
        }
        pending.into_iter().for_each(tell);
        Ok(())
    }

    /// Returns the stored bytes from the first extent of a range to the last before a part in the packed inode, if those
    /// between them probably lie between them, and the end of the last extent in the file.
    fn whole(&self, range: &Range<u64>) -> Result<Option<(Run, u64)>> {
        let mut at = range.start;
        let first = self.next(&mut self.map.walk(&self.source, at), range, &mut at)?;
        let Some((device, first)) = first.filter(|_| at < range.end) else { return Ok(None) };
        let mut end = range.end;
        if let Some(last) = self.map.walk(&self.source, end - 1).next()?
            && matches!(last.data, Data::Fragment(_) | Data::Hole)
        {
            end = last.logical;
        }
        if end <= at {
            return Ok(None);
        }
        let mut until = end - 1;
        let last = self.next(&mut self.map.walk(&self.source, until), range, &mut until)?;
        let run = last.filter(|last| last.0 == device).map(|last| first.start..last.1.end);
        let fits = |run: &Range<u64>| run.end > run.start && run.end - run.start <= end - range.start + SLACK;
        Ok(run.filter(fits).map(|run| ((device, run), until)))
    }

    /// Returns the stored bytes of the next extent, of which a plain one has only those of the range. `None` if it has
    /// none of its own; a part in the packed inode is announced.
    fn next(&self, walk: &mut Walk<'_>, range: &Range<u64>, at: &mut u64) -> Result<Option<Run>> {
        let Some(extent) = walk.next()?.filter(|extent| extent.len > 0) else {
            *at = range.end;
            return Ok(None);
        };
        let (from, end) = (extent.logical.max(range.start), extent.logical.saturating_add(extent.len));
        *at = end;
        let (place, len) = match extent.data {
            Data::Hole => return Ok(None),
            Data::Fragment(offset) => {
                let (offset, len) = (offset.saturating_add(from - extent.logical), end.min(range.end) - from);
                let packed = self.packed_inode(offset, len)?;
                self.open_packed(packed)?.announce(&(offset..offset.saturating_add(len)))?;
                return Ok(None);
            }
            Data::Plain { stored, rotated: false } => {
                (stored.place.skip(from - extent.logical), end.min(range.end).saturating_sub(from))
            }
            Data::Plain { stored, .. } | Data::Packed { stored, .. } => (stored.place, stored.len),
        };
        Ok(match place {
            Where::Image(byte) => Some((0, byte..byte.saturating_add(len))),
            Where::Device(device, byte) => Some((device, byte..byte.saturating_add(len))),
            // It was read with the inode.
            Where::Meta(_) => None,
        })
    }
}
