//! Full indexes: 8 bytes for each logical cluster.

use zerocopy::FromBytes;

use super::clusters::{DecodedEntry, ExtentCoding, ExtentHead};
use super::window::IndexWindow;
use crate::Result;
use crate::erofs::format::{self, FULL_INDEX_GAP, cluster_type};

/// Length of an entry.
const ENTRY: usize = size_of::<format::FullIndex>();

/// Position of a full index.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullEntries {
    start: u64,
    count: u64,
}

impl FullEntries {
    /// Locates the index of `count` clusters after a map header that ends at byte `header_end`.
    pub(super) fn new(header_end: u64, count: u64) -> Self {
        FullEntries { start: header_end.saturating_add(FULL_INDEX_GAP as u64), count }
    }

    /// Returns the end of the last entry.
    pub(super) fn end(&self) -> u64 {
        self.at(self.count)
    }

    /// Returns the offset of the entry of cluster `n`.
    pub(super) fn at(&self, n: u64) -> u64 {
        self.start.saturating_add(n.saturating_mul(ENTRY as u64))
    }

    /// Decodes the entry of cluster `n`.
    pub(super) fn load(&self, window: &mut IndexWindow<'_>, n: u64) -> Result<DecodedEntry> {
        let Ok(raw) = format::FullIndex::read_from_bytes(&window.array::<ENTRY>(self.at(n))?) else {
            return Err(window.error(self.at(n), "an entry is cut short"));
        };
        let advise = raw.di_advise.get();
        let value = raw.di_u.get();
        let kind = match advise & cluster_type::MASK {
            cluster_type::PLAIN => ExtentCoding::Plain,
            cluster_type::HEAD1 => ExtentCoding::First,
            cluster_type::HEAD2 => ExtentCoding::Second,
            _ => return Ok(inner(value)),
        };
        Ok(DecodedEntry::Head(ExtentHead {
            kind,
            offset: raw.di_clusterofs.get().into(),
            block: value.into(),
            partial: advise & cluster_type::PARTIAL != 0,
            hole: advise & cluster_type::HOLE != 0,
        }))
    }
}

/// Decodes a cluster in which no extent begins: the distances back and forward.
fn inner(value: u32) -> DecodedEntry {
    let back = value & 0xffff;
    let forward = u64::from(value >> 16);
    let count = u32::from(cluster_type::BLOCK_COUNT);
    if back & count != 0 {
        return DecodedEntry::Inner { back: 1, blocks: Some((back & !count).into()), forward: Some(forward) };
    }
    DecodedEntry::Inner { back: back.into(), blocks: None, forward: Some(forward) }
}
