//! Inodes of all fourteen types: decoding and checks.

use zerocopy::little_endian::U32;

use super::metadata::{MetadataArea, MetadataBlocks, MetadataCursor, MetadataPosition};
use super::superblock::Superblock;
use crate::image::Nid;
use crate::squashfs::format::{self, METADATA_LEN, NO_FRAGMENT, NO_XATTR, inode_type};
use crate::tree::DeviceNumber;
use crate::{Error, Result};

/// Longest symlink target accepted from an image; the kernel's limit is 4,096, that of some tools is this.
const TARGET_MAX: u32 = 65535;
/// The permission bits.
const MODE_MASK: u16 = 0o7777;

/// An inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DecodedInode {
    /// Type as stored, basic (1 to 7) or extended (8 to 14).
    pub(super) kind: u16,
    /// As stored; it should be permission bits only.
    pub(super) mode: u16,
    /// Index into the id table.
    pub(super) uid: u16,
    /// Index into the id table.
    pub(super) gid: u16,
    pub(super) mtime: u32,
    pub(super) number: u32,
    pub(super) nlink: u32,
    /// Index into the table of xattr sets.
    pub(super) xattr: Option<u32>,
    pub(super) body: InodeBody,
}

/// Type-specific part of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InodeBody {
    Dir(DirBody),
    File(FileBody),
    Symlink(Box<[u8]>),
    Block(DeviceNumber),
    Char(DeviceNumber),
    Fifo,
    Socket,
}

/// Position of a directory's listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirBody {
    /// Start of its first metadata block, relative to the directory table.
    pub(super) start: u32,
    /// Offset in that block.
    pub(super) offset: u16,
    /// Its length plus 3.
    pub(super) size: u32,
    /// Inode number of the parent.
    pub(super) parent: u32,
    /// Number of index entries, which follow the inode.
    pub(super) index_count: u16,
}

/// A file's data; the size words of its blocks follow the inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileBody {
    /// Offset of its first block in the image.
    pub(super) start: u64,
    pub(super) size: u64,
    /// Number of bytes in holes, as counted by the writer.
    pub(super) sparse: u64,
    pub(super) tail: Option<TailPosition>,
}

/// The tail of a file, in a fragment block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TailPosition {
    /// Fragment index.
    pub(super) fragment: u32,
    /// Offset in the decoded fragment.
    pub(super) offset: u32,
}

impl DecodedInode {
    /// Reads the inode at a reference; the returned cursor is after its fixed part.
    pub(super) fn read(
        metadata: &MetadataBlocks,
        table: MetadataArea,
        nid: Nid,
    ) -> Result<(DecodedInode, MetadataCursor<'_>)> {
        let mut cursor = metadata.cursor(table, position(table, nid))?;
        let inode = DecodedInode::parse(&mut cursor)?;
        Ok((inode, cursor))
    }

    /// Reads the inode at the cursor.
    pub(super) fn parse(cursor: &mut MetadataCursor<'_>) -> Result<DecodedInode> {
        let at = cursor.position();
        let header: format::InodeHeader = cursor.get()?;
        let kind = header.inode_type.get();
        let (nlink, xattr, body) = parse_body(cursor, kind, at)?;
        Ok(DecodedInode {
            kind,
            mode: header.mode.get(),
            uid: header.uid.get(),
            gid: header.guid.get(),
            mtime: header.mtime.get(),
            number: header.inode_number.get(),
            nlink,
            xattr: (xattr != NO_XATTR).then_some(xattr),
            body,
        })
    }

    /// Refuses inodes that the kernel refuses on look-up. `at` is the position of the inode in `table`.
    pub(super) fn validate(&self, superblock: &Superblock, at: MetadataPosition, table: MetadataArea) -> Result<()> {
        match self.defect(superblock.block_size) {
            None => Ok(()),
            Some(why) => {
                let why = format!("inode at offset {}: {why}", at.offset);
                Err(Error::corrupt(table.structure, at.block, why))
            }
        }
    }

    fn defect(&self, block_size: u32) -> Option<String> {
        if self.number == 0 {
            return Some("its number is 0".into());
        }
        if self.mode & !MODE_MASK != 0 {
            return Some(format!("mode {:#o} has more than permission bits", self.mode));
        }
        let InodeBody::File(file) = &self.body else { return None };
        if i64::try_from(file.size).is_err() {
            return Some(format!("a file of {} bytes", file.size));
        }
        if file.tail.is_some() && file.size % u64::from(block_size) == 0 {
            return Some(format!("a fragment for a file of {} bytes, which are whole blocks", file.size));
        }
        None
    }

    /// Returns the type as stored in directory entries.
    pub(super) fn basic_kind(&self) -> u16 {
        basic_kind(self.kind)
    }
}

/// Returns the basic type of a basic or extended one.
pub(super) fn basic_kind(kind: u16) -> u16 {
    if kind > inode_type::EXTENDED { kind - inode_type::EXTENDED } else { kind }
}

