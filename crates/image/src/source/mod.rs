//! Sources of file trees: directories, archives, pack lists, images.
//!
//! A [`Source`] lists its entries into a [`Tree`]. File contents stay where they are and are read
//! later through [`Contents`], by many threads at once. Only a source that cannot be read twice (an
//! archive on a pipe) passes its data on while it lists, through [`Store`].

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use packfs_blocks::ReadAt;

use crate::{Error, Result, Tree};

pub mod archive;
mod cpio;
mod device;
pub mod dir;
mod entries;
mod exclude;
mod hot;
mod image;
mod lex;
mod listed;
pub mod open;
pub mod packlist;
mod sniff;
mod sort;
mod spool;

pub use device::{Device, Run};
pub use dir::Dir;
pub use entries::{Entries, Entry};
pub use exclude::Exclude;
pub use hot::HotList;
pub use image::FromImage;
pub use listed::PathList;
pub use open::open;
pub use packlist::PackList;
pub use sort::{SortFile, data_order};
pub use spool::Spool;

pub(crate) mod decompress;
pub(crate) mod readahead;
pub(crate) mod tar;
#[cfg(feature = "zip")]
mod zip;

pub use lex::xattr_value;

/// Lists entries into a tree.
///
/// Contract: of two files with one path, the one from the source scanned later is kept. A scan runs
/// once, on the calling thread; threads that it starts have ended when it returns. The same source
/// gives the same tree every time, whatever the number of threads. A source that can be read only
/// once refuses a second scan with [`Error::Misuse`]. After an error the tree must not be used.
pub trait Source {
    /// Adds all entries to `tree`, replacing those of earlier sources. A source that can be read
    /// only once writes its data to `store` meanwhile.
    fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()>;

    /// Returns errors of entries that the last scan left out, if it was told to continue after errors.
    fn left_out(&self) -> &[Error] {
        &[]
    }
}

/// Passes all calls on, including those with a default.
macro_rules! pass_on {
    ($($pointer:ty),*) => {$(
        impl<S: Source + ?Sized> Source for $pointer {
            fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()> {
                (**self).scan(tree, store)
            }

            fn left_out(&self) -> &[Error] {
                (**self).left_out()
            }
        }
    )*};
}

pass_on!(&mut S, Box<S>);

/// Receives the data of files that can be read only once, in the order of the source.
///
/// Contract: called by one thread at a time, during [`Source::scan`]. `put` reads from `from`
/// exactly the bytes that `data` covers and no longer uses it when it returns; it may continue
/// compressing afterwards. Each call makes a separate file, even for equal bytes. After an error
/// neither the store nor its image can be used.
pub trait Store {
    /// Writes a file of exactly `size` bytes. `data` lists ranges `(offset, length)`, sorted and
    /// within `size`; bytes outside them are holes and are not in `from`. Returns the number for
    /// [`Data::Stored`](crate::tree::Data::Stored).
    fn put(&mut self, from: &mut dyn Read, size: u64, data: &[(u64, u64)]) -> Result<u32>;

    /// Returns device and inode numbers of the files that the store writes to or replaces. Sources
    /// leave them out of the directories they scan.
    fn own_files(&self) -> &[(u64, u64)] {
        &[]
    }
}

/// Files that can be opened at any time, from any thread.
///
/// Contract: keys are those that the source put into its [tree](crate::tree::Data::Source); any
/// other fails with [`Error::Misuse`]. Each key may be opened any number of times, also by several
/// threads at once, in any order, and gives the same bytes each time. If a file cannot be opened,
/// or has changed since it was listed, only that file fails: the others stay readable.
pub trait Contents: Send + Sync {
    /// Opens the file `key`.
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>>;

    /// Returns the name of the file for messages.
    fn path(&self, key: u64) -> PathBuf;

    /// Returns the bytes of the file `key` that lie in the source as they are, in order; what is between them are holes.
    /// `None` if the source does not hold the whole file like that.
    fn runs(&self, _key: u64) -> Result<Option<Vec<Run>>> {
        Ok(None)
    }

    /// Returns where another process finds the same file: a directory, the path below it, and the file's state. `None`
    /// if it cannot be found again.
    fn origin(&self, _key: u64) -> Option<(&Path, Vec<u8>, Seen)> {
        None
    }
}

/// State of a file of a directory when it was listed: length, inode number and times, as much as tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen(pub(crate) [u8; 20]);

impl fmt::Debug for dyn Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

/// Fails if the archive or image at `path` has changed since `bytes` was opened.
fn unchanged(bytes: &dyn ReadAt, path: &Path) -> Result<()> {
    bytes.check_unchanged().map_err(Error::io("cannot read the attributes", path))
}

/// One open file, read by one thread.
///
/// Contract: reads come in any order, and a range may be read twice; builds read from the beginning
/// to the end. `finish` is called once, after the last read. A caller that reads only a part or
/// gives up does not call it.
pub trait FileReader {
    /// Fills `buf` from `offset`; a file that ends early fails with [`Error::Changed`].
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
