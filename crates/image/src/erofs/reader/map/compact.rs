//! Compact indexes: packs of 2 entries in 8 bytes, or of 16 in 32. Each pack ends with the block
//! address from which its heads count.

use super::clusters::{DecodedEntry, ExtentCoding, ExtentHead};
use super::window::IndexWindow;
use crate::Result;
use crate::erofs::format::cluster_type;

/// Number of entries in a dense pack, with 2 bytes per entry.
const DENSE: u64 = 16;
/// Number of entries in a loose pack, with 4 bytes per entry.
const LOOSE: u64 = 2;
/// Dense packs are aligned to their length.
const DENSE_LEN: usize = 32;
/// Minimum number of bits in an entry's value; the highest marks a count of blocks.
const VALUE_BITS: u32 = cluster_type::BLOCK_COUNT.ilog2() + 1;
/// Bit of a value: the rest is a count of blocks.
const COUNT: u16 = cluster_type::BLOCK_COUNT;

/// Position of the packs of a compact index.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompactIndex {
    start: u64,
    /// Number of entries in loose packs before the dense ones.
    lead: u64,
    /// Number of entries in dense packs; loose ones follow.
    dense: u64,
    value_bits: u32,
    /// True if clusters may have several blocks.
    big: bool,
}

/// A pack: its position, and its entries.
#[derive(Debug, Clone, Copy)]
struct IndexPack {
    at: u64,
    first: u64,
    count: u64,
}

/// The bytes of a pack: a string of bits, the first entry lowest, and the base.
#[derive(Debug, Clone, Copy)]
struct PackEntries {
    bytes: [u8; DENSE_LEN],
    count: usize,
    /// Number of bits in an entry, and in its value.
    bits: usize,
    value_bits: u32,
    base: u32,
}

impl CompactIndex {
    /// Locates the index after a map header that ends at byte `start`. The kernel counts one entry
    /// per *block* even if logical clusters are larger.
    pub(super) fn new(
        start: u64,
        blocks: u64,
        cluster_bits: u32,
        dense: bool,
        big: bool,
    ) -> std::result::Result<Self, String> {
        // As in `z_erofs_load_compact_lcluster` of Linux.
        let most = if dense { 12 } else { 14 };
        if cluster_bits > most {
            return Err(format!("clusters of {} bytes are more than a pack can hold", 1u64 << cluster_bits));
        }
        // Loose packs, with 4 bytes an entry, fill the space up to the first aligned dense one.
        let lead = if dense { (start.wrapping_neg() % DENSE_LEN as u64) / 4 } else { 0 };
        let dense = if dense { blocks.saturating_sub(lead) / DENSE * DENSE } else { 0 };
        Ok(CompactIndex { start, lead, dense, value_bits: VALUE_BITS.max(cluster_bits), big })
    }

    /// Returns the end of the pack of cluster `n`.
    pub(super) fn pack_end(&self, n: u64) -> u64 {
        let pack = self.pack(n);
        pack.at.saturating_add(pack.len() as u64)
    }

    /// Returns the offset of the pack of cluster `n`.
    pub(super) fn at(&self, n: u64) -> u64 {
        self.pack(n).at
    }

    fn pack(&self, n: u64) -> IndexPack {
        let loose = |start: u64, first: u64| {
            let number = (n - first) / LOOSE;
            IndexPack {
                at: start.saturating_add(number.saturating_mul(8)),
                first: first + number * LOOSE,
                count: LOOSE,
            }
        };
        let dense_end = self.lead + self.dense;
        if n < self.lead {
            return loose(self.start, 0);
        }
        let dense_start = self.start.saturating_add(self.lead * 4);
        if n >= dense_end {
            return loose(dense_start.saturating_add(self.dense * 2), dense_end);
        }
        let number = (n - self.lead) / DENSE;
        IndexPack {
            at: dense_start.saturating_add(number * DENSE_LEN as u64),
            first: self.lead + number * DENSE,
            count: DENSE,
        }
    }

