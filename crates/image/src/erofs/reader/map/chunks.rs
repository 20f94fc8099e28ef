//! Chunk-based files: an array of block addresses, which may be on other devices, or mark holes.

use zerocopy::FromBytes;

use super::window::IndexWindow;
use super::{MappedExtent, MappedInode, PieceStorage, StoredBytes, StoredPosition};
use crate::Result;
use crate::erofs::format::{self, NO_BLOCK, chunk_format};

/// Maximum length to which adjacent chunks are merged into one piece, so that finding a byte never reads a whole index.
/// Not measured.
const MERGED: u64 = 1 << 20;

/// The chunks of a file.
#[derive(Debug)]
pub(super) struct ChunkTable {
    start: u64,
    /// True for entries of 8 bytes, false for 4.
    long: bool,
    /// True for addresses of 48 bits, false for 32.
    wide: bool,
    /// log2 of the chunk size in bytes.
    bits: u32,
    block_bits: u8,
    size: u64,
}

impl ChunkTable {
    /// Locates the array of a file.
    pub(super) fn new(facts: &MappedInode) -> ChunkTable {
        let format = facts.chunk_format;
        let long = format & chunk_format::INDEXES != 0;
        let unit = if long { 8 } else { 4 };
        ChunkTable {
            start: facts.payload.checked_next_multiple_of(unit).unwrap_or(u64::MAX),
            long,
            wide: format & chunk_format::BITS_48 != 0,
            bits: u32::from(facts.block_bits) + u32::from(format & chunk_format::BITS_MASK),
            block_bits: facts.block_bits,
            size: facts.size,
        }
    }

    /// Returns the end of the array.
    pub(super) fn end(&self) -> u64 {
        self.at(self.count())
    }

    fn count(&self) -> u64 {
        self.size.div_ceil(1 << self.bits)
    }

    /// Returns the offset of entry `n`.
    pub(super) fn at(&self, n: u64) -> u64 {
        self.start.saturating_add(n.saturating_mul(if self.long { 8 } else { 4 }))
    }

    /// Returns the piece that holds byte `offset`: a chunk, with the chunks that continue it.
    pub(super) fn find(&self, window: &mut IndexWindow<'_>, offset: u64) -> Result<MappedExtent> {
        let first = offset >> self.bits;
        let place = self.load(window, first)?;
        let mut n = first + 1;
        while n < self.count() && (n - first) << self.bits < MERGED {
            let behind = place.map(|place| place.skip((n - first) << self.bits));
            if self.load(window, n)? != behind {
                break;
            }
            n += 1;
        }
        let logical = first << self.bits;
        let len = n.saturating_mul(1 << self.bits).min(self.size) - logical;
        let data = match place {
            None => PieceStorage::Hole,
            Some(place) => PieceStorage::Plain { stored: StoredBytes { place, len }, rotated: false },
        };
        Ok(MappedExtent { logical, len, data })
    }

    /// Returns the position of chunk `n`, if it is stored.
    fn load(&self, window: &mut IndexWindow<'_>, n: u64) -> Result<Option<StoredPosition>> {
        let at = self.at(n);
        if !self.long {
            let block = u32::from_le_bytes(window.array(at)?);
            return Ok((block != NO_BLOCK).then(|| StoredPosition::Image(u64::from(block) << self.block_bits)));
        }
        let Ok(raw) = format::ChunkIndex::read_from_bytes(&window.array::<8>(at)?) else {
            return Err(window.error(at, "an entry is cut short"));
        };
        // For a hole, all bits of the address are set, as far as the entry has bits.
        let (mask, high) = if self.wide { ((1 << 48) - 1, raw.startblk_hi.get()) } else { (u32::MAX.into(), 0) };
        let block = u64::from(high) << 32 | u64::from(raw.startblk_lo.get());
        let byte = block << self.block_bits;
        Ok((block != mask).then(|| match raw.device_id.get() {
            0 => StoredPosition::Image(byte),
            device => StoredPosition::Device(device, byte),
        }))
    }
}
