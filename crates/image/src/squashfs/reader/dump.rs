//! Prints an image as text, every structure with its offset and its fields: for people who study
//! images and for tests that pin them down.

use std::fmt::{Display, Write};

use zerocopy::little_endian::U64;

use super::SquashfsReader;
use super::dir::{self, ListingCursor};
use super::inode::{DecodedInode, DirBody, FileBody, InodeBody};
use super::map::FileMap;
use super::metadata::{HEADER_LEN, MetadataArea, MetadataCursor, MetadataPosition, stored_len};
use super::xattr::StoredValue;
use crate::Result;
use crate::squashfs::format::{self, DATA_RAW};

/// Names of the superblock's flags, from the lowest bit up.
const FLAGS: [&str; 12] = [
    "raw-inodes",
    "raw-data",
    "check",
    "raw-fragments",
    "no-fragments",
    "always-fragments",
    "duplicates",
    "exportable",
    "raw-xattrs",
    "no-xattrs",
    "compressor-options",
    "raw-ids",
];

impl SquashfsReader {
    /// Returns all structures of the image as text, in the order of the image. Meant for small
    /// images: the text is held in memory and is several times as long as their metadata.
    pub fn dump(&self) -> Result<String> {
        let mut dump = SquashfsDump { reader: self, text: String::new() };
        dump.superblock();
        dump.inodes()?;
        dump.fragments()?;
        dump.export()?;
        dump.ids();
        dump.xattrs()?;
        Ok(dump.text)
    }
}

struct SquashfsDump<'r> {
    reader: &'r SquashfsReader,
    text: String,
}

