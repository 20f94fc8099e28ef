//! Encoded extents: a record for each extent, of 16 bytes in files below 4 GiB and of 32 in longer ones.

use zerocopy::IntoBytes;

use super::{ExtentTarget, FileExtent, FileIndex, high, low};
use crate::erofs::format::{Advise, EncodedExtent, MapHeader, encoded_extent};
use crate::erofs::writer::stored::cluster::StoredLen;
use crate::erofs::writer::stored::file::FileTail;

/// Position of the record size in [`Advise`], as log2 minus 2.
const RECORD_SHIFT: u16 = 1;

fn record_len(index: &FileIndex<'_>) -> usize {
    if index.size > u64::from(u32::MAX) { 32 } else { 16 }
}

/// Returns the number of bytes between the header and the first record.
fn gap(index: &FileIndex<'_>, at: usize) -> usize {
    let begin = at + size_of::<MapHeader>();
    begin.next_multiple_of(record_len(index)) - begin
}

pub(crate) fn len(index: &FileIndex<'_>, at: usize) -> usize {
    size_of::<MapHeader>() + gap(index, at) + index.extents().count() * record_len(index)
}

pub(crate) fn write(index: &FileIndex<'_>, at: usize, out: &mut Vec<u8>) {
    let len = record_len(index);
    let count = index.extents().count() as u64;
    let mut advise = Advise::COMPACT_2B_OR_EXTENTS;
    advise.set(Advise::FRAGMENT, matches!(index.tail, Some(FileTail::Fragment(_))));
    let size = u16::try_from(len.ilog2() - 2).expect("2 or 3") << RECORD_SHIFT;
    // The upper bits of the count take the fields for algorithms and cluster bits, which other maps need.
    let [count_low, count_high] = u16::try_from(count >> 32).expect("fewer than 2^48 extents").to_le_bytes();
    let header = MapHeader {
        h_fragmentoff: low(count).into(),
        h_advise: (advise.bits() | size).into(),
        h_algorithmtype: count_low,
        h_clusterbits: count_high,
    };
    out.extend_from_slice(header.as_bytes());
    out.resize(out.len() + gap(index, at), 0);
    for extent in index.extents() {
        out.extend_from_slice(&record(index, &extent).as_bytes()[..len]);
    }
}

fn record(index: &FileIndex<'_>, extent: &FileExtent) -> EncodedExtent {
    let (physical_len, start) = match extent.target {
        ExtentTarget::Cluster { cluster, partial } => {
            let format = if cluster.raw { 0 } else { u32::from(cluster.algorithm) + 1 };
            let partial = if partial { encoded_extent::PARTIAL } else { 0 };
            // A hole is an extent without length.
            let word =
                if cluster.physical == StoredLen::HOLE { 0 } else { format << encoded_extent::FORMAT_SHIFT | partial };
            (
                cluster.physical.get() | word,
                cluster.start + (index.device_start(cluster.device) << index.form.block_bits),
            )
        }
        // The offset of a fragment takes the fields for length and start.
        ExtentTarget::Fragment(offset) => (low(offset), offset >> 32),
        ExtentTarget::Inline(_) => unreachable!("there is no inline form of encoded extents"),
    };
    EncodedExtent {
        plen: physical_len.into(),
        pstart_lo: low(start).into(),
        pstart_hi: high(start).into(),
        lstart_lo: low(extent.logical).into(),
        lstart_hi: high(extent.logical).into(),
        reserved: [0; 12],
    }
}
