//! The result of writing all data: where the data of each file is, for its inode.

use super::cluster::{ClusterRange, StoredCluster};
use super::file::StoredFile;
use super::tails::TailStore;
use crate::build::{FileDigest, ReuseLedger};
use crate::erofs::writer::counts::ErofsCounts;
use crate::tree::{Ino, Tree};

/// Properties shared by the indexes of all files of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexForm {
    pub(crate) block_bits: u8,
    /// Number of the algorithm of files without clusters.
    pub(crate) algorithm: u8,
    /// True for encoded extents.
    pub(crate) encoded: bool,
    /// True for packs where they suffice.
    pub(crate) compact: bool,
}

/// Result of writing all data.
#[derive(Debug)]
pub(crate) struct StoredData {
    /// The first block after the data.
    pub(crate) end: u64,
    /// Files by the numbers that the tree has in `Data::Stored`.
    pub(crate) files: Vec<StoredFile>,
    /// All clusters, with holes as clusters of no bytes.
    pub(crate) clusters: Vec<StoredCluster>,
    pub(crate) form: IndexForm,
    /// The packed inode's data, if it contains any fragment.
    pub(crate) packed: Option<StoredFile>,
    /// Its pieces, in order.
    pub(crate) packed_pieces: Vec<ClusterRange>,
    /// Data stored after inodes.
    pub(crate) keep: TailStore,
    /// A digest of all file data in order.
    pub(crate) content: blake3::Hash,
    /// True if files share clusters other than in whole pieces.
    pub(crate) shares_clusters: bool,
    pub(crate) counts: ErofsCounts,
    /// Bytes of files on additional devices.
    pub(crate) referred_bytes: u64,
    /// Number of the device that holds the data; 0 is the image.
    pub(crate) device: u16,
    /// First block of each additional device in the address space of the image; empty until the image has its length.
    pub(crate) device_starts: Vec<u64>,
    /// Length of the device that holds the data, if it is not the image.
    pub(crate) blob_bytes: u64,
    pub(crate) ledger: ReuseLedger,
    /// Digests of the files by number, if inodes have them.
    pub(crate) sums: Vec<FileDigest>,
}

impl StoredData {
    /// Loads where the data of files is that are looked at next. No load waits for another.
    pub(crate) fn touch(&self, tree: &Tree, inos: &[Ino]) {
        let sizes = inos.iter().filter_map(|ino| Some(self.files[tree.stored(*ino)? as usize].size));
        // Without this, the compiler would leave out loads whose result nobody uses.
        std::hint::black_box(sizes.fold(0, |all, size| all ^ size));
    }

    /// Returns the first block of a device in the address space of the image; 0 as long as it is not known.
    pub(crate) fn device_start(&self, device: u16) -> u64 {
        device_start(&self.device_starts, device)
    }

    /// Returns the block size in bytes.
    pub(crate) fn block_len(&self) -> u64 {
        1 << self.form.block_bits
    }
}

/// Returns the first block of a device; 0 for the image, and as long as no device has its place.
pub(crate) fn device_start(starts: &[u64], device: u16) -> u64 {
    usize::from(device).checked_sub(1).and_then(|n| starts.get(n)).copied().unwrap_or(0)
}
