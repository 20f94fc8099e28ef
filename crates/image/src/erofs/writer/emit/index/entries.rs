//! The forms with an entry for each logical cluster: what an entry says, and the full form, which can describe any file.

use zerocopy::IntoBytes;

use super::{ExtentTarget, FileIndex, low};
use crate::erofs::format::{Advise, FULL_INDEX_GAP, FullIndex, MapHeader, cluster_type};
use crate::erofs::writer::stored::file::FileTail;

/// Contents of the index entry of a logical cluster; both forms with entries store this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterEntry {
    /// An extent begins here, `offset` bytes after the start. Its cluster has this block of a device.
    Head { kind: u16, offset: u16, device: u16, block: u64, partial: bool, is_cluster: bool },
    /// No extent begins here: distances in logical clusters back to the head and on to the next;
    /// `blocks` of the cluster in the first of them, if the file has clusters of several.
    Tail { back: u64, on: u64, blocks: Option<u16> },
}

/// Calls `put` with the entry of each logical cluster.
pub(crate) fn for_entries(index: &FileIndex<'_>, big: bool, mut put: impl FnMut(ClusterEntry)) {
    let bits = index.form.block_bits;
    let block = 1u64 << index.form.block_bits;
    let count = index.entries() as u64;
    // A size that is not a multiple of a block ends with an entry of its own, unless the last extent begins there.
    let ends_inside = !index.size.is_multiple_of(block);
    let first_algorithm = index.algorithms().first;
    let head_of = |algorithm: u8| if algorithm == first_algorithm { cluster_type::HEAD1 } else { cluster_type::HEAD2 };
    let mut extents = index.extents().peekable();
    while let Some(extent) = extents.next() {
        let head = extent.logical >> bits;
        let next = match extents.peek() {
            Some(next) => next.logical >> bits,
            None if ends_inside => (count - 1).max(head + 1).min(count),
            None => count,
        };
        debug_assert!(next > head, "one head a logical cluster");
        let (kind, at, partial, physical) = match extent.target {
            ExtentTarget::Cluster { cluster, partial } => {
                let kind = if cluster.raw { cluster_type::PLAIN } else { head_of(cluster.algorithm) };
                (kind, cluster.start >> bits, partial, u64::from(cluster.physical))
            }
            // The lower half of the offset is in the header.
            ExtentTarget::Fragment(offset) => (cluster_type::HEAD1, offset >> 32, false, block),
            // Linux ignores the block: the bytes follow the index.
            ExtentTarget::Inline(algorithm) => (algorithm.map_or(cluster_type::PLAIN, head_of), 0, false, block),
        };
        let device = match extent.target {
            ExtentTarget::Cluster { cluster, .. } => cluster.device,
            ExtentTarget::Fragment(_) | ExtentTarget::Inline(_) => 0,
        };
        let offset = u16::try_from(extent.logical & (block - 1)).expect("within a block");
        let is_cluster = matches!(extent.target, ExtentTarget::Cluster { .. });
        put(ClusterEntry::Head { kind, offset, device, block: at, partial, is_cluster });
        let blocks = u16::try_from(physical >> bits).expect("at most a megabyte");
        for lcn in head + 1..next {
            let blocks = (big && lcn == head + 1).then_some(blocks);
            put(ClusterEntry::Tail { back: lcn - head, on: next - lcn, blocks });
        }
        // This entry ends the last extent within its logical cluster. Without it, Linux takes the extent to
        // the end of the block, and fails if it is uncompressed and shorter.
        if extents.peek().is_none() && ends_inside && next < count {
            let offset = u16::try_from(index.size & (block - 1)).expect("within a block");
            let kind = cluster_type::PLAIN;
            put(ClusterEntry::Head { kind, offset, device: 0, block: 0, partial: false, is_cluster: false });
        }
    }
}

/// Makes the header of the map, for both forms with entries.
pub(crate) fn header(index: &FileIndex<'_>, big: bool, compact: bool) -> MapHeader {
    let mut advise = Advise::empty();
    advise.set(Advise::COMPACT_2B_OR_EXTENTS, compact);
    // Linux requires both or neither in a compact index.
    advise.set(Advise::BIG_CLUSTER_1 | Advise::BIG_CLUSTER_2, big);
    let first = match index.tail {
        Some(FileTail::Fragment(offset)) => {
            advise |= Advise::FRAGMENT;
            low(offset)
        }
        Some(FileTail::Inline { kept, .. }) => {
            advise |= Advise::INLINE_CLUSTER;
            u32::try_from(kept.len()).expect("at most a block") << 16
        }
        None => 0,
    };
    let algorithms = index.algorithms();
    MapHeader {
        h_fragmentoff: first.into(),
        h_advise: advise.bits().into(),
        h_algorithmtype: algorithms.first | algorithms.second.unwrap_or(0) << 4,
        h_clusterbits: 0,
    }
}

/// Largest distance back that can be stored; readers hop.
const BACK_MAX: u64 = 2047;

pub(crate) fn full_len(entries: usize) -> usize {
    size_of::<MapHeader>() + FULL_INDEX_GAP + entries * size_of::<FullIndex>()
}

pub(crate) fn write_full(index: &FileIndex<'_>, out: &mut Vec<u8>) {
    let big = index.is_big();
    out.extend_from_slice(header(index, big, false).as_bytes());
    out.extend_from_slice(&[0; FULL_INDEX_GAP]);
    for_entries(index, big, |entry| out.extend_from_slice(encode(index, entry).as_bytes()));
}

fn encode(index: &FileIndex<'_>, entry: ClusterEntry) -> FullIndex {
    match entry {
        ClusterEntry::Head { kind, offset, device, block, partial, .. } => FullIndex {
            di_advise: (kind | if partial { cluster_type::PARTIAL } else { 0 }).into(),
            di_clusterofs: offset.into(),
            di_u: low(block + index.device_start(device)).into(),
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
