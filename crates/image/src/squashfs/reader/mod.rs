//! Reads SquashFS 4.0 images from any writer.
//!
//! The path of data: [`disk`] reads stored bytes and [`decode`] decodes blocks of them.
//! [`metadata`] caches decoded metadata and provides cursors over it, from which [`table`],
//! [`inode`], [`dir`] and [`xattr`] parse records. [`map`] finds the blocks of a file and [`data`]
//! reads them. [`check`] verifies a whole image. EROFS has the same files for the same purposes.

mod blocks;
mod check;
mod compression;
mod data;
mod decode;
mod dir;
mod disk;
mod dump;
mod inode;
mod map;
mod metadata;
mod occupied;
mod placement;
mod superblock;
mod table;
mod xattr;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt};
use zerocopy::little_endian::{U32, U64};

use self::data::DataCache;
use self::decode::BlockReader;
use self::dir::ListingCursor;
use self::disk::ImageBytes;
use self::inode::{DecodedInode, InodeBody};
use self::metadata::{MetadataArea, MetadataBlocks};
use self::table::{IndexedTable, TablePlace};
use self::xattr::XattrTable;
use super::format;
use crate::followed::FollowedFiles;
use crate::image::{Entry, Extent, FileType, Image, Nid, Stat, StoredPiece};
use crate::tree::{Time, XattrSet};
use crate::{Error, Part, Result};
use packfs_tree::Finding;

pub(super) use self::check::{BrokenRule, first_broken};
pub use self::compression::CompressorOptions;
pub use self::placement::{BodyFacts, IndexEntry, InodeFacts};
pub use self::superblock::Superblock;

/// Options for reading an image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Maximum number of bytes of decoded blocks to cache, including metadata.
    pub cache_bytes: u64,
    /// Name of the image in messages.
    pub name: PathBuf,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { cache_bytes: 32 << 20, name: PathBuf::from("image") }
    }
}

/// An open SquashFS image.
#[derive(Debug)]
pub struct SquashfsReader {
    superblock: Superblock,
    metadata: MetadataBlocks,
    data: DataCache,
    /// The inode table.
    inodes: MetadataArea,
    /// The directory table.
    listings: MetadataArea,
    /// The id table, and its entries.
    ids_table: IndexedTable,
    ids: Vec<u32>,
    fragments: IndexedTable,
    export: Option<IndexedTable>,
    xattrs: Option<XattrTable>,
    /// Files that are read in order, if the image comes over a network.
    followed: Option<FollowedFiles>,
}

impl SquashfsReader {
    /// Opens an image. Fails also on defects that make the kernel refuse to mount it.
    pub fn open(source: Arc<dyn ReadAt>, options: ReadOptions) -> Result<SquashfsReader> {
        let disk = ImageBytes::new(source, options.name);
        let superblock = Superblock::read(&disk)?;
        // Two places that are needed first, and far apart: what is remote takes one round trip for both.
        disk.will_read(superblock.fragment_table, size_of::<u64>() as u64);
        let inodes =
            MetadataArea { structure: "inode table", start: superblock.inode_table, end: superblock.directory_table };
        let root = inode::position(inodes, superblock.root);
        disk.will_read(root.block, format::METADATA_LEN as u64);
        let tables = LocatedTables::open(&disk, &superblock)?;
        let blocks = Arc::new(BlockReader::new(disk, &superblock));
        let metadata = MetadataBlocks::new(blocks, options.cache_bytes / 4);
        let reader = SquashfsReader {
            // Metadata are read again and again, but there is far more data.
            data: DataCache::new(options.cache_bytes / 4 * 3, superblock.block_size),
            inodes,
            listings: MetadataArea {
                structure: "directory table",
                start: superblock.directory_table,
                end: tables.directories_end,
            },
            ids: tables.ids.read_all::<U32>(&metadata)?.into_iter().map(U32::get).collect(),
            ids_table: tables.ids,
            fragments: tables.fragments,
            export: tables.export,
            xattrs: tables.xattrs,
            // With a local image, the system reads ahead by itself.
            followed: metadata.blocks.disk.has_delay().then(FollowedFiles::default),
            metadata,
            superblock,
        };
        // So that a damaged root is noticed here, as Linux notices it when it mounts.
        let (root, cursor) = reader.inode(reader.root())?;
        match root.body {
            InodeBody::Dir(_) => Ok(reader),
            _ => Err(cursor.error("the root inode is not a directory")),
        }
    }

