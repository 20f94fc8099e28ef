//! Directories: blocks of entries, each block with its names after the entries, sorted across all blocks.

use std::cmp::Ordering;
use std::sync::Arc;

use zerocopy::FromBytes;

use super::inode::Inode;
use super::{ErofsReader, data};
use crate::erofs::format::{self, NAME_MAX};
use crate::image::Nid;
use crate::{Error, Result, tree};

const STRUCTURE: &str = "directory";
const ENTRY_LEN: usize = size_of::<format::Dirent>();

/// One entry as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirEntry {
    pub(super) nid: Nid,
    /// Type, as stored in the entry.
    pub(super) kind: u8,
}

/// Iterates over a directory entry by entry, including `.` and `..`, checking names and their order.
#[derive(Debug)]
pub(super) struct DirentCursor<'r> {
    reader: &'r ErofsReader,
    dir: &'r Inode,
    /// Number of the next block, and number of blocks.
    next: u64,
    blocks: u64,
    block: Arc<[u8]>,
    /// Number of entries in the current block, and of those already returned.
    count: usize,
    at: usize,
    name: Vec<u8>,
}

impl<'r> DirentCursor<'r> {
    /// Starts at the first entry.
    pub(super) fn open(reader: &'r ErofsReader, dir: &'r Inode) -> DirentCursor<'r> {
        let blocks = dir.size.div_ceil(reader.superblock.block_size.into());
        // Nothing is read before the first entry is asked for.
        DirentCursor { reader, dir, next: 0, blocks, block: Arc::default(), count: 0, at: 0, name: Vec::new() }
    }

    /// Returns the next entry and its name, `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(DirEntry, &[u8])>> {
        if self.at == self.count {
            if self.next == self.blocks {
                return Ok(None);
            }
            self.load(self.next)?;
        }
        // The entry is copied, the name borrowed from the block.
        let (entry, name) = self.entry(self.at)?;
        let first = name.start;
        let last = name.end;
        let name = &self.block[first..last];
        let dots = name == b"." || name == b"..";
        if !dots && tree::check_name(name).is_err() {
            return Err(self.error(format!("`{}` cannot be a file name", name.escape_ascii())));
        }
        // `lookup` halves blocks and entries, and would miss what is out of order.
        if name <= &self.name[..] {
            let name = name.escape_ascii();
            let before = self.name.escape_ascii();
            return Err(self.error(format!("`{name}` after `{before}` is not in ascending order")));
        }
        self.name.clear();
        self.name.extend_from_slice(&self.block[first..last]);
        self.at += 1;
        Ok(Some((entry, &self.name)))
    }

    /// Reads block number `n` and the number of its entries, which follows from the first one.
    fn load(&mut self, n: u64) -> Result<()> {
        self.next = n + 1;
        let dir = self.dir;
        self.block = self.reader.metadata.directories.get((dir.nid, n), || read_block(self.reader, dir, n))?;
        // Entries fill the block up to where the first name begins, so that says how many there are.
        let names = self.block.get(..ENTRY_LEN).map_or(0, name_offset);
        if names == 0 || names % ENTRY_LEN != 0 || names >= self.block.len() {
            return Err(self.error(format!("its names begin at byte {names} of {}", self.block.len())));
        }
        (self.count, self.at) = (names / ENTRY_LEN, 0);
        Ok(())
    }

    /// Returns entry number `n` of the current block, and the range of its name.
    fn entry(&self, n: usize) -> Result<(DirEntry, std::ops::Range<usize>)> {
        let names = self.count * ENTRY_LEN;
        let raw = self.block.get(n * ENTRY_LEN..names).unwrap_or_default();
        let Ok((entry, rest)) = format::Dirent::read_from_prefix(raw) else {
            // Only the last one has names after it that may be padding.
            return Err(self.error(format!("entry {n} reaches into the names")));
        };
        let start = usize::from(entry.nameoff.get());
        let end = match rest.is_empty() {
            false => name_offset(rest),
            // Nothing follows the last name, except possibly padding.
            true => {
                // The end of the last name is not stored: a NUL, or the end of the block.
                let behind = self.block.get(start..).unwrap_or_default();
                start + behind.iter().position(|byte| *byte == 0).unwrap_or(behind.len())
            }
        };
        if start < names || end > self.block.len() || end <= start || end - start > NAME_MAX {
            return Err(self.error(format!("entry {n} has its name from byte {start} to {end}")));
        }
        Ok((DirEntry { nid: Nid(entry.nid.get()), kind: entry.file_type }, start..end))
    }

    fn error(&self, why: String) -> Error {
        let nid = self.dir.nid.0;
        let block = self.next.saturating_sub(1);
        self.dir.place.error(STRUCTURE, format!("inode {nid}, block {block}: {why}"))
    }
}

/// Reads block number `n` of a directory.
fn read_block(reader: &ErofsReader, dir: &Inode, n: u64) -> Result<Arc<[u8]>> {
    let block_size = u64::from(reader.superblock.block_size);
    let offset = n.saturating_mul(block_size);
    let len = dir.size.saturating_sub(offset).min(block_size);
    let mut block = vec![0; usize::try_from(len).unwrap_or(0)];
    let got = data::read_file(reader, dir, &mut block, offset)?;
    block.truncate(got);
    Ok(block.into())
}

/// Returns the name offset of the entry at the start of `bytes`.
fn name_offset(bytes: &[u8]) -> usize {
    bytes.get(8..10).and_then(|bytes| bytes.first_chunk()).map_or(0, |offset| u16::from_le_bytes(*offset).into())
}

/// Finds `name` in a directory, as Linux does: first the last block whose first name is not greater, then the entry in it.
pub(super) fn lookup(reader: &ErofsReader, dir: &Inode, name: &[u8]) -> Result<Option<DirEntry>> {
    // They are entries here, but no names that anybody may look up.
    if name == b"." || name == b".." {
        return Ok(None);
    }
    let mut listing = DirentCursor::open(reader, dir);
    let mut from = 0;
    let mut to = listing.blocks;
    // The last block whose first name is not greater, as `erofs_find_target_block` of Linux does.
    while to - from > 1 {
        let middle = from + (to - from) / 2;
        listing.load(middle)?;
        let (_, first) = listing.entry(0)?;
        match &listing.block[first] <= name {
            true => from = middle,
            false => to = middle,
        }
    }
    // No block: an empty directory.
    if from == to {
        return Ok(None);
    }
    listing.load(from)?;
    let mut from = 0;
    let mut to = listing.count;
    while from < to {
        let middle = from + (to - from) / 2;
        let (entry, found) = listing.entry(middle)?;
        match listing.block[found].cmp(name) {
            Ordering::Less => from = middle + 1,
            Ordering::Equal => return Ok(Some(entry)),
            Ordering::Greater => to = middle,
        }
    }
    Ok(None)
}
