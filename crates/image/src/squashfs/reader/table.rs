//! Tables of records of equal size (ids, fragments, inode references, xattr sets): metadata blocks
//! located through an index of their addresses. Each table must end where the next one begins, as
//! the kernel requires.

use zerocopy::{FromBytes, IntoBytes};

use super::disk::ImageBytes;
use super::metadata::{MetadataArea, MetadataBlocks, MetadataPosition};
use crate::squashfs::format::METADATA_LEN;
use crate::{Error, Result};

/// Maximum distance between two adjacent metadata blocks.
const STEP_MAX: u64 = METADATA_LEN as u64 + 2;

/// Position of a table's index, and the space it must fit in.
#[derive(Debug, Clone, Copy)]
pub(super) struct TablePlace {
    /// Contents of the table, for messages.
    pub(super) structure: &'static str,
    /// Length of a record.
    pub(super) record_len: usize,
    /// Number of records.
    pub(super) count: u64,
    /// Offset of the index.
    pub(super) index: u64,
    /// Offset of the next table.
    pub(super) end: u64,
    /// True if the index must reach exactly to `end`; otherwise it must not exceed it.
    pub(super) exact: bool,
    /// Earliest offset of the metadata blocks, and their end.
    pub(super) blocks: (u64, u64),
}

/// A table with a checked index; records are read on demand.
#[derive(Debug)]
pub(super) struct IndexedTable {
    record_len: usize,
    count: u64,
    blocks: Vec<u64>,
    area: MetadataArea,
}

impl IndexedTable {
    /// Reads the index of a table and checks it.
    pub(super) fn open(disk: &ImageBytes, place: TablePlace) -> Result<IndexedTable> {
        let TablePlace { structure, record_len, count, index, end, exact, blocks: (first, blocks_end) } = place;
        let wrong = |why: String| Err(Error::corrupt(structure, index, why));
        // An index of 64-bit addresses, one for each block of records.
        let index_len = count.saturating_mul(record_len as u64).div_ceil(METADATA_LEN as u64).saturating_mul(8);
        let room = end.saturating_sub(index);
        // Checked before the index is read, since the count alone would decide how much memory it takes.
        if index_len > room || (exact && index_len != room) {
            let why =
                format!("an index of {index_len} bytes for {count} entries, but {room} bytes up to the next table");
            return wrong(why);
        }
        let Ok(len) = usize::try_from(index_len) else { return wrong(format!("{count} entries do not fit in memory")) };
        let mut bytes = vec![0; len];
        disk.read(structure, index, &mut bytes)?;
        let blocks: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut behind = blocks_end;
        for (n, start) in blocks.iter().enumerate().rev() {
            // Blocks lie right before each other, but how long each is stored shows only when it is read.
            if *start < first || *start >= behind || behind - start > STEP_MAX {
                return wrong(format!("entry {n} of its index, byte {start}, is not a block right before {behind}"));
            }
            // From the last to the first, as each has to end before the one after it.
            behind = *start;
        }
        Ok(IndexedTable { record_len, count, blocks, area: MetadataArea { structure, start: behind, end: blocks_end } })
    }

    /// Makes a table without records.
    pub(super) fn empty(structure: &'static str) -> IndexedTable {
        IndexedTable { record_len: 1, count: 0, blocks: Vec::new(), area: MetadataArea { structure, start: 0, end: 0 } }
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> u64 {
        self.count
    }

    /// Returns the area of the metadata blocks that hold the records.
    pub(super) fn area(&self) -> MetadataArea {
        self.area
    }

    /// Returns the addresses of the blocks.
    pub(super) fn blocks(&self) -> &[u64] {
        &self.blocks
    }

    /// Reads record number `n`.
    pub(super) fn get<T: FromBytes + IntoBytes>(&self, metadata: &MetadataBlocks, n: u64) -> Result<T> {
        let structure = self.area.structure;
        if n >= self.count {
            let why = format!("there is no entry {n}, only {}", self.count);
            return Err(Error::corrupt(structure, self.area.end, why));
        }
        let (block, offset) = self.locate(n);
        // Never: `open` read an address for every block of the count.
        let Some(block) = self.blocks.get(block) else {
            return Err(Error::corrupt(structure, self.area.end, format!("no block holds entry {n}")));
        };
        metadata.cursor(self.area, MetadataPosition { block: *block, offset })?.get()
    }

    /// Reads all records.
    pub(super) fn read_all<T: FromBytes + IntoBytes>(&self, metadata: &MetadataBlocks) -> Result<Vec<T>> {
        // Grows as records are read, so that memory follows the actual and not the claimed number.
        let mut records = Vec::new();
        for n in 0..self.count {
            records.push(self.get(metadata, n)?);
        }
        Ok(records)
    }

    fn locate(&self, n: u64) -> (usize, usize) {
        // Records never cross blocks: 8192 is a multiple of all their lengths.
        let per_block = (METADATA_LEN / self.record_len) as u64;
        let block = usize::try_from(n / per_block).unwrap_or(usize::MAX);
        let offset = usize::try_from(n % per_block).unwrap_or(0) * self.record_len;
        (block, offset)
    }
}
