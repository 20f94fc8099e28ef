//! Block maps: the positions of a file's data, with marks that make any block quick to find.

use std::ops::Range;

use super::decode::LocatedBlock;
use super::inode::{self, DecodedInode, FileBody, InodeBody, TailPosition};
use super::metadata::{MetadataArea, MetadataBlocks, MetadataCursor, MetadataPosition};
use super::superblock::Superblock;
use crate::image::{Extent, Nid};
use crate::squashfs::format::DATA_RAW;
use crate::{Error, Result};

/// Number of blocks between two marks. A list is never held in memory as a whole: it may have millions of entries.
const STRIDE: usize = 256;
/// Used bits of a size word: the length and the uncompressed flag.
const WORD_MASK: u32 = (DATA_RAW << 1) - 1;

/// A regular file's data.
#[derive(Debug)]
pub(super) struct FileMap {
    area: MetadataArea,
    size: u64,
    block_size: u32,
    /// Number of size words.
    blocks: u64,
    tail: Option<TailPosition>,
    marks: Vec<BlockMark>,
    /// End of the last block in the image.
    end: u64,
}

/// Every [`STRIDE`]th block.
#[derive(Debug, Clone, Copy)]
struct BlockMark {
    /// Position of its size word.
    word: MetadataPosition,
    /// Position of its data.
    data: u64,
}

/// One block of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct MappedBlock {
    /// Offset in the file.
    pub(super) offset: u64,
    /// Length in the file.
    pub(super) len: usize,
    start: u64,
    word: u32,
    block_size: u32,
}

/// The tail of a file, stored in a fragment.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileTail {
    /// Offset in the file.
    pub(super) offset: u64,
    /// Length in the file.
    pub(super) len: usize,
    /// Position in the fragment.
    pub(super) tail: TailPosition,
}

impl FileMap {
    /// Finds the data of the regular file at a reference.
    pub(super) fn open(
        metadata: &MetadataBlocks,
        area: MetadataArea,
        superblock: &Superblock,
        nid: Nid,
    ) -> Result<FileMap> {
        let (found, mut cursor) = DecodedInode::read(metadata, area, nid)?;
        found.validate(superblock, inode::position(area, nid), area)?;
        let InodeBody::File(file) = found.body else {
            return Err(cursor.error(format!("inode {} is not a regular file", found.number)));
        };
        let map = FileMap::map(&mut cursor, area, superblock.block_size, &file)?;
        map.check_end(superblock, found.number)?;
        Ok(map)
    }

    /// Reads a file's block list once; the cursor moves from the end of the inode to the end of the list.
    pub(super) fn map(
        cursor: &mut MetadataCursor<'_>,
        area: MetadataArea,
        block_size: u32,
        file: &FileBody,
    ) -> Result<FileMap> {
        // Without a fragment, the last block is shorter.
        let whole = file.size / u64::from(block_size);
        let blocks = if file.tail.is_some() { whole } else { file.size.div_ceil(block_size.into()) };
        // The size comes from the image, and the list would be read to the end of the table.
        if !cursor.may_hold(blocks.saturating_mul(4)) {
            return Err(cursor.error(format!("no room for the {blocks} blocks of a file of {} bytes", file.size)));
        }
        let size = file.size;
        let tail = file.tail;
        let mut map = FileMap { area, size, block_size, blocks, tail, marks: Vec::new(), end: 0 };
        map.end = map.set_marks(cursor, file.start)?;
        Ok(map)
    }

    /// Refuses data that reaches past the end of the image.
    pub(super) fn check_end(&self, superblock: &Superblock, number: u32) -> Result<()> {
        if self.blocks == 0 || self.end <= superblock.bytes_used {
            return Ok(());
        }
        let why = format!("inode {number}: its data ends at byte {}, past the end of the image", self.end);
        Err(Error::corrupt(self.area.structure, self.area.start, why))
    }

    /// Sets the marks; returns the end of the data.
    fn set_marks(&mut self, cursor: &mut MetadataCursor<'_>, start: u64) -> Result<u64> {
        let mut left = self.blocks;
        let mut data = start;
        let mut words = [0; STRIDE];
        while left > 0 {
            // Before the words are read: the position of the first of them.
            self.marks.push(BlockMark { word: cursor.position(), data });
            let n = usize::try_from(left).unwrap_or(STRIDE).min(STRIDE);
            read_words(cursor, &mut words[..n])?;
            let len: u64 = words[..n].iter().map(|word| stored_len(*word)).sum();
            // Sizes may be anything: an end that is too large is found by `check_end`.
            data = data.saturating_add(len);
            left -= n as u64;
        }
        Ok(data)
    }

    /// Returns the length of the file.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the part of the file that is in a fragment.
    pub(super) fn tail(&self) -> Option<FileTail> {
        let offset = self.blocks * u64::from(self.block_size);
        let len = usize::try_from(self.size.saturating_sub(offset)).ok()?;
        self.tail.map(|tail| FileTail { offset, len, tail })
    }