    /// Decodes the entry of cluster `n`.
    pub(super) fn load(&self, window: &mut IndexWindow<'_>, n: u64) -> Result<DecodedEntry> {
        let pack = self.pack(n);
        let entries = PackEntries::parse(window.slice(pack.at, pack.len())?, self.value_bits);
        let i = usize::try_from(n - pack.first).unwrap_or(0);
        let (kind, value) = entries.get(i);
        let kind = match kind {
            cluster_type::PLAIN => ExtentCoding::Plain,
            cluster_type::HEAD1 => ExtentCoding::First,
            cluster_type::HEAD2 => ExtentCoding::Second,
            _ => return Ok(Self::inner(&entries, i, value)),
        };
        let Some(before) = self.blocks_before(&entries, i) else {
            return Err(window.error(pack.at, "a count of blocks does not follow a head"));
        };
        // The base of a first head at block 0 is one less, so this wraps.
        let block = entries.base.wrapping_add(before).into();
        Ok(DecodedEntry::Head(ExtentHead { kind, offset: value.into(), block, partial: false, hole: false }))
    }

    /// The last entry of a pack stores the distance to the next head, the others that to the previous one.
    fn inner(entries: &PackEntries, i: usize, value: u16) -> DecodedEntry {
        if value & COUNT != 0 {
            return DecodedEntry::Inner { back: 1, blocks: Some((value & !COUNT).into()), forward: None };
        }
        if i + 1 < entries.count {
            return DecodedEntry::Inner { back: value.into(), blocks: None, forward: None };
        }
        // The last entry of a pack has no distance back: the one before it tells.
        let back = match entries.get(i.saturating_sub(1)) {
            (cluster_type::NONHEAD, value) if value & COUNT != 0 => 2,
            (cluster_type::NONHEAD, value) => u64::from(value) + 1,
            _ => 1,
        };
        DecodedEntry::Inner { back, blocks: None, forward: Some(value.into()) }
    }

    /// Returns the number of blocks to add to the base for the head at `i`.
    fn blocks_before(&self, entries: &PackEntries, i: usize) -> Option<u32> {
        // Linux counts from 1 if all clusters have one block, and from 0 otherwise.
        let mut blocks = u32::from(!self.big);
        for at in 0..i {
            match entries.get(at) {
                (cluster_type::NONHEAD, value) if value & COUNT != 0 && self.big => {
                    // Replaces the single block assumed for its head, if that is in this pack.
                    let counted = match at.checked_sub(1).map(|head| entries.get(head)) {
                        Some((cluster_type::NONHEAD, _)) => return None,
                        Some(_) => 1,
                        None => 0,
                    };
                    blocks = (blocks + u32::from(value & !COUNT)).checked_sub(counted)?;
                }
                (cluster_type::NONHEAD, _) => {}
                _ => blocks += 1,
            }
        }
        Some(blocks)
    }
}

impl IndexPack {
    fn len(&self) -> usize {
        if self.count == DENSE { DENSE_LEN } else { 8 }
    }
}

impl PackEntries {
    fn parse(pack: &[u8], value_bits: u32) -> PackEntries {
        let mut bytes = [0; DENSE_LEN];
        for (to, from) in bytes.iter_mut().zip(pack) {
            *to = *from;
        }
        let body = pack.len().saturating_sub(4);
        let count = if pack.len() == DENSE_LEN { 16 } else { 2 };
        let base = pack.last_chunk().map_or(0, |base| u32::from_le_bytes(*base));
        PackEntries { bytes, count, bits: body * 8 / count, value_bits, base }
    }

    /// Returns type and value of an entry.
    fn get(&self, i: usize) -> (u16, u16) {
        let at = i * self.bits;
        // An entry has at most 16 bits, so it is within the four bytes from its first one on.
        let word = self.bytes.get(at / 8..).and_then(|bytes| bytes.first_chunk());
        let word = word.map_or(0, |word| u32::from_le_bytes(*word)) >> (at % 8);
        let value = word & ((1 << self.value_bits) - 1);
        let kind = word >> self.value_bits & u32::from(cluster_type::MASK);
        (u16::try_from(kind).unwrap_or(0), u16::try_from(value).unwrap_or(0))
    }
}
