//! Physical clusters: the units in which compressed data is stored and shared.

use crate::erofs::format::CLUSTER_MAX;
use crate::{Error, Result};

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
pub(crate) struct StoredCluster {
    /// Number of the device that holds it; 0 is the image.
    pub(crate) device: u16,
    /// Offset on the device.
    pub(crate) start: u64,
    /// Number of stored bytes.
    pub(crate) physical: StoredLen,
    /// Number of bytes in the file.
    pub(crate) logical: u32,
    /// True if it is uncompressed.
    pub(crate) raw: bool,
    /// Number of the algorithm, if it is compressed.
    pub(crate) algorithm: u8,
    /// True if it decodes to more than `logical` bytes.
    pub(crate) partial: bool,
    /// Offset in a page of the file at which its data begins, wherever the cluster is used, if it is uncompressed:
    /// Linux fails on uncompressed clusters that are used at different offsets
    /// ([`raw_sharing`](crate::erofs::raw_sharing)).
    pub(crate) page_offset: u16,
}

impl StoredCluster {
    /// Makes a hole of `len` bytes: a cluster without stored bytes.
    pub(crate) fn hole(len: u32) -> StoredCluster {
        StoredCluster {
            device: 0,
            start: 0,
            physical: StoredLen::HOLE,
            logical: len,
            raw: true,
            algorithm: 0,
            partial: false,
            page_offset: 0,
        }
    }
}

/// Consecutive clusters in the list of all clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClusterRange {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// Returns the number of the next cluster in a list of `len`.
///
/// # Errors
///
/// [`Error::TooMany`] if it exceeds 32 bits.
pub(crate) fn cluster_number(len: usize) -> Result<u32> {
    u32::try_from(len).map_err(|_| Error::TooMany { what: "clusters", max: 1 << 32 })
}

/// Returns the stream in the stored bytes of a cluster: it lies at the end, after zeros, and never begins with one.
pub(crate) fn stream_of(stored: &[u8]) -> &[u8] {
    let first = stored.iter().position(|byte| *byte != 0);
    first.map_or(&[], |first| &stored[first..])
}

/// Lengths within a piece fit in 32 bits.
pub(crate) fn count(n: usize) -> u32 {
    u32::try_from(n).expect("pieces are a few megabytes")
}
