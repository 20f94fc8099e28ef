//! On-disk facts of single inodes.

use std::ops::ControlFlow;

use super::map::{self, MappedBlock};
use super::{InodeBody, SquashfsReader, decode, dir, inode};
use crate::Result;
use crate::image::Nid;
use crate::placement::{Area, FragmentPosition, PlacedPiece, StoredLocation};
use crate::squashfs::format::{self, inode_type};

/// Fields of an inode that its attributes do not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodeFacts {
    /// Byte offset in the image of the metadata block that holds the inode.
    pub block: u64,
    /// Byte offset of the inode in the decoded metadata block.
    pub offset: usize,
    /// Type as stored: 1 to 7 for basic inodes, 8 to 14 for extended ones.
    pub kind: u16,
    /// Index of the owner in the id table.
    pub uid_index: u16,
    /// Index of the group in the id table.
    pub gid_index: u16,
    /// Index of the set of extended attributes; `None` for none.
    pub xattr_set: Option<u32>,
    /// Fields of this type of inode.
    pub body: BodyFacts,
}

/// Fields of one type of inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyFacts {
    /// A directory.
    Dir {
        /// Offset of the listing's first metadata block from the start of the directory table.
        start: u32,
        /// Byte offset of the listing in the decoded metadata block.
        offset: u16,
        /// Length of the listing plus 3.
        size: u32,
        /// Inode number of the parent.
        parent: u32,
        /// Number of entries in the directory's index.
        index: u16,
    },
    /// A regular file.
    File {
        /// Byte offset of its first block in the image.
        start: u64,
        /// Number of bytes in holes, as counted by the writer.
        sparse: u64,
        /// Index of the fragment block with its tail, and the offset in there.
        fragment: Option<(u32, u32)>,
    },
    /// Everything else.
    Other,
}

/// An entry of a directory's index: a run of its listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexEntry {
    /// The first name of the run.
    pub name: Box<[u8]>,
    /// Offset of the run's metadata block from the start of the directory table.
    pub block: u32,
    /// Byte offset of the run in the decoded listing.
    pub offset: u32,
}

impl InodeFacts {
    /// Returns true for an extended inode.
    pub fn extended(&self) -> bool {
        self.kind > inode_type::EXTENDED
    }
}

impl SquashfsReader {
    /// Returns the on-disk facts of an inode.
    pub fn facts(&self, nid: Nid) -> Result<InodeFacts> {
        let (inode, _) = self.inode(nid)?;
        let at = inode::position(self.inodes, nid);
        let body = match &inode.body {
            InodeBody::Dir(dir) => BodyFacts::Dir {
                start: dir.start,
                offset: dir.offset,
                size: dir.size,
                parent: dir.parent,
                index: dir.index_count,
            },
            InodeBody::File(file) => BodyFacts::File {
                start: file.start,
                sparse: file.sparse,
                fragment: file.tail.map(|tail| (tail.fragment, tail.offset)),
            },
            _ => BodyFacts::Other,
        };
        Ok(InodeFacts {
            block: at.block,
            offset: at.offset,
            kind: inode.kind,
            uid_index: inode.uid,
            gid_index: inode.gid,
            xattr_set: inode.xattr,
            body,
        })
    }

    /// Returns the index of a directory; empty for one without.
    pub fn dir_index(&self, nid: Nid) -> Result<Vec<IndexEntry>> {
        let (dir, mut cursor) = self.dir(nid)?;
        let entries = (0..dir.index_count).map(|_| {
            // The entries have names of any length, so they are read one after the other.
            let (at, name) = dir::index_entry(&mut cursor)?;
            Ok(IndexEntry { name, block: at.start_block.get(), offset: at.index.get() })
        });
        entries.collect()
    }

    /// See [`AnyImage::placement`](crate::AnyImage::placement).
    pub fn placement(&self, nid: Nid, visit: &mut dyn FnMut(PlacedPiece) -> ControlFlow<()>) -> Result<()> {
        if !matches!(self.inode(nid)?.0.body, InodeBody::File(_)) {
            return Ok(());
        }
        let file = self.file(nid)?;
        let mut blocks = file.blocks(&self.metadata, 0)?;
        // Adjacent holes are one piece: the format has an entry for each block of them.
        let mut hole = None;
        while let Some(block) = blocks.next()? {
            let placed = self.placed(&block)?;
            if placed.stored.is_none() {
                let run = hole.get_or_insert(PlacedPiece { len: 0, ..placed });
                run.len += placed.len;
            } else if hole.take().is_some_and(|run| visit(run).is_break()) || visit(placed).is_break() {
                return Ok(());
            }
        }
        if hole.is_some_and(|run| visit(run).is_break()) {
            return Ok(());
        }
        if let Some(tail) = file.tail().filter(|tail| tail.len > 0) {
            let index = tail.tail.fragment;
            let offset = tail.tail.offset.into();
            let entry: format::Fragment = self.fragments.get(&self.metadata, index.into())?;
            let start = entry.start_block.get();
            let word = entry.size.get();
            let stored = map::stored("fragment block", start, word, self.superblock.block_size)?;
            let fragment = Some(FragmentPosition { index: Some(index), offset });
            let stored = Some(self.stored(stored));
            // The last piece: whether it breaks makes no difference.
            let _ = visit(PlacedPiece { offset: tail.offset, len: tail.len as u64, stored, fragment });
        }
        Ok(())
    }

    fn placed(&self, block: &MappedBlock) -> Result<PlacedPiece> {
        let stored = block.stored()?.map(|stored| self.stored(stored));
        Ok(PlacedPiece { offset: block.offset, len: block.len as u64, stored, fragment: None })
    }

    fn stored(&self, stored: decode::LocatedBlock) -> StoredLocation {
        StoredLocation {
            area: Area::Image,
            position: stored.start,
            len: stored.len as u64,
            codec: (!stored.raw).then(|| self.superblock.codec.name()),
            partial: false,
            inline: false,
        }
    }
}
