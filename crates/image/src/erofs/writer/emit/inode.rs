//! Encodes inodes: 32 bytes if nothing is lost, otherwise 64; xattrs follow, then the data's tail or index.

use zerocopy::IntoBytes;

use super::digest_xattr::InodeXattrs;
use super::dir;
use super::dir::DirListing;
use super::epoch::ImageEpoch;
use super::payload::{ChunkEntry, FollowingData, InodePayload, UsedFeatures, address, high, low};
use super::xattr::EncodedXattrs;
use crate::erofs::format::{CompactInode, ExtendedInode, INODE_SLOT, Incompat, inode_format};
use crate::erofs::writer::options::{ErofsOptions, Features};
use crate::erofs::writer::stored::data::StoredData;
use crate::erofs::writer::stored::file::{FileTail, StoredFile};
use crate::tree::{FileData, Ino, Kind, KindRef, Time, Tree};
use crate::{Error, Result};

/// File types in an inode's mode.
pub(crate) mod mode {
    pub(crate) const MASK: u16 = 0o170_000;
    pub(crate) const FIFO: u16 = 0o010_000;
    pub(crate) const CHAR: u16 = 0o020_000;
    pub(crate) const DIR: u16 = 0o040_000;
    pub(crate) const BLOCK: u16 = 0o060_000;
    pub(crate) const FILE: u16 = 0o100_000;
    pub(crate) const SYMLINK: u16 = 0o120_000;
    pub(crate) const SOCKET: u16 = 0o140_000;
}

/// State for encoding inodes.
#[derive(Debug)]
pub(crate) struct InodeWriter<'a> {
    pub(crate) options: &'a ErofsOptions,
    pub(crate) tree: &'a Tree,
    pub(crate) data: &'a StoredData,
    pub(crate) xattrs: &'a EncodedXattrs,
    pub(crate) epoch: ImageEpoch,
    /// True if addresses of blocks have 48 bits, which compact inodes have no room for.
    pub(crate) far: bool,
}

/// Room that an inode needs in the zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InodeRoom {
    /// Number of bytes of the inode and the data that follows it.
    pub(crate) len: u64,
    /// Number of these bytes, at the end, that must be in one block.
    pub(crate) together: u64,
    /// Number of bytes elsewhere, in whole blocks.
    pub(crate) blocks: u64,
}

/// Position of the entries of a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DirEntries<'t> {
    /// In blocks from this one on, if there are any, and after the inode.
    Blocks { block: Option<u64>, tail: &'t [u8] },
    /// In the packed inode, from this offset on.
    Fragment(u64),
}

/// Fields of an inode, in their largest width.
#[derive(Debug, Clone, Copy)]
struct InodeFields<'a> {
    mode: u16,
    uid: u32,
    gid: u32,
    mtime: Time,
    nlink: u32,
    xattrs: InodeXattrs<'a>,
}

impl<'a> InodeWriter<'a> {
    /// Measures a directory and its inode.
    pub(crate) fn measure_dir(&self, ino: Ino) -> (DirListing, InodeRoom) {
        let block = u64::from(self.options.block_size);
        let listing = dir::measure(self.tree, ino, self.has_dot(), self.options.block_size as usize);
        let fields = self.fields(ino, dir_links(&listing));
        if self.options.features.contains(Features::COMPRESSED_DIRS) {
            // The length does not depend on the place.
            return (listing, self.room(&fields, &self.fragment(&listing, 0)));
        }
        let head = self.head_len(&fields, listing.size);
        let tail = listing.size % block;
        // A tail that would not fit next to its inode gets its own block, so that the two are never far apart.
        let follows = !self.options.features.contains(Features::NO_INLINE) && head + tail <= block;
        let room = if follows {
            InodeRoom { len: head + tail, together: tail, blocks: listing.size - tail }
        } else {
            InodeRoom { len: head, together: 0, blocks: listing.size.next_multiple_of(block) }
        };
        (listing, room)
    }

    /// Measures any other inode.
    pub(crate) fn measure(&self, ino: Ino) -> InodeRoom {
        let inode = self.tree.inode(ino);
        let fields = self.fields(ino, inode.links);
        let payload = self.payload(&inode.kind, None);
        let room = self.room(&fields, &payload);
        let Kind::Symlink(target) = &inode.kind else { return room };
        let len = room.len;
        let target_len = target.len() as u64;
        let block = u64::from(self.options.block_size);
        if len <= block {
            // Older kernels require the target in the block in which the inode ends.
            InodeRoom { len, together: len, blocks: 0 }
        } else {
            InodeRoom { len: len - target_len, together: 0, blocks: target_len.next_multiple_of(block) }
        }
    }

