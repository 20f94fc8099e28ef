//! A file system for tests that counts its operations and makes them fail: with a full disk, an I/O
//! error, a torn write, or a delay.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::file_system::{FileSystem, SystemFiles};
use super::storage::Storage;

use crate::mutex;

/// Kind of failure of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The disk is full: this and all later writes fail with `ENOSPC`.
    Full,
    /// This operation fails with `EIO`.
    Io,
    /// Half of the bytes are written before `EIO`; operations other than writes just fail.
    Torn,
    /// The user may not do it: this operation fails with `EACCES`.
    Forbidden,
}

impl FaultKind {
    /// All kinds of which no operation can recover.
    pub const ALL: [FaultKind; 3] = [FaultKind::Full, FaultKind::Io, FaultKind::Torn];

    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            FaultKind::Full => libc::ENOSPC,
            FaultKind::Io | FaultKind::Torn => libc::EIO,
            FaultKind::Forbidden => libc::EACCES,
        })
    }
}

/// A file system on which one operation fails. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct FaultyFiles(Arc<FaultState>);

#[derive(Debug, Default)]
struct FaultState {
    /// Number of operations so far.
    count: AtomicU64,
    /// Number of the failing operation, and its kind of failure.
    fail: Option<(u64, FaultKind)>,
    no_unnamed: bool,
    delay: Option<Duration>,
    /// Name of the operation that failed first.
    failed: Mutex<Option<&'static str>>,
}

impl FaultyFiles {
    /// Makes a file system that only counts.
    pub fn new() -> Self {
        FaultyFiles::default()
    }

    /// Makes a file system whose operation `number`, counted from 0, fails.
    pub fn failing(number: u64, fault: FaultKind) -> Self {
        FaultyFiles(Arc::new(FaultState { fail: Some((number, fault)), ..FaultState::default() }))
    }

    /// Disables `O_TMPFILE`. Call it before the first operation only.
    #[must_use]
    pub fn without_unnamed(self) -> Self {
        self.with(|state| state.no_unnamed = true)
    }

    /// Delays writes by varying times, so that they finish in another order than they began. Call
    /// it before the first operation only.
    #[must_use]
    pub fn slow(self, delay: Duration) -> Self {
        self.with(|state| state.delay = Some(delay))
    }

    /// Returns the number of operations so far.
    pub fn operations(&self) -> u64 {
        self.0.count.load(Relaxed)
    }

    /// Returns the name of the operation that failed, if it was reached.
    pub fn failed(&self) -> Option<&'static str> {
        *mutex::lock(&self.0.failed)
    }

    fn with(mut self, change: impl FnOnce(&mut FaultState)) -> Self {
        if let Some(state) = Arc::get_mut(&mut self.0) {
            change(state);
        }
        self
    }

    /// Counts an operation; fails if it is the one to fail.
    fn next(&self, name: &'static str, is_write: bool) -> Result<(), FaultKind> {
        let number = self.0.count.fetch_add(1, Relaxed);
        if let Some(delay) = self.0.delay.filter(|_| is_write) {
            // Any sequence with jumps will do.
            std::thread::sleep(delay * u32::try_from(number * 7 % 5).unwrap_or(0));
        }
        match self.0.fail {
            Some((at, fault)) if number == at || (number > at && is_write && fault == FaultKind::Full) => {
                mutex::lock(&self.0.failed).get_or_insert(name);
                Err(fault)
            }
            _ => Ok(()),
        }
    }

    fn check(&self, name: &'static str) -> io::Result<()> {
        self.next(name, false).map_err(FaultKind::error)
    }
}

impl FileSystem for FaultyFiles {
    fn create_unnamed(&self, dir: &Path, mode: u32) -> io::Result<Box<dyn Storage>> {
        if self.0.no_unnamed {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.check("create a file without a name")?;
        let inner = SystemFiles.create_unnamed(dir, mode)?;
        Ok(Box::new(FaultyStorage { inner, faults: self.clone() }))
    }

    fn create_new(&self, path: &Path, mode: u32) -> io::Result<Box<dyn Storage>> {
        self.check("create a file")?;
        let inner = SystemFiles.create_new(path, mode)?;
        Ok(Box::new(FaultyStorage { inner, faults: self.clone() }))
    }

    fn adopt(&self, inner: Box<dyn Storage>) -> Box<dyn Storage> {
        Box::new(FaultyStorage { inner, faults: self.clone() })
    }

    fn link(&self, file: &dyn Storage, path: &Path) -> io::Result<()> {
        self.check("link")?;
        SystemFiles.link(file, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check("rename")?;
        SystemFiles.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check("rename without replacing")?;
        SystemFiles.rename_new(from, to)
    }

    /// Never fails: tests check that files left after a fault are removed.
    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.check("flush the directory")?;
        SystemFiles.sync_dir(dir)
    }
}

/// A file on a file system with faults.
#[derive(Debug)]
struct FaultyStorage {
    inner: Box<dyn Storage>,
    faults: FaultyFiles,
}

impl Storage for FaultyStorage {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.faults.next("write", true) {
            Ok(()) => self.inner.write_all_at(bytes, offset),
            Err(fault) => {
                let torn = &bytes[..if fault == FaultKind::Torn { bytes.len() / 2 } else { 0 }];
                self.inner.write_all_at(torn, offset)?;
                Err(fault.error())
            }
        }
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.check("set the length")?;
        self.inner.set_len(len)
    }

    fn is_fixed(&self) -> bool {
        self.inner.is_fixed()
    }

    fn zero_at(&self, offset: u64, len: u64) -> io::Result<()> {
        self.faults.next("zero", true).map_err(FaultKind::error)?;
        self.inner.zero_at(offset, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.check("flush")?;
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.faults.check("flush")?;
        self.inner.sync_all()
    }

    fn file(&self) -> Option<&File> {
        self.inner.file()
    }
}
