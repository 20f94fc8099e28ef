//! What was built: the figures of every format, and those that only one has.

use serde::Serialize;

use super::{Census, Written};
use crate::{Warnings, erofs, squashfs};

/// What was built.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Length of the image, without padding behind it.
    pub image_bytes: u64,
    /// Sum of the lengths of all files, each hard-linked file once.
    pub file_bytes: u64,
    /// Bytes of file data in the image.
    pub data_bytes: u64,
    /// Bytes of everything else in the image.
    pub metadata_bytes: u64,
    /// Inodes.
    pub inodes: u32,
    /// Of these, regular files.
    pub files: u32,
    /// Of these, directories.
    pub directories: u32,
    /// What only the image's format has.
    #[serde(flatten)]
    pub details: Details,
    /// Files left out because they could not be read, and why.
    pub left_out: Vec<(String, String)>,
    /// Warnings about sources and entries.
    pub warnings: Warnings,
}

/// Figures that only one format has.
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

    /// The figures of a SquashFS image.
    pub fn squashfs(&self) -> Option<&squashfs::Details> {
        match &self.details {
            Details::Squashfs(details) => Some(details),
            Details::Erofs(_) => None,
        }
    }

    /// The figures of an EROFS image.
    pub fn erofs(&self) -> Option<&erofs::Details> {
        match &self.details {
            Details::Erofs(details) => Some(details),
            Details::Squashfs(_) => None,
        }
    }

    /// Length of the image with the padding behind it.
    pub fn padded_bytes(&self) -> u64 {
        match &self.details {
            Details::Squashfs(details) => details.padded_bytes,
            Details::Erofs(_) => self.image_bytes,
        }
    }

    /// File bytes that were stored already when they came.
    pub fn duplicate_bytes(&self) -> u64 {
        match &self.details {
            Details::Squashfs(details) => details.data.duplicate_bytes,
            Details::Erofs(details) => details.data.duplicate_bytes,
        }
    }

    /// File bytes that went to a codec.
    pub fn packed_bytes(&self) -> u64 {
        match &self.details {
            Details::Squashfs(details) => details.data.packed_bytes,
            Details::Erofs(details) => details.data.packed_bytes,
        }
    }

    /// File bytes in holes.
    pub fn hole_bytes(&self) -> u64 {
        match &self.details {
            Details::Squashfs(details) => details.data.hole_bytes,
            Details::Erofs(details) => details.data.hole_bytes,
        }
    }
}
