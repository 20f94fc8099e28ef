//! Metadata blocks: pieces of up to 8 KiB of the inode table, the directory table and all others,
//! each after a two-byte header. A [`MetadataCursor`] reads records from them, across block boundaries.

use std::sync::Arc;

use packfs_blocks::cache::BlockCache;
use zerocopy::{FromBytes, IntoBytes};

use super::decode::{BlockReader, LocatedBlock};
use crate::squashfs::format::{METADATA_LEN, METADATA_RAW};
use crate::{Error, Result};

/// Length of a metadata block's header.
pub(super) const HEADER_LEN: usize = 2;
/// Maximum by which a compressed block may exceed 8 KiB: some writers keep compressed blocks that did not shrink.
const SLACK: usize = 512;

/// A part of the image that consists of metadata blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MetadataArea {
    /// Name of its contents, for messages.
    pub(super) structure: &'static str,
    /// Offset of the first byte.
    pub(super) start: u64,
    /// Offset after the last byte.
    pub(super) end: u64,
}

/// A position in the payload of a metadata block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MetadataPosition {
    /// Offset of the metadata block in the image.
    pub(super) block: u64,
    /// Offset in its payload.
    pub(super) offset: usize,
}

/// All metadata blocks, decoded when first used.
#[derive(Debug)]
pub(super) struct MetadataBlocks {
    pub(super) blocks: Arc<BlockReader>,
    /// Blocks by address, decoded but with their headers, from which the position of the next block follows.
    cache: BlockCache,
}

impl MetadataBlocks {
    /// Makes a reader of metadata that caches up to `capacity` bytes.
    pub(super) fn new(blocks: Arc<BlockReader>, capacity: u64) -> Self {
        MetadataBlocks { blocks, cache: BlockCache::new(capacity, METADATA_LEN as u64) }
    }

    /// Returns a cursor at `position` of `area`.
    pub(super) fn cursor(&self, area: MetadataArea, position: MetadataPosition) -> Result<MetadataCursor<'_>> {
        let block = self.block(area, position.block)?;
        let mut cursor = MetadataCursor { metadata: self, area, start: position.block, block, at: HEADER_LEN };
        let payload = cursor.block.len() - HEADER_LEN;
        // The end of a block is a valid position: that of a record in the next one.
        if position.offset > payload {
            return Err(cursor.error(format!("offset {} lies past the block's {payload} bytes", position.offset)));
        }
        cursor.at += position.offset;
        Ok(cursor)
    }

    /// Returns the metadata block that begins at byte `start`: its header and its decoded payload.
    pub(super) fn block(&self, area: MetadataArea, start: u64) -> Result<Arc<[u8]>> {
        // A block needs at least a byte besides its header.
        if start < area.start || start.saturating_add(HEADER_LEN as u64) >= area.end {
            let from = area.start;
            let to = area.end;
            let why = format!("no metadata block can begin here: the table lies from byte {from} to {to}");
            return Err(Error::corrupt(area.structure, start, why));
        }
        self.cache.get(start, || self.load(area, start))
    }

    /// Refuses a metadata block that Linux cannot decode; returns an unusual property of it. `block` is the result
    /// of [`MetadataBlocks::block`].
    pub(super) fn verify(&self, area: MetadataArea, start: u64, block: &[u8]) -> Result<Option<String>> {
        // Without the two bytes of a header there is nothing to decode.
        let raw = block.first_chunk().is_none_or(|word| u16::from_le_bytes(*word) & METADATA_RAW != 0);
        if raw {
            return Ok(too_long(area, stored_len(block), block.len() - HEADER_LEN));
        }
        let stored =
            LocatedBlock { structure: area.structure, start: start + HEADER_LEN as u64, len: stored_len(block), raw };
        // Its bytes are not needed: they were decoded before, by other rules.
        let decoded = self.blocks.verify(stored, &mut [0; METADATA_LEN])?;
        Ok(self.blocks.oddity(stored, decoded))
    }

    fn load(&self, area: MetadataArea, start: u64) -> Result<Arc<[u8]>> {
        // Reads header and block at once; the image may end earlier.
        let mut stored = [0; HEADER_LEN + METADATA_LEN + SLACK];
        let room = |end: u64| usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let available = room(self.blocks.end.max(area.end)).min(stored.len());
        let stored = &mut stored[..available];
        self.blocks.disk.read(area.structure, start, stored)?;
        let word = u16::from_le_bytes([stored[0], stored[1]]);
        let len = usize::from(word & !METADATA_RAW);
        let raw = word & METADATA_RAW != 0;
        // As for Linux, the length may be too large if the image has that many bytes. A compressed
        // block ends with its stream, another one with the table.
        let left = room(area.end) - HEADER_LEN;
        let most = if raw { METADATA_LEN } else { METADATA_LEN + SLACK };
        let Some(packed) = stored.get(HEADER_LEN..HEADER_LEN + len).filter(|_| (1..=most).contains(&len)) else {
            let why = format!("metadata block of {len} bytes where {left} are left in the table");
            return Err(Error::corrupt(area.structure, start, why));
        };
        let mut out = [0; HEADER_LEN + METADATA_LEN];
        // The header stays in front, since the next block follows from its length.
        out[..HEADER_LEN].copy_from_slice(&word.to_le_bytes());
        let got = if raw {
            let len = len.min(left);
            out[HEADER_LEN..HEADER_LEN + len].copy_from_slice(&packed[..len]);
            len
        } else {
            let block = LocatedBlock { structure: area.structure, start, len, raw };
            self.blocks.decode_packed(block, packed, &mut out[HEADER_LEN..])?
        };
        Ok(Arc::from(&out[..HEADER_LEN + got]))
    }
}

