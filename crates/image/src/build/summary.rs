//! Summary of a build: the figures of every format, and those of one format.

use serde::Serialize;

use super::{Census, Written};
use crate::{Warnings, erofs, squashfs};

/// Summary of a build.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Length of the image in bytes, without the padding after it.
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
    /// Format-specific figures.
    #[serde(flatten)]
    pub details: Details,
    /// Paths of files left out because they could not be read, with their errors.
    pub left_out: Vec<(String, String)>,
    /// Warnings about sources and entries.
    pub warnings: Warnings,
}

/// Format-specific figures.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Details {
    /// SquashFS.
    Squashfs(squashfs::Details),
    /// EROFS.
    Erofs(erofs::Details),
}

impl Summary {
    pub(super) fn new(census: &Census, written: Written, left_out: Vec<(String, String)>, warnings: Warnings) -> Self {
        let Written { image_bytes, data_bytes, details } = written;
        let Census { inodes, files, directories, file_bytes, .. } = *census;
        let metadata_bytes = image_bytes - data_bytes;
        Summary {
            image_bytes,
            file_bytes,
            data_bytes,
            metadata_bytes,
            inodes,
            files,
            directories,
            details,
            left_out,
            warnings,
        }
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
        match &self.details {
            Details::Squashfs(details) => details.padded_bytes,
            Details::Erofs(_) => self.image_bytes,
        }
    }

    /// Returns the number of file bytes that duplicate earlier ones.
    pub fn duplicate_bytes(&self) -> u64 {
        match &self.details {
            Details::Squashfs(details) => details.data.duplicate_bytes,
            Details::Erofs(details) => details.data.duplicate_bytes,
        }
    }

    /// Returns the number of file bytes that went to a codec.
    pub fn packed_bytes(&self) -> u64 {
        match &self.details {
            Details::Squashfs(details) => details.data.packed_bytes,
            Details::Erofs(details) => details.data.packed_bytes,
        }
    }

    /// Returns the number of file bytes in holes.
    pub fn hole_bytes(&self) -> u64 {
        match &self.details {
            Details::Squashfs(details) => details.data.hole_bytes,
            Details::Erofs(details) => details.data.hole_bytes,
        }
    }
}
