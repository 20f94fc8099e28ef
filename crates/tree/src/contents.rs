//! Access to the data of files, which stays in the source until a build reads it.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::device::StayingData;

/// Files that can be opened at any time, from any thread.
///
/// Contract: keys are those that the source put into its [tree](crate::tree::FileData::Source); any
/// other fails with [`Error::Misuse`](crate::Error::Misuse). Each key may be opened any number of times, also by several
/// threads at once, in any order, and gives the same bytes each time. If a file cannot be opened,
/// or has changed since it was listed, only that file fails: the others stay readable.
pub trait Contents: Send + Sync {
    /// Opens the file `key`.
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>>;

    /// Returns the name of the file for messages.
    fn path(&self, key: u64) -> PathBuf;

    /// Returns where the source holds the bytes of the file `key`, for an image that refers to them; `None` if they have to
    /// be copied.
    fn staying_data(&self, _key: u64) -> Result<Option<StayingData>> {
        Ok(None)
    }

    /// Returns where another process finds the same file: a directory, the path below it, and the file's state. `None`
    /// if it cannot be found again.
    fn origin(&self, _key: u64) -> Option<(&Path, Vec<u8>, FileFingerprint)> {
        None
    }
}

/// State of a file of a directory when it was listed: length, inode number and times, as much as tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFingerprint(pub [u8; 20]);

impl FileFingerprint {
    /// Bit of the first number, the length in bytes, that says that less is stored, so that there may be holes. No file
    /// is so long.
    pub const SPARSE: u64 = 1 << 63;

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn size(self) -> u64 {
        // The first number is the size: `SPARSE` alone is no part of it.
        let first = self.0.first_chunk().expect("20 bytes are more than 8");
        u64::from_le_bytes(*first) & !FileFingerprint::SPARSE
    }
}

impl fmt::Debug for dyn Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

/// One open file, read by one thread.
///
/// Contract: reads come in any order, and a range may be read twice; builds read from the beginning
/// to the end. `finish` is called once, after the last read. A caller that reads only a part or
/// gives up does not call it.
pub trait FileReader {
    /// Fills `buf` from `offset`; a file that ends early fails with [`Error::Changed`](crate::Error::Changed).
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()>;

    /// Returns the next range of data at or after `offset` as (start, end); bytes before it are a
    /// hole. `None` if only a hole follows. Returns the rest of the file if holes cannot be
    /// detected.
    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>>;

    /// Returns the open file itself, for a copy by the kernel; `None` if its bytes lie elsewhere.
    fn file(&self) -> Option<&File> {
        None
    }

    /// Called after the last read: fails if the file has changed since it was listed.
    fn finish(&mut self) -> Result<()>;
}