/// Returns the unusual property of an uncompressed block of `len` bytes that is longer than the `left` bytes up to the
/// end of its table.
fn too_long(area: MetadataArea, len: usize, left: usize) -> Option<String> {
    // unsquashfs does not read the export table.
    let others = match area.structure {
        "inode table" | "directory table" => "Linux and unsquashfs read it",
        "export table" => "Linux reads it",
        _ => "Linux reads it, unsquashfs refuses it",
    };
    (len > left).then(|| format!("metadata block of {len} bytes where {left} are left in the table; {others}"))
}

/// Returns the stored length, without its header, of a block returned by [`MetadataBlocks::block`].
pub(super) fn stored_len(block: &[u8]) -> usize {
    let word = block.first_chunk().map_or(0, |word| u16::from_le_bytes(*word));
    usize::from(word & !METADATA_RAW)
}

/// Reads forward from a position, from block to block, within one area.
#[derive(Debug, Clone)]
pub(super) struct MetadataCursor<'m> {
    metadata: &'m MetadataBlocks,
    area: MetadataArea,
    start: u64,
    block: Arc<[u8]>,
    /// Offset in `block`, including its header.
    at: usize,
}

impl MetadataCursor<'_> {
    /// Returns the position of the next byte.
    pub(super) fn position(&self) -> MetadataPosition {
        MetadataPosition { block: self.start, offset: self.at - HEADER_LEN }
    }

    /// Makes an error about the block at the cursor.
    pub(super) fn error(&self, why: impl Into<String>) -> Error {
        Error::corrupt(self.area.structure, self.start, why)
    }

    /// Returns the end of the stored block at the cursor, where the next one begins.
    pub(super) fn next_block(&self) -> u64 {
        self.start + (HEADER_LEN + stored_len(&self.block)) as u64
    }

    /// Reads the next record.
    pub(super) fn get<T: FromBytes + IntoBytes>(&mut self) -> Result<T> {
        let mut value = T::new_zeroed();
        self.read(value.as_mut_bytes())?;
        Ok(value)
    }

    /// Fills `buf` with the next bytes.
    pub(super) fn read(&mut self, mut buf: &mut [u8]) -> Result<()> {
        // A record may reach over any number of blocks.
        loop {
            let rest = &self.block[self.at..];
            // Without a copy of its own: the block is borrowed from the cache.
            let n = rest.len().min(buf.len());
            buf[..n].copy_from_slice(&rest[..n]);
            self.at += n;
            if n == buf.len() {
                return Ok(());
            }
            buf = &mut buf[n..];
            self.advance()?;
        }
    }

    /// Returns the position of the next byte, in the block that holds it; `None` at the end of the area.
    pub(super) fn settle(&mut self) -> Result<Option<MetadataPosition>> {
        // A block without payload is possible, so several may end here.
        while self.at == self.block.len() {
            if self.next_block() >= self.area.end {
                return Ok(None);
            }
            self.advance()?;
        }
        Ok(Some(self.position()))
    }

    fn advance(&mut self) -> Result<()> {
        let next = self.next_block();
        self.block = self.metadata.block(self.area, next)?;
        (self.start, self.at) = (next, HEADER_LEN);
        Ok(())
    }

    /// Returns false if fewer bytes than `len` can follow, judging by the length of the area: a
    /// cheap guard before work or memory is spent on a record that claims to be long.
    pub(super) fn may_hold(&self, len: u64) -> bool {
        // A stored block takes at least two bytes of header and one of payload.
        let blocks = (self.area.end - self.start) / (HEADER_LEN as u64 + 1) + 1;
        len <= blocks.saturating_mul(METADATA_LEN as u64)
    }
}
