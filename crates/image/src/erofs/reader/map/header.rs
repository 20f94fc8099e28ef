//! The header of a compressed file's map: decoding and checks.

use zerocopy::FromBytes;

use super::clusters::{self, ClusterIndex};
use super::compact::CompactIndex;
use super::encoded::{EncodedIndex, RecordLen};
use super::full::FullEntries;
use super::window::IndexBytes;
use super::{MapForm, MappedInode};
use crate::Result;
use crate::erofs::format::{self, Advise, EXTENT_MAX, Layout, WHOLE_FRAGMENT};

const STRUCTURE: &str = "map header";
/// Length and alignment of the header.
const LEN: usize = size_of::<format::MapHeader>();

/// Contents of the header, except the position of the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexFeatures {
    pub(super) advise: Advise,
    /// Low four bits: algorithm of first heads; high: of second heads.
    pub(super) algorithms: u8,
    /// Low 32 bits of the offset in the packed inode.
    pub(super) low: u32,
    /// Length of the inline cluster.
    pub(super) inline: Option<u64>,
}

/// Reads the header of a file and locates its index.
pub(super) fn open(source: &dyn IndexBytes, facts: &MappedInode) -> Result<MapForm> {
    let at = facts.payload.checked_next_multiple_of(LEN as u64).unwrap_or(u64::MAX);
    let end = at.saturating_add(LEN as u64);
    let wrong = |why: String| Err(source.error(STRUCTURE, at, why));
    let mut bytes = [0; LEN];
    source.read(STRUCTURE, at, &mut bytes)?;
    let Ok(raw) = format::MapHeader::read_from_bytes(&bytes) else { return wrong("it is cut short".into()) };
    if raw.h_clusterbits & WHOLE_FRAGMENT != 0 {
        // The whole header is the offset then. Its highest bit is the mark.
        return Ok(MapForm::Fragment(u64::from_le_bytes(bytes) & !(1 << 63)));
    }
    let low = raw.h_fragmentoff.get();
    let mut header = IndexFeatures {
        advise: Advise::from_bits_retain(raw.h_advise.get()),
        algorithms: raw.h_algorithmtype,
        low,
        inline: None,
    };
    let bits = u32::from(facts.block_bits) + u32::from(raw.h_clusterbits & 15);
    let compact = facts.layout == Layout::CompressedCompact;
    if !compact && header.advise.contains(Advise::COMPACT_2B_OR_EXTENTS) {
        // Records have their own algorithms and fragments, so the bytes of those fields hold the number of records.
        let count = u64::from(low) | u64::from(raw.h_clusterbits) << 40 | u64::from(raw.h_algorithmtype) << 32;
        let len = RecordLen::of_advise(raw.h_advise.get());
        return Ok(MapForm::Encoded(header, EncodedIndex::new(end, len, count, bits, facts.size)));
    }
    if 1 << bits > EXTENT_MAX {
        return wrong(format!("logical clusters of {} bytes; an extent has at most {EXTENT_MAX}", 1u64 << bits));
    }
    let advise = header.advise;
    if advise.contains(Advise::INLINE_CLUSTER) {
        header.inline = Some(u64::from(low >> 16)).filter(|len| *len > 0);
        if advise.contains(Advise::FRAGMENT) {
            // They would share a field.
            return wrong("both an inline cluster and a fragment".into());
        }
    }
    let big = advise & (Advise::BIG_CLUSTER_1 | Advise::BIG_CLUSTER_2);
    let form = if compact {
        // As Linux refuses it: a pack counts the blocks of all its heads alike.
        if !(big.is_empty() || big.bits().count_ones() == 2) {
            return wrong("large clusters for one algorithm only, in an index of packs".into());
        }
        let blocks = facts.size.div_ceil(1 << facts.block_bits);
        let dense = advise.contains(Advise::COMPACT_2B_OR_EXTENTS);
        let compact = CompactIndex::new(end, blocks, bits, dense, !big.is_empty());
        match compact {
            Ok(compact) => clusters::ClusterIndexForm::Compact(compact),
            Err(why) => return wrong(why),
        }
    } else {
        clusters::ClusterIndexForm::Full(FullEntries::new(end, facts.size.div_ceil(1 << bits)))
    };
    Ok(MapForm::Clusters(header, ClusterIndex { form, bits, size: facts.size, advise }))
}
