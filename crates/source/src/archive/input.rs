//! `ArchiveInput`: an archive read forwards, from a seekable file or from a stream.

use std::io::Read;
use std::path::Path;

use crate::tree::FileData;
use crate::{Error, Result};
use crate::{SourceDevice, Store};

/// The bytes of an archive, in order.
pub(crate) trait ArchiveInput {
    /// Fills `buf`; returns fewer bytes only at the end.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;

    /// Returns the offset of the next byte.
    fn offset(&self) -> u64;

    /// Continues at `to`, which is not before the current offset. Returns `false` if the archive ends before `to`.
    fn skip_to(&mut self, to: u64) -> Result<bool>;

    /// Keeps a file whose data begins here: remembers its position, or passes it to `store`.
    fn keep(&mut self, file: StoredMember, store: &mut dyn Store) -> Result<FileData>;

    /// Returns true if data that is [kept](ArchiveInput::keep) stays where it is, which costs nothing.
    fn keeps_in_place(&self) -> bool;

    /// Returns the archive as a device, after everything was read.
    fn device(&mut self) -> Result<Option<SourceDevice>>;

    /// Returns the name of the archive for messages.
    fn name(&self) -> &Path;

    /// Returns `head`, which was read already, and all bytes that follow, after checking as [`ArchiveInput::finish`]
    /// does.
    fn rest(self, head: Vec<u8>) -> Result<Box<dyn Read + Send>>
    where
        Self: Sized;

    /// Called after everything was read: fails if the archive has changed since it was opened.
    fn finish(self) -> Result<()>
    where
        Self: Sized;
}

/// A range of a file that holds data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataRegion {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A file as stored in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredMember {
    /// Length of the file.
    pub(crate) size: u64,
    /// Bytes of data in the archive.
    pub(crate) len: u64,
    /// Ranges of the file that the data covers; `None` if it is the whole file.
    pub(crate) map: Option<Vec<DataRegion>>,
    /// Offset of the member's first header, for messages.
    pub(crate) header: u64,
    /// Sum of all bytes, modulo 2^32, if the archive has one.
    pub(crate) sum: Option<u32>,
}

impl StoredMember {
    /// Fails if the bytes have another sum than the archive says.
    pub(super) fn check_sum(&self, of: &'static str, found: u32) -> Result<()> {
        match self.sum {
            Some(sum) if sum != found => {
                let why = format!("its data has the checksum {found:08x}, not {sum:08x}: it is damaged");
                Err(Error::corrupt(of, self.header, why))
            }
            _ => Ok(()),
        }
    }
}

/// Adds bytes to a sum of bytes.
pub(super) fn add_up(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, byte| sum.wrapping_add(u32::from(*byte)))
}

/// Makes the error of an archive that ends where `want` bytes of `structure` should be.
pub(crate) fn truncated(structure: &'static str, at: u64, got: u64, want: u64) -> Error {
    Error::corrupt(structure, at, format!("the archive ends after {got} of {want} bytes: it is truncated"))
}
