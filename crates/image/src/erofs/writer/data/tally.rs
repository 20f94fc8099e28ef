//! Counters of file bytes by their treatment, for the summary and for progress displays.

use packfs_blocks::Progress;

use super::zone::ClusterCounts;
use crate::erofs::writer::Counts;

/// Counters in bytes; see [`Counts`].
#[derive(Debug)]
pub(super) struct Tally<'env> {
    progress: &'env Progress,
    packed: u64,
    fragments: u64,
    duplicates: u64,
    holes: u64,
}

impl<'env> Tally<'env> {
    pub(super) fn new(progress: &'env Progress) -> Self {
        Tally { progress, packed: 0, fragments: 0, duplicates: 0, holes: 0 }
    }

    /// Counts bytes that go to a codec, or would if one was chosen.
    pub(super) fn packs(&mut self, len: usize) {
        self.packed += len as u64;
        Progress::add(&self.progress.done, len as u64);
        Progress::add(&self.progress.packed, len as u64);
    }

    /// Counts duplicate bytes, which are not stored.
    pub(super) fn saves(&mut self, len: usize) {
        self.duplicates += len as u64;
        self.spares(len as u64);
    }

    /// Counts bytes that turned out to be duplicates after they were counted as packed.
    pub(super) fn shares(&mut self, len: u64) {
        self.duplicates += len;
    }

    /// Counts bytes of the packed inode.
    pub(super) fn fragment(&mut self, len: usize) {
        self.fragments += len as u64;
    }

    /// Counts bytes of zeros that stay a hole.
    pub(super) fn hole(&mut self, len: u64) {
        self.holes += len;
        self.spares(len);
    }

    fn spares(&self, len: u64) {
        Progress::add(&self.progress.done, len);
        Progress::add(&self.progress.saved, len);
    }

    /// Returns all counters, including those of clusters.
    pub(super) fn counts(&self, clusters: ClusterCounts) -> Counts {
        Counts {
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
