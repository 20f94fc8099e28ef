//! Checks every inode by itself, in the order of the inode table: numbers, owners, modes, block lists.

use std::collections::{HashMap, HashSet, hash_map};

use packfs_blocks::Progress;

use crate::image::Nid;
use crate::squashfs::format::{SYMLINK_MAX, inode_type};
use crate::squashfs::reader::SquashfsReader;
use crate::squashfs::reader::dir;
use crate::squashfs::reader::inode::{DecodedInode, FileBody, InodeBody};
use crate::squashfs::reader::map::FileMap;
use crate::squashfs::reader::metadata::{MetadataCursor, MetadataPosition};
use crate::{Error, Result};
use packfs_tree::{FindingCollector, Severity};

const STRUCTURE: &str = "inode table";

/// Contents of the inode table.
#[derive(Debug, Default)]
pub(super) struct TableInodes {
    /// All inodes, by ascending reference.
    pub(super) found: Vec<TableInode>,
    /// True if the scan reached the end of the table.
    pub(super) complete: bool,
    /// Stored data blocks by address, without holes.
    pub(super) blocks: HashMap<u64, DataUse>,
    /// Fragments in use, with the number of bytes used.
    pub(super) fragments: HashMap<u32, u64>,
}

/// One inode.
#[derive(Debug)]
pub(super) struct TableInode {
    pub(super) nid: Nid,
    pub(super) number: u32,
    pub(super) nlink: u32,
    /// Inode number of the parent, for directories.
    pub(super) parent: u32,
    /// Number of names found in directories.
    pub(super) names: u32,
    /// Basic type.
    pub(super) kind: u16,
}

/// A stored data block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataUse {
    pub(super) word: u32,
    /// Length once decoded.
    pub(super) len: usize,
}

impl TableInodes {
    /// Index of the inode at a reference.
    pub(super) fn at(&self, nid: Nid) -> Option<usize> {
        self.found.binary_search_by_key(&nid, |found| found.nid).ok()
    }
}

/// Scans the inode table.
pub(super) fn scan(
    reader: &SquashfsReader,
    progress: &Progress,
    report: &mut FindingCollector<'_>,
) -> Result<TableInodes> {
    let mut scan = InodeScan::new(reader, usize::MAX);
    // What was found up to the damage can still be checked.
    if let Err(error) = scan.run(progress, report) {
        report.error(error)?;
        report.add(STRUCTURE, reader.inodes.start, "the inodes after the damaged one cannot be checked");
    }
    // Otherwise unused entries may be used by inodes that were not reached.
    if scan.inodes.complete {
        scan.finish(report);
    }
    Ok(scan.inodes)
}

pub(super) struct InodeScan<'r> {
    reader: &'r SquashfsReader,
    inodes: TableInodes,
    /// Entries of the id table in use.
    ids: Vec<bool>,
    /// Xattr sets in use.
    sets: HashSet<u32>,
    /// Number of data blocks that are compared with each other at a time.
    blocks_max: usize,
}

impl<'r> InodeScan<'r> {
    pub(super) fn new(reader: &'r SquashfsReader, blocks_max: usize) -> Self {
        let ids = vec![false; reader.ids.len()];
        InodeScan { reader, inodes: TableInodes::default(), ids, sets: HashSet::new(), blocks_max }
    }

    fn run(&mut self, progress: &Progress, report: &mut FindingCollector<'_>) -> Result<()> {
        let area = self.reader.inodes;
        let mut cursor = self.reader.metadata.cursor(area, MetadataPosition { block: area.start, offset: 0 })?;
        // Inodes stand one after the other, without an index: a damaged one hides those after it.
        while self.step(&mut cursor, report)?.is_some() {
            Progress::add(&progress.entries, 1);
            Error::unless_cancelled(progress)?;
        }
        self.inodes.complete = true;
        Ok(())
    }

    /// Checks the next inode; returns its number, or `None` at the end of the table.
    pub(super) fn step(
        &mut self,
        cursor: &mut MetadataCursor<'_>,
        report: &mut FindingCollector<'_>,
    ) -> Result<Option<u32>> {
        let Some(at) = cursor.settle()? else { return Ok(None) };
        let inode = DecodedInode::parse(cursor)?;
        self.check(&inode, at, report)?;
        match &inode.body {
            InodeBody::File(file) => self.file(&inode, file, cursor, report)?,
            InodeBody::Dir(dir) => {
                // Passed over to reach the next inode.
                for _ in 0..dir.index_count {
                    dir::index_entry(cursor)?;
                }
            }
            _ => {}
        }
        Ok(Some(inode.number))
    }

    /// Forgets the inodes so far, so that any number of them takes the same memory.
    pub(super) fn forget(&mut self) {
        self.inodes.found.clear();
    }

