//! Encodes inodes: with the basic type where it suffices, otherwise with the extended one.

use zerocopy::IntoBytes;

use super::data::{BlockPlace, WrittenFile};
use crate::squashfs::format::{self, NO_FRAGMENT, NO_XATTR, inode_type};
use crate::tree::{Inode, Kind, KindRef};

/// Reason why an inode does not fit the format.
type InodeLimit = std::result::Result<(), String>;

/// Fields of all inodes, as stored in the image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommonFields {
    pub(crate) mode: u16,
    pub(crate) uid: u16,
    pub(crate) gid: u16,
    pub(crate) mtime: u32,
    pub(crate) number: u32,
    pub(crate) links: u32,
    /// [`NO_XATTR`] for none.
    pub(crate) xattr: u32,
}

/// Position of a directory's listing, for its inode.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListingPosition {
    /// Length without the 3 that the format adds.
    pub(crate) len: u32,
    /// Metadata block in which it begins, relative to the directory table, and offset in the block.
    pub(crate) start: u32,
    pub(crate) offset: u16,
    pub(crate) index: Vec<IndexEntry>,
    pub(crate) parent: u32,
}

/// An index entry of a long listing.
#[derive(Debug, Clone)]
pub(crate) struct IndexEntry {
    /// Offset of a directory header in the listing, the metadata block it begins in, and the first name under it.
    pub(crate) offset: u32,
    pub(crate) start: u32,
    pub(crate) name: Box<[u8]>,
}

impl CommonFields {
    fn header(&self, kind: u16, out: &mut Vec<u8>) {
        let header = format::InodeHeader {
            inode_type: kind.into(),
            mode: self.mode.into(),
            uid: self.uid.into(),
            guid: self.gid.into(),
            mtime: self.mtime.into(),
            inode_number: self.number.into(),
        };
        out.extend_from_slice(header.as_bytes());
    }

    fn extended(&self, kind: u16, needed: bool) -> (u16, bool) {
        let needed = needed || self.xattr != NO_XATTR;
        (if needed { kind + inode_type::EXTENDED } else { kind }, needed)
    }
}

/// Returns the basic type of an inode, which directory entries contain.
pub(crate) fn basic_type(kind: &KindRef<'_>) -> u16 {
    match kind {
        Kind::Dir => inode_type::DIR,
        Kind::File { .. } => inode_type::FILE,
        Kind::Symlink(_) => inode_type::SYMLINK,
        Kind::Block(_) => inode_type::BLOCK,
        Kind::Char(_) => inode_type::CHAR,
        Kind::Fifo => inode_type::FIFO,
        Kind::Socket => inode_type::SOCKET,
    }
}

/// Encodes a directory's inode.
pub(crate) fn dir(common: &CommonFields, nlink: u32, listing: &ListingPosition, out: &mut Vec<u8>) -> InodeLimit {
    let size = u64::from(listing.len) + format::DIR_SIZE_EXTRA;
    let (kind, extended) = common.extended(inode_type::DIR, size > u64::from(u16::MAX) || !listing.index.is_empty());
    common.header(kind, out);
    let size = u32::try_from(size).map_err(|_| "a directory listing of more than 4 GiB")?;
    if !extended {
        let body = format::Dir {
            start_block: listing.start.into(),
            nlink: nlink.into(),
            file_size: u16::try_from(size).expect("checked above").into(),
            offset: listing.offset.into(),
            parent_inode: listing.parent.into(),
        };
        out.extend_from_slice(body.as_bytes());
        return Ok(());
    }
    // The index is optional: where its count overflows, the rest of the listing is searched without it.
    let index = &listing.index[..listing.index.len().min(usize::from(u16::MAX))];
    let body = format::ExtDir {
        nlink: nlink.into(),
        file_size: size.into(),
        start_block: listing.start.into(),
        parent_inode: listing.parent.into(),
        i_count: u16::try_from(index.len()).expect("cut above").into(),
        offset: listing.offset.into(),
        xattr: common.xattr.into(),
    };
    out.extend_from_slice(body.as_bytes());
    for entry in index {
        let size = u32::try_from(entry.name.len() - 1).expect("a name is 1 to 255 bytes").into();
        let head = format::DirIndex { index: entry.offset.into(), start_block: entry.start.into(), size };
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&entry.name);
    }
    Ok(())
}

/// Encodes a regular file's inode, including its block list.
pub(crate) fn file(common: &CommonFields, stored: &WrittenFile, places: &[BlockPlace], out: &mut Vec<u8>) {
    let run = &places[stored.run()];
    let start = run.first().map_or(0, |place| place.start);
    let (fragment, offset) = stored.tail.map_or((NO_FRAGMENT, 0), |tail| (tail.fragment, tail.offset()));
    // The basic form has neither a number of links nor one of sparse bytes.
    let needed = common.links > 1 || stored.sparse() > 0;
    match (u32::try_from(stored.size), u32::try_from(start), common.extended(inode_type::FILE, needed)) {
        (Ok(size), Ok(start), (kind, false)) => {
            common.header(kind, out);
            let body = format::File {
                start_block: start.into(),
                fragment: fragment.into(),
                offset: offset.into(),
                file_size: size.into(),
            };
            out.extend_from_slice(body.as_bytes());
        }
        _ => {
            common.header(inode_type::FILE + inode_type::EXTENDED, out);
            let body = format::ExtFile {
                start_block: start.into(),
                file_size: stored.size.into(),
                sparse: stored.sparse().into(),
                nlink: common.links.into(),
                fragment: fragment.into(),
                offset: offset.into(),
                xattr: common.xattr.into(),
            };
            out.extend_from_slice(body.as_bytes());
        }
    }
    let mut at = 0;
    let mut words = run.iter();
    // An empty hole at the end lets the loop also write the blocks after the last hole.
    for hole in stored.holes().iter().cloned().chain(std::iter::once(stored.blocks..stored.blocks)) {
        for place in words.by_ref().take((hole.start - at) as usize) {
            out.extend_from_slice(&place.word.to_le_bytes());
        }
        out.resize(out.len() + 4 * (hole.end - hole.start) as usize, 0);
        at = hole.end;
    }
}

/// Encodes the inode of anything except a directory or a regular file.
pub(crate) fn other(common: &CommonFields, inode: &Inode<'_>, out: &mut Vec<u8>) -> InodeLimit {
    let (kind, extended) = common.extended(basic_type(&inode.kind), false);
    common.header(kind, out);
    let nlink = common.links.into();
    match &inode.kind {
        Kind::Symlink(target) => {
            let symlink_size = u32::try_from(target.len()).map_err(|_| "a symlink target of more than 4 GiB")?.into();
            out.extend_from_slice(format::Symlink { nlink, symlink_size }.as_bytes());
            out.extend_from_slice(target);
        }
        Kind::Block(device) | Kind::Char(device) => {
            out.extend_from_slice(format::Device { nlink, rdev: device.encode().into() }.as_bytes());
        }
        _ => out.extend_from_slice(format::Ipc { nlink }.as_bytes()),
    }
    if extended {
        out.extend_from_slice(&common.xattr.to_le_bytes());
    }
    Ok(())
}
