//! Maps the bytes of a compressed file to physical clusters, in the three forms of the format:
//! compact packs of 2 and 4 bytes per entry, full entries of 8 bytes, and encoded extents.
//!
//! An index is made when all data is written. It is a view of clusters that files share, so a
//! duplicate costs only its index in the image.

use std::ops::Range;

use crate::erofs::format::Layout;
use crate::erofs::writer::stored::cluster::{ClusterRange, StoredCluster, StoredLen};
use crate::erofs::writer::stored::data::{IndexForm, StoredData, device_start};
use crate::erofs::writer::stored::file::{DataView, FileTail, StoredFile};
use crate::erofs::writer::stored::tails::TailStore;

mod compact;
mod encoded;
mod entries;

impl StoredData {
    /// Returns the index of a compressed file of `size` bytes.
    pub(crate) fn index<'d>(&'d self, size: u64, parts: &'d [ClusterRange], tail: Option<FileTail>) -> FileIndex<'d> {
        FileIndex { form: self.form, clusters: &self.clusters, device_starts: &self.device_starts, parts, tail, size }
    }
}

impl StoredFile {
    /// Returns the index of a compressed file.
    pub(crate) fn index<'d>(&'d self, data: &'d StoredData) -> Option<FileIndex<'d>> {
        match self.view() {
            DataView::Compressed { parts, tail } => Some(data.index(self.size, parts, tail)),
            DataView::Plain { .. } | DataView::Chunks { .. } => None,
        }
    }
}

/// The map of one file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileIndex<'d> {
    pub(crate) form: IndexForm,
    /// All clusters of the image.
    pub(crate) clusters: &'d [StoredCluster],
    /// See [`StoredData::device_starts`].
    pub(crate) device_starts: &'d [u64],
    pub(crate) parts: &'d [ClusterRange],
    pub(crate) tail: Option<FileTail>,
    pub(crate) size: u64,
}

/// Room that an index takes, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexRoom {
    pub(crate) len: usize,
    /// Number of these bytes, at the end, that must be in one block.
    pub(crate) together: usize,
}

/// An extent of the file, as every form describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileExtent {
    /// Offset in the file.
    logical: u64,
    len: u64,
    target: ExtentTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExtentTarget {
    /// `partial` if it uses only the first bytes of what the cluster decodes to.
    Cluster {
        cluster: StoredCluster,
        partial: bool,
    },
    Fragment(u64),
    /// The number of its algorithm; `None` if it is uncompressed.
    Inline(Option<u8>),
}

/// Algorithms of the compressed clusters of a file, in the order of their first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UsedAlgorithms {
    pub(crate) first: u8,
    /// Another one. A form with entries has no room for a third.
    pub(crate) second: Option<u8>,
    bits: u16,
}

impl UsedAlgorithms {
    /// Returns a bit for each algorithm.
    pub(crate) fn bits(self) -> u16 {
        self.bits
    }
}

impl<'d> FileIndex<'d> {
    /// Returns the layout that the inode declares, with a map that begins `at` bytes after a multiple of 32.
    pub(crate) fn layout(&self, at: usize) -> Layout {
        if self.is_compact(at) { Layout::CompressedCompact } else { Layout::CompressedFull }
    }

    /// Returns the number of blocks of all its clusters, for the inode's `data` field.
    pub(crate) fn blocks(&self) -> u64 {
        let bytes: u64 = self
            .extents()
            .map(|extent| match extent.target {
                ExtentTarget::Cluster { cluster, .. } => u64::from(cluster.physical),
                ExtentTarget::Fragment(_) | ExtentTarget::Inline(_) => 0,
            })
            .sum();
        bytes.div_ceil(1 << self.form.block_bits)
    }

    /// Returns the room that the index takes after inode and xattrs if it begins `at` bytes after a multiple of 32 (0, 8,
    /// 16 or 24).
    pub(crate) fn room(&self, at: usize) -> IndexRoom {
        if self.is_whole_fragment() {
            return IndexRoom { len: 8, together: 0 };
        }
        let inline = match self.tail {
            Some(FileTail::Inline { kept, .. }) => kept.len(),
            _ => 0,
        };
        let map = if self.form.encoded {
            encoded::len(self, at)
        } else if self.is_compact(at) {
            compact::len(self.entries(), at)
        } else {
            entries::full_len(self.entries())
        };
        IndexRoom { len: map + inline, together: inline }
    }

