//! Sources as devices: an image may refer to bytes that lie in a source as they are, instead of copying them.

use std::sync::Arc;

use crate::Contents;
use crate::Result;
use crate::tree::{FileData, Tree};

/// A source that an image may refer to as an additional device.
#[derive(Debug, Clone)]
pub struct SourceDevice {
    /// The files of the source.
    pub contents: Arc<dyn Contents>,
    /// Length of the source in bytes.
    pub len: u64,
    /// Name for the device table, at most 64 bytes; may be empty.
    pub tag: String,
    /// Properties of its clusters, if it is an image with compressed files.
    pub clusters: Option<ClusteredImage>,
}

/// An image whose compressed files may stay in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusteredImage {
    /// Length of a block in bytes. Another image has the clusters only if its blocks are as long: a stream begins in the
    /// first block of its cluster.
    pub block_size: u32,
    /// Decoders that its files need.
    pub decoders: Vec<ClusterDecoder>,
    /// Incompatible features of its format, as its superblock has them.
    pub features: u32,
    /// The stream that small files and tails of files are parts of, if the image has one that can stay.
    pub packed: Option<PackedStream>,
}

/// Needs of the decoder of an algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterDecoder {
    /// Number of the algorithm in the format.
    pub algorithm: u8,
    /// Length of the window in bytes.
    pub window: u32,
    /// Length of the longest cluster in bytes, if the superblock tells it; otherwise 0.
    pub cluster_len: u32,
}

/// The stream that small files and tails of files are parts of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedStream {
    /// Length in bytes.
    pub len: u64,
    /// Its extents. None is part of another stream, or follows an inode.
    pub extents: Vec<StoredExtent>,
    /// The last bytes, from the last multiple of 4096 on that is before its end.
    pub end: Box<[u8]>,
}

/// Data of a file that can stay in its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StayingData {
    /// Bytes that lie in the source as they are; what is between them are holes.
    Runs(Vec<DataRun>),
    /// Whole blocks in a row, and the bytes of the last block, which are copied.
    Tailed {
        /// Offset of the row in the source; `None` if there are no whole blocks.
        start: Option<u64>,
        /// Bytes after the row.
        tail: Box<[u8]>,
    },
    /// Extents of a compressed file, in order.
    Extents(Vec<StoredExtent>),
}

/// Consecutive bytes of a compressed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredExtent {
    /// Number of bytes of the file.
    pub len: u64,
    /// Where they are stored.
    pub storage: ExtentStorage,
}

/// Storage of an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtentStorage {
    /// Zeros that are not stored.
    Hole,
    /// A cluster of the source.
    Cluster {
        /// Offset in the source.
        start: u64,
        /// Number of stored bytes.
        len: u32,
        /// Number of the algorithm; `None` if the bytes are uncompressed.
        algorithm: Option<u8>,
        /// True if the cluster decodes to more bytes than the extent has.
        is_partial: bool,
    },
    /// A part of the packed stream of the source, from this offset on.
    Packed(u64),
    /// A cluster that follows the inode and is copied.
    Inline {
        /// The stored bytes.
        bytes: Box<[u8]>,
        /// Number of the algorithm; `None` if they are uncompressed.
        algorithm: Option<u8>,
    },
}

/// Bytes of a file that lie in a row in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataRun {
    /// Offset in the file.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Offset in the source.
    pub at: u64,
}

impl ExtentStorage {
    /// Returns true for clusters that stay in the source, and for holes.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        matches!(self, ExtentStorage::Cluster { .. } | ExtentStorage::Hole)
    }

    /// Returns the number of the algorithm, if the bytes are compressed in a cluster of the file.
    #[must_use]
    pub fn algorithm(&self) -> Option<u8> {
        match self {
            ExtentStorage::Cluster { algorithm, .. } | ExtentStorage::Inline { algorithm, .. } => *algorithm,
            ExtentStorage::Hole | ExtentStorage::Packed(_) => None,
        }
    }
}

impl Tree {
    /// Returns the number of the device that holds a file, counted from 1, and where its bytes are; `None` if they have to
    /// be copied.
    pub fn staying_data(&self, data: &FileData<&Arc<dyn Contents>>) -> Result<Option<(u16, StayingData)>> {
        let FileData::Source { from, key } = data else { return Ok(None) };
        // By identity: two sources may have equal files.
        let number = self.devices.iter().position(|device| Arc::ptr_eq(&device.contents, from));
        // Devices are numbered with 16 bits in the format.
        let Some(number) = number.and_then(|n| u16::try_from(n + 1).ok()) else { return Ok(None) };
        Ok(from.staying_data(*key)?.map(|staying| (number, staying)))
    }
}
