//! Copies a file's bytes out of an image: writes data, skips holes.

use packfs_blocks::Storage;

use crate::image::{Extent, Image, Nid};
use crate::tree::path_of;
use crate::{Error, Result};

/// Number of bytes decoded before they are written: few enough to still be in the processor's cache.
const CHUNK: usize = 256 << 10;

/// Maximum length of the pieces of a file that is copied without regard to its extents.
const MAX_EXTENT: u64 = 1 << 20;

/// Returns extents of at most [`MAX_EXTENT`] bytes that cover the same as `extents`. Extents
/// reported by an image are never cut: each decodes as a whole.
pub(super) fn cut(extents: Vec<Extent>) -> Vec<Extent> {
    if extents.iter().all(|extent| extent.hole || extent.len <= MAX_EXTENT) {
        return extents;
    }
    let mut out = Vec::new();
    for mut extent in extents {
        while !extent.hole && extent.len > MAX_EXTENT {
            out.push(Extent { len: MAX_EXTENT, ..extent });
            extent.offset += MAX_EXTENT;
            extent.len -= MAX_EXTENT;
        }
        out.push(extent);
    }
    out
}

/// Copies the data of `extents`, as reported by an image or made by [`cut`], to the same offsets of
/// `file`. `path` is for messages.
pub(super) fn copy(
    image: &dyn Image,
    nid: Nid,
    extents: &[Extent],
    file: &dyn Storage,
    buf: &mut Vec<u8>,
    path: &dyn Fn() -> Vec<u8>,
) -> Result<()> {
    let mut rest = extents;
    while let Some((first, mut tail)) = rest.split_first() {
        rest = tail;
        if first.hole {
            continue;
        }
        let mut len = usize::try_from(first.len).unwrap_or(usize::MAX);
        while let Some((next, after)) = tail.split_first() {
            let more = usize::try_from(next.len).unwrap_or(usize::MAX);
            if next.hole || len.saturating_add(more) > CHUNK {
                break;
            }
            len += more;
            (tail, rest) = (after, after);
        }
        if buf.len() < len {
            // The old contents are not needed: a new buffer costs less than moving its pages.
            *buf = vec![0; len.next_power_of_two().max(CHUNK)];
        }
        let buf = buf.get_mut(..len).unwrap_or_default();
        let got = image.read_at(nid, buf, first.offset)?;
        if got < len {
            let why = format!("its data ends at byte {}, before its size", first.offset.saturating_add(got as u64));
            return Err(Error::Damaged { path: path_of(&path()), why });
        }
        file.write_all_at(buf, first.offset).map_err(|e| Error::io("cannot write", path_of(&path()))(e))?;
    }
    Ok(())
}
