//! Maps the bytes of a compressed file to physical clusters, in the three forms of the format:
//! compact packs of 2 and 4 bytes per entry, full entries of 8 bytes, and encoded extents.
//!
//! An index is made when all data is written. It is a view of clusters that files share, so a
//! duplicate costs only its index in the image.

use std::ops::Range;

use crate::erofs::format::Layout;
use crate::erofs::writer::stored::cluster::{Cluster, Part, StoredLen};
use crate::erofs::writer::stored::data::{DataDone, Form};
use crate::erofs::writer::stored::file::{End, Stored, View};
use crate::erofs::writer::stored::tails::Keep;

mod compact;
mod encoded;
mod entries;

impl DataDone {
    /// Returns the index of a compressed file of `size` bytes.
    pub(crate) fn index<'d>(&'d self, size: u64, parts: &'d [Part], end: Option<End>) -> Index<'d> {
        Index { form: self.form, clusters: &self.clusters, parts, end, size }
    }
}

impl Stored {
    /// Returns the index of a compressed file.
    pub(crate) fn index<'d>(&'d self, data: &'d DataDone) -> Option<Index<'d>> {
        match self.view() {
            View::Compressed { parts, end } => Some(data.index(self.size, parts, end)),
            View::Plain { .. } | View::Chunks { .. } => None,
        }
    }
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
            entries::full_len(self.entries())
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
            entries::write_full(self, out);
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
