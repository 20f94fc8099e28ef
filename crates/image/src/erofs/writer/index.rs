//! Maps the bytes of a compressed file to physical clusters, in the three forms of the format:
//! compact packs of 2 and 4 bytes per entry, full entries of 8 bytes, and encoded extents.
//!
//! An index is made when all data is written. It is a view of clusters that files share, so a
//! duplicate costs only its index in the image.

use std::ops::Range;

use super::keep::{Keep, Kept};
use crate::erofs::format::{CLUSTER_MAX, Layout};

mod compact;
mod encoded;
mod full;

/// Number of stored bytes of a physical cluster. It is at most [`CLUSTER_MAX`]: Linux refuses to read a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoredLen(u32);

impl StoredLen {
    /// The length of a hole.
    pub(crate) const HOLE: StoredLen = StoredLen(0);

    /// Returns the length, or `None` if it exceeds the limit.
    pub(crate) fn new(len: u64) -> Option<StoredLen> {
        if len > CLUSTER_MAX { None } else { u32::try_from(len).ok().map(StoredLen) }
    }

    /// Returns the length of a cluster that a packer cut.
    ///
    /// # Panics
    ///
    /// If it exceeds the limit, because no image may contain such a cluster.
    pub(crate) fn of_cut(len: usize) -> StoredLen {
        StoredLen::new(len as u64).expect("packers cut clusters at the limit")
    }

    pub(crate) fn get(self) -> u32 {
        self.0
    }

    pub(crate) fn bytes(self) -> usize {
        self.0 as usize
    }
}

impl From<StoredLen> for u64 {
    fn from(len: StoredLen) -> u64 {
        len.0.into()
    }
}

/// A physical cluster and the data it decodes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Offset in the image.
    pub(crate) start: u64,
    /// Number of stored bytes.
    pub(crate) physical: StoredLen,
    /// Number of bytes in the file.
    pub(crate) logical: u32,
    /// True if it is uncompressed.
    pub(crate) raw: bool,
    /// Number of the algorithm, if it is compressed.
    pub(crate) algorithm: u8,
    /// True if it decodes to more than that.
    pub(crate) partial: bool,
    /// Offset in a page of the file at which its data begins, wherever the cluster is used, if it is uncompressed:
    /// Linux fails on uncompressed clusters that are used at different offsets
    /// ([`raw_sharing`](crate::erofs::raw_sharing)).
    pub(crate) page_offset: u16,
}

/// Consecutive clusters in the list of all clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// The end of a file that is not in its own clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// In the packed inode from this offset on.
    Fragment(u64),
    /// A cluster after the index.
    Inline { kept: Kept, raw: bool, algorithm: u8 },
}

/// Properties shared by the indexes of all files of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) block_bits: u8,
    /// Number of the algorithm of files without clusters.
    pub(crate) algorithm: u8,
    /// True for encoded extents.
    pub(crate) encoded: bool,
    /// True for packs where they suffice.
    pub(crate) compact: bool,
}

/// The map of one file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Index<'d> {
    pub(crate) form: Form,
    /// All clusters of the image.
    pub(crate) clusters: &'d [Cluster],
    pub(crate) parts: &'d [Part],
    pub(crate) end: Option<End>,
    pub(crate) size: u64,
}

/// An extent of the file, as every form describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    /// Offset in the file.
    logical: u64,
    len: u64,
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// `partial` if it uses only the first bytes of what the cluster decodes to.
    Cluster {
        cluster: Cluster,
        partial: bool,
    },
    Fragment(u64),
    /// True if it is uncompressed.
    Inline(bool),
}

impl<'d> Index<'d> {
    /// Returns the layout that the inode declares, with a map that begins `at` bytes after a multiple of 32.
    pub(crate) fn layout(&self, at: usize) -> Layout {
        if self.is_compact(at) { Layout::CompressedCompact } else { Layout::CompressedFull }
    }

    /// Returns the number of blocks of all its clusters, for the inode's `data` field.
    pub(crate) fn blocks(&self) -> u64 {
        let bytes: u64 = self
            .extents()
            .map(|extent| match extent.target {
                Target::Cluster { cluster, .. } => u64::from(cluster.physical),
                Target::Fragment(_) | Target::Inline(_) => 0,
            })
            .sum();
        bytes.div_ceil(1 << self.form.block_bits)
    }