/// Returns the position that a reference points to.
pub(super) fn position(table: MetadataArea, nid: Nid) -> MetadataPosition {
    // At 16 bits it may exceed a block. The cursor refuses that.
    let offset = usize::try_from(nid.0 & 0xffff).unwrap_or(METADATA_LEN);
    MetadataPosition { block: table.start.saturating_add(nid.0 >> 16), offset }
}

fn parse_body(cursor: &mut MetadataCursor<'_>, kind: u16, at: MetadataPosition) -> Result<(u32, u32, InodeBody)> {
    let extended = kind > inode_type::EXTENDED;
    Ok(match (basic_kind(kind), extended) {
        (inode_type::DIR, false) => parse_dir(&cursor.get()?),
        (inode_type::DIR, true) => parse_ext_dir(&cursor.get()?),
        (inode_type::FILE, false) => parse_file(&cursor.get()?),
        (inode_type::FILE, true) => parse_ext_file(&cursor.get()?),
        (inode_type::SYMLINK, _) => {
            let raw: format::Symlink = cursor.get()?;
            let target = read_target(cursor, raw.symlink_size.get(), at)?;
            (raw.nlink.get(), xattr_index(cursor, extended)?, InodeBody::Symlink(target))
        }
        (basic @ (inode_type::BLOCK | inode_type::CHAR), _) => {
            let raw: format::Device = cursor.get()?;
            let device = device(raw.rdev.get());
            let body = if basic == inode_type::BLOCK { InodeBody::Block(device) } else { InodeBody::Char(device) };
            (raw.nlink.get(), xattr_index(cursor, extended)?, body)
        }
        (basic @ (inode_type::FIFO | inode_type::SOCKET), _) => {
            let raw: format::Ipc = cursor.get()?;
            let body = if basic == inode_type::FIFO { InodeBody::Fifo } else { InodeBody::Socket };
            (raw.nlink.get(), xattr_index(cursor, extended)?, body)
        }
        _ => return Err(cursor.error(format!("inode at offset {}: type {kind} is not one of 1 to 14", at.offset))),
    })
}

fn parse_dir(raw: &format::Dir) -> (u32, u32, InodeBody) {
    let dir = DirBody {
        start: raw.start_block.get(),
        offset: raw.offset.get(),
        size: raw.file_size.get().into(),
        parent: raw.parent_inode.get(),
        index_count: 0,
    };
    (raw.nlink.get(), NO_XATTR, InodeBody::Dir(dir))
}

fn parse_ext_dir(raw: &format::ExtDir) -> (u32, u32, InodeBody) {
    let dir = DirBody {
        start: raw.start_block.get(),
        offset: raw.offset.get(),
        size: raw.file_size.get(),
        parent: raw.parent_inode.get(),
        index_count: raw.i_count.get(),
    };
    (raw.nlink.get(), raw.xattr.get(), InodeBody::Dir(dir))
}

fn parse_file(raw: &format::File) -> (u32, u32, InodeBody) {
    let file = FileBody {
        start: raw.start_block.get().into(),
        size: raw.file_size.get().into(),
        sparse: 0,
        tail: tail(raw.fragment.get(), raw.offset.get()),
    };
    // A basic inode has no field for links: it has one name.
    (1, NO_XATTR, InodeBody::File(file))
}

fn parse_ext_file(raw: &format::ExtFile) -> (u32, u32, InodeBody) {
    let file = FileBody {
        start: raw.start_block.get(),
        size: raw.file_size.get(),
        sparse: raw.sparse.get(),
        tail: tail(raw.fragment.get(), raw.offset.get()),
    };
    (raw.nlink.get(), raw.xattr.get(), InodeBody::File(file))
}

fn tail(fragment: u32, offset: u32) -> Option<TailPosition> {
    (fragment != NO_FRAGMENT).then_some(TailPosition { fragment, offset })
}

fn read_target(cursor: &mut MetadataCursor<'_>, len: u32, at: MetadataPosition) -> Result<Box<[u8]>> {
    // Bounded before memory is reserved for it.
    if len == 0 || len > TARGET_MAX {
        return Err(cursor.error(format!("inode at offset {}: symlink target of {len} bytes", at.offset)));
    }
    let mut target = vec![0; usize::try_from(len).unwrap_or(0)];
    cursor.read(&mut target)?;
    // Linux would end the target there.
    if target.contains(&0) {
        return Err(cursor.error(format!("inode at offset {}: NUL in the symlink target", at.offset)));
    }
    Ok(target.into())
}

fn xattr_index(cursor: &mut MetadataCursor<'_>, extended: bool) -> Result<u32> {
    if extended { Ok(cursor.get::<U32>()?.get()) } else { Ok(NO_XATTR) }
}

/// Unpacks a device number: 12 bits of major between 8 and 12 bits of minor.
fn device(rdev: u32) -> DeviceNumber {
    DeviceNumber { major: (rdev >> 8) & 0xfff, minor: (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00) }
}
