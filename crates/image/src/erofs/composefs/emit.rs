//! Writes the image from its beginning to its end: inodes, shared attributes, blocks.

use std::collections::HashMap;
use std::io::{self, Write};

use zerocopy::IntoBytes;

use super::attributes::AttributeTable;
use super::order::{ImageNode, InodeOrder, InodeRole, STUB_MODE};
use super::shape::{DirPart, InodeShape, Placing, chunk_bits, chunk_count, inode_len, parts};
use super::{BLOCK, EmitError, FileContent, WrittenImage};
use crate::erofs::format::{
    CompactInode, Compat, Dirent, ExtendedInode, INODE_SLOT, Layout, MAGIC, NO_BLOCK, SUPERBLOCK_OFFSET, Superblock,
    file_type, inode_format,
};
use crate::erofs::writer::emit::dir::type_of;
use crate::erofs::writer::emit::inode::{mode, type_bits};
use crate::name::display;
use crate::tree::{Ino, Kind, ROOT, Time, Tree};
use crate::{Error, Result};

/// The first four bytes of the image, and the versions of the header and of the format.
const HEADER_MAGIC: u32 = 0xd078_629a;
const HEADER_VERSION: u32 = 1;
const FORMAT_VERSION: u32 = 1;
/// Flag of the header: there are ACLs.
const HAS_ACL: u32 = 1;

/// An image, measured.
#[derive(Debug)]
pub(super) struct ImageEmitter<'t> {
    tree: &'t Tree,
    files: &'t HashMap<Ino, FileContent>,
    order: InodeOrder,
    attributes: AttributeTable<'t>,
    /// The earliest time, which compact inodes have.
    epoch: Time,
    places: ImagePlaces,
}

/// Places of the parts of the image.
#[derive(Debug, Default)]
struct ImagePlaces {
    /// Offsets of the inodes.
    inodes: Vec<u64>,
    inodes_end: u64,
    /// The first block after inodes and shared attributes.
    first_block: u32,
    /// Number of blocks of the image.
    blocks: u32,
}

/// Fields of an inode that the tree has, or that stand for them.
struct InodeFields {
    mode: u16,
    uid: u32,
    gid: u32,
    mtime: Time,
}

impl<'t> ImageEmitter<'t> {
    pub(super) fn new(tree: &'t Tree, files: &'t HashMap<Ino, FileContent>) -> Result<Self> {
        let order = InodeOrder::of(tree)?;
        let attributes = AttributeTable::of(tree, files, &order.nodes)?;
        let places = ImagePlaces::default();
        let mut emitter = ImageEmitter { tree, files, order, attributes, epoch: Time::default(), places };
        // Times before 1970 count as the latest.
        let times = emitter.order.nodes.iter().map(|node| emitter.fields(node).mtime);
        emitter.epoch = times.min_by_key(|time| (time.secs.cast_unsigned(), time.nanos)).unwrap_or_default();
        emitter.places = emitter.place()?;
        Ok(emitter)
    }

    /// Finds the places of all parts.
    fn place(&self) -> Result<ImagePlaces> {
        let mut places = ImagePlaces::default();
        let mut at = SUPERBLOCK_OFFSET + size_of::<Superblock>() as u64;
        let mut blocks = 0u64;
        for number in self.numbers() {
            let shape = self.shape(number, self.attributes.body(self.node(number), 0)?.len())?;
            let start = shape.start(at);
            places.inodes.push(start);
            at = start + shape.len();
            blocks += u64::from(shape.blocks);
        }
        places.inodes_end = at.next_multiple_of(INODE_SLOT);
        let first_block = (places.inodes_end + self.attributes.table.len() as u64).div_ceil(BLOCK);
        let too_many = |_| Error::TooMany { what: "blocks of metadata", max: u32::MAX.into() };
        places.first_block = u32::try_from(first_block).map_err(too_many)?;
        places.blocks = u32::try_from(first_block + blocks).map_err(too_many)?;
        Ok(places)
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> std::result::Result<WrittenImage, EmitError> {
        let mut out = CountedOutput { out, at: 0 };
        let has_acl = if self.attributes.has_acl { HAS_ACL } else { 0 };
        for word in [HEADER_MAGIC, HEADER_VERSION, has_acl, FORMAT_VERSION] {
            out.put(&word.to_le_bytes())?;
        }
        out.pad_to(SUPERBLOCK_OFFSET)?;
        out.put(self.superblock().as_bytes())?;
        // Blocks are in the order of their inodes.
        let mut next_block = self.places.first_block;
        for number in self.numbers() {
            out.pad_to(self.places.inodes[number as usize])?;
            let mut bytes = Vec::new();
            self.put_inode(number, &mut next_block, &mut bytes)?;
            out.put(&bytes)?;
        }
        out.pad_to(self.places.inodes_end)?;
        out.put(&self.attributes.table)?;
        out.pad_to(u64::from(self.places.first_block) * BLOCK)?;
        for number in self.numbers() {
            self.put_blocks(number, &mut out)?;
        }
        let len = u64::from(self.places.blocks) * BLOCK;
        debug_assert_eq!(out.at, len);
        Ok(WrittenImage { len, inodes: self.order.nodes.len() as u64 })
    }

    fn numbers(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.order.nodes.len()).expect("numbered in 32 bits")
    }