    /// Measures the packed inode, if there is one.
    pub(crate) fn measure_packed(&self) -> Option<InodeRoom> {
        self.data.packed.as_ref().map(|stored| self.measure_special(stored))
    }

    /// Measures an inode without a name.
    pub(crate) fn measure_special(&self, stored: &'a StoredFile) -> InodeRoom {
        self.room(&self.special_fields(), &InodePayload::of(self.data, stored, self.options))
    }

    /// Appends a directory's inode and the tail of its data. Returns the format features that the inode uses.
    pub(crate) fn write_dir(
        &self,
        ino: Ino,
        listing: &DirListing,
        entries: DirEntries<'_>,
        serial: u32,
        out: &mut Vec<u8>,
    ) -> Result<UsedFeatures> {
        let payload = match entries {
            DirEntries::Fragment(offset) => self.fragment(listing, offset),
            DirEntries::Blocks { block, tail } => {
                let follows = if tail.is_empty() { FollowingData::Nothing } else { FollowingData::Tail(tail) };
                InodePayload { size: listing.size, data: address(block), follows }
            }
        };
        self.put(&self.fields(ino, dir_links(listing)), &payload, serial, out)?;
        Ok(payload.uses())
    }

    /// Returns the data fields of a directory in the packed inode.
    fn fragment(&self, listing: &DirListing, offset: u64) -> InodePayload<'a> {
        let index = self.data.index(listing.size, &[], Some(FileTail::Fragment(offset)));
        InodePayload { size: listing.size, data: 0, follows: FollowingData::Index(index) }
    }

    /// Returns true if directories have an entry `.`.
    pub(crate) fn has_dot(&self) -> bool {
        !self.options.features.contains(Features::DOT_OMITTED)
    }

    /// Appends any other inode and the data that follows it; `target` is the position of a
    /// symlink's target if it does not follow. Returns the format features that the inode uses.
    pub(crate) fn write(&self, ino: Ino, target: Option<u64>, serial: u32, out: &mut Vec<u8>) -> Result<UsedFeatures> {
        let inode = self.tree.inode(ino);
        let payload = self.payload(&inode.kind, target);
        self.put(&self.fields(ino, inode.links), &payload, serial, out)?;
        Ok(payload.uses())
    }

    /// Appends the packed inode and the data that follows it.
    pub(crate) fn write_packed(&self, serial: u32, out: &mut Vec<u8>) -> Result<UsedFeatures> {
        let Some(stored) = &self.data.packed else { return Ok(UsedFeatures::default()) };
        let mut uses = self.write_special(stored, serial, out)?;
        uses.features |= Incompat::FRAGMENTS_OR_DEDUPE;
        Ok(uses)
    }

    /// Appends an inode without a name.
    pub(crate) fn write_special(&self, stored: &'a StoredFile, serial: u32, out: &mut Vec<u8>) -> Result<UsedFeatures> {
        let payload = InodePayload::of(self.data, stored, self.options);
        self.put(&self.special_fields(), &payload, serial, out)?;
        Ok(payload.uses())
    }

    fn fields(&self, ino: Ino, nlink: u32) -> InodeFields<'a> {
        let inode = self.tree.inode(ino);
        let uid = inode.uid;
        let gid = inode.gid;
        let mtime = inode.mtime;
        let mode = inode.mode | type_bits(&inode.kind);
        let sum = match inode.kind {
            Kind::File { data: FileData::Stored(file), .. } => self.data.sums.get(file as usize),
            _ => None,
        };
        InodeFields { mode, uid, gid, mtime, nlink, xattrs: self.xattrs.attached(inode.xattrs, sum) }
    }

    fn special_fields(&self) -> InodeFields<'a> {
        InodeFields {
            mode: mode::FILE,
            uid: 0,
            gid: 0,
            mtime: self.epoch.time,
            nlink: 1,
            xattrs: InodeXattrs::default(),
        }
    }

    /// Returns the data fields of an inode that is not a directory.
    fn payload(&self, kind: &KindRef<'a>, target_block: Option<u64>) -> InodePayload<'a> {
        match kind {
            Kind::File { data: FileData::Stored(file), .. } => {
                InodePayload::of(self.data, &self.data.files[*file as usize], self.options)
            }
            Kind::Symlink(target) => {
                let size = target.len() as u64;
                match target_block {
                    Some(data) => InodePayload { size, data, follows: FollowingData::Nothing },
                    None => InodePayload { size, data: address(None), follows: FollowingData::Tail(target) },
                }
            }
            Kind::Char(device) | Kind::Block(device) => InodePayload::empty(device.encode().into()),
            Kind::File { .. } => InodePayload::empty(address(None)),
            Kind::Dir | Kind::Fifo | Kind::Socket => InodePayload::empty(0),
        }
    }

    /// Returns the time field of a compact inode; `None` if it cannot be compact.
    fn compact(&self, fields: &InodeFields<'_>, size: u64) -> Option<u32> {
        let wide =
            size > u32::MAX.into() || [fields.uid, fields.gid, fields.nlink].iter().any(|n| *n > u16::MAX.into());
        let extended = wide || self.far || self.options.features.contains(Features::EXTENDED_INODES);
        if extended { None } else { self.epoch.offset(fields.mtime) }
    }

    /// Returns the length of an inode with its xattrs.
    fn head_len(&self, fields: &InodeFields<'_>, size: u64) -> u64 {
        let inode = match self.compact(fields, size) {
            Some(_) => size_of::<CompactInode>(),
            None => size_of::<ExtendedInode>(),
        };
        (inode + fields.xattrs.len()) as u64
    }

    /// Returns the room for an inode and what follows it.
    fn room(&self, fields: &InodeFields<'_>, payload: &InodePayload<'_>) -> InodeRoom {
        let head = self.head_len(fields, payload.size);
        let (len, together) = match payload.follows {
            FollowingData::Nothing => (0, 0),
            FollowingData::Tail(tail) => (tail.len(), tail.len()),
            FollowingData::Kept(tail) => (tail.len(), tail.len()),
            FollowingData::Chunks(..) | FollowingData::Holes(_) => {
                (self.chunks_gap(head, payload) + self.chunks_len(payload), 0)
            }
            FollowingData::Index(index) => {
                let IndexPlace { gap, offset } = index_place(head);
                let room = index.room(offset);
                (gap + room.len, room.together)
            }
        };
        InodeRoom { len: head + len as u64, together: together as u64, blocks: 0 }
    }

    /// Returns the number of bytes of the addresses of chunks.
    fn chunks_len(&self, payload: &InodePayload<'_>) -> usize {
        let count = match payload.follows {
            FollowingData::Chunks(_, blocks) => blocks.len(),
            FollowingData::Holes(count) => count as usize,
            _ => 0,
        };
        count * self.chunk_entry(payload).len()
    }

    /// Returns the number of bytes between `head` of inode and xattrs, and the addresses of chunks.
    fn chunks_gap(&self, head: u64, payload: &InodePayload<'_>) -> usize {
        let entry = self.chunk_entry(payload).len() as u64;
        usize::try_from(head.next_multiple_of(entry) - head).expect("less than an entry")
    }

    /// Returns the form of the addresses of chunks.
    fn chunk_entry(&self, payload: &InodePayload<'_>) -> ChunkEntry {
        let elsewhere = matches!(payload.follows, FollowingData::Chunks(1.., _));
        match self.options.features {
            _ if self.far => ChunkEntry::Index48,
            features if !features.contains(Features::CHUNK_INDEXES) && !elsewhere => ChunkEntry::Block,
            features if features.contains(Features::BITS_48) => ChunkEntry::Index48,
            _ => ChunkEntry::Index,
        }
    }

    fn put(&self, fields: &InodeFields<'_>, payload: &InodePayload<'_>, serial: u32, out: &mut Vec<u8>) -> Result<()> {
        let head = self.head_len(fields, payload.size);
        let IndexPlace { gap, offset } = index_place(head);
        let chunks_gap = self.chunks_gap(head, payload);
        let entry = self.chunk_entry(payload);
        let data = match payload.follows {
            FollowingData::Chunks(..) | FollowingData::Holes(_) => payload.data | u64::from(entry.format()),
            _ => payload.data,
        };
        let mut layout = (payload.layout(offset) as u16) << inode_format::LAYOUT_SHIFT;
        if fields.mode & mode::MASK == mode::DIR && !self.has_dot() {
            layout |= inode_format::ONE_LINK_OR_NO_DOT;
        }
        let xattr_count = match fields.xattrs.len() {
            0 => 0,
            // As `erofs_xattr_ibody_size` in Linux reads it: 1 for the header of 12 bytes, 1 more for every 4
            // bytes after it.
            len => u16::try_from((len - 12) / 4 + 1).expect("checked when they were encoded"),
        };
        let head = InodeHead { layout, xattr_count, size: payload.size, data, serial };
        match self.compact(fields, payload.size) {
            Some(mtime) => out.extend_from_slice(head.compact(fields, mtime).as_bytes()),
            None => {
                let has_wide_addresses = self.options.features.contains(Features::BITS_48);
                out.extend_from_slice(head.extended(fields, has_wide_addresses).as_bytes());
            }
        }
        fields.xattrs.put(out);
        match payload.follows {
            FollowingData::Nothing => Ok(()),
            FollowingData::Tail(tail) => {
                out.extend_from_slice(tail);
                Ok(())
            }
            FollowingData::Kept(tail) => self.data.keep.get(tail, out),
            FollowingData::Chunks(device, blocks) => {
                out.resize(out.len() + chunks_gap, 0);
                blocks.iter().for_each(|at| entry.put(device, *at, out));
                Ok(())
            }
            FollowingData::Holes(count) => {
                out.resize(out.len() + chunks_gap, 0);
                (0..count).for_each(|_| entry.put(0, None, out));
                Ok(())
            }
            FollowingData::Index(index) => {
                out.resize(out.len() + gap, 0);
                index.write(offset, &self.data.keep, out)
            }
        }
        .map_err(Error::io("cannot read back", "a temporary file"))
    }
}

