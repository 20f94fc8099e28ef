//! The compact index: 16 entries in 32 bytes, and pairs in 8 bytes before and after them.
//!
//! A pack holds its entries as bit strings and one block address. The addresses of the clusters
//! that begin in it follow from that address and their lengths, so they must be consecutive.

use zerocopy::IntoBytes;

use super::FileIndex;
use super::entries::{ClusterEntry, for_entries, header};
use crate::erofs::format::{MapHeader, cluster_type};
use crate::erofs::writer::stored::file::FileTail;

/// Number of entries in the two kinds of packs.
const PAIR: usize = 2;
const PACK: usize = 16;
/// Length of a pack's block address.
const BASE_LEN: usize = 4;
/// Bits of an entry's value; its type follows.
const VALUE_BITS: u32 = 12;
/// Largest distance that can be stored; readers hop.
const DELTA_MAX: u64 = 2047;

/// Returns how many entries are in pairs before the packs, in packs, and in pairs after them.
fn split(entries: usize, at: usize) -> (usize, usize, usize) {
    // Packs begin at multiples of 32 bytes (`z_erofs_load_compact_lcluster` in Linux). Entries before the
    // first and after the last go into pairs.
    let begin = (at + size_of::<MapHeader>()) % 32;
    let before = ((32 - begin) / 4 % 8).min(entries);
    let packed = (entries - before) / PACK * PACK;
    (before, packed, entries - before - packed)
}

pub(crate) fn len(entries: usize, at: usize) -> usize {
    let (before, packed, behind) = split(entries, at);
    size_of::<MapHeader>() + (before.next_multiple_of(PAIR) + behind.next_multiple_of(PAIR)) * 4 + packed * 2
}

/// Returns true if packs can describe the file: whole extents, and within each pack consecutive clusters.
pub(crate) fn can_say(index: &FileIndex<'_>, at: usize) -> bool {
    // The upper half of a fragment's offset takes the place of a block address, and packs have none of their
    // own for it.
    if let Some(FileTail::Fragment(offset)) = index.tail
        && offset > u64::from(u32::MAX)
    {
        return false;
    }
    let mut possible = true;
    for_packs(index, at, |pack, big, _| possible &= EntryPack::of(pack, big).is_some());
    possible
}

pub(crate) fn write(index: &FileIndex<'_>, at: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(header(index, index.is_big(), true).as_bytes());
    for_packs(index, at, |pack, big, len| {
        let packed = EntryPack::of(pack, big).expect("asked before");
        let bits = u32::try_from((len - BASE_LEN) * 8 / if len == 8 { PAIR } else { PACK }).expect("14 or 16");
        let mut bytes = [0u8; 32];
        for (n, value) in packed.values.iter().enumerate() {
            put_bits(&mut bytes, n * bits as usize, *value);
        }
        let base = packed.base.map_or(0, |base| base.block + index.device_start(base.device));
        let base = u32::try_from(base).expect("checked when the devices were placed");
        bytes[len - BASE_LEN..len].copy_from_slice(&base.to_le_bytes());
        out.extend_from_slice(&bytes[..len]);
    });
}

/// Calls `put` with the entries of each pack, whether clusters may have several blocks, and its length in bytes.
fn for_packs(index: &FileIndex<'_>, at: usize, mut put: impl FnMut(&[ClusterEntry], bool, usize)) {
    let big = index.is_big();
    let (before, packed, _) = split(index.entries(), at);
    let mut pack = Vec::with_capacity(PACK);
    let mut done = 0;
    let wanted = |done: usize| if done >= before && done < before + packed { PACK } else { PAIR };
    for_entries(index, big, |entry| {
        pack.push(entry);
        let count = wanted(done);
        if pack.len() == count {
            put(&pack, big, if count == PAIR { 8 } else { 32 });
            done += count;
            pack.clear();
        }
    });
    if !pack.is_empty() {
        put(&pack, big, 8);
    }
}

/// A pack's values, including types, and its block address.
struct EntryPack {
    values: Vec<u16>,
    base: Option<PackBase>,
}

/// The block address of a pack. It is relative to a device, so that it fits whatever place the device gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PackBase {
    device: u16,
    block: u64,
}

impl EntryPack {
    fn of(pack: &[ClusterEntry], big: bool) -> Option<EntryPack> {
        let mut base = None;
        // Number of blocks from the base to the next head, as a reader counts them.
        let mut ahead = if big { 0 } else { 1 };
        let mut values = Vec::with_capacity(pack.len());
        for (n, entry) in pack.iter().enumerate() {
            values.push(match *entry {
                ClusterEntry::Head { partial: true, .. } => return None,
                ClusterEntry::Head { kind, offset, device, block, is_cluster, .. } => {
                    if is_cluster {
                        let here = PackBase { device, block: block.checked_sub(ahead)? };
                        if *base.get_or_insert(here) != here {
                            return None;
                        }
                    }
                    // A head followed by a block count is counted there.
                    let counted = matches!(pack.get(n + 1), Some(ClusterEntry::Tail { blocks: Some(_), .. }));
                    ahead += u64::from(!(big && counted));
                    offset | kind << VALUE_BITS
                }
                ClusterEntry::Tail { back, on, blocks } => {
                    let value = match blocks {
                        Some(blocks) => {
                            // At the start of a pack its head is in the previous pack, and the base is that head's.
                            ahead += u64::from(blocks);
                            cluster_type::BLOCK_COUNT | blocks
                        }
                        // The last entry of a pack has the distance to the next head, so that readers find it
                        // without the next pack.
                        None if n + 1 == if pack.len() > PAIR { PACK } else { PAIR } => clamp(on),
                        None => clamp(back),
                    };
                    value | cluster_type::NONHEAD << VALUE_BITS
                }
            });
        }
        let is_near = base.is_none_or(|base| base.block <= u64::from(u32::MAX));
        is_near.then_some(EntryPack { values, base })
    }
}

fn clamp(delta: u64) -> u16 {
    u16::try_from(delta.min(DELTA_MAX)).expect("clamped")
}

/// Ors a value into a little-endian bit string.
fn put_bits(bytes: &mut [u8; 32], at: usize, value: u16) {
    let shifted = (u32::from(value) << (at % 8)).to_le_bytes();
    for (byte, bits) in bytes[at / 8..].iter_mut().zip(shifted) {
        *byte |= bits;
    }
}
