//! Inodes, compact and extended: decoding and checks.

use zerocopy::{FromBytes, IntoBytes};

use super::ErofsReader;
use super::metadata::{MetadataAddress, OffsetSpace};
use crate::erofs::format::{
    self, Advise, INODE_SLOT, Incompat, Layout, NID_METABOX, NO_BLOCK, WHOLE_FRAGMENT, chunk_format, file_type,
    inode_format,
};
use crate::image::Nid;
use crate::tree::{DeviceNumber, Time};
use crate::{Error, Result};

pub(super) const STRUCTURE: &str = "inode";
/// Number of permission bits in a mode; the type is above them.
const TYPE_SHIFT: u16 = 12;
const MODE_MASK: u16 = 0o7777;
/// Length of [`format::XattrHeader`].
const XATTR_HEADER_LEN: u32 = 12;
/// Bits of a block address.
const ADDRESS_BITS: u32 = 48;

/// An inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inode {
    pub(super) nid: Nid,
    /// Position of the inode.
    pub(super) place: MetadataAddress,
    pub(super) extended: bool,
    /// Data layout; meaningless for devices, pipes and sockets.
    pub(super) layout: Layout,
    /// True for a directory without an entry `.`.
    pub(super) no_dot: bool,
    pub(super) kind: InodeType,
    /// The 12 permission bits.
    pub(super) mode: u16,
    pub(super) size: u64,
    /// First block, number of compressed blocks, device number or chunk format.
    pub(super) data: u32,
    /// Bits 32 to 47 of the first two; 0 if the inode has no field for them.
    pub(super) data_high: u16,
    /// True if it has that field.
    pub(super) wide: bool,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: Time,
    pub(super) nlink: u32,
    /// Length of the xattrs after it.
    pub(super) xattr_len: u32,
    /// Position after its xattrs, where the layout's own data begins (possibly after padding).
    pub(super) payload: MetadataAddress,
}

/// Types, as numbered in directory entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum InodeType {
    File = file_type::FILE,
    Dir = file_type::DIR,
    Char = file_type::CHAR,
    Block = file_type::BLOCK,
    Fifo = file_type::FIFO,
    Socket = file_type::SOCKET,
    Symlink = file_type::SYMLINK,
}

impl ErofsReader {
    /// Returns the position of the inode with a nid.
    pub(super) fn inode_place(&self, nid: Nid) -> MetadataAddress {
        // The highest bit of a nid says that the inode is in the metabox.
        let (space, start) = match self.superblock.incompat.contains(Incompat::METABOX) && nid.0 & NID_METABOX != 0 {
            true => (OffsetSpace::Metabox, 0),
            false => (OffsetSpace::Image, self.superblock.metadata_start),
        };
        let slot = if space == OffsetSpace::Metabox { nid.0 & !NID_METABOX } else { nid.0 };
        MetadataAddress { space, byte: slot.saturating_mul(INODE_SLOT).saturating_add(start) }
    }

    /// Returns the inode with a nid, unless the kernel would refuse it.
    pub(super) fn inode(&self, nid: Nid) -> Result<Inode> {
        let place = self.inode_place(nid);
        let mut bytes = [0; size_of::<format::ExtendedInode>()];
        let (compact, rest) = bytes.split_at_mut(size_of::<format::CompactInode>());
        self.read_meta(STRUCTURE, place, compact)?;
        let format = u16::from_le_bytes([compact[0], compact[1]]);
        // The second half only if there is one: a compact inode may be the last of the image.
        if format & inode_format::EXTENDED != 0 {
            self.read_meta(STRUCTURE, place.skip(compact.len() as u64), rest)?;
        }
        let epoch = self.superblock.epoch;
        let inode = parse(nid, place, format, &bytes, epoch);
        inode.map_err(|why| place.error(STRUCTURE, format!("inode {nid}: {why}", nid = nid.0)))
    }
}

fn parse(
    nid: Nid,
    place: MetadataAddress,
    format: u16,
    bytes: &[u8],
    epoch: Time,
) -> std::result::Result<Inode, String> {
    // As `erofs_read_inode` of Linux refuses it.
    if format & !inode_format::ALL != 0 {
        return Err(format!("format {format:#06x} has unknown bits"));
    }
    let layout = layout(format)?;
    // For directories the bit means that `.` is left out, for all others that there is one link.
    let special = format & inode_format::ONE_LINK_OR_NO_DOT != 0;
    let mut inode = if format & inode_format::EXTENDED != 0 {
        let (raw, _) = format::ExtendedInode::read_from_prefix(bytes).map_err(|_| "too short".to_owned())?;
        extended(&raw, nid, place, layout)?
    } else {
        let (raw, _) = format::CompactInode::read_from_prefix(bytes).map_err(|_| "too short".to_owned())?;
        compact(&raw, nid, place, layout, special, epoch)?
    };
    inode.no_dot = special && inode.kind == InodeType::Dir;
    // Also of a file without data.
    if layout == Layout::Chunks && inode.data & 0xffff & !u32::from(chunk_format::ALL) != 0 {
        return Err(format!("chunk format {:#06x} has unknown bits", inode.data & 0xffff));
    }
    // Linux has sizes of 63 bits.
    if i64::try_from(inode.size).is_err() {
        return Err(format!("a size of {} bytes", inode.size));
    }
    Ok(inode)
}