    /// Returns the number of bytes that must follow inode and xattrs if they begin `at` bytes after
    /// a multiple of 32 (0, 8, 16 or 24), and how many of them, at the end, must be within one
    /// block.
    pub(crate) fn len(&self, at: usize) -> (usize, usize) {
        if self.is_whole_fragment() {
            return (8, 0);
        }
        let inline = match self.end {
            Some(End::Inline { kept, .. }) => kept.len(),
            _ => 0,
        };
        let map = if self.form.encoded {
            encoded::len(self, at)
        } else if self.is_compact(at) {
            compact::len(self.entries(), at)
        } else {
            full::len(self.entries())
        };
        (map + inline, inline)
    }

    /// Appends these bytes.
    pub(crate) fn write(&self, at: usize, keep: &Keep, out: &mut Vec<u8>) -> std::io::Result<()> {
        if let (true, Some(End::Fragment(offset))) = (self.is_whole_fragment(), self.end) {
            out.extend_from_slice(&(offset | 1 << 63).to_le_bytes());
            return Ok(());
        }
        if self.form.encoded {
            encoded::write(self, at, out);
        } else if self.is_compact(at) {
            compact::write(self, at, out);
        } else {
            full::write(self, out);
        }
        match self.end {
            Some(End::Inline { kept, .. }) => keep.get(kept, out),
            _ => Ok(()),
        }
    }

    fn is_whole_fragment(&self) -> bool {
        self.parts.is_empty() && matches!(self.end, Some(End::Fragment { .. }))
    }

    fn is_compact(&self, at: usize) -> bool {
        self.form.compact && !self.form.encoded && !self.is_whole_fragment() && compact::can_say(self, at)
    }

    /// Returns the number of logical clusters, which are as long as blocks.
    fn entries(&self) -> usize {
        usize::try_from(self.size.div_ceil(1 << self.form.block_bits)).unwrap_or(usize::MAX)
    }

    /// Returns true if some cluster has several blocks, in the forms with entries: uncompressed ones have one each.
    fn is_big(&self) -> bool {
        let block = 1u32 << self.form.block_bits;
        self.used_clusters().any(|cluster| !cluster.raw && cluster.physical.get() > block)
    }

    fn part(&self, part: &Part) -> &'d [Cluster] {
        &self.clusters[part.first as usize..][..part.count as usize]
    }

    /// Returns the clusters of its extents, in order.
    pub(crate) fn used_clusters(self) -> impl Iterator<Item = &'d Cluster> {
        self.parts.iter().flat_map(move |part| self.part(part))
    }

    /// Returns the number of the algorithm that all compressed clusters of the file have.
    pub(crate) fn algorithm(&self) -> u8 {
        let of_end = match self.end {
            Some(End::Inline { raw: false, algorithm, .. }) => Some(algorithm),
            _ => None,
        };
        let of_clusters = || self.used_clusters().find(|cluster| !cluster.raw).map(|cluster| cluster.algorithm);
        of_end.or_else(of_clusters).unwrap_or(self.form.algorithm)
    }

    /// Returns the range of the packed inode that holds the file's tail.
    pub(crate) fn fragment(self) -> Option<Range<u64>> {
        let Some(End::Fragment(offset)) = self.end else { return None };
        let before: u64 = self.used_clusters().map(|cluster| u64::from(cluster.logical)).sum();
        Some(offset..offset + (self.size - before))
    }

    /// Returns a cluster as the index describes it. The forms with entries describe an uncompressed cluster as one
    /// cluster per block, because Linux before 6.15 reads it so and fails on the rest.
    fn as_told(self, cluster: Cluster) -> impl Iterator<Item = Cluster> {
        let block = 1u32 << self.form.block_bits;
        let is_divided = cluster.raw && !self.form.encoded;
        let count = if is_divided { cluster.logical.div_ceil(block) } else { 1 };
        (0..count).map(move |n| {
            if !is_divided {
                return cluster;
            }
            let logical = (cluster.logical - n * block).min(block);
            Cluster {
                start: cluster.start + u64::from(n * block),
                physical: StoredLen::of_cut(block as usize),
                logical,
                partial: cluster.partial && logical < block,
                ..cluster
            }
        })
    }

    /// Returns the file's extents in order.
    fn extents(self) -> impl Iterator<Item = Extent> {
        let parts = self
            .used_clusters()
            .flat_map(move |cluster| self.as_told(*cluster))
            .map(|cluster| (Some(cluster.logical), Target::Cluster { cluster, partial: cluster.partial }));
        let end = self.end.map(|end| match end {
            End::Fragment(offset) => (None, Target::Fragment(offset)),
            End::Inline { raw, .. } => (None, Target::Inline(raw)),
        });
        let size = self.size;
        parts.chain(end).scan(0, move |at, (len, target)| {
            let logical = *at;
            // The part without its own clusters extends to the file's end.
            let len = len.map_or(size - logical, u64::from);
            *at += len;
            // Before the end of the file an extent may not be shorter than its cluster, unless it is partial.
            let target = match target {
                Target::Cluster { cluster, .. } if *at < size && len < u64::from(cluster.physical) => {
                    Target::Cluster { cluster, partial: true }
                }
                target => target,
            };
            Some(Extent { logical, len, target })
        })
    }
}

