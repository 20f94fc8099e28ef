//! `Input`: an archive read forwards, from a file that can be hopped through or from a stream.

use std::path::Path;

use super::format::BLOCK;
use super::sparse::Region;
use crate::source::Store;
use crate::tree::Data;
use crate::{Error, Result};

/// The bytes of an archive, in order.
pub(super) trait Input {
    /// Fills `buf`; fewer bytes than it holds only at the end.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;

    /// Where the next byte comes from.
    fn offset(&self) -> u64;

    /// Goes on at `to`, which is not behind. `false` when the archive ends before.
    fn skip_to(&mut self, to: u64) -> Result<bool>;

    /// Keeps a file whose data begins here: remembers where it is, or hands it to `store`.
    fn keep(&mut self, file: Stored, store: &mut dyn Store) -> Result<Data>;

    /// What the archive is called in messages.
    fn name(&self) -> &Path;

    /// Everything was read: fails if the archive is not what it was when it was opened.
    fn finish(self) -> Result<()>
    where
        Self: Sized;
}

/// A file as an archive holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// Length of the file.
    pub(super) size: u64,
    /// Bytes of data in the archive.
    pub(super) len: u64,
    /// Where the data belongs in the file; `None` when it is the whole file.
    pub(super) map: Option<Vec<Region>>,
    /// Offset of the member's first header, for messages.
    pub(super) header: u64,
}

/// The next block of `structure`, which must be there whole.
pub(super) fn read_block(input: &mut dyn Input, structure: &'static str) -> Result<[u8; BLOCK]> {
    let at = input.offset();
    let mut block = [0; BLOCK];
    match input.read(&mut block)? {
        BLOCK => Ok(block),
        got => Err(truncated(structure, at, got as u64, BLOCK as u64)),
    }
}

/// The archive ends where `want` bytes of `structure` should be.
pub(super) fn truncated(structure: &'static str, at: u64, got: u64, want: u64) -> Error {
    Error::corrupt(structure, at, format!("the archive ends after {got} of {want} bytes: it is truncated"))
}