    /// Returns the checked superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the size of a directory as its inode stores it: the bytes of its listing, and 3.
    pub fn listing_size(&self, dir: Nid) -> Result<u32> {
        Ok(self.dir(dir)?.0.size)
    }

    /// Returns the number of different sets of extended attributes.
    pub fn xattr_sets(&self) -> u64 {
        self.xattrs.as_ref().map_or(0, |table| table.sets.len())
    }

    /// Returns the inode at a reference, unless the kernel would refuse it, and a cursor after it.
    fn inode(&self, nid: Nid) -> Result<(DecodedInode, metadata::MetadataCursor<'_>)> {
        let (inode, cursor) = DecodedInode::read(&self.metadata, self.inodes, nid)?;
        inode.validate(&self.superblock, inode::position(self.inodes, nid), self.inodes)?;
        Ok((inode, cursor))
    }

    fn dir(&self, nid: Nid) -> Result<(inode::DirBody, metadata::MetadataCursor<'_>)> {
        let (inode, cursor) = self.inode(nid)?;
        match inode.body {
            InodeBody::Dir(dir) => Ok((dir, cursor)),
            _ => Err(cursor.error(format!("inode {} is not a directory", inode.number))),
        }
    }

    fn id(&self, index: u16, inode: &DecodedInode) -> Result<u32> {
        self.ids.get(usize::from(index)).copied().ok_or_else(|| {
            let why = format!(
                "inode {}: owner index {index}, but the id table has only {} entries",
                inode.number,
                self.ids.len()
            );
            Error::corrupt(self.inodes.structure, self.inodes.start, why)
        })
    }
}

impl Image for SquashfsReader {
    fn root(&self) -> Nid {
        self.superblock.root
    }

    fn stat(&self, nid: Nid) -> Result<Stat> {
        let (inode, _) = self.inode(nid)?;
        Ok(Stat {
            ino: inode.number.into(),
            mode: inode.mode,
            uid: self.id(inode.uid, &inode)?,
            gid: self.id(inode.gid, &inode)?,
            mtime: Time { secs: inode.mtime.into(), nanos: 0 },
            nlink: inode.nlink,
            // Like the kernel: an index without a table means no xattrs.
            has_xattrs: inode.xattr.is_some() && self.xattrs.is_some(),
            kind: match inode.body {
                InodeBody::Dir(_) => FileType::Dir,
                InodeBody::File(file) => FileType::File { size: file.size },
                InodeBody::Symlink(target) => FileType::Symlink { target },
                InodeBody::Block(device) => FileType::Block(device),
                InodeBody::Char(device) => FileType::Char(device),
                InodeBody::Fifo => FileType::Fifo,
                InodeBody::Socket => FileType::Socket,
            },
        })
    }

    fn read_dir(&self, nid: Nid) -> Result<Vec<Entry>> {
        let (dir, _) = self.dir(nid)?;
        let mut entries = Vec::new();
        let Some(mut listing) = ListingCursor::open(&self.metadata, self.listings, &dir)? else { return Ok(entries) };
        while let Some((entry, name)) = listing.next()? {
            entries.push(Entry { name: name.into(), nid: entry.nid });
        }
        Ok(entries)
    }

    fn lookup(&self, dir: Nid, name: &[u8]) -> Result<Option<Nid>> {
        let (dir, index) = self.dir(dir)?;
        let found = dir::lookup(&self.metadata, self.listings, &dir, index, name)?;
        Ok(found.map(|entry| entry.nid))
    }

    fn xattrs(&self, nid: Nid) -> Result<XattrSet> {
        let (inode, _) = self.inode(nid)?;
        match (&self.xattrs, inode.xattr) {
            (Some(table), Some(n)) => table.set(&self.metadata, n),
            _ => Ok(XattrSet::new()),
        }
    }

    fn read_at(&self, nid: Nid, buf: &mut [u8], offset: u64) -> Result<usize> {
        let file = self.file(nid)?;
        if let Some(rest) = self.followed.as_ref().and_then(|all| all.note(nid, offset, buf.len(), file.size())) {
            self.will_read(nid, rest);
        }
        self.read_file(&file, buf, offset)
    }

    fn will_read(&self, nid: Nid, range: Range<u64>) {
        if let Some(followed) = &self.followed {
            // The notice knows that the caller announces by itself, so that nothing is announced twice.
            followed.announced(nid, &range);
            let disk = &self.metadata.blocks.disk;
            let tell = &mut |stored: Range<u64>| disk.will_read(stored.start, stored.end.saturating_sub(stored.start));
            // Whoever reads gets the errors.
            let _ = self.announce(nid, range, tell);
        }
    }