    /// Checks everything about an inode that does not depend on others.
    fn check(&mut self, inode: &DecodedInode, at: MetadataPosition, report: &mut FindingCollector<'_>) -> Result<()> {
        let reader = self.reader;
        // A wrong inode is reported, and the scan goes on.
        report.take(inode.validate(&reader.superblock, at, reader.inodes))?;
        let mut wrong = |why: String| report.add(STRUCTURE, at.block, format!("inode {}: {why}", inode.number));
        if inode.number > reader.superblock.inodes {
            wrong(format!("the superblock counts only {} inodes", reader.superblock.inodes));
        }
        for id in [inode.uid, inode.gid] {
            match self.ids.get_mut(usize::from(id)) {
                Some(used) => *used = true,
                None => wrong(format!("owner index {id}, but the id table has only {} entries", reader.ids.len())),
            }
        }
        let sets = reader.xattrs.as_ref().map_or(0, |xattrs| xattrs.sets.len());
        match inode.xattr {
            Some(set) if u64::from(set) >= sets => wrong(format!("xattr set {set}, but there are only {sets}")),
            Some(set) => {
                self.sets.insert(set);
            }
            None => {}
        }
        if inode.nlink == 0 {
            wrong("it has a link count of 0".into());
        }
        match &inode.body {
            InodeBody::Symlink(target) if target.len() > SYMLINK_MAX => {
                wrong(format!("symlink target of {} bytes; the kernel reads up to {SYMLINK_MAX}", target.len()));
            }
            InodeBody::Dir(dir) if dir.size < 3 => wrong(format!("directory size {}, less than 3", dir.size)),
            _ => {}
        }
        let nid = Nid((at.block - reader.inodes.start) << 16 | at.offset as u64);
        let parent = if let InodeBody::Dir(dir) = inode.body { dir.parent } else { 0 };
        let kind = inode.basic_kind();
        let number = inode.number;
        let nlink = inode.nlink;
        self.inodes.found.push(TableInode { nid, number, nlink, parent, names: 0, kind });
        Ok(())
    }

    /// Records the positions of a file's data.
    fn file(
        &mut self,
        inode: &DecodedInode,
        file: &FileBody,
        cursor: &mut MetadataCursor<'_>,
        report: &mut FindingCollector<'_>,
    ) -> Result<()> {
        let reader = self.reader;
        let at = cursor.position();
        let map = FileMap::map(cursor, reader.inodes, reader.superblock.block_size, file)?;
        report.take(map.check_end(&reader.superblock, inode.number))?;
        if file.sparse > file.size {
            let why =
                format!("inode {}: {} bytes of holes in a file of {} bytes", inode.number, file.sparse, file.size);
            report.add(STRUCTURE, at.block, why);
        }
        if let Some(tail) = map.tail() {
            let fragments = reader.superblock.fragments;
            let used = u64::from(tail.tail.offset) + tail.len as u64;
            // Many files may have the same wrong index, which is one finding.
            if tail.tail.fragment >= fragments {
                let text = format!("fragment {} of only {fragments}", tail.tail.fragment);
                let who = || format!("inode {}", inode.number);
                report.shared(Severity::Damage, "fragment table", reader.fragments.area().start, text, who);
            } else {
                let most = self.inodes.fragments.entry(tail.tail.fragment).or_default();
                // Linux does not check it: what matters is that the fragment decodes to as much as files use.
                *most = used.max(*most);
            }
        }
        let mut wrong = |why: String| report.add(STRUCTURE, at.block, format!("inode {}: {why}", inode.number));
        self.note_blocks(&map, &mut wrong)
    }

    /// Records where the blocks of a file are, and reports those that files use differently.
    fn note_blocks(&mut self, map: &FileMap, wrong: &mut dyn FnMut(String)) -> Result<()> {
        let reader = self.reader;
        let mut blocks = map.blocks(&reader.metadata, 0)?;
        while let Some(block) = blocks.next()? {
            if block.is_hole() {
                // Holes have no position.
                continue;
            }
            if let Err(error) = block.stored() {
                wrong(error.to_string());
                continue;
            }
            let (start, word) = block.place();
            // Already reported by `check_end`, once for the file.
            if start >= reader.superblock.bytes_used {
                break;
            }
            let this = DataUse { word, len: block.len };
            // A build checks files of any number. Blocks that are far apart in the table are then no longer
            // compared.
            if self.inodes.blocks.len() >= self.blocks_max {
                self.inodes.blocks.clear();
            }
            match self.inodes.blocks.entry(start) {
                hash_map::Entry::Vacant(entry) => {
                    entry.insert(this);
                }
                // The same data is stored once for files that share it.
                hash_map::Entry::Occupied(entry) if *entry.get() == this => {}
                hash_map::Entry::Occupied(_) => {
                    wrong(format!("another file uses its data block at byte {start} with another length"));
                }
            }
        }
        Ok(())
    }

    /// Reports findings that depend on all inodes.
    fn finish(&self, report: &mut FindingCollector<'_>) {
        let reader = self.reader;
        let start = self.reader.inodes.start;
        let count = self.inodes.found.len();
        if count as u64 != u64::from(reader.superblock.inodes) {
            let why = format!("{} inodes announced, {count} found", reader.superblock.inodes);
            report.add("superblock", 0, why);
        }
        // A sorted list instead of a set: less memory for many inodes.
        let mut numbers: Vec<u32> = self.inodes.found.iter().map(|found| found.number).collect();
        numbers.sort_unstable();
        for two in numbers.windows(2).filter(|two| two[0] == two[1]) {
            report.add(STRUCTURE, start, format!("two inodes have the number {}", two[0]));
        }
        for (n, _) in self.ids.iter().enumerate().filter(|(_, used)| !**used) {
            report.add("id table", reader.ids_table.area().start, format!("no inode uses entry {n}"));
        }
        let unused = u64::from(reader.superblock.fragments).saturating_sub(self.inodes.fragments.len() as u64);
        if unused > 0 {
            report.add(
                "fragment table",
                reader.fragments.area().start,
                format!("no file uses {unused} of its entries"),
            );
        }
        let sets = reader.xattrs.as_ref().map_or(0, |xattrs| xattrs.sets.len());
        let unused = sets.saturating_sub(self.sets.len() as u64);
        if let Some(xattrs) = reader.xattrs.as_ref().filter(|_| unused > 0) {
            report.add("xattr table", xattrs.sets.area().start, format!("no inode uses {unused} of its sets"));
        }
    }
}

impl TableInode {
    /// Returns true for a directory.
    pub(super) fn is_dir(&self) -> bool {
        self.kind == inode_type::DIR
    }
}
