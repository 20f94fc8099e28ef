//! Reads file contents: whole blocks decode straight into the caller's buffer, parts of blocks and
//! fragments go through the cache. The first read of the beginning of a block decodes only that.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use packfs_blocks::cache::BlockCache;
use packfs_blocks::mutex;
use packfs_blocks::{BlockShelf, SharedBlock};
use packfs_codec::Codec;

use super::SquashfsReader;
use super::decode::LocatedBlock;
use super::map::{self, FileMap, FileTail};
use crate::image::{Nid, StoredPiece, StoredUnit};
use crate::squashfs::format;
use crate::{Error, Result};

/// Binary logarithm of [`SLOTS`].
const SLOT_BITS: u32 = 6;
/// Number of files whose mapped block list is cached, and of uncompressed blocks of which it is known that a part was
/// read. Few suffice: reads of one file or block come together.
const SLOTS: usize = 1 << SLOT_BITS;
/// Length from which a part of an uncompressed block is read by itself, even if another part was read before: copying
/// it from the whole block takes longer than another system call.
const DIRECT_LEN: usize = 16 << 10;

/// Cache of decoded blocks and mapped files.
#[derive(Debug)]
pub(super) struct DataCache {
    /// Blocks by address.
    blocks: BlockCache<(u64, HeldPart), SharedBlock>,
    shelf: BlockShelf,
    files: [MapSlot; SLOTS],
    /// Offsets of uncompressed blocks of which a part was read lately.
    touched: [AtomicU64; SLOTS],
}

/// Part of a block that is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum HeldPart {
    Whole,
    Beginning,
}

type MapSlot = Mutex<Option<(Nid, Arc<FileMap>)>>;