    fn node(&self, number: u32) -> &ImageNode {
        &self.order.nodes[number as usize]
    }

    fn nid(&self, number: u32) -> u64 {
        self.places.inodes[number as usize] / INODE_SLOT
    }

    /// Returns the block from which ids of shared attributes count.
    fn attributes_block(&self) -> u32 {
        u32::try_from(self.places.inodes_end / BLOCK).expect("before the last block")
    }

    fn superblock(&self) -> Superblock {
        Superblock {
            magic: MAGIC.into(),
            checksum: 0.into(),
            feature_compat: (Compat::MTIME | Compat::XATTR_FILTER).bits().into(),
            blkszbits: 12,
            sb_extslots: 0,
            rb: u16::try_from(self.nid(0)).expect("in the first blocks").into(),
            inos: (self.order.nodes.len() as u64).into(),
            epoch: self.epoch.secs.into(),
            fixed_nsec: self.epoch.nanos.into(),
            blocks_lo: self.places.blocks.into(),
            meta_blkaddr: 0.into(),
            xattr_blkaddr: self.attributes_block().into(),
            uuid: [0; 16],
            volume_name: [0; 16],
            // Not even that files are in chunks.
            feature_incompat: 0.into(),
            u1: 0.into(),
            extra_devices: 0.into(),
            devt_slotoff: 0.into(),
            dirblkbits: 0,
            xattr_prefix_count: 0,
            xattr_prefix_start: 0.into(),
            packed_nid: 0.into(),
            xattr_filter_reserved: 0,
            ishare_xattr_prefix_id: 0,
            reserved: [0; 2],
            build_time: 0.into(),
            rootnid_8b: 0.into(),
            reserved2: [0; 8],
        }
    }

    fn fields(&self, node: &ImageNode) -> InodeFields {
        let (inode, mode) = match node.role {
            InodeRole::Entry(ino) => {
                let inode = self.tree.inode(ino);
                (inode.clone(), type_bits(&inode.kind) | inode.mode)
            }
            InodeRole::MarkedWhiteout(ino) => {
                let inode = self.tree.inode(ino);
                (inode.clone(), mode::FILE | inode.mode)
            }
            InodeRole::Stub => (self.tree.inode(ROOT), mode::CHAR | STUB_MODE),
        };
        InodeFields { mode, uid: inode.uid, gid: inode.gid, mtime: inode.mtime }
    }

    /// Returns the content of a file of `size` bytes, which is not empty.
    fn content(&self, ino: Ino, size: u64) -> Result<&FileContent> {
        let misuse =
            || Error::Misuse(format!("the content of {} is missing or wrong", display(&self.tree.path_of(ino))));
        self.files.get(&ino).filter(|content| content.is_of(size)).ok_or_else(misuse)
    }