/// Contents of the index entry of a logical cluster; both forms with entries store this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClusterEntry {
    /// An extent begins here, `offset` bytes after the start.
    Head { kind: u16, offset: u16, block: u64, partial: bool, is_cluster: bool },
    /// No extent begins here: distances in logical clusters back to the head and on to the next;
    /// `blocks` of the cluster in the first of them, if the file has clusters of several.
    Tail { back: u64, on: u64, blocks: Option<u16> },
}

/// Calls `put` with the entry of each logical cluster.
fn for_entries(index: &Index<'_>, big: bool, mut put: impl FnMut(ClusterEntry)) {
    use crate::erofs::format::cluster_type;
    let (bits, block) = (index.form.block_bits, 1u64 << index.form.block_bits);
    let count = index.entries() as u64;
    // A size that is not a multiple of a block ends with an entry of its own, unless the last extent begins there.
    let ends_inside = !index.size.is_multiple_of(block);
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
            Target::Cluster { cluster, partial } => {
                let kind = if cluster.raw { cluster_type::PLAIN } else { cluster_type::HEAD1 };
                (kind, cluster.start >> bits, partial, u64::from(cluster.physical))
            }
            Target::Fragment(offset) => (cluster_type::HEAD1, offset >> 32, false, block),
            Target::Inline(raw) => (if raw { cluster_type::PLAIN } else { cluster_type::HEAD1 }, 0, false, block),
        };
        let offset = u16::try_from(extent.logical & (block - 1)).expect("within a block");
        let is_cluster = matches!(extent.target, Target::Cluster { .. });
        put(ClusterEntry::Head { kind, offset, block: at, partial, is_cluster });
        let blocks = u16::try_from(physical >> bits).expect("at most a megabyte");
        for lcn in head + 1..next {
            let blocks = (big && lcn == head + 1).then_some(blocks);
            put(ClusterEntry::Tail { back: lcn - head, on: next - lcn, blocks });
        }
        if extents.peek().is_none() && ends_inside && next < count {
            let offset = u16::try_from(index.size & (block - 1)).expect("within a block");
            put(ClusterEntry::Head { kind: cluster_type::PLAIN, offset, block: 0, partial: false, is_cluster: false });
        }
    }
}

/// Makes the header of the map, for both forms with entries.
fn header(index: &Index<'_>, big: bool, compact: bool) -> crate::erofs::format::MapHeader {
    use crate::erofs::format::{Advise, MapHeader};
    let mut advise = Advise::empty();
    advise.set(Advise::COMPACT_2B_OR_EXTENTS, compact);
    advise.set(Advise::BIG_CLUSTER_1 | Advise::BIG_CLUSTER_2, big);
    let first = match index.end {
        Some(End::Fragment(offset)) => {
            advise |= Advise::FRAGMENT;
            low(offset)
        }
        Some(End::Inline { kept, .. }) => {
            advise |= Advise::INLINE_CLUSTER;
            u32::try_from(kept.len()).expect("at most a block") << 16
        }
        None => 0,
    };
    MapHeader {
        h_fragmentoff: first.into(),
        h_advise: advise.bits().into(),
        h_algorithmtype: index.algorithm(),
        h_clusterbits: 0,
    }
}

/// Returns the low half.
#[allow(clippy::cast_possible_truncation)]
fn low(n: u64) -> u32 {
    n as u32
}

/// Returns the high half.
#[allow(clippy::cast_possible_truncation)]
fn high(n: u64) -> u32 {
    (n >> 32) as u32
}
