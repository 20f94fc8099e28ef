//! Writes everything after the data: inodes, directories and the tables, in the order that the kernel requires.

use std::collections::HashMap;

use packfs_blocks::Progress;
use packfs_blocks::dedup::BlockNumber;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::data::{DataDone, WrittenFile};
use super::numbering::InodeNumbering;
use super::pack::BlockPacker;
use super::table::{FinishedTable, GrowingTable, RecordPosition};
use super::{ErrorOfInode, SquashfsOptions, dir, inode, xattr};
use crate::build::BuildTools;
use crate::squashfs::format::{Fragment, IDS_MAX, NO_TABLE, NO_XATTR, XattrTable};
use crate::tree::{FileData, Ino, Kind, ROOT, Tree, XattrId};
use crate::{Error, ExceededLimit, Result};

/// Offsets of the tables.
#[derive(Debug)]
pub(crate) struct TableOffsets {
    pub(crate) root: u64,
    pub(crate) inode: u64,
    pub(crate) directory: u64,
    pub(crate) fragment: u64,
    pub(crate) export: u64,
    pub(crate) id: u64,
    pub(crate) xattr: u64,
    pub(crate) ids: u16,
    pub(crate) end: u64,
}

/// Writes metadata after the data; see [`TableOffsets`].
pub(crate) struct MetadataWriter<'p, 'env> {
    pub(crate) tools: BuildTools<'p, 'env, BlockPacker>,
    pub(crate) options: &'p SquashfsOptions,
    pub(crate) tree: &'p Tree,
    pub(crate) data: &'p DataDone,
    pub(crate) numbering: &'p InodeNumbering,
}

/// Owners and groups, each once.
#[derive(Debug, Default)]
struct IdTable {
    numbers: HashMap<u32, u16>,
    list: Vec<U32>,
}

impl IdTable {
    fn number(&mut self, id: u32) -> std::result::Result<u16, ExceededLimit> {
        if let Some(number) = self.numbers.get(&id) {
            return Ok(*number);
        }
        // The superblock counts owners in 16 bits, so the last number is never used: a count of 65536 would
        // read as 0.
        let number = u16::try_from(self.list.len()).ok().filter(|number| usize::from(*number) < IDS_MAX);
        let number = number.ok_or(ExceededLimit::Owners { max: IDS_MAX })?;
        self.list.push(id.into());
        self.numbers.insert(id, number);
        Ok(number)
    }
}

/// Positions of inodes, in six bytes each: there may be tens of millions.
struct InodePlaces<'p> {
    numbering: &'p InodeNumbering,
    /// Low and high half of the block, and the offset.
    by_number: Vec<[u16; 3]>,
}

impl<'p> InodePlaces<'p> {
    fn new(numbering: &'p InodeNumbering) -> Self {
        InodePlaces { numbering, by_number: vec![[0; 3]; numbering.count as usize] }
    }

    fn get(&self, ino: Ino) -> RecordPosition {
        Self::at(self.by_number[self.numbering.number(ino) as usize - 1])
    }

    fn set(&mut self, ino: Ino, RecordPosition { block, offset }: RecordPosition) {
        let half = |number: u32| u16::try_from(number & u32::from(u16::MAX)).expect("16 bits");
        self.by_number[self.numbering.number(ino) as usize - 1] = [half(block), half(block >> 16), offset];
    }

    /// Returns all positions in the order of the inodes' numbers.
    fn in_order(&self) -> impl Iterator<Item = RecordPosition> {
        self.by_number.iter().copied().map(Self::at)
    }

    fn at([low, high, offset]: [u16; 3]) -> RecordPosition {
        RecordPosition { block: u32::from(high) << 16 | u32::from(low), offset }
    }
}