/// Fields of both forms of an inode that its entry in the tree does not have.
#[derive(Debug, Clone, Copy)]
struct InodeHead {
    /// Layout of the data, and flags.
    layout: u16,
    xattr_count: u16,
    size: u64,
    /// Address of the data, or what the layout has in its place.
    data: u64,
    serial: u32,
}

impl InodeHead {
    fn compact(&self, fields: &InodeFields<'_>, mtime: u32) -> CompactInode {
        let narrow = |n: u32| u16::try_from(n).expect("a compact inode's fields fit");
        CompactInode {
            i_format: self.layout.into(),
            i_xattr_icount: self.xattr_count.into(),
            i_mode: fields.mode.into(),
            i_nb: narrow(fields.nlink).into(),
            i_size: u32::try_from(self.size).expect("a compact inode's fields fit").into(),
            i_mtime: mtime.into(),
            i_u: low(self.data).into(),
            i_ino: self.serial.into(),
            i_uid: narrow(fields.uid).into(),
            i_gid: narrow(fields.gid).into(),
            i_reserved: 0.into(),
        }
    }

    fn extended(&self, fields: &InodeFields<'_>, has_wide_addresses: bool) -> ExtendedInode {
        ExtendedInode {
            i_format: (self.layout | inode_format::EXTENDED).into(),
            i_xattr_icount: self.xattr_count.into(),
            i_mode: fields.mode.into(),
            i_nb: if has_wide_addresses { high(self.data) } else { 0 }.into(),
            i_size: self.size.into(),
            i_u: low(self.data).into(),
            i_ino: self.serial.into(),
            i_uid: fields.uid.into(),
            i_gid: fields.gid.into(),
            i_mtime: fields.mtime.secs.into(),
            i_mtime_nsec: fields.mtime.nanos.into(),
            i_nlink: fields.nlink.into(),
            i_reserved2: [0; 16],
        }
    }
}

/// Where an index begins.
#[derive(Debug, Clone, Copy)]
struct IndexPlace {
    /// Number of bytes between inode and xattrs, and the index.
    gap: usize,
    /// Offset of the index in a slot.
    offset: usize,
}

/// Returns where an index begins after `head` bytes of inode and xattrs.
fn index_place(head: u64) -> IndexPlace {
    // Linux rounds up to 8 in the same way (fs/erofs/zmap.c).
    let at = head.next_multiple_of(8);
    let small = |n: u64| usize::try_from(n).expect("below a slot's length");
    IndexPlace { gap: small(at - head), offset: small(at % INODE_SLOT) }
}

fn dir_links(listing: &DirListing) -> u32 {
    listing.subdirs.saturating_add(2)
}

/// Returns the file type in an inode's mode.
pub(crate) fn type_bits(kind: &KindRef<'_>) -> u16 {
    match kind {
        Kind::Dir => mode::DIR,
        Kind::File { .. } => mode::FILE,
        Kind::Symlink(_) => mode::SYMLINK,
        Kind::Char(_) => mode::CHAR,
        Kind::Block(_) => mode::BLOCK,
        Kind::Fifo => mode::FIFO,
        Kind::Socket => mode::SOCKET,
    }
}
