//! Stands in for `dir` where directories cannot be scanned: on any system but Linux. Naming one as a source is an
//! error.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use crate::scan::{LinkPolicy, SingleFile};
pub use crate::scan::{Options, Receive, Scanned, Streamed};
use crate::tree::{FileData, Ino, InodeAttributes};
use crate::{Contents, Error, FileFingerprint, Part, Result, Source, Store, Tree};

fn unsupported<T>(path: &Path) -> Result<T> {
    let why = "files and directories are packed on Linux only: pack an archive or entries instead";
    Err(Error::Unsupported(format!("{}: {why}", crate::name::display(path))))
}

/// A directory or file of the running system, which cannot be scanned.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
}

impl Dir {
    /// Makes a source whose scan fails.
    pub fn new(path: impl Into<PathBuf>, _options: Options) -> Self {
        Dir { path: path.into() }
    }

    pub(super) fn noting_all(self) -> Self {
        self
    }

    pub(super) fn take_found(&mut self) -> HashMap<(u64, u64), Ino> {
        HashMap::new()
    }

    pub(super) fn scan_into(&mut self, _tree: &mut Tree, _at: Ino) -> Result<()> {
        unsupported(&self.path)
    }

    pub(super) fn take_left_out(&mut self) -> Vec<Error> {
        Vec::new()
    }
}

impl Source for Dir {
    fn scan(&mut self, _tree: &mut Tree, _store: &mut dyn Store) -> Result<()> {
        unsupported(&self.path)
    }
}

/// Single files of the running system, of which none is found.
pub(crate) struct SingleFiles;

impl SingleFiles {
    pub(crate) fn new(_xattrs: bool) -> Result<Self> {
        Ok(SingleFiles)
    }

    pub(crate) fn find(&mut self, _tree: &mut Tree, path: &Path, _links: LinkPolicy) -> Result<SingleFile> {
        unsupported(path)
    }

    pub(crate) fn find_any(&mut self, _tree: &mut Tree, path: &Path, _links: LinkPolicy) -> Result<SingleFile> {
        unsupported(path)
    }

    pub(crate) fn find_regular(&mut self, _tree: &mut Tree, path: &Path) -> Result<(InodeAttributes, u64, FileData)> {
        unsupported(path)
    }

    pub(crate) fn finish(self) {}
}

/// Parts of a scan, which cannot be made here.
#[derive(Debug)]
pub struct Parts;

impl Parts {
    /// Fails.
    pub fn open(_paths: &[PathBuf], sources: &[PathBuf], _options: &Options) -> Result<Arc<Parts>> {
        unsupported(sources.first().map_or(Path::new("."), PathBuf::as_path))
    }
}

/// Fails: a part of a scan is a scan.
pub fn scan_part(
    sources: &[PathBuf],
    _options: &Options,
    _part: Part,
    (_target, _replace): (&Path, bool),
) -> Result<Scanned> {
    unsupported(sources.first().map_or(Path::new("."), PathBuf::as_path))
}

/// Fails: a directory was listed by another system.
pub fn reopen(root: &Path, _listed: &[(Vec<u8>, FileFingerprint)]) -> Result<Arc<dyn Contents>> {
    unsupported(root)
}

/// Fails: there are no parts of a scan.
pub fn stream(path: &Path, _options: &Options, _to: &mut dyn Receive) -> Result<()> {
    unsupported(path)
}