    /// Returns the blocks, starting with the one that contains byte `offset` of the file.
    pub(super) fn blocks<'m>(&self, metadata: &'m MetadataBlocks, offset: u64) -> Result<FileBlocks<'m, '_>> {
        let first = (offset / u64::from(self.block_size)).min(self.blocks);
        let stride = STRIDE as u64;
        // After the last block there is no mark, and nothing to iterate over.
        let Some(mark) = usize::try_from(first / stride).ok().and_then(|n| self.marks.get(n)) else {
            return Ok(FileBlocks {
                map: self,
                cursor: None,
                at: first,
                data: 0,
                words: [0; STRIDE],
                next: 0,
                have: 0,
            });
        };
        let cursor = metadata.cursor(self.area, mark.word)?;
        // From the mark before it, whose position is known.
        let at = first - first % stride;
        let mut blocks =
            FileBlocks { map: self, cursor: Some(cursor), at, data: mark.data, words: [0; STRIDE], next: 0, have: 0 };
        while blocks.at < first {
            blocks.next()?;
        }
        Ok(blocks)
    }

    /// Returns the range of the image that holds the blocks of a range of the file; its fragment is not among them.
    pub(super) fn span(&self, metadata: &MetadataBlocks, range: &Range<u64>) -> Result<Range<u64>> {
        let from = self.blocks(metadata, range.start)?.data;
        let block = range.end.div_ceil(self.block_size.into());
        // The end of the last block of the range is the start of the one after it.
        let to = match block < self.blocks {
            true => self.blocks(metadata, block * u64::from(self.block_size))?.data,
            false => self.end,
        };
        Ok(from..to)
    }

    /// See [`Image::extents`](crate::Image::extents).
    pub(super) fn extents(&self, metadata: &MetadataBlocks) -> Result<Vec<Extent>> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut blocks = self.blocks(metadata, 0)?;
        while let Some(block) = blocks.next()? {
            let hole = block.is_hole();
            let len = block.len as u64;
            match extents.last_mut() {
                // Only holes are joined: each stored block is decoded by itself.
                Some(last) if hole && last.hole => last.len += len,
                _ => extents.push(Extent { offset: block.offset, len, hole }),
            }
        }
        if let Some(tail) = self.tail() {
            extents.push(Extent { offset: tail.offset, len: tail.len as u64, hole: false });
        }
        Ok(extents)
    }

    /// See [`Image::stretch`](crate::Image::stretch).
    pub(super) fn stretch(&self, metadata: &MetadataBlocks, offset: u64) -> Result<Option<Extent>> {
        if offset >= self.size {
            return Ok(None);
        }
        let mut blocks = self.blocks(metadata, offset)?;
        let blocks = std::iter::from_fn(|| blocks.next().transpose());
        let blocks = blocks.map(|block| {
            block.map(|block| Extent { offset: block.offset, len: block.len as u64, hole: block.is_hole() })
        });
        let tail = self.tail().map(|tail| Extent { offset: tail.offset, len: tail.len as u64, hole: false });
        Extent::run(blocks.chain(tail.map(Ok)))
    }
}

/// Iterates over the blocks of a file.
#[derive(Debug)]
pub(super) struct FileBlocks<'m, 'f> {
    map: &'f FileMap,
    cursor: Option<MetadataCursor<'m>>,
    /// Number of the next block, and position of its data.
    at: u64,
    data: u64,
    /// Size words read ahead: those from `next` to `have` are unread.
    words: [u32; STRIDE],
    next: usize,
    have: usize,
}

impl FileBlocks<'_, '_> {
    /// Returns the next block, `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<MappedBlock>> {
        let map = self.map;
        let Some(cursor) = self.cursor.as_mut().filter(|_| self.at < map.blocks) else { return Ok(None) };
        if self.next == self.have {
            // Words are read in strides, as a cursor costs more than the word it returns.
            self.next = 0;
            self.have = usize::try_from(map.blocks - self.at).unwrap_or(STRIDE).min(STRIDE);
            read_words(cursor, &mut self.words[..self.have])?;
        }
        let word = self.words[self.next];
        let offset = self.at * u64::from(map.block_size);
        // The last block of a file without a tail is shorter.
        let len = usize::try_from((map.size - offset).min(map.block_size.into())).unwrap_or(0);
        let block = MappedBlock { offset, len, start: self.data, word, block_size: map.block_size };
        self.data = self.data.saturating_add(stored_len(word));
        self.next += 1;
        self.at += 1;
        Ok(Some(block))
    }
}

impl MappedBlock {
    /// Returns true for zeros that are not stored.
    pub(super) fn is_hole(&self) -> bool {
        self.word == 0
    }

    /// Returns its offset in the image, and its size word.
    pub(super) fn place(&self) -> (u64, u32) {
        (self.start, self.word)
    }

    /// Returns the stored block; `None` for a hole.
    pub(super) fn stored(&self) -> Result<Option<LocatedBlock>> {
        if self.is_hole() {
            return Ok(None);
        }
        stored("data block", self.start, self.word, self.block_size).map(Some)
    }
}

/// Checks a size word and returns the stored block.
pub(super) fn stored(structure: &'static str, start: u64, word: u32, block_size: u32) -> Result<LocatedBlock> {
    let len = word & (DATA_RAW - 1);
    // As `squashfs_block_size` of Linux, which refuses higher bits too.
    if word & !WORD_MASK != 0 || len == 0 || len > block_size {
        let why = format!("size word {word:#x} does not give a length of 1 to {block_size}");
        return Err(Error::corrupt(structure, start, why));
    }
    Ok(LocatedBlock { structure, start, len: len as usize, raw: word & DATA_RAW != 0 })
}

fn stored_len(word: u32) -> u64 {
    (word & (DATA_RAW - 1)).into()
}

fn read_words(cursor: &mut MetadataCursor<'_>, words: &mut [u32]) -> Result<()> {
    let mut bytes = [0; STRIDE * 4];
    let bytes = &mut bytes[..words.len() * 4];
    cursor.read(bytes)?;
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    Ok(())
}
