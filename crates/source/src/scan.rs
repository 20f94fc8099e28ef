//! Options and results of directory scans. They exist on every system, so that callers compile where nothing can be
//! scanned; `dir` scans on Linux.

use std::sync::Arc;

use packfs_blocks::Progress;
use serde::Serialize;

use crate::dir::Parts;
use crate::tree::{InodeAttributes, Kind, XattrSet};
use crate::{ExcludeRules, FileFingerprint, OnError, Result};

packfs_blocks::options!(Options);

/// Options of a scan.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Worker threads; 0 scans on the calling thread. The tree is the same for any number.
    pub threads: usize,
    /// True to stay on one file system: mount points become empty directories.
    pub one_file_system: bool,
    /// True to leave out mount points as well.
    pub no_mount_points: bool,
    /// Entries to leave out.
    pub exclude: ExcludeRules,
    /// True to read extended attributes. All that the system shows are taken; a format that cannot
    /// store one refuses it.
    pub xattrs: bool,
    /// Action for entries that cannot be read.
    pub on_error: OnError,
    /// True if lines of a [`PackList`](crate::PackList) do not replace entries that the tree has already: those stay,
    /// as after an error that is skipped.
    pub keep_existing: bool,
    /// Device and inode numbers of files to leave out. [`Dir`](crate::Dir) and [`PackList`](crate::PackList)
    /// add those of the image being written, and of the one it replaces.
    pub leave_out: Vec<(u64, u64)>,
    /// Counts the entries found; cancelling it stops the scan.
    pub progress: Option<Arc<Progress>>,
    /// Parts of an earlier scan, from which directories are taken that they begin with, instead of being read.
    pub parts: Option<Arc<Parts>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: packfs_blocks::pipeline::cores(),
            one_file_system: false,
            no_mount_points: false,
            exclude: ExcludeRules::default(),
            xattrs: true,
            on_error: OnError::Stop,
            keep_existing: false,
            leave_out: Vec::new(),
            progress: None,
            parts: None,
        }
    }
}

/// Treatment of a symbolic link as the last component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkPolicy {
    Follow,
    Keep,
}

/// A file found.
#[derive(Debug)]
pub(crate) struct SingleFile {
    pub(crate) meta: InodeAttributes,
    pub(crate) kind: Kind,
    /// Device and inode number: equal for all names of one file.
    pub(crate) id: (u64, u64),
    /// True if the file has other names.
    pub(crate) linked: bool,
}

/// Summary of a part of a scan.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "ScanPart"))]
#[non_exhaustive]
pub struct Scanned {
    /// Number of entries that belong to the part.
    pub entries: u64,
    /// Length of the part.
    pub part_bytes: u64,
}

/// Receives entries, and keeps the list of directories whose entries are still to come.
pub trait Receive {
    /// Takes the root directory.
    fn root(&mut self, entry: Streamed) -> Result<()>;

    /// Takes an entry of the directory that was returned last, whose path is given.
    fn entry(&mut self, dir: &[u8], entry: Streamed) -> Result<()>;

    /// Returns the path of the next directory, in the order in which entries that [enter](Streamed::enters) were taken.
    fn next_dir(&mut self) -> Result<Option<Vec<u8>>>;
}

/// An entry without its data.
#[derive(Debug)]
pub struct Streamed {
    /// Name in its directory.
    pub name: Box<[u8]>,
    /// Attributes, but for the extended ones.
    pub meta: InodeAttributes,
    /// Extended attributes.
    pub xattrs: XattrSet,
    /// Type; a file has its size, but no data.
    pub kind: Kind,
    /// State of a file, by which its content is known again.
    pub seen: FileFingerprint,
    /// Equal for all names of a file that has several.
    pub link: Option<(u64, u64)>,
    /// True for a directory whose entries belong to the scan.
    pub enters: bool,
}
