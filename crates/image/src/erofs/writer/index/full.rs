//! The index of 8 bytes per entry, which can describe any file.

use zerocopy::IntoBytes;

use super::{ClusterEntry, Index, for_entries, header, low};
use crate::erofs::format::{FULL_INDEX_GAP, FullIndex, MapHeader, cluster_type};

/// Largest distance back that can be stored; readers hop.
const BACK_MAX: u64 = 2047;

pub(super) fn len(entries: usize) -> usize {
    size_of::<MapHeader>() + FULL_INDEX_GAP + entries * size_of::<FullIndex>()
}

pub(super) fn write(index: &Index<'_>, out: &mut Vec<u8>) {
    let big = index.is_big();
    out.extend_from_slice(header(index, big, false).as_bytes());
    out.extend_from_slice(&[0; FULL_INDEX_GAP]);
    for_entries(index, big, |entry| out.extend_from_slice(encode(entry).as_bytes()));
}

fn encode(entry: ClusterEntry) -> FullIndex {
    match entry {
        ClusterEntry::Head { kind, offset, block, partial, .. } => FullIndex {
            di_advise: (kind | if partial { cluster_type::PARTIAL } else { 0 }).into(),
            di_clusterofs: offset.into(),
            di_u: low(block).into(),
        },
        ClusterEntry::Tail { back, on, blocks } => {
            let back = match blocks {
                Some(blocks) => cluster_type::BLOCK_COUNT | blocks,
                None => u16::try_from(back.min(BACK_MAX)).expect("clamped"),
            };
            let on = u16::try_from(on).unwrap_or(u16::MAX);
            FullIndex {
                di_advise: cluster_type::NONHEAD.into(),
                di_clusterofs: 0.into(),
                di_u: (u32::from(back) | u32::from(on) << 16).into(),
            }
        }
    }
}
