//! Derives extents from an index with an entry for each logical cluster: where each begins and
//! ends, and how much is stored. [`full`](super::full) and [`compact`](super::compact) decode the
//! two forms of entries.

use super::compact::CompactIndex;
use super::full::FullEntries;
use super::window::IndexWindow;
use crate::Result;
use crate::erofs::format::{Advise, EXTENT_MAX};

/// Number of hops back to a head that are always allowed. Writers need one for every 2047 clusters.
const HOPS: u64 = 4096;

/// A decoded entry of a logical cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodedEntry {
    /// An extent begins in the cluster.
    Head(ExtentHead),
    /// No extent begins in the cluster.
    Inner {
        /// Distance in clusters back to one with a head.
        back: u64,
        /// Number of blocks in the physical cluster, only directly after a head.
        blocks: Option<u64>,
        /// Distance in clusters to the next head, if the entry says so.
        forward: Option<u64>,
    },
}

/// The beginning of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExtentHead {
    pub(super) kind: ExtentCoding,
    /// Offset in its logical cluster.
    pub(super) offset: u64,
    /// First block of the physical cluster.
    pub(super) block: u64,
    /// True if the extent is only the beginning of the decoded data.
    pub(super) partial: bool,
    pub(super) hole: bool,
}

/// Storage of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtentCoding {
    /// Uncompressed.
    Plain,
    /// Compressed with the first algorithm.
    First,
    /// Compressed with the second algorithm.
    Second,
}

/// An extent, as far as an index describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExtentSpan {
    pub(super) head: ExtentHead,
    /// Range in the file.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Number of blocks in the physical cluster; 0 is a hole.
    pub(super) blocks: u64,
    /// Offset of its entry.
    pub(super) entry: u64,
}

/// The two forms of such an index.
#[derive(Debug, Clone, Copy)]
pub(super) enum ClusterIndexForm {
    Full(FullEntries),
    Compact(CompactIndex),
}

/// An index with an entry for each logical cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClusterIndex {
    pub(super) form: ClusterIndexForm,
    /// log2 of the size of a logical cluster.
    pub(super) bits: u32,
    /// Length of the file.
    pub(super) size: u64,
    pub(super) advise: Advise,
}

impl ClusterIndex {
    /// Returns the number of entries.
    pub(super) fn count(&self) -> u64 {
        self.size.div_ceil(1 << self.bits)
    }

    /// Returns the end of the index, where an inline cluster begins.
    pub(super) fn end(&self) -> u64 {
        match &self.form {
            ClusterIndexForm::Full(full) => full.end(),
            ClusterIndexForm::Compact(compact) => compact.pack_end(self.count().saturating_sub(1)),
        }
    }

    /// Returns the offset of the entry of cluster `n`, or of the pack that contains it.
    pub(super) fn at(&self, n: u64) -> u64 {
        match &self.form {
            ClusterIndexForm::Full(full) => full.at(n),
            ClusterIndexForm::Compact(compact) => compact.at(n),
        }
    }

    /// Decodes the entry of cluster `n` and checks it by itself.
    pub(super) fn load(&self, window: &mut IndexWindow<'_>, n: u64) -> Result<DecodedEntry> {
        let cluster = match &self.form {
            ClusterIndexForm::Full(full) => full.load(window, n)?,
            ClusterIndexForm::Compact(compact) => compact.load(window, n)?,
        };
        match cluster {
            DecodedEntry::Head(head) if head.offset >> self.bits != 0 => {
                Err(window.error(self.at(n), format!("cluster {n}: offset {} is outside of it", head.offset)))
            }
            DecodedEntry::Inner { blocks: Some(_), .. } if !self.is_big() => {
                let why = format!("cluster {n}: a count of blocks, but clusters of this file have one");
                Err(window.error(self.at(n), why))
            }
            other => Ok(other),
        }
    }

    /// Returns the extent that holds byte `offset`, which is within the file.
    pub(super) fn find(&self, window: &mut IndexWindow<'_>, offset: u64) -> Result<ExtentSpan> {
        let n = offset >> self.bits;
        let (n, head) = match self.load(window, n)? {
            DecodedEntry::Head(head) if self.start(n, head) <= offset => (n, head),
            // The extent of this byte began in an earlier cluster.
            DecodedEntry::Head(_) => self.look_back(window, n, 1)?,
            DecodedEntry::Inner { back, .. } => self.look_back(window, n, back)?,
        };
        self.measure(window, n, head)
    }

    fn start(&self, n: u64, head: ExtentHead) -> u64 {
        (n << self.bits) + head.offset
    }

    fn is_big(&self) -> bool {
        self.advise.intersects(Advise::BIG_CLUSTER_1 | Advise::BIG_CLUSTER_2)
    }

    /// Returns true if a head of this kind may have a cluster of several blocks.
    pub(super) fn may_be_big(&self, kind: ExtentCoding) -> bool {
        match kind {
            ExtentCoding::First => self.advise.contains(Advise::BIG_CLUSTER_1),
            ExtentCoding::Plain | ExtentCoding::Second => self.advise.contains(Advise::BIG_CLUSTER_2),
        }
    }

    /// Returns the head of the extent that reaches into cluster `from`; the first hop is `back` clusters.
    fn look_back(&self, window: &mut IndexWindow<'_>, from: u64, mut back: u64) -> Result<(u64, ExtentHead)> {
        let mut n = from;
        let mut hops = 0;
        loop {
            let bad = |why: &str| Err(window.error(self.at(n), format!("cluster {n}: {why}")));
            if back == 0 {
                return bad("a distance of 0 back to its head");
            }
            let Some(before) = n.checked_sub(back) else {
                return bad(&format!("a head {back} clusters back, before the file begins"));
            };
            // An entry reaches back at most 2047 clusters, so a sound chain needs about one hop for as many.
            // Twice that, and some, is a circle or nonsense.
            if hops > HOPS + (from - n) / 1024 {
                return bad("a chain of distances that leads nowhere");
            }
            hops += 1;
            n = before;
            match self.load(window, n)? {
                DecodedEntry::Head(head) => return Ok((n, head)),
                DecodedEntry::Inner { back: more, .. } => back = more,
            }
        }
    }

    /// Returns the extent whose head is in cluster `n`: it extends to the next head. The distances
    /// in entries are not used, as extents have few clusters.
    pub(super) fn measure(&self, window: &mut IndexWindow<'_>, n: u64, head: ExtentHead) -> Result<ExtentSpan> {
        let start = self.start(n, head);
        let endless = head.hole || self.advise.contains(Advise::FRAGMENT);
        // No compressed extent is longer, so the search ends even if an image is hostile. Holes and fragments
        // have no such limit.
        let most = if endless { u64::MAX } else { start.saturating_add(EXTENT_MAX) };
        let mut next = n + 1;
        let mut blocks = 1;
        let mut end = self.size;
        while next < self.count() && next << self.bits <= most {
            match self.load(window, next)? {
                DecodedEntry::Head(head) => {
                    end = end.min(self.start(next, head));
                    break;
                }
                DecodedEntry::Inner { back, blocks: counted, .. } if next == n + 1 && self.may_be_big(head.kind) => {
                    let Some(counted) = counted.filter(|_| back == 1) else {
                        let why = format!("cluster {next}: no count of blocks after a head");
                        return Err(window.error(self.at(next), why));
                    };
                    blocks = counted;
                }
                DecodedEntry::Inner { .. } => {}
            }
            next += 1;
        }
        Ok(ExtentSpan { head, start, end, blocks, entry: self.at(n) })
    }
}