impl SquashfsDump<'_> {
    fn line(&mut self, level: usize, line: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{:1$}{line}", "", level * 2);
    }

    fn superblock(&mut self) {
        let superblock = &self.reader.superblock;
        let flags: Vec<&str> = FLAGS
            .iter()
            .enumerate()
            .filter(|(bit, _)| superblock.flags.bits() >> bit & 1 == 1)
            .map(|(_, name)| *name)
            .collect();
        let table = |at: Option<u64>| at.map_or("none".to_owned(), |at| at.to_string());
        self.line(0, "superblock at 0");
        self.line(
            1,
            format!("inodes {}, ids {}, fragments {}", superblock.inodes, superblock.ids, superblock.fragments),
        );
        self.line(1, format!("mkfs_time {}, block_size {}", superblock.mkfs_time, superblock.block_size));
        self.line(
            1,
            format!("codec {}, flags {:#06x}: {}", superblock.codec.name(), superblock.flags.bits(), flags.join(" ")),
        );
        self.line(1, format!("root {:#x}, bytes_used {}", superblock.root.0, superblock.bytes_used));
        self.line(
            1,
            format!(
                "inode_table {}, directory_table {}, fragment_table {}",
                superblock.inode_table,
                superblock.directory_table,
                table((superblock.fragments > 0).then_some(superblock.fragment_table))
            ),
        );
        self.line(
            1,
            format!(
                "export_table {}, id_table {}, xattr_table {}",
                table(superblock.export_table),
                superblock.id_table,
                table(superblock.xattr_table)
            ),
        );
        if let Some(options) = superblock.options {
            self.line(0, format!("compressor options at {}", super::superblock::LEN));
            self.line(1, format!("{options:?}"));
        }
    }

    /// Prints the metadata blocks of an area.
    fn area(&mut self, area: MetadataArea) -> Result<()> {
        self.line(0, format!("{} at {} to {}", area.structure, area.start, area.end));
        let mut start = area.start;
        while start < area.end {
            // A block in the cache has its header with it.
            let block = self.reader.metadata.block(area, start)?;
            let payload = block.len() - HEADER_LEN;
            let stored = stored_len(&block);
            self.line(1, format!("metadata block at {start}: {payload} bytes, stored in {stored}"));
            start += (HEADER_LEN + stored) as u64;
        }
        Ok(())
    }

    fn inodes(&mut self) -> Result<()> {
        let area = self.reader.inodes;
        self.area(area)?;
        // Listings are printed after all inodes, as they lie in the image.
        let mut dirs = Vec::new();
        let mut cursor = self.reader.metadata.cursor(area, MetadataPosition { block: area.start, offset: 0 })?;
        while let Some(at) = cursor.settle()? {
            let inode = DecodedInode::parse(&mut cursor)?;
            self.inode(&inode, at, &mut cursor)?;
            if let InodeBody::Dir(dir) = inode.body {
                dirs.push((inode.number, dir));
            }
        }
        self.area(self.reader.listings)?;
        dirs.into_iter().try_for_each(|(number, dir)| self.listing(number, &dir))
    }

    fn inode(&mut self, inode: &DecodedInode, at: MetadataPosition, cursor: &mut MetadataCursor<'_>) -> Result<()> {
        let DecodedInode { number, kind, mode, uid, gid, mtime, nlink, .. } = inode;
        let reference = (at.block - self.reader.inodes.start) << 16 | at.offset as u64;
        let head = format!("inode {number} at {reference:#x}: type {kind}, mode {mode:04o}, uid {uid}, gid {gid}");
        let xattr = inode.xattr.map_or(String::new(), |set| format!(", xattr {set}"));
        self.line(1, format!("{head}, mtime {mtime}, nlink {nlink}{xattr}"));
        match &inode.body {
            InodeBody::Dir(dir) => {
                let DirBody { start, offset, size, parent, index_count } = dir;
                self.line(2, format!("listing at {start}:{offset}, size {size}, parent {parent}, index {index_count}"));
                for _ in 0..*index_count {
                    let (mark, name) = dir::index_entry(cursor)?;
                    let offset = mark.index;
                    let start = mark.start_block;
                    self.line(3, format!("from {offset} in block {start}: `{}`", name.escape_ascii()));
                }
            }
            InodeBody::File(file) => self.file(file, cursor)?,
            InodeBody::Symlink(target) => self.line(2, format!("target `{}`", target.escape_ascii())),
            InodeBody::Block(device) | InodeBody::Char(device) => {
                self.line(2, format!("device {}:{}", device.major, device.minor));
            }
            InodeBody::Fifo | InodeBody::Socket => {}
        }
        Ok(())
    }

    fn file(&mut self, file: &FileBody, cursor: &mut MetadataCursor<'_>) -> Result<()> {
        let reader = self.reader;
        self.line(2, format!("size {}, start {}, sparse {}", file.size, file.start, file.sparse));
        // The cursor is after the block list then, where the next inode begins.
        let map = FileMap::map(cursor, reader.inodes, reader.superblock.block_size, file)?;
        let mut blocks = map.blocks(&reader.metadata, 0)?;
        while let Some(block) = blocks.next()? {
            let (start, word) = block.place();
            match block.is_hole() {
                true => self.line(3, format!("{} bytes: hole", block.len)),
                false => self.line(3, format!("{} bytes: at {start}, {}", block.len, stored(word))),
            }
        }
        if let Some(tail) = map.tail() {
            let fragment = tail.tail.fragment;
            let offset = tail.tail.offset;
            self.line(3, format!("{} bytes: in fragment {fragment} at {offset}", tail.len));
        }
        Ok(())
    }

    fn listing(&mut self, number: u32, dir: &DirBody) -> Result<()> {
        self.line(1, format!("directory {number} at {}:{}", dir.start, dir.offset));
        let reader = self.reader;
        let Some(mut listing) = ListingCursor::open(&reader.metadata, reader.listings, dir)? else { return Ok(()) };
        while let Some((entry, name)) = listing.next()? {
            let name = name.escape_ascii().to_string();
            if let Some(header) = listing.new_header() {
                self.line(2, format!("header at {}", header.offset));
            }
            self.line(3, format!("`{name}` {:#x}, inode {}, type {}", entry.nid.0, entry.number, entry.kind));
        }
        Ok(())
    }

    fn fragments(&mut self) -> Result<()> {
        let table = &self.reader.fragments;
        if table.len() == 0 {
            return Ok(());
        }
        self.area(table.area())?;
        for n in 0..table.len() {
            let entry: format::Fragment = table.get(&self.reader.metadata, n)?;
            self.line(1, format!("fragment {n}: at {}, {}", entry.start_block, stored(entry.size.get())));
        }
        Ok(())
    }

    fn export(&mut self) -> Result<()> {
        let Some(table) = &self.reader.export else { return Ok(()) };
        self.area(table.area())?;
        for n in 0..table.len() {
            let reference: U64 = table.get(&self.reader.metadata, n)?;
            self.line(1, format!("inode {}: {:#x}", n + 1, reference.get()));
        }
        Ok(())
    }

    fn ids(&mut self) {
        self.line(0, format!("id table at {}", self.reader.ids_table.area().start));
        for (n, id) in self.reader.ids.iter().enumerate() {
            self.line(1, format!("id {n}: {id}"));
        }
    }

    fn xattrs(&mut self) -> Result<()> {
        let Some(xattrs) = &self.reader.xattrs else { return Ok(()) };
        self.area(xattrs.pairs)?;
        for n in 0..xattrs.sets.len() {
            let set: format::XattrSetEntry = xattrs.sets.get(&self.reader.metadata, n)?;
            self.line(1, format!("set {n}: at {:#x}, {} pairs, {} bytes", set.xattr, set.count, set.size));
            let mut lines = Vec::new();
            xattrs.each(&self.reader.metadata, u32::try_from(n).unwrap_or(u32::MAX), &mut |_, pair| {
                let value = match pair.value {
                    StoredValue::Here(value) => format!("`{}`", value.escape_ascii()),
                    StoredValue::Elsewhere(reference) => format!("at {reference:#x}"),
                };
                lines.push(format!("type {:#x} `{}` = {value}", pair.kind, pair.name.escape_ascii()));
                Ok(())
            })?;
            lines.into_iter().for_each(|line| self.line(2, line));
        }
        self.area(xattrs.sets.area())
    }
}

/// Describes a size word.
fn stored(word: u32) -> String {
    let how = if word & DATA_RAW == 0 { "compressed" } else { "raw" };
    format!("{} bytes {how}", word & (DATA_RAW - 1))
}
