//! Summary of a build: the figures of every format, and those of one format.

use serde::Serialize;

use super::{Census, Ledger, Order, Reused, Written};
use crate::request::OversizedFiles;
use crate::{Warnings, erofs, squashfs};

/// Summary of a build.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "BuildSummary"))]
#[non_exhaustive]
pub struct Summary {
    /// Length of the image in bytes, without the padding after it (SquashFS).
    pub image_bytes: u64,
    /// Sum of the lengths of all files, each hard-linked file once.
    pub file_bytes: u64,
    /// Bytes of file data in the image.
    pub data_bytes: u64,
    /// Bytes of everything else in the image.
    pub metadata_bytes: u64,
    /// Number of inodes.
    pub inodes: u32,
    /// Number of regular files.
    pub files: u32,
    /// Number of directories.
    pub directories: u32,
    /// Order of the file data.
    pub order: Order,
    /// Format-specific figures.
    #[serde(flatten)]
    pub details: Details,
    /// Figures that every format has, which `details` has under the names of the format.
    #[serde(skip)]
    pub(super) counts: Counts,
    /// Figures of the data from an older image; `None` if there was none to reuse.
    #[serde(rename = "reuse")]
    pub reused: Option<Reused>,
    /// Files left out because they could not be read: pairs of path and error.
    pub left_out: Vec<(String, String)>,
    /// Files left out because of their length; `None` if a [request](crate::BuildRequest) sets no limit.
    pub oversized: Option<OversizedFiles>,
    /// Warnings about sources and entries.
    pub warnings: Warnings,
}

/// Figures of the data that every format has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    /// File bytes that duplicate earlier ones.
    pub(crate) duplicate_bytes: u64,
    /// File bytes that went to a codec.
    pub(crate) packed_bytes: u64,
    /// File bytes in holes.
    pub(crate) hole_bytes: u64,
    /// Length of the image including the padding after it.
    pub(crate) padded_bytes: u64,
}

/// Format-specific figures.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "BuildFigures"))]
#[serde(untagged)]
#[non_exhaustive]
pub enum Details {
    /// SquashFS.
    Squashfs(squashfs::Details),
    /// EROFS.
    Erofs(erofs::Details),
}

impl Summary {
    /// The summary, and what was noted for the index.
    pub(super) fn new(
        census: &Census,
        order: Order,
        written: Written,
        left_out: Vec<(String, String)>,
        warnings: Warnings,
    ) -> (Self, Ledger) {
        let Written { image_bytes, data_bytes, counts, details, mut ledger } = written;
        let Census { inodes, files, directories, file_bytes, .. } = *census;
        let metadata_bytes = image_bytes - data_bytes;
        let mut summary = Summary {
            image_bytes,
            file_bytes,
            data_bytes,
            metadata_bytes,
            inodes,
            files,
            directories,
            order,
            details,
            counts,
            reused: None,
            left_out,
            oversized: None,
            warnings,
        };
        summary.reused = ledger.reused(summary.padded_bytes());
        (summary, ledger)
    }

    /// Returns the figures of a SquashFS image.
    pub fn squashfs(&self) -> Option<&squashfs::Details> {
        match &self.details {
            Details::Squashfs(details) => Some(details),
            Details::Erofs(_) => None,
        }
    }

    /// Returns the figures of an EROFS image.
    pub fn erofs(&self) -> Option<&erofs::Details> {
        match &self.details {
            Details::Erofs(details) => Some(details),
            Details::Squashfs(_) => None,
        }
    }

    /// Returns the length of the image including the padding after it.
    pub fn padded_bytes(&self) -> u64 {
        self.counts.padded_bytes
    }

    /// Returns the number of file bytes that duplicate earlier ones.
    pub fn duplicate_bytes(&self) -> u64 {
        self.counts.duplicate_bytes
    }

    /// Returns the number of file bytes that went to a codec.
    pub fn packed_bytes(&self) -> u64 {
        self.counts.packed_bytes
    }

    /// Returns the number of file bytes in holes.
    pub fn hole_bytes(&self) -> u64 {
        self.counts.hole_bytes
    }
}