    fn will_read_many(&self, ranges: &mut dyn Iterator<Item = (Nid, Range<u64>)>) {
        let Some(followed) = &self.followed else { return };
        let mut stored_ranges = Vec::new();
        for (nid, range) in ranges {
            followed.announced(nid, &range);
            let _ = self.announce(nid, range, &mut |stored| stored_ranges.push(stored));
        }
        // In the order in which `read_many` reads units.
        stored_ranges.sort_unstable_by_key(|range| range.start);
        self.metadata.blocks.disk.will_read_ranges(&stored_ranges);
    }

    fn extents(&self, nid: Nid) -> Result<Vec<Extent>> {
        self.file(nid)?.extents(&self.metadata)
    }

    fn stretch(&self, nid: Nid, offset: u64) -> Result<Option<Extent>> {
        self.file(nid)?.stretch(&self.metadata, offset)
    }

    fn stored_pieces(&self, nid: Nid, range: Range<u64>, visit: &mut dyn FnMut(StoredPiece)) -> Result<()> {
        let file = self.file(nid)?;
        self.visit_pieces(&file, range, visit)
    }

    fn parent(&self, dir: Nid) -> Result<Option<Nid>> {
        // The root's own field has a number that belongs to no inode.
        if dir == self.root() {
            return Ok(Some(dir));
        }
        let (dir, _) = self.dir(dir)?;
        // Numbers begin at 1, the table at 0.
        match (&self.export, u64::from(dir.parent).checked_sub(1)) {
            (Some(table), Some(n)) => Ok(Some(Nid(table.get::<U64>(&self.metadata, n)?.get()))),
            _ => Ok(None),
        }
    }

    /// The format has no class of attributes for them.
    fn may_have_acls(&self) -> bool {
        false
    }

    fn may_have_xattrs(&self) -> bool {
        self.xattrs.is_some()
    }

    fn inode_count(&self) -> u64 {
        self.superblock.inodes.into()
    }

    fn check_part(
        &self,
        part: Part,
        threads: usize,
        progress: &Progress,
        finding: &mut dyn FnMut(Finding),
    ) -> Result<()> {
        check::run(self, part, threads, progress, finding)
    }
}

/// Tables located through the superblock, each checked to end where the next begins.
#[derive(Debug)]
struct LocatedTables {
    xattrs: Option<XattrTable>,
    ids: IndexedTable,
    export: Option<IndexedTable>,
    fragments: IndexedTable,
    /// Upper bound of the end of the directories' metadata blocks.
    directories_end: u64,
}

impl LocatedTables {
    /// Reads the indexes from the last table to the first.
    fn open(disk: &ImageBytes, superblock: &Superblock) -> Result<LocatedTables> {
        // The directory table of an empty root is empty.
        let first = superblock.directory_table;
        // Tables lie one after the other, so the start of each is the end of the one before it.
        let mut next = superblock.bytes_used;
        let xattrs = match superblock.xattr_table {
            Some(start) => {
                let table = XattrTable::open(disk, start, first, next)?;
                next = table.pairs.start;
                Some(table)
            }
            None => None,
        };
        let place = |structure, record_len, count: u64, index: u64, end, exact| TablePlace {
            structure,
            record_len,
            count,
            index,
            end,
            // Linux wants the indexes of ids and exports to end exactly where the next table begins
            // (`squashfs_read_id_index_table`), that of fragments only not beyond
            // (`squashfs_read_fragment_index_table`).
            exact,
            blocks: (first, index),
        };
        let count = superblock.ids.into();
        let ids =
            IndexedTable::open(disk, place("id table", size_of::<U32>(), count, superblock.id_table, next, true))?;
        next = ids.area().start;
        let export = match superblock.export_table {
            Some(start) => {
                let count = superblock.inodes.into();
                let table =
                    IndexedTable::open(disk, place("export table", size_of::<u64>(), count, start, next, true))?;
                next = table.area().start;
                Some(table)
            }
            None => None,
        };
        let fragments = match superblock.fragments {
            0 => IndexedTable::empty("fragment table"),
            count => {
                let record_len = size_of::<format::Fragment>();
                let start = superblock.fragment_table;
                let place = place("fragment table", record_len, count.into(), start, next, false);
                let table = IndexedTable::open(disk, place)?;
                next = table.area().start;
                table
            }
        };
        Ok(LocatedTables { xattrs, ids, export, fragments, directories_end: next })
    }
}

#[cfg(test)]
mod tests;
