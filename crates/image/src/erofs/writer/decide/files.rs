//! The files of an image by number: the one whose pieces are arriving, the finished ones, the failed ones.

use std::collections::{BTreeMap, HashMap};

use super::layout::{OpenFile, OpenFileState, PendingFile, PendingLocation, StorageLayout};
use super::rules::{DataRules, FilePolicy};
use crate::build::FailedFiles;
use crate::{Error, OnError, Result};

/// All files so far.
#[derive(Debug)]
pub(super) struct FileTable {
    list: Vec<PendingFile>,
    /// Policies other than the default one, by file.
    policies: HashMap<u32, FilePolicy>,
    open: Option<OpenFile>,
    failed: FailedFiles,
    /// Files that failed after all of their pieces had arrived.
    late: BTreeMap<u32, Error>,
    on_error: OnError,
}

impl FileTable {
    pub(super) fn new(on_error: OnError) -> Self {
        FileTable {
            list: Vec::new(),
            policies: HashMap::new(),
            open: None,
            failed: Vec::new(),
            late: BTreeMap::new(),
            on_error,
        }
    }

    /// Adds a file without data and returns its number.
    pub(super) fn add(&mut self, size: u64, layout: StorageLayout, policy: FilePolicy) -> Result<u32> {
        let file = u32::try_from(self.list.len()).map_err(|_| Error::TooMany { what: "files", max: 1 << 32 })?;
        self.list.push(PendingFile { size, location: PendingLocation::Missing(layout) });
        // Most files have the usual policy. A map of the others keeps it out of `PendingFile`, of which a
        // tree has millions.
        if policy != FilePolicy::default() {
            self.policies.insert(file, policy);
        }
        Ok(file)
    }

    /// Returns how a file is packed.
    pub(super) fn policy(&self, file: u32) -> FilePolicy {
        self.policies.get(&file).copied().unwrap_or_default()
    }

    /// Returns the length of a file in bytes.
    pub(super) fn size(&self, file: u32) -> u64 {
        self.list[file as usize].size
    }

    /// Returns true for a file that is not compressed although others are.
    pub(super) fn is_stored(&self, file: u32) -> bool {
        matches!(self.list[file as usize].location, PendingLocation::Missing(StorageLayout::Sparse))
    }

    /// Takes the open file, or opens `file`; `None` if it failed. `small_len` is the length of the
    /// stream of small files.
    pub(super) fn take_open(&mut self, file: u32, rules: &DataRules, small_len: u64) -> Option<OpenFile> {
        // More blocks of a failed file may be on their way. Files come one after the other, so only the last
        // failure can be its own.
        if self.failed.last().is_some_and(|(failed, _)| *failed == file) {
            return None;
        }
        if let Some(open) = self.open.take() {
            debug_assert_eq!(open.file, file, "files come one after the other");
            return Some(open);
        }
        match self.list[file as usize].location {
            PendingLocation::Missing(layout) => {
                Some(OpenFile { file, at: 0, state: OpenFileState::new(layout, rules, small_len) })
            }
            _ => None,
        }
    }

    /// Takes the open file once all of it has arrived.
    pub(super) fn take_whole(&mut self) -> Option<OpenFile> {
        self.open.take()
    }

    /// Puts the open file back.
    pub(super) fn put_open(&mut self, open: OpenFile) {
        self.open = Some(open);
    }

    /// Sets the location of a file.
    pub(super) fn put(&mut self, file: u32, location: PendingLocation) {
        self.list[file as usize].location = location;
    }

    /// Sets the location of a file to that of another one.
    pub(super) fn put_same(&mut self, file: u32, other: u32) {
        self.list[file as usize] = self.list[other as usize].clone();
    }

    /// Records that a file cannot be read, unless that ends the build. More of its pieces may arrive, but it is
    /// reported once. Its data already written is cleared at the end.
    pub(super) fn fail(&mut self, file: u32, error: Error) -> Result<()> {
        self.open = None;
        if !self.on_error.skips(&error) {
            return Err(error);
        }
        if self.failed.last().is_none_or(|(last, _)| *last != file) {
            self.failed.push((file, error));
        }
        Ok(())
    }

    /// Records that a worker could not copy bytes of a file, unless that ends the build.
    pub(super) fn fail_late(&mut self, file: u32, error: Error) -> Result<()> {
        if !self.on_error.skips(&error) {
            return Err(error);
        }
        self.late.entry(file).or_insert(error);
        Ok(())
    }

    /// Returns all files, and those that failed.
    pub(super) fn finish(mut self) -> (Vec<PendingFile>, FailedFiles) {
        self.failed.extend(self.late);
        (self.list, self.failed)
    }
}