    /// Measures an inode with `attributes` bytes of attributes.
    fn shape(&self, number: u32, attributes: usize) -> Result<InodeShape> {
        let node = self.node(number);
        let mut shape = InodeShape {
            layout: Layout::Plain,
            placing: Placing::Anywhere,
            is_compact: false,
            size: 0,
            links: node.links,
            attributes: attributes as u64,
            tail: 0,
            blocks: 0,
        };
        let kind = match node.role {
            InodeRole::Entry(ino) => Some((ino, self.tree.inode(ino).kind)),
            InodeRole::MarkedWhiteout(_) | InodeRole::Stub => None,
        };
        match &kind {
            Some((_, Kind::Dir)) => self.measure_dir(number, &mut shape),
            Some((_, Kind::File { size: 0, .. })) => {}
            Some((ino, Kind::File { size, .. })) => {
                shape.size = *size;
                shape.placing = Placing::Tail;
                (shape.layout, shape.tail) = match self.content(*ino, *size)? {
                    FileContent::Inline(_) => (Layout::Inline, *size),
                    FileContent::Object(_) => (Layout::Chunks, 4 * chunk_count(*size)),
                };
            }
            Some((_, Kind::Symlink(target))) => {
                shape.size = target.len() as u64;
                shape.placing = Placing::Whole;
            }
            Some((_, Kind::Char(_) | Kind::Block(_) | Kind::Fifo | Kind::Socket)) | None => {}
        }
        shape.is_compact = self.is_compact(&self.fields(node), &shape);
        if shape.placing == Placing::Whole {
            let head = inode_len(shape.is_compact) + shape.attributes;
            match head + shape.size < BLOCK {
                true => (shape.layout, shape.tail) = (Layout::Inline, shape.size),
                false => shape.blocks = 1,
            }
        }
        Ok(shape)
    }

    fn measure_dir(&self, number: u32, shape: &mut InodeShape) {
        let subdirs = self.order.entries(self.tree, number).filter(|entry| self.type_of(entry.node) == file_type::DIR);
        shape.links = u32::try_from(subdirs.count()).expect("fewer than inodes");
        for part in parts(self.order.entries(self.tree, number)) {
            if part.is_tail {
                shape.tail = part.len as u64;
            } else {
                shape.blocks += 1;
            }
        }
        shape.size = u64::from(shape.blocks) * BLOCK + shape.tail;
        if shape.tail > 0 {
            (shape.layout, shape.placing) = (Layout::Inline, Placing::Tail);
        }
    }

    /// Returns true if an inode of 32 bytes holds all fields.
    fn is_compact(&self, fields: &InodeFields, shape: &InodeShape) -> bool {
        let is_narrow = |n: u32| u16::try_from(n).is_ok();
        fields.mtime == self.epoch
            && [shape.links, fields.uid, fields.gid].into_iter().all(is_narrow)
            && u32::try_from(shape.size).is_ok()
    }

    /// Returns the file type in directory entries.
    fn type_of(&self, number: u32) -> u8 {
        match self.node(number).role {
            InodeRole::Entry(ino) => type_of(&self.tree.inode(ino).kind),
            InodeRole::MarkedWhiteout(_) => file_type::FILE,
            InodeRole::Stub => file_type::CHAR,
        }
    }

    /// Encodes an inode and all that follows it; `next_block` is the first block that no inode before has.
    fn put_inode(&self, number: u32, next_block: &mut u32, out: &mut Vec<u8>) -> Result<()> {
        let node = self.node(number);
        let base = u64::from(self.attributes_block()) * BLOCK;
        let base = u32::try_from((self.places.inodes_end - base) / 4).expect("less than a block");
        let body = self.attributes.body(node, base)?;
        let shape = self.shape(number, body.len())?;
        let blocks_at = if shape.blocks > 0 { *next_block } else { 0 };
        *next_block += shape.blocks;
        let kind = match node.role {
            InodeRole::Entry(ino) => Some((ino, self.tree.inode(ino).kind)),
            InodeRole::MarkedWhiteout(_) | InodeRole::Stub => None,
        };
        let data = match &kind {
            Some((_, Kind::Char(device) | Kind::Block(device))) => device.encode(),
            Some((_, Kind::File { size, .. })) if shape.layout == Layout::Chunks => chunk_bits(*size) - BLOCK.ilog2(),
            _ => blocks_at,
        };
        self.put_fields(number, &shape, data, out);
        out.extend_from_slice(&body);
        match &kind {
            Some((_, Kind::Dir)) => {
                if let Some(tail) = parts(self.order.entries(self.tree, number)).find(|part| part.is_tail) {
                    self.put_part(&tail, out);
                }
            }
            Some((_, Kind::Symlink(target))) if shape.tail > 0 => out.extend_from_slice(target),
            Some((ino, Kind::File { size: size @ 1.., .. })) => match self.content(*ino, *size)? {
                FileContent::Inline(bytes) => out.extend_from_slice(bytes),
                // Chunks are holes.
                FileContent::Object(_) => {
                    (0..shape.tail / 4).for_each(|_| out.extend_from_slice(&NO_BLOCK.to_le_bytes()));
                }
            },
            _ => {}
        }
        Ok(())
    }

