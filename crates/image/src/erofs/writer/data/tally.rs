//! Counters of what becomes of file bytes, for the summary and for whoever watches.

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

    /// Bytes that go to a codec, or would if one were asked for.
    pub(super) fn packs(&mut self, len: usize) {
        self.packed += len as u64;
        Progress::add(&self.progress.done, len as u64);
        Progress::add(&self.progress.packed, len as u64);
    }

    /// Bytes found to be there already, which go nowhere.
    pub(super) fn saves(&mut self, len: usize) {
        self.duplicates += len as u64;
        self.spares(len as u64);
    }

    /// Bytes found to be there already after they were counted as packed.
    pub(super) fn shares(&mut self, len: u64) {
        self.duplicates += len;
    }

    /// Bytes of the packed inode.
    pub(super) fn fragment(&mut self, len: usize) {
        self.fragments += len as u64;
    }

    /// Bytes of zeros that stay a hole.
    pub(super) fn hole(&mut self, len: u64) {
        self.holes += len;
        self.spares(len);
    }

    fn spares(&self, len: u64) {
        Progress::add(&self.progress.done, len);
        Progress::add(&self.progress.saved, len);
    }

    /// All counters, with those of clusters.
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