impl DataCache {
    /// Makes a cache of up to `capacity` bytes of decoded data.
    pub(super) fn new(capacity: u64, block_size: u32) -> Self {
        DataCache {
            blocks: BlockCache::new(capacity, block_size.into()),
            shelf: BlockShelf::new(block_size as usize),
            files: std::array::from_fn(|_| Mutex::default()),
            touched: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Notes that a part of an uncompressed block is read; returns true if one was read before.
    fn touch(&self, block_start: u64) -> bool {
        // Data begins after the superblock, so no block has offset 0.
        self.touched[hash_slot(block_start)].swap(block_start, Ordering::Relaxed) == block_start
    }
}

impl SquashfsReader {
    /// Returns the block map of a regular file.
    pub(super) fn file(&self, nid: Nid) -> Result<Arc<FileMap>> {
        // One slot per file: no search, and threads rarely collide.
        let slot = &self.data.files[hash_slot(nid.0)];
        let held = mutex::lock(slot).clone();
        if let Some((_, map)) = held.filter(|(owner, _)| *owner == nid) {
            return Ok(map);
        }
        let map = Arc::new(FileMap::open(&self.metadata, self.inodes, &self.superblock, nid)?);
        *mutex::lock(slot) = Some((nid, map.clone()));
        Ok(map)
    }

    /// See [`Image::read_at`](crate::Image::read_at).
    pub(super) fn read_file(&self, file: &FileMap, buf: &mut [u8], offset: u64) -> Result<usize> {
        let left = file.size().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let mut rest = &mut buf[..len];
        let mut at = offset;
        let mut blocks = file.blocks(&self.metadata, offset)?;
        while !rest.is_empty() {
            // Ends: each step reads at least a byte, or fails.
            let n = match blocks.next()? {
                Some(block) => self.read_block(block, rest, at)?,
                None => self.read_tail(file, rest, at)?,
            };
            rest = &mut rest[n..];
            at += n as u64;
        }
        Ok(len)
    }

    /// Calls `tell` with the stored bytes of a range of a file: see [`Image::will_read`](crate::Image::will_read).
    pub(super) fn announce(&self, nid: Nid, range: Range<u64>, tell: &mut dyn FnMut(Range<u64>)) -> Result<()> {
        let file = self.file(nid)?;
        let Range { start, end } = range.start..range.end.min(file.size());
        if start >= end {
            return Ok(());
        }
        let tail = file.tail();
        // With its start in the tail, a range has no blocks.
        if tail.is_none_or(|tail| start < tail.offset) {
            let span = file.span(&self.metadata, &(start..end))?;
            tell(span);
        }
        // Last, as its position may have to be fetched.
        if let Some(tail) = tail.filter(|tail| end > tail.offset) {
            let stored = self.fragment(tail.tail.fragment)?;
            tell(stored.start..stored.start.saturating_add(stored.len as u64));
        }
        Ok(())
    }

    /// See [`Image::stored_pieces`](crate::Image::stored_pieces).
    pub(super) fn visit_pieces(
        &self,
        file: &FileMap,
        range: Range<u64>,
        visit: &mut dyn FnMut(StoredPiece),
    ) -> Result<()> {
        let mut blocks = file.blocks(&self.metadata, range.start)?;
        while let Some(block) = blocks.next()? {
            if block.offset >= range.end {
                return Ok(());
            }
            // A wrong size word fails here, before `visit` gets the position.
            let unit = block.stored()?.map(unit_of);
            visit(piece_of(block.offset, block.len, &range, unit, 0));
        }
        // An empty tail has no bytes to visit.
        if let Some(FileTail { offset, len, tail }) = file.tail().filter(|tail| tail.offset < range.end && tail.len > 0)
        {
            let unit = unit_of(self.fragment(tail.fragment)?);
            visit(piece_of(offset, len, &range, Some(unit), tail.offset.into()));
        }
        Ok(())
    }

    /// Fills `buf`, which begins at byte `at` of the file, with the part that `block` covers.
    fn read_block(&self, block: map::MappedBlock, buf: &mut [u8], at: u64) -> Result<usize> {
        let (skip, n) = overlap(block.offset, block.len, buf, at);
        let out = &mut buf[..n];
        match block.stored()? {
            None => out.fill(0),
            // Read past the cache: a reader of whole blocks goes on to the next one and does not come back for this
            // one.
            Some(stored) if n == block.len => match self.data.blocks.peek(&(stored.start, HeldPart::Whole)) {
                Some(bytes) => copy(stored, &bytes, 0, out)?,
                None => self.metadata.blocks.decode_exact(stored, out)?,
            },
            // An uncompressed block of another length is damaged, which is found only if all of it is read.
            Some(stored) if stored.len == block.len && self.reads_alone(stored, skip, n) => {
                self.metadata.blocks.read_stored(stored, skip, out)?;
            }
            Some(stored) => {
                let load = |out: &mut [u8]| self.metadata.blocks.decode_exact(stored, out).map(|()| block.len);
                let whole = || self.data.shelf.block(block.len, load);
                self.read_part(stored, block.len, whole, skip, out)?;
            }
        }
        Ok(n)
    }

    fn read_tail(&self, file: &FileMap, buf: &mut [u8], at: u64) -> Result<usize> {
        let Some(FileTail { offset, len, tail }) = file.tail() else {
            // Blocks of a file with a tail are all before it, and without one they cover its size.
            return Err(Error::corrupt("inode table", self.inodes.start, "a file ends before its size"));
        };
        let (skip, n) = overlap(offset, len, buf, at);
        let stored = self.fragment(tail.fragment)?;
        let from = (tail.offset as usize).saturating_add(skip);
        if self.reads_alone(stored, from, n) {
            self.metadata.blocks.read_stored(stored, from, &mut buf[..n])?;
            return Ok(n);
        }
        // The length of a fragment block is known only when it is decoded.
        let most = self.superblock.block_size as usize;
        let load = |out: &mut [u8]| self.metadata.blocks.decode_up_to(stored, out);
        let whole = || self.data.shelf.block(most, load);
        self.read_part(stored, most, whole, from, &mut buf[..n])?;
        Ok(n)
    }

    /// Returns true if `len` bytes from byte `from` of a block are to be read from the image by themselves: they are
    /// uncompressed, and nothing suggests that other parts of the block are wanted. Then reading all of it would cost
    /// several times what the part does.
    fn reads_alone(&self, stored: LocatedBlock, from: usize, len: usize) -> bool {
        // A block that the image cuts short fails as a whole, whichever part is wanted.
        let is_there = stored.start.saturating_add(stored.len as u64) <= self.metadata.blocks.disk.len();
        stored.raw
            // Over a network the number of requests counts, and whole blocks are announced.
            && self.followed.is_none()
            && is_there
            && from.checked_add(len).is_some_and(|end| end <= stored.len)
            && (len >= DIRECT_LEN || !self.data.touch(stored.start))
            && self.data.blocks.peek(&(stored.start, HeldPart::Whole)).is_none()
    }

    /// Fills `out` from byte `from` of a block of up to `most` bytes, which `whole` decodes.
    fn read_part(
        &self,
        stored: LocatedBlock,
        most: usize,
        whole: impl FnOnce() -> Result<SharedBlock>,
        from: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let cache = &self.data.blocks;
        let blocks = &self.metadata.blocks;
        if let Some(bytes) = cache.peek(&(stored.start, HeldPart::Whole)) {
            return copy(stored, &bytes, from, out);
        }
        let end = from.saturating_add(out.len());
        // Only the end of an lz4 block shows whether Linux reads it, so all of it is decoded.
        let piece = blocks.codec.piece_len().filter(|_| !stored.raw && blocks.codec != Codec::Lz4);
        // A beginning that is nearly all of the block is not worth another decoding later.
        let beginning = piece.map(|piece| end.next_multiple_of(piece)).filter(|len| *len <= most / 4 * 3);
        let decode_beginning = |len: usize| {
            let load = |out: &mut [u8]| blocks.decode_beginning(stored, out).map(|()| len);
            self.data.shelf.block(len, load)
        };
        if let Some(len) = beginning {
            // A fragment block may be shorter; decoding all of it tells whether it is damaged.
            // Kept apart from whole blocks, so that a short one is never taken for the whole.
            let bytes = cache.get((stored.start, HeldPart::Beginning), || decode_beginning(len));
            // A reader that comes back for more than was decoded wants the rest, too.
            if let Some(bytes) = bytes.ok().filter(|bytes| end <= bytes.len()) {
                return copy(stored, &bytes, from, out);
            }
        }
        let bytes = match (cache.get((stored.start, HeldPart::Whole), whole), beginning) {
            // Whether a part of a damaged block can be read must not depend on what was read, and cached, before.
            (Err(error @ Error::Corrupt { .. }), Some(len)) => decode_beginning(len).map_err(|_| error)?,
            (result, _) => result?,
        };
        copy(stored, &bytes, from, out)
    }

    /// Returns fragment block number `n`.
    pub(super) fn fragment(&self, n: u32) -> Result<LocatedBlock> {
        let raw: format::Fragment = self.fragments.get(&self.metadata, n.into())?;
        let start = raw.start_block.get();
        // The same rules hold for its size word as for that of a data block.
        let stored = map::stored("fragment block", start, raw.size.get(), self.superblock.block_size)?;
        let end = start.saturating_add(stored.len as u64);
        if end > self.superblock.bytes_used {
            let why = format!("fragment {n} ends at byte {end}, past the end of the image");
            return Err(Error::corrupt("fragment table", self.fragments.area().start, why));
        }
        Ok(stored)
    }
}

/// Returns the slot of a number, by multiplicative hashing: the highest bits, which all bits of the number have
/// influenced.
fn hash_slot(number: u64) -> usize {
    usize::try_from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS)).unwrap_or(0)
}

