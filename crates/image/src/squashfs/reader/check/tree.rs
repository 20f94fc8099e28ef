//! Checks every directory from the root on: entries against the inodes they name, link counts,
//! parents, loops, and that listings fill the directory table.

use super::inodes::TableInodes;
use super::tables;
use crate::squashfs::format::{DIR_SIZE_EXTRA, METADATA_LEN};
use crate::squashfs::reader::SquashfsReader;
use crate::squashfs::reader::dir::{self, DirEntry, HeaderPosition, ListingCursor};
use crate::squashfs::reader::inode::{DecodedInode, DirBody, InodeBody};
use crate::{Error, Result};
use packfs_tree::FindingCollector;

const STRUCTURE: &str = "directory table";

/// Walks all directories, then checks for inodes that they did not reach.
pub(super) fn check(
    reader: &SquashfsReader,
    inodes: &mut TableInodes,
    report: &mut FindingCollector<'_>,
) -> Result<()> {
    let Some(root) = inodes.at(reader.superblock.root) else {
        if inodes.complete {
            report.add("superblock", 0, "its root reference does not point to the start of an inode");
        }
        return Ok(());
    };
    // No directory names the root.
    inodes.found[root].names = 1;
    let parent = inodes.found[root].parent;
    // Writers disagree: mksquashfs writes the number of inodes and 1.
    let harmless = [0, inodes.found[root].number, reader.superblock.inodes.wrapping_add(1)];
    if !harmless.contains(&parent) {
        report.add("inode table", reader.inodes.start, format!("the root's parent is inode {parent}"));
    }
    let blocks = tables::starts(reader, reader.listings)?;
    let left = (blocks.len() * METADATA_LEN) as u64;
    let mut walk = TreeWalk { reader, inodes, blocks, listings: Vec::new(), left, stack: vec![root], whole: true };
    while let Some(n) = walk.stack.pop() {
        if let Err(error) = walk.directory(n, report) {
            report.error(error)?;
            walk.whole = false;
        }
    }
    // With a directory missing, its entries would all be reported as lost.
    if walk.whole && walk.inodes.complete {
        walk.check_links(report);
        walk.check_listings(report);
    }
    Ok(())
}

struct TreeWalk<'r, 'i> {
    reader: &'r SquashfsReader,
    inodes: &'i mut TableInodes,
    /// Starts of the metadata blocks of the directory table.
    blocks: Vec<u64>,
    /// Start and end of each listing, as offsets in the decoded table.
    listings: Vec<(u64, u64)>,
    /// Number of decoded bytes of the table not yet used by a listing. Listings share no bytes, so
    /// this bounds the work too.
    left: u64,
    /// Directories still to visit.
    stack: Vec<usize>,
    /// True if every directory could be read completely.
    whole: bool,
}

impl TreeWalk<'_, '_> {
    fn directory(&mut self, n: usize, report: &mut FindingCollector<'_>) -> Result<()> {
        let reader = self.reader;
        let nid = self.inodes.found[n].nid;
        let (inode, mut cursor) = DecodedInode::read(&reader.metadata, reader.inodes, nid)?;
        let InodeBody::Dir(dir) = inode.body else { return Ok(()) };
        let block = self.block(dir.start);
        // Before it is read: listings that overlap would take any amount of work.
        if u64::from(dir.size).saturating_sub(DIR_SIZE_EXTRA) > self.left {
            let why = format!("directory {}: more than the table has left", inode.number);
            return Err(Error::corrupt(STRUCTURE, block, why));
        }
        // Read at once, as its entries and the listing are compared side by side.
        let mut index = Vec::new();
        for _ in 0..dir.index_count {
            index.push(dir::index_entry(&mut cursor)?);
        }
        let mut index = index.into_iter().peekable();
        let mut entries = 0u32;
        let mut dirs = 0u32;
        let mut wrong = |why: String| report.add(STRUCTURE, block, format!("directory {}: {why}", inode.number));
        if let Some(mut listing) = ListingCursor::open(&reader.metadata, reader.listings, &dir)? {
            while let Some((entry, name)) = listing.next()? {
                let is_dir = self.entry(&entry, inode.number, &mut |why| {
                    wrong(format!("entry `{}`: {why}", name.escape_ascii()));
                });
                // Copied, since the cursor goes on.
                let name: Box<[u8]> = name.into();
                entries += 1;
                dirs += u32::from(is_dir);
                let Some(header) = listing.new_header() else { continue };
                // An index need not have an entry for each header.
                if let Some((mark, first)) = index.next_if(|(mark, _)| u64::from(mark.index.get()) <= header.offset) {
                    let here =
                        HeaderPosition { offset: mark.index.get().into(), block: self.block(mark.start_block.get()) };
                    if here != header || first != name {
                        wrong(format!("its index does not lead to entry `{}`", name.escape_ascii()));
                    }
                }
            }
            if listing.excess() > 0 {
                wrong(format!("its size {} is {} too small", dir.size, listing.excess()));
            }
            self.left = self.left.saturating_sub(listing.bytes_read());
            self.note_listing(&dir, listing.bytes_read());
        }
        if index.next().is_some() {
            wrong("its index has entries that lead nowhere".into());
        }
        // Some writers count all entries, not only directories.
        if ![dirs, entries].map(|links| links.saturating_add(2)).contains(&inode.nlink) {
            wrong(format!("link count {} with {dirs} directories among {entries} entries", inode.nlink));
        }
        Ok(())
    }

