//! Counters of file bytes by their treatment, for the summary and for progress displays.

use packfs_blocks::Progress;
use serde::Serialize;

/// Counters of the data writer, in bytes except the `..._clusters`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "ErofsDataCounts"))]
#[non_exhaustive]
pub struct ErofsCounts {
    /// Number of physical clusters written.
    pub clusters: u64,
    /// Number of clusters stored uncompressed because they do not shrink.
    pub raw_clusters: u64,
    /// Number of clusters that were not written because an equal one already existed.
    pub shared_clusters: u64,
    /// File bytes that went to a codec.
    pub packed_bytes: u64,
    /// File bytes in the packed inode.
    pub fragment_bytes: u64,
    /// File bytes that were duplicates of stored data.
    pub duplicate_bytes: u64,
    /// File bytes in holes.
    pub hole_bytes: u64,
}

impl ErofsCounts {
    /// Adds the counters of another shard.
    pub(crate) fn add(&mut self, more: &ErofsCounts) {
        let ErofsCounts {
            clusters,
            raw_clusters,
            shared_clusters,
            packed_bytes,
            fragment_bytes,
            duplicate_bytes,
            hole_bytes,
        } = more;
        self.clusters += clusters;
        self.raw_clusters += raw_clusters;
        self.shared_clusters += shared_clusters;
        self.packed_bytes += packed_bytes;
        self.fragment_bytes += fragment_bytes;
        self.duplicate_bytes += duplicate_bytes;
        self.hole_bytes += hole_bytes;
    }
}

/// EROFS-specific figures of a build.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "ErofsBuildFigures"))]
#[non_exhaustive]
pub struct ErofsDetails {
    /// Oldest Linux that reads the image.
    pub kernel: String,
    /// UUID of the image.
    pub uuid: String,
    /// Counters of the data writer.
    pub data: ErofsCounts,
    /// File bytes that stay in the sources, on additional devices; those that several files share count once for each.
    pub referred_bytes: u64,
    /// Length of the file of its own in which file data lies; 0 without
    /// [`ErofsOptions::blob`](crate::erofs::ErofsOptions::blob).
    pub blob_bytes: u64,
}

/// Numbers of clusters: written, of these uncompressed, and shared with existing ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClusterCounts {
    pub(crate) written: u64,
    pub(crate) raw: u64,
    pub(crate) shared: u64,
}

/// Counters in bytes; see [`ErofsCounts`].
#[derive(Debug)]
pub(crate) struct DataTally<'env> {
    progress: &'env Progress,
    packed: u64,
    fragments: u64,
    duplicates: u64,
    holes: u64,
}

impl<'env> DataTally<'env> {
    pub(crate) fn new(progress: &'env Progress) -> Self {
        DataTally { progress, packed: 0, fragments: 0, duplicates: 0, holes: 0 }
    }

    /// Counts bytes that go to a codec, or would if one was chosen.
    pub(crate) fn packs(&mut self, len: usize) {
        self.packed += len as u64;
        Progress::add(&self.progress.done, len as u64);
        Progress::add(&self.progress.packed, len as u64);
    }

    /// Counts duplicate bytes, which are not stored.
    pub(crate) fn saves(&mut self, len: usize) {
        self.duplicates += len as u64;
        self.spares(len as u64);
    }

    /// Counts bytes that turned out to be duplicates after they were counted as packed.
    pub(crate) fn shares(&mut self, len: u64) {
        self.duplicates += len;
    }

    /// Counts bytes of the packed inode.
    pub(crate) fn fragment(&mut self, len: usize) {
        self.fragments += len as u64;
    }

    /// Counts bytes of zeros that stay a hole.
    pub(crate) fn hole(&mut self, len: u64) {
        self.holes += len;
        self.spares(len);
    }

    fn spares(&self, len: u64) {
        Progress::add(&self.progress.done, len);
        Progress::add(&self.progress.saved, len);
    }

    /// Returns all counters, including those of clusters.
    pub(crate) fn counts(&self, clusters: ClusterCounts) -> ErofsCounts {
        ErofsCounts {
            clusters: clusters.written,
            raw_clusters: clusters.raw,
            shared_clusters: clusters.shared,
            packed_bytes: self.packed,
            fragment_bytes: self.fragments,
            duplicate_bytes: self.duplicates,
            hole_bytes: self.holes,
        }
    }
}