fn unit_of(stored: LocatedBlock) -> StoredUnit {
    StoredUnit { area: 0, position: stored.start, len: stored.len as u64, coding: stored.raw.into() }
}

/// Returns the part of a range that lies in a block or tail: `len` bytes at `offset` of the file, which are at byte
/// `from` of its unit.
fn piece_of(offset: u64, len: usize, range: &Range<u64>, unit: Option<StoredUnit>, from: u64) -> StoredPiece {
    let start = offset.max(range.start);
    let end = offset.saturating_add(len as u64).min(range.end);
    StoredPiece { offset: start, len: end.saturating_sub(start), unit, within: from + (start - offset) }
}

/// Intersects a piece of `len` bytes at `offset` of a file with `buf`, which begins at byte `at`:
/// returns how many bytes to skip and how many to copy.
fn overlap(offset: u64, len: usize, buf: &[u8], at: u64) -> (usize, usize) {
    // `at` may lie in the block or before it, where a range begins in the middle.
    let skip = usize::try_from(at.saturating_sub(offset)).unwrap_or(len).min(len);
    (skip, (len - skip).min(buf.len()))
}

fn copy(stored: LocatedBlock, bytes: &[u8], from: usize, out: &mut [u8]) -> Result<()> {
    // The offset of a tail comes from the inode, the length of the fragment from its stream.
    let Some(bytes) = from.checked_add(out.len()).and_then(|to| bytes.get(from..to)) else {
        let why = format!("{} bytes wanted at offset {from}, but it has only {}", out.len(), bytes.len());
        return Err(Error::corrupt(stored.structure, stored.start, why));
    };
    out.copy_from_slice(bytes);
    Ok(())
}
