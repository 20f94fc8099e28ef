//! Prints an image as text, every structure with its offset and its fields: for people who study
//! images and for tests that pin them down.

use std::collections::BTreeSet;
use std::fmt::{Display, Write};

use packfs_blocks::hex::to_hex;

use super::data::InodeData;
use super::dir::DirentCursor;
use super::inode::{Inode, InodeType};
use super::map::{MappedExtent, PieceStorage, StoredBytes, StoredPosition};
use super::metadata::{MetadataAddress, OffsetSpace};
use super::{ErofsReader, xattr};
use crate::Result;
use crate::erofs::format::{Layout, SUPERBLOCK_OFFSET};
use crate::image::Nid;

impl ErofsReader {
    /// Returns all structures of the image as text, inodes in the order of their nids. Meant for
    /// small images: the text is held in memory and is several times as long as their metadata.
    pub fn dump(&self) -> Result<String> {
        let mut dump = ErofsDump { reader: self, text: String::new() };
        dump.superblock();
        for nid in dump.reachable()? {
            dump.inode(&self.inode(nid)?)?;
        }
        Ok(dump.text)
    }
}

struct ErofsDump<'r> {
    reader: &'r ErofsReader,
    text: String,
}

impl ErofsDump<'_> {
    fn line(&mut self, level: usize, line: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{:1$}{line}", "", level * 2);
    }

    fn superblock(&mut self) {
        let superblock = self.reader.superblock.clone();
        let epoch = superblock.epoch;
        let uuid = to_hex(&superblock.uuid);
        self.line(0, format!("superblock at {SUPERBLOCK_OFFSET}, {} bytes", superblock.len));
        self.line(1, format!("block size {}, blocks {}", superblock.block_size, superblock.blocks));
        self.line(1, format!("compat {:#x}, incompat {:#x}", superblock.compat.bits(), superblock.incompat.bits()));
        self.line(1, format!("root {}, inodes {}", superblock.root.0, superblock.inodes));
        self.line(1, format!("epoch {}.{:09}, build time {}", epoch.secs, epoch.nanos, superblock.build_time));
        self.line(1, format!("metadata from {}, xattrs from {}", superblock.metadata_start, superblock.xattr_start));
        self.line(1, format!("uuid {uuid}, label `{}`", superblock.label.escape_ascii()));
        for (what, nid) in [("packed inode", superblock.packed), ("metabox", superblock.metabox)] {
            if let Some(nid) = nid {
                self.line(1, format!("{what} {}", nid.0));
            }
        }
        superblock.compression.iter().for_each(|compression| self.line(1, format!("{compression:?}")));
        for device in &superblock.devices {
            let tag = device.tag.escape_ascii();
            let blocks = device.blocks;
            let start = device.start;
            self.line(1, format!("device `{tag}`: {blocks} blocks from block {start}"));
        }
        for (n, prefix) in self.reader.prefixes.iter().enumerate() {
            self.line(1, format!("xattr prefix {n}: {}, `{}`", prefix.base, prefix.infix.escape_ascii()));
        }
    }

    /// Returns the nids of all inodes.
    fn reachable(&self) -> Result<BTreeSet<Nid>> {
        let superblock = &self.reader.superblock;
        let special = [superblock.packed, superblock.metabox].into_iter().flatten();
        let mut nids: BTreeSet<Nid> = special.collect();
        let mut stack = vec![superblock.root];
        while let Some(nid) = stack.pop() {
            // Directories may lead to the same inode by several names.
            if !nids.insert(nid) {
                continue;
            }
            let inode = self.reader.inode(nid)?;
            if inode.kind != InodeType::Dir {
                continue;
            }
            let mut listing = DirentCursor::open(self.reader, &inode);
            while let Some((entry, name)) = listing.next()? {
                if name != b"." && name != b".." {
                    stack.push(entry.nid);
                }
            }
        }
        Ok(nids)
    }

    fn inode(&mut self, inode: &Inode) -> Result<()> {
        let form = if inode.extended { "extended" } else { "compact" };
        let Inode { nid, kind, layout, mode, uid, gid, mtime, nlink, size, .. } = inode;
        let at = place(inode.place);
        self.line(0, format!("inode {} at {at}: {form}, {kind:?}, mode {mode:04o}, nlink {nlink}", nid.0));
        self.line(1, format!("uid {uid}, gid {gid}, mtime {}.{:09}", mtime.secs, mtime.nanos));
        self.xattrs(inode)?;
        match kind {
            InodeType::Char | InodeType::Block => {
                let device = inode.device();
                self.line(1, format!("device {}:{}", device.major, device.minor));
            }
            InodeType::Fifo | InodeType::Socket => {}
            InodeType::File | InodeType::Dir | InodeType::Symlink => {
                let dot = if inode.no_dot { ", no `.`" } else { "" };
                self.line(1, format!("size {size}, layout {}{dot}", name(*layout)));
                self.extents(inode)?;
            }
        }
        match kind {
            InodeType::Dir => self.entries(inode),
            InodeType::Symlink => {
                let target = self.reader.target(inode)?;
                self.line(1, format!("target `{}`", target.escape_ascii()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn xattrs(&mut self, inode: &Inode) -> Result<()> {
        if inode.xattr_len == 0 {
            return Ok(());
        }
        let mut lines = Vec::new();
        let filter = xattr::each(self.reader, inode, &mut |pair| {
            let from = pair.shared.map_or("inline".to_owned(), |id| format!("shared {id}"));
            let name = pair.name.escape_ascii();
            let value = pair.value.escape_ascii();
            lines.push(format!("{from}: prefix {:#x}, `{name}` = `{value}`", pair.prefix));
        })?;
        self.line(1, format!("xattrs: {} bytes, filter {filter:#010x}", inode.xattr_len));
        lines.into_iter().for_each(|line| self.line(2, line));
        Ok(())
    }

    fn extents(&mut self, inode: &Inode) -> Result<()> {
        if inode.size == 0 {
            return Ok(());
        }
        InodeData::open(self.reader, inode)?.each(&mut |extent| {
            self.line(2, format!("{} bytes at {}: {}", extent.len, extent.logical, data(extent)));
            Ok(())
        })
    }

    fn entries(&mut self, inode: &Inode) -> Result<()> {
        let mut listing = DirentCursor::open(self.reader, inode);
        while let Some((entry, name)) = listing.next()? {
            self.line(2, format!("`{}` inode {}, type {}", name.escape_ascii(), entry.nid.0, entry.kind));
        }
        Ok(())
    }
}

fn place(place: MetadataAddress) -> String {
    match place.space {
        OffsetSpace::Image => place.byte.to_string(),
        OffsetSpace::Metabox => format!("{} of the metabox", place.byte),
        OffsetSpace::Packed => format!("{} of the packed inode", place.byte),
    }
}

fn name(layout: Layout) -> &'static str {
    match layout {
        Layout::Plain => "plain",
        Layout::CompressedFull => "compressed, full",
        Layout::Inline => "inline",
        Layout::CompressedCompact => "compressed, compact",
        Layout::Chunks => "chunks",
    }
}

fn data(extent: &MappedExtent) -> String {
    match extent.data {
        PieceStorage::Hole => "hole".to_owned(),
        PieceStorage::Fragment(offset) => format!("packed inode from {offset}"),
        PieceStorage::Plain { stored: at, rotated: false } => format!("plain, {}", stored(at)),
        PieceStorage::Plain { stored: at, rotated: true } => format!("rotated, {}", stored(at)),
        PieceStorage::Packed { stored: at, algorithm, partial } => {
            let partial = if partial { ", the beginning" } else { "" };
            format!("algorithm {algorithm}{partial}, {}", stored(at))
        }
    }
}

fn stored(stored: StoredBytes) -> String {
    let len = stored.len;
    match stored.place {
        StoredPosition::Image(byte) => format!("{len} bytes at {byte}"),
        StoredPosition::Device(device, byte) => format!("{len} bytes at {byte} of device {device}"),
        StoredPosition::Meta(byte) => format!("{len} bytes after the inode at {byte}"),
    }
}