impl<'p> MetadataWriter<'p, '_> {
    /// Writes all tables from `pos` on.
    pub(crate) fn write(&self, mut pos: u64) -> Result<TableOffsets> {
        // Encoded first, as inodes refer to them. The order in the image is another one: each table has to
        // end where the next begins, which Linux checks from the last to the first (fs/squashfs/super.c).
        let xattrs = self.xattr_sets()?;
        let table = || GrowingTable::new(self.tools.pool, self.options.plain_metadata);
        let inode = pos;
        let mut inodes = table().into_sink(Box::new(move |bytes: &[u8], at| self.put_at(inode + at, bytes)));
        // Inodes are written while they are encoded. Directories follow them, so their table waits in memory
        // until the inodes have their length.
        let mut dirs = table();
        let mut ids = IdTable::default();
        let places = self.write_inodes(&mut inodes, &mut dirs, &mut ids, &xattrs.index)?;
        let inodes = inodes.finish()?;
        let root = inodes.reference(places.get(ROOT))?;
        pos += inodes.len;
        let directory = self.put(&mut pos, &dirs.finish()?.packed)?;
        let fragment = self.put_indexed(&mut pos, self.fragments().as_bytes())?;
        let export = if self.options.export { self.put_export(&mut pos, &inodes, &places)? } else { NO_TABLE };
        let id = self.put_indexed(&mut pos, ids.list.as_bytes())?;
        let xattr = if xattrs.sets.is_empty() { NO_TABLE } else { self.put_xattrs(&mut pos, &xattrs)? };
        let ids = u16::try_from(ids.list.len()).expect("limited when they were added");
        Ok(TableOffsets { root, inode, directory, fragment, export, id, xattr, ids, end: pos })
    }

    fn blame(&self, ino: Ino, why: impl Into<ExceededLimit>) -> Error {
        Error::limit(self.tree.path_of(ino), why)
    }

    fn xattr_sets(&self) -> Result<xattr::XattrTable> {
        let mut seen = vec![false; self.tree.xattrs.len()];
        let mut used: Vec<(XattrId, Ino)> = Vec::new();
        let dirs = self.numbering.levels.iter().flatten().map(|(dir, _)| *dir);
        for ino in self.numbering.plain(self.tree).chain(dirs) {
            let id = self.tree.inode(ino).xattrs;
            if id != XattrId::NONE && !std::mem::replace(&mut seen[id.0 as usize], true) {
                used.push((id, ino));
            }
        }
        let blame: &ErrorOfInode<'_> = &|ino, why| self.blame(ino, why);
        xattr::write(self.tools.pool, self.options.plain_metadata, &self.tree.xattrs, &used, blame)
    }

    /// Writes all inodes and listings; returns the positions of the inodes.
    fn write_inodes(
        &self,
        inodes: &mut GrowingTable<'_, '_>,
        dirs: &mut GrowingTable<'_, '_>,
        ids: &mut IdTable,
        xattrs: &HashMap<XattrId, u32>,
    ) -> Result<InodePlaces<'p>> {
        let mut places = InodePlaces::new(self.numbering);
        let mut bytes = Vec::new();
        for ino in self.numbering.plain(self.tree) {
            bytes.clear();
            let inode = self.tree.inode(ino);
            let common = self.common(ino, ids, xattrs)?;
            match &inode.kind {
                Kind::File { data, .. } => inode::file(&common, self.stored(data), &self.data.places, &mut bytes),
                _ => inode::other(&common, &inode, &mut bytes).map_err(|why| self.blame(ino, why))?,
            }
            places.set(ino, inodes.at());
            inodes.push(&bytes)?;
            Progress::add(&self.tools.progress.entries, 1);
        }
        for level in &self.numbering.levels {
            let listings = level
                .iter()
                .map(|(dir, _)| dir::write(dirs, &self.entries(*dir, inodes, &places)?))
                .collect::<Result<Vec<_>>>()?;
            for ((ino, parent), mut listing) in level.iter().zip(listings) {
                bytes.clear();
                // The root's parent is a number that no inode has.
                listing.parent = if *ino == ROOT { self.numbering.count + 1 } else { self.numbering.number(*parent) };
                listing.start = dirs.start(listing.start)?;
                for signpost in &mut listing.index {
                    signpost.start = dirs.start(signpost.start)?;
                }
                let subdirs = self.tree.entries(*ino).filter(|(_, child)| self.tree.is_dir(*child));
                // As mksquashfs counts: 2, and one for each subdirectory.
                let nlink = u32::try_from(subdirs.count() + 2).unwrap_or(u32::MAX);
                let common = self.common(*ino, ids, xattrs)?;
                inode::dir(&common, nlink, &listing, &mut bytes).map_err(|why| self.blame(*ino, why))?;
                places.set(*ino, inodes.at());
                inodes.push(&bytes)?;
                Progress::add(&self.tools.progress.entries, 1);
            }
        }
        Ok(places)
    }

    fn entries(
        &self,
        dir: Ino,
        inodes: &mut GrowingTable<'_, '_>,
        places: &InodePlaces<'_>,
    ) -> Result<Vec<dir::NamedInode<'p>>> {
        self.tree
            .entries(dir)
            .map(|(name, ino)| {
                let RecordPosition { block, offset } = places.get(ino);
                let kind = inode::basic_type(&self.tree.inode(ino).kind);
                Ok(dir::NamedInode {
                    name,
                    start: inodes.start(block)?,
                    offset,
                    number: self.numbering.number(ino),
                    kind,
                })
            })
            .collect()
    }

    fn common(&self, ino: Ino, ids: &mut IdTable, xattrs: &HashMap<XattrId, u32>) -> Result<inode::CommonFields> {
        let inode = self.tree.inode(ino);
        let limit = |why| self.blame(ino, why);
        let mtime = u32::try_from(inode.mtime.secs).map_err(|_| {
            limit(ExceededLimit::Time { secs: inode.mtime.secs, format: "SquashFS", range: "1970 to 2106" })
        })?;
        Ok(inode::CommonFields {
            mode: inode.mode,
            uid: ids.number(inode.uid).map_err(limit)?,
            gid: ids.number(inode.gid).map_err(limit)?,
            mtime,
            number: self.numbering.number(ino),
            links: inode.links,
            xattr: xattrs.get(&inode.xattrs).copied().unwrap_or(NO_XATTR),
        })
    }

    fn stored<S>(&self, data: &FileData<S>) -> &WrittenFile {
        match data {
            FileData::Stored(file) => &self.data.files[*file as usize],
            FileData::Empty | FileData::Source { .. } => &WrittenFile::EMPTY,
        }
    }

    /// Writes the references of all inodes in the order of their numbers, and the addresses of these blocks; returns the
    /// start of the addresses.
    fn put_export(&self, pos: &mut u64, inodes: &FinishedTable, places: &InodePlaces<'_>) -> Result<u64> {
        let first = *pos;
        let table = GrowingTable::new(self.tools.pool, self.options.plain_metadata);
        let mut table = table.into_sink(Box::new(move |bytes: &[u8], at| self.put_at(first + at, bytes)));
        for at in places.in_order() {
            table.push(&inodes.reference(at)?.to_le_bytes())?;
        }
        let FinishedTable { starts, len, .. } = table.finish()?;
        *pos += len;
        self.put(pos, &addresses(first, &starts))
    }

    fn fragments(&self) -> Vec<Fragment> {
        let entry = |seq: &BlockNumber| {
            let place = self.data.places[*seq as usize];
            Fragment { start_block: place.start.into(), size: place.word.into(), unused: 0.into() }
        };
        self.data.fragments.iter().map(entry).collect()
    }

    fn put_xattrs(&self, pos: &mut u64, xattrs: &xattr::XattrTable) -> Result<u64> {
        let kv_start = self.put(pos, &xattrs.pairs)?;
        let FinishedTable { packed, starts, .. } = self.pack_table(xattrs.sets.as_bytes())?;
        let first = self.put(pos, &packed)?;
        let ids = u32::try_from(xattrs.sets.len()).expect("checked when they were written");
        let head = XattrTable { xattr_table_start: kv_start.into(), xattr_ids: ids.into(), unused: 0.into() };
        let at = self.put(pos, head.as_bytes())?;
        self.put(pos, &addresses(first, &starts))?;
        Ok(at)
    }

    /// Writes a table and, after it, the addresses of its blocks; returns the start of these.
    fn put_indexed(&self, pos: &mut u64, table: &[u8]) -> Result<u64> {
        let FinishedTable { packed, starts, .. } = self.pack_table(table)?;
        let first = self.put(pos, &packed)?;
        self.put(pos, &addresses(first, &starts))
    }

    fn pack_table(&self, bytes: &[u8]) -> Result<FinishedTable> {
        let mut table = GrowingTable::new(self.tools.pool, self.options.plain_metadata);
        table.push(bytes)?;
        table.finish()
    }

    fn put(&self, pos: &mut u64, bytes: &[u8]) -> Result<u64> {
        let at = *pos;
        self.put_at(at, bytes)?;
        *pos += bytes.len() as u64;
        Ok(at)
    }

    fn put_at(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let output = self.tools.output;
        let written = output.write_all_at(bytes, self.options.build.offset + at);
        written.map_err(Error::io("cannot write", output.target()))?;
        Progress::add(&self.tools.progress.written, bytes.len() as u64);
        Ok(())
    }
}

fn addresses(first: u64, starts: &[u64]) -> Vec<u8> {
    starts.iter().flat_map(|start| (first + start).to_le_bytes()).collect()
}