    fn put_fields(&self, number: u32, shape: &InodeShape, data: u32, out: &mut Vec<u8>) {
        let InodeFields { mode, uid, gid, mtime } = self.fields(self.node(number));
        let format = (shape.layout as u16) << inode_format::LAYOUT_SHIFT;
        let attribute_words = match shape.attributes {
            0 => 0,
            len => u16::try_from((len - 12) / 4 + 1).expect("checked when they were encoded"),
        };
        if shape.is_compact {
            let narrow = |n: u32| u16::try_from(n).expect("a compact inode's fields fit").into();
            let inode = CompactInode {
                i_format: format.into(),
                i_xattr_icount: attribute_words.into(),
                i_mode: mode.into(),
                i_nb: narrow(shape.links),
                i_size: u32::try_from(shape.size).expect("a compact inode's fields fit").into(),
                i_mtime: 0.into(),
                i_u: data.into(),
                i_ino: number.into(),
                i_uid: narrow(uid),
                i_gid: narrow(gid),
                i_reserved: 0.into(),
            };
            out.extend_from_slice(inode.as_bytes());
        } else {
            let inode = ExtendedInode {
                i_format: (format | inode_format::EXTENDED).into(),
                i_xattr_icount: attribute_words.into(),
                i_mode: mode.into(),
                i_nb: 0.into(),
                i_size: shape.size.into(),
                i_u: data.into(),
                i_ino: number.into(),
                i_uid: uid.into(),
                i_gid: gid.into(),
                i_mtime: mtime.secs.into(),
                i_mtime_nsec: mtime.nanos.into(),
                i_nlink: shape.links.into(),
                i_reserved2: [0; 16],
            };
            out.extend_from_slice(inode.as_bytes());
        }
    }

    fn put_part(&self, part: &DirPart<'_>, out: &mut Vec<u8>) {
        let mut name_offset = size_of::<Dirent>() * part.entries.len();
        for entry in &part.entries {
            let dirent = Dirent {
                nid: self.nid(entry.node).into(),
                nameoff: u16::try_from(name_offset).expect("in a block").into(),
                file_type: self.type_of(entry.node),
                reserved: 0,
            };
            out.extend_from_slice(dirent.as_bytes());
            name_offset += entry.name.len();
        }
        part.entries.iter().for_each(|entry| out.extend_from_slice(entry.name));
    }

    /// Writes the blocks of an inode.
    fn put_blocks(&self, number: u32, out: &mut CountedOutput<'_>) -> std::result::Result<(), EmitError> {
        let node = self.node(number);
        let InodeRole::Entry(ino) = node.role else { return Ok(()) };
        match self.tree.inode(ino).kind {
            Kind::Dir => {
                for part in parts(self.order.entries(self.tree, number)).filter(|part| !part.is_tail) {
                    let mut bytes = Vec::new();
                    self.put_part(&part, &mut bytes);
                    out.put_block(&bytes)?;
                }
            }
            Kind::Symlink(target) => {
                let shape = self.shape(number, self.attributes.body(node, 0)?.len())?;
                if shape.blocks > 0 {
                    out.put_block(target)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// An output, and the number of bytes written to it.
struct CountedOutput<'o> {
    out: &'o mut dyn Write,
    at: u64,
}

impl CountedOutput<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Writes zeros up to the offset `to`, which is less than a block or two away.
    fn pad_to(&mut self, to: u64) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(to - self.at).expect("a gap between parts of the image")];
        self.put(&zeros)
    }

    fn put_block(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.put(bytes)?;
        self.pad_to(self.at.next_multiple_of(BLOCK))
    }
}
