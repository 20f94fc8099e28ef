//! `Input`: an archive read forwards, from a seekable file or from a stream.

use std::path::Path;

use super::format::BLOCK;
use super::sparse::Region;
use crate::source::Store;
use crate::tree::Data;
use crate::{Error, Result};

/// The bytes of an archive, in order.
pub(super) trait Input {
    /// Fills `buf`; returns fewer bytes only at the end.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;

    /// Returns the offset of the next byte.
    fn offset(&self) -> u64;

    /// Continues at `to`, which is not before the current offset. Returns `false` if the archive ends before `to`.
    fn skip_to(&mut self, to: u64) -> Result<bool>;

    /// Keeps a file whose data begins here: remembers its position, or passes it to `store`.
    fn keep(&mut self, file: Stored, store: &mut dyn Store) -> Result<Data>;

    /// Returns the name of the archive for messages.
    fn name(&self) -> &Path;

    /// Called after everything was read: fails if the archive has changed since it was opened.
    fn finish(self) -> Result<()>
    where
        Self: Sized;
}

/// A file as stored in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// Length of the file.
    pub(super) size: u64,
    /// Bytes of data in the archive.
    pub(super) len: u64,
    /// Ranges of the file that the data covers; `None` if it is the whole file.
    pub(super) map: Option<Vec<Region>>,
    /// Offset of the member's first header, for messages.
    pub(super) header: u64,
}

/// Reads the next block of `structure`, which must be complete.
pub(super) fn read_block(input: &mut dyn Input, structure: &'static str) -> Result<[u8; BLOCK]> {
    let at = input.offset();
    let mut block = [0; BLOCK];
    match input.read(&mut block)? {
        BLOCK => Ok(block),
        got => Err(truncated(structure, at, got as u64, BLOCK as u64)),
    }
}

/// Makes the error of an archive that ends where `want` bytes of `structure` should be.
pub(super) fn truncated(structure: &'static str, at: u64, got: u64, want: u64) -> Error {
    Error::corrupt(structure, at, format!("the archive ends after {got} of {want} bytes: it is truncated"))
}
