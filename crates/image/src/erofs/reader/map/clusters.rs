//! Derives extents from an index with an entry for each logical cluster: where each begins and
//! ends, and how much is stored. [`full`](super::full) and [`compact`](super::compact) decode the
//! two forms of entries.

use super::compact::Compact;
use super::full::Full;
use super::window::Window;
use crate::Result;
use crate::erofs::format::{Advise, EXTENT_MAX};

/// Number of hops back to a head that are always allowed. Writers need one for every 2047 clusters.
const HOPS: u64 = 4096;

/// A decoded entry of a logical cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cluster {
    /// An extent begins in the cluster.
    Head(Head),
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
pub(super) struct Head {
    pub(super) kind: Coding,
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
pub(super) enum Coding {
    /// Uncompressed.
    Plain,
    /// Compressed with the first algorithm.
    First,
    /// Compressed with the second algorithm.
    Second,
}

/// An extent, as far as an index describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) head: Head,
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
pub(super) enum Form {
    Full(Full),
    Compact(Compact),
}

/// An index with an entry for each logical cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clusters {
    pub(super) form: Form,
    /// log2 of the size of a logical cluster.
    pub(super) bits: u32,
    /// Length of the file.
    pub(super) size: u64,
    pub(super) advise: Advise,
}

impl Clusters {
    /// Returns the number of entries.
    pub(super) fn count(&self) -> u64 {
        self.size.div_ceil(1 << self.bits)
    }

    /// Returns the end of the index, where an inline cluster begins.
    pub(super) fn end(&self) -> u64 {
        match &self.form {
            Form::Full(full) => full.end(),
            Form::Compact(compact) => compact.pack_end(self.count().saturating_sub(1)),
        }
    }

    /// Returns the offset of the entry of cluster `n`, or of the pack that contains it.
    pub(super) fn at(&self, n: u64) -> u64 {
        match &self.form {
            Form::Full(full) => full.at(n),
            Form::Compact(compact) => compact.at(n),
        }
    }

    /// Decodes the entry of cluster `n` and checks it by itself.
    pub(super) fn load(&self, window: &mut Window<'_>, n: u64) -> Result<Cluster> {
        let cluster = match &self.form {
            Form::Full(full) => full.load(window, n)?,
            Form::Compact(compact) => compact.load(window, n)?,
        };
        match cluster {
            Cluster::Head(head) if head.offset >> self.bits != 0 => {
                Err(window.error(self.at(n), format!("cluster {n}: offset {} is outside of it", head.offset)))
            }
            Cluster::Inner { blocks: Some(_), .. } if !self.is_big() => {
                let why = format!("cluster {n}: a count of blocks, but clusters of this file have one");
                Err(window.error(self.at(n), why))
            }
            other => Ok(other),
        }
    }

    /// Returns the extent that holds byte `offset`, which is within the file.
    pub(super) fn find(&self, window: &mut Window<'_>, offset: u64) -> Result<Span> {
        let n = offset >> self.bits;
        let (n, head) = match self.load(window, n)? {
            Cluster::Head(head) if self.start(n, head) <= offset => (n, head),
            Cluster::Head(_) => self.look_back(window, n, 1)?,
            Cluster::Inner { back, .. } => self.look_back(window, n, back)?,
        };
        self.measure(window, n, head)
    }

    fn start(&self, n: u64, head: Head) -> u64 {
        (n << self.bits) + head.offset
    }

    fn is_big(&self) -> bool {
        self.advise.intersects(Advise::BIG_CLUSTER_1 | Advise::BIG_CLUSTER_2)
    }

    /// Returns true if a head of this kind may have a cluster of several blocks.
    pub(super) fn may_be_big(&self, kind: Coding) -> bool {
        match kind {
            Coding::First => self.advise.contains(Advise::BIG_CLUSTER_1),
            Coding::Plain | Coding::Second => self.advise.contains(Advise::BIG_CLUSTER_2),
        }
    }

    /// Returns the head of the extent that reaches into cluster `from`; the first hop is `back` clusters.
    fn look_back(&self, window: &mut Window<'_>, from: u64, mut back: u64) -> Result<(u64, Head)> {
        let (mut n, mut hops) = (from, 0);
        loop {
            let bad = |why: &str| Err(window.error(self.at(n), format!("cluster {n}: {why}")));
            if back == 0 {
                return bad("a distance of 0 back to its head");
            }
            let Some(before) = n.checked_sub(back) else {
                return bad(&format!("a head {back} clusters back, before the file begins"));
            };
            if hops > HOPS + (from - n) / 1024 {
                return bad("a chain of distances that leads nowhere");
            }
            hops += 1;
            n = before;
            match self.load(window, n)? {
                Cluster::Head(head) => return Ok((n, head)),
                Cluster::Inner { back: more, .. } => back = more,
            }
        }
    }

    /// Returns the extent whose head is in cluster `n`: it extends to the next head. The distances
    /// in entries are not used, as extents have few clusters.
    pub(super) fn measure(&self, window: &mut Window<'_>, n: u64, head: Head) -> Result<Span> {
        let start = self.start(n, head);
        let endless = head.hole || self.advise.contains(Advise::FRAGMENT);
        let most = if endless { u64::MAX } else { start.saturating_add(EXTENT_MAX) };
        let (mut next, mut blocks, mut end) = (n + 1, 1, self.size);
        while next < self.count() && next << self.bits <= most {
            match self.load(window, next)? {
                Cluster::Head(head) => {
                    end = end.min(self.start(next, head));
                    break;
                }
                Cluster::Inner { back, blocks: counted, .. } if next == n + 1 && self.may_be_big(head.kind) => {
                    let Some(counted) = counted.filter(|_| back == 1) else {
                        let why = format!("cluster {next}: no count of blocks after a head");
                        return Err(window.error(self.at(next), why));
                    };
                    blocks = counted;
                }
                Cluster::Inner { .. } => {}
            }
            next += 1;
        }
        Ok(Span { head, start, end, blocks, entry: self.at(n) })
    }
}
