//! File contents, for now of plain and inline files.

use super::Reader;
use super::inode::Inode;
use crate::erofs::format::Layout;
use crate::image::Extent;
use crate::{Error, Result};

/// Reads from the data of an inode: fewer bytes than `buf` holds only at its end.
pub(super) fn read_file(reader: &Reader, inode: &Inode, buf: &mut [u8], offset: u64) -> Result<usize> {
    let left = inode.size.saturating_sub(offset);
    let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
    let buf = &mut buf[..len];
    let block_size = u64::from(reader.superblock.block_size);
    let stored = match inode.layout {
        Layout::Plain => inode.size,
        Layout::Inline => inode.size / block_size * block_size,
        _ => return Err(Error::Unsupported("compressed files and chunks".into())),
    };
    let plain = usize::try_from(stored.saturating_sub(offset)).unwrap_or(usize::MAX).min(len);
    let (plain, tail) = buf.split_at_mut(plain);
    match inode.start_block() {
        None => plain.fill(0),
        Some(_) if plain.is_empty() => {}
        Some(block) => reader.disk.read("data", reader.superblock.block_start(block).saturating_add(offset), plain)?,
    }
    if !tail.is_empty() {
        let from = inode.payload.skip((offset + plain.len() as u64) - stored);
        reader.read_meta("inline data", from, tail)?;
    }
    Ok(len)
}

/// See [`Image::extents`](crate::Image::extents).
pub(super) fn extents(_: &Reader, inode: &Inode) -> Result<Vec<Extent>> {
    let hole = inode.start_block().is_none();
    Ok(Vec::from_iter((inode.size > 0).then_some(Extent { offset: 0, len: inode.size, hole })))
}
