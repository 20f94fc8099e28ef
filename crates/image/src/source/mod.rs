//! Where trees come from: directories, tar archives, pack lists, images.
//!
//! A [`Source`] lists its entries into a [`Tree`]. Contents stay where they are and are read
//! later through [`Contents`], from many threads at once; only a source that cannot be read twice (a tar
//! on a pipe) hands its data over while it lists, through [`Store`].

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use packfs_blocks::ReadAt;

use crate::{Error, Result, Tree};

pub mod dir;
mod entries;
mod exclude;
mod image;
mod lex;
pub mod open;
pub mod packlist;
mod sniff;
mod sort;
mod spool;

pub use dir::Dir;
pub use entries::{Entries, Entry};
pub use exclude::Exclude;
pub use image::FromImage;
pub use open::open;
pub use packlist::PackList;
pub use sort::{SortFile, data_order};
pub use spool::Spool;

pub(crate) mod decompress;
pub(crate) mod readahead;
pub mod tar;

/// Lists entries into a tree.
///
/// Contract: the order in which sources are scanned decides which of two files of one path is kept: the later one. One
/// scan, on the calling thread; what a scan starts in other threads has ended when it returns. The same source gives the
/// same tree every time, whatever the number of threads. A source that can be read only once refuses a second scan with
/// [`Error::Misuse`]. After an error the tree is of no use.
pub trait Source {
    /// Adds everything to `tree`, over what earlier sources put there. A source that can be read only
    /// once puts its data down through `store` on the way.
    fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()>;

    /// What the last scan left out because it could not be read, if it was told to go on.
    fn left_out(&self) -> &[Error] {
        &[]
    }
}

/// Takes the data of files that can be read only once, in the order they come.
///
/// Contract: called by one thread at a time, during [`Source::scan`]. `put` reads `from` exactly as far as `data` says
/// and has finished with it when it returns; it may go on compressing afterwards. Each call makes a file of its own, also
/// for equal bytes. After an error neither the store nor the image it belongs to can be used.
pub trait Store {
    /// Puts down a file of exactly `size` bytes; bytes outside `data` (sorted, within `size`, ranges of
    /// `(offset, length)`) are holes and do not come through `from`. Returns the number for
    /// [`Data::Stored`](crate::tree::Data::Stored).
    fn put(&mut self, from: &mut dyn Read, size: u64, data: &[(u64, u64)]) -> Result<u32>;

    /// Device and inode numbers of the files that the store writes to or replaces: sources leave them out of the
    /// directories they scan.
    fn own_files(&self) -> &[(u64, u64)] {
        &[]
    }
}

/// Files that can be opened at any time, from any thread.
///
/// Contract: keys are those that the source gave out in its [tree](crate::tree::Data::Source); any other is
/// [`Error::Misuse`]. Each key may be opened any number of times, also by several threads at once, in any order, and gives
/// the same bytes each time. A file that cannot be opened, or is not as it was listed, is an error of that file alone:
/// the others stay readable.
pub trait Contents: Send + Sync {
    /// Opens the file `key`.
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>>;

    /// What to call the file in messages.
    fn path(&self, key: u64) -> PathBuf;
}

impl fmt::Debug for dyn Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

/// Fails if the archive or image at `path` is not what it was when `bytes` was opened.
fn unchanged(bytes: &dyn ReadAt, path: &Path) -> Result<()> {
    bytes.check_unchanged().map_err(|error| match error.raw_os_error() {
        Some(_) => Error::io("cannot read the attributes", path)(error),
        None => Error::Changed { path: path.to_owned(), why: error.to_string() },
    })
}

/// One open file, read by one thread.
///
/// Contract: reads come in any order, and a range may be read twice; builds read from the beginning to the end. `finish`
/// is called once, after the last read, and not at all where a caller wants only a part or gives the file up.
pub trait FileReader {
    /// Fills `buf` from `offset`; a file that ends before is [`Error::Changed`].
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()>;

    /// The next range of data at or after `offset` as (start, end): what lies between is a hole. `None`
    /// when only a hole follows. Where holes cannot be told, the rest of the file.
    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>>;

    /// Called when all was read: says whether the file is still the one that was listed.
    fn finish(&mut self) -> Result<()>;
}
