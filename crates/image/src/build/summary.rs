//! Summary of a build: the figures of every format, and those of one format.

use serde::Serialize;

use super::{Order, ReuseLedger, ReusedData, TreeCensus, WrittenMetadata};
use crate::request::OversizedFiles;
use crate::{Warnings, erofs, squashfs};

/// Summary of a build.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "BuildSummary"))]
#[non_exhaustive]
pub struct BuildSummary {
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
    pub details: FormatDetails,
    /// Figures that every format has, which `details` has under the names of the format.
    #[serde(skip)]
    pub(super) counts: DataCounts,
    /// Figures of the data from an older image; `None` if there was none to reuse.
    #[serde(rename = "reuse")]
    pub reused: Option<ReusedData>,
    /// Files left out because they could not be read: pairs of path and error.
    pub left_out: Vec<(String, String)>,
    /// Files left out because of their length; `None` if a [request](crate::BuildRequest) sets no limit.
    pub oversized: Option<OversizedFiles>,
    /// Warnings about sources and entries.
    pub warnings: Warnings,
}

/// Figures of the data that every format has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataCounts {
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
pub enum FormatDetails {
    /// SquashFS.
    Squashfs(squashfs::SquashfsDetails),
    /// EROFS.
    Erofs(erofs::ErofsDetails),
}

impl BuildSummary {
    /// The summary, and what was noted for the index.
    pub(super) fn new(
        census: &TreeCensus,
        order: Order,
        written: WrittenMetadata,
        left_out: Vec<(String, String)>,
        warnings: Warnings,
    ) -> (Self, ReuseLedger) {
        let WrittenMetadata { image_bytes, data_bytes, counts, details, mut ledger } = written;
        let TreeCensus { inodes, files, directories, file_bytes, .. } = *census;
        let metadata_bytes = image_bytes - data_bytes;
        let mut summary = BuildSummary {
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
    pub fn squashfs(&self) -> Option<&squashfs::SquashfsDetails> {
        match &self.details {
            FormatDetails::Squashfs(details) => Some(details),
            FormatDetails::Erofs(_) => None,
        }
    }

    /// Returns the figures of an EROFS image.
    pub fn erofs(&self) -> Option<&erofs::ErofsDetails> {
        match &self.details {
            FormatDetails::Erofs(details) => Some(details),
            FormatDetails::Squashfs(_) => None,
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