fn layout(format: u16) -> std::result::Result<Layout, String> {
    Ok(match format >> inode_format::LAYOUT_SHIFT & inode_format::LAYOUT_MASK {
        0 => Layout::Plain,
        1 => Layout::CompressedFull,
        2 => Layout::Inline,
        3 => Layout::CompressedCompact,
        4 => Layout::Chunks,
        other => return Err(format!("data layout {other} is not one of 0 to 4")),
    })
}

fn compact(
    raw: &format::CompactInode,
    nid: Nid,
    place: MetadataAddress,
    layout: Layout,
    one_link: bool,
    epoch: Time,
) -> std::result::Result<Inode, String> {
    let kind = InodeType::of_mode(raw.i_mode.get())?;
    // If one link is implied, the link count field holds the high part of an address.
    let wide = one_link && kind != InodeType::Dir;
    let word = raw.i_nb.get();
    let xattr_len = xattr_len(raw.i_xattr_icount.get());
    Ok(Inode {
        nid,
        place,
        extended: false,
        layout,
        no_dot: false,
        kind,
        mode: raw.i_mode.get() & MODE_MASK,
        size: raw.i_size.get().into(),
        data: raw.i_u.get(),
        data_high: if wide { word } else { 0 },
        wide,
        uid: raw.i_uid.get().into(),
        gid: raw.i_gid.get().into(),
        // Added with wraparound, as in the kernel.
        mtime: Time { secs: epoch.secs.wrapping_add(raw.i_mtime.get().into()), nanos: epoch.nanos },
        nlink: if wide { 1 } else { word.into() },
        xattr_len,
        payload: place.skip(raw.as_bytes().len() as u64 + u64::from(xattr_len)),
    })
}

fn extended(
    raw: &format::ExtendedInode,
    nid: Nid,
    place: MetadataAddress,
    layout: Layout,
) -> std::result::Result<Inode, String> {
    let nanos = raw.i_mtime_nsec.get();
    if nanos >= 1_000_000_000 {
        return Err(format!("{nanos} nanoseconds of its time are a second or more"));
    }
    let xattr_len = xattr_len(raw.i_xattr_icount.get());
    Ok(Inode {
        nid,
        place,
        extended: true,
        layout,
        no_dot: false,
        kind: InodeType::of_mode(raw.i_mode.get())?,
        mode: raw.i_mode.get() & MODE_MASK,
        size: raw.i_size.get(),
        data: raw.i_u.get(),
        data_high: raw.i_nb.get(),
        wide: true,
        uid: raw.i_uid.get(),
        gid: raw.i_gid.get(),
        mtime: Time { secs: raw.i_mtime.get(), nanos },
        nlink: raw.i_nlink.get(),
        xattr_len,
        payload: place.skip(raw.as_bytes().len() as u64 + u64::from(xattr_len)),
    })
}

/// The count is 1 for the header, plus 1 for every four bytes after it.
fn xattr_len(count: u16) -> u32 {
    // 0 means no header either.
    match u32::from(count).checked_sub(1) {
        None => 0,
        Some(words) => XATTR_HEADER_LEN + words * 4,
    }
}

impl Inode {
    /// Returns the first block of plain and inline data; `None` if the whole file is a hole.
    pub(super) fn start_block(&self) -> Option<u64> {
        let block = u64::from(self.data_high) << 32 | u64::from(self.data);
        // All bits of the address are set, as far as the inode has bits.
        let hole = if self.wide { (1 << ADDRESS_BITS) - 1 } else { u64::from(NO_BLOCK) };
        // Only the plain layout has holes.
        (self.layout != Layout::Plain || block != hole).then_some(block)
    }

    /// Returns the device number of a character or block device: 12 bits of major between 8 and 12 bits of minor.
    pub(super) fn device(&self) -> DeviceNumber {
        DeviceNumber { major: (self.data >> 8) & 0xfff, minor: (self.data & 0xff) | ((self.data >> 12) & 0xf_ff00) }
    }

    /// Returns true if the file is compressed and its tail (or all of it) is in the packed inode.
    pub(super) fn is_fragmented(&self, reader: &ErofsReader) -> Result<bool> {
        if !matches!(self.layout, Layout::CompressedFull | Layout::CompressedCompact) {
            return Ok(false);
        }
        // The header of the map lies after xattrs, aligned to 8 bytes.
        let header: format::MapHeader = reader.get_meta("map header", self.payload.align(8))?;
        let advice = Advise::from_bits_retain(header.h_advise.get());
        Ok(header.h_clusterbits & WHOLE_FRAGMENT != 0 || advice.contains(Advise::FRAGMENT))
    }

    /// Makes an error about this inode.
    pub(super) fn error(&self, why: impl std::fmt::Display) -> Error {
        self.place.error(STRUCTURE, format!("inode {}: {why}", self.nid.0))
    }
}

impl InodeType {
    fn of_mode(mode: u16) -> std::result::Result<InodeType, String> {
        Ok(match mode >> TYPE_SHIFT {
            0o01 => InodeType::Fifo,
            0o02 => InodeType::Char,
            0o04 => InodeType::Dir,
            0o06 => InodeType::Block,
            0o10 => InodeType::File,
            0o12 => InodeType::Symlink,
            0o14 => InodeType::Socket,
            _ => return Err(format!("mode {mode:#o} has an unknown type")),
        })
    }
}
