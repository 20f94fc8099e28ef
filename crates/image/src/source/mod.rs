//! Where trees come from: directories, tar archives, pack lists, images.
//!
//! A [`Source`] lists its entries into a [`Tree`]. Contents stay where they are and are read
//! later through [`Contents`], from many threads at once; only a source that cannot be read twice (a tar
//! on a pipe) hands its data over while it lists, through [`Store`].

use std::fmt;
use std::io::Read;
use std::path::PathBuf;

use crate::{Error, Result, Tree};

pub mod dir;
mod exclude;
mod image;
mod lex;
pub mod open;
pub mod packlist;
mod sort;
mod spool;

pub use dir::Dir;
pub use exclude::Exclude;
pub use image::FromImage;
pub use open::open;
pub use packlist::PackList;
pub use sort::{DataOrder, SortFile, data_order};
pub use spool::Spool;

pub(crate) mod decompress;
pub(crate) mod readahead;
pub mod tar;

/// Lists entries into a tree.
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

/// One open file, read by one thread.
pub trait FileReader {
    /// Fills `buf` from `offset`; a file that ends before is [`Error::Changed`].
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()>;

    /// The next range of data at or after `offset` as (start, end): what lies between is a hole. `None`
    /// when only a hole follows. Where holes cannot be told, the rest of the file.
    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>>;

    /// Called when all was read: says whether the file is still the one that was listed.
    fn finish(&mut self) -> Result<()>;
}