    /// Appends these bytes.
    pub(crate) fn write(&self, at: usize, keep: &TailStore, out: &mut Vec<u8>) -> std::io::Result<()> {
        if let (true, Some(FileTail::Fragment(offset))) = (self.is_whole_fragment(), self.tail) {
            // Bit 63 is the top bit of `h_clusterbits`, which marks a file that is a fragment as a whole.
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
        match self.tail {
            Some(FileTail::Inline { kept, .. }) => keep.get(kept, out),
            _ => Ok(()),
        }
    }

    fn is_whole_fragment(&self) -> bool {
        self.parts.is_empty() && matches!(self.tail, Some(FileTail::Fragment { .. }))
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

    fn part(&self, part: &ClusterRange) -> &'d [StoredCluster] {
        &self.clusters[part.first as usize..][..part.count as usize]
    }

    /// Returns the clusters of its extents, in order.
    pub(crate) fn used_clusters(self) -> impl Iterator<Item = &'d StoredCluster> {
        self.parts.iter().flat_map(move |part| self.part(part))
    }

    /// Returns the algorithms of the file's compressed clusters; without any, that of files without clusters.
    pub(crate) fn algorithms(&self) -> UsedAlgorithms {
        let of_end = match self.tail {
            Some(FileTail::Inline { raw: false, algorithm, .. }) => Some(algorithm),
            _ => None,
        };
        let of_clusters = self.used_clusters().filter(|cluster| !cluster.raw).map(|cluster| cluster.algorithm);
        let mut used: Option<UsedAlgorithms> = None;
        for algorithm in of_clusters.chain(of_end) {
            match &mut used {
                None => used = Some(UsedAlgorithms { first: algorithm, second: None, bits: 1 << algorithm }),
                Some(used) => {
                    used.second = used.second.or((algorithm != used.first).then_some(algorithm));
                    used.bits |= 1 << algorithm;
                }
            }
        }
        // Linux 7.0 refuses a compressed inode if the superblock declares no algorithm, so even a file that has only
        // fragments names one.
        let none = UsedAlgorithms { first: self.form.algorithm, second: None, bits: 1 << self.form.algorithm };
        used.unwrap_or(none)
    }

    /// Returns the first block of a device.
    fn device_start(&self, device: u16) -> u64 {
        device_start(self.device_starts, device)
    }

    /// Returns the range of the packed inode that holds the file's tail.
    pub(crate) fn fragment(self) -> Option<Range<u64>> {
        let Some(FileTail::Fragment(offset)) = self.tail else { return None };
        let before: u64 = self.used_clusters().map(|cluster| u64::from(cluster.logical)).sum();
        Some(offset..offset + (self.size - before))
    }

    /// Returns a cluster as the index describes it. The forms with entries describe an uncompressed cluster as one
    /// cluster per block, because Linux before 6.15 reads it so and fails on the rest.
    fn as_described(self, cluster: StoredCluster) -> impl Iterator<Item = StoredCluster> {
        let block = 1u32 << self.form.block_bits;
        let is_divided = cluster.raw && !self.form.encoded;
        let count = if is_divided { cluster.logical.div_ceil(block) } else { 1 };
        (0..count).map(move |n| {
            if !is_divided {
                return cluster;
            }
            let logical = (cluster.logical - n * block).min(block);
            StoredCluster {
                start: cluster.start + u64::from(n * block),
                physical: StoredLen::of_cut(block as usize),
                logical,
                partial: cluster.partial && logical < block,
                ..cluster
            }
        })
    }

    /// Returns the file's extents in order.
    fn extents(self) -> impl Iterator<Item = FileExtent> {
        let parts = self
            .used_clusters()
            .flat_map(move |cluster| self.as_described(*cluster))
            .map(|cluster| (Some(cluster.logical), ExtentTarget::Cluster { cluster, partial: cluster.partial }));
        let end = self.tail.map(|end| match end {
            FileTail::Fragment(offset) => (None, ExtentTarget::Fragment(offset)),
            FileTail::Inline { raw, algorithm, .. } => (None, ExtentTarget::Inline((!raw).then_some(algorithm))),
        });
        let size = self.size;
        parts.chain(end).scan(0, move |at, (len, target)| {
            let logical = *at;
            // The part without its own clusters extends to the file's end.
            let len = len.map_or(size - logical, u64::from);
            *at += len;
            // Before the end of the file an extent may not be shorter than its cluster, unless it is partial.
            let target = match target {
                ExtentTarget::Cluster { cluster, .. } if *at < size && len < u64::from(cluster.physical) => {
                    ExtentTarget::Cluster { cluster, partial: true }
                }
                target => target,
            };
            Some(FileExtent { logical, len, target })
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