    /// Checks one entry of directory number `parent`; returns true if it is a directory.
    fn entry(&mut self, entry: &DirEntry, parent: u32, wrong: &mut dyn FnMut(String)) -> bool {
        let Some(n) = self.inodes.at(entry.nid) else {
            // If the scan ended early, the inode may be among those after it.
            if self.inodes.complete {
                wrong(format!("no inode begins at its reference {:#x}", entry.nid.0));
            }
            return false;
        };
        let found = &mut self.inodes.found[n];
        if entry.number != found.number {
            wrong(format!("it says inode number {}, the inode has {}", entry.number, found.number));
        }
        if entry.kind != found.kind {
            wrong(format!("it says type {}, the inode has {}", entry.kind, found.kind));
        }
        // A directory has one name. For all others, `check_links` compares the count later.
        found.names = found.names.saturating_add(1);
        if !found.is_dir() {
            return false;
        }
        if found.names > 1 {
            wrong(format!("directory {} is reached a second time", found.number));
        } else {
            // Visited once only, or a loop would have no end.
            if found.parent != parent {
                wrong(format!("directory {} names inode {} as its parent", found.number, found.parent));
            }
            self.stack.push(n);
        }
        true
    }

    fn block(&self, start: u32) -> u64 {
        self.reader.listings.start.saturating_add(start.into())
    }

    /// Records the position of a listing, in decoded bytes.
    fn note_listing(&mut self, dir: &DirBody, len: u64) {
        // A wrong start was reported when the listing was read.
        if let Ok(block) = self.blocks.binary_search(&self.block(dir.start)) {
            let start = (block * METADATA_LEN) as u64 + u64::from(dir.offset);
            self.listings.push((start, start + len));
        }
    }

    /// Checks that each inode has as many names as its link count says.
    fn check_links(&self, report: &mut FindingCollector<'_>) {
        let start = self.reader.inodes.start;
        let mut lost = self.inodes.found.iter().filter(|found| found.names == 0);
        // Only the first by number: a lost directory loses all that is below it.
        if let Some(first) = lost.next() {
            let more = lost.count();
            let why = format!("inode {} and {more} others are in no directory", first.number);
            report.add("inode table", start, why);
        }
        for found in self.inodes.found.iter().filter(|found| !found.is_dir() && found.names > 0) {
            if found.names != found.nlink {
                let names = found.names;
                let nlink = found.nlink;
                report.add("inode table", start, format!("inode {}: {names} names, link count {nlink}", found.number));
            }
        }
    }

    /// Checks that listings are adjacent.
    fn check_listings(&mut self, report: &mut FindingCollector<'_>) {
        self.listings.sort_unstable();
        let mut end = 0;
        for (start, next) in &self.listings {
            // A gap or an overlap: both show as a start that is not the end before.
            if *start != end {
                let why = format!("decoded bytes {end} to {start} belong to no directory or to two");
                report.add(STRUCTURE, self.reader.listings.start, why);
            }
            end = *next;
        }
    }
}
