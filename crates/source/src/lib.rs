//! Sources of the file trees that [packfs-image](https://docs.rs/packfs-image) packs: directories, archives, pack lists.
//!
//! A [`Source`] lists its entries into a [`Tree`]. File contents stay where they are and are read later through
//! [`Contents`], by many threads at once. Only a source that cannot be read twice (an archive on a pipe) passes its
//! data on while it lists, through [`Store`].
//!
//! Programs should use packfs-image, which re-exports what they need and adds images as sources. Anything else in this
//! crate may change in any release.

use std::io::Read;
use std::path::Path;

use packfs_blocks::{ReadAt, name};
use packfs_tree::{
    Contents, DataRun, Error, ExcludeRules, FileFingerprint, FileRank, FileReader, OnError, Part, Result, SourceDevice,
    StayingData, Tree, Warning, WarningKind, tree, xattr_value,
};

pub mod archive;
mod cpio;
#[cfg_attr(not(target_os = "linux"), path = "dir_portable.rs")]
pub mod dir;
mod entries;
mod hot;
mod lex;
mod listed;
pub mod packlist;
mod scan;
mod sniff;
mod sort;
mod spool;
mod stream_formats;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub mod decompress;
mod readahead;
pub mod tar;
#[cfg(feature = "zip")]
mod zip;

pub use dir::Dir;
pub use entries::{Entries, Entry};
pub use hot::HotList;
pub use listed::PathList;
pub use packlist::PackList;
pub use sniff::{FileFormat, SNIFF_LEN, is_archive_name, is_empty_tar, sniff};
pub use sort::{SortFile, data_order};
pub use spool::{LazySpool, Spool};
pub use stream_formats::{STREAM_FORMATS, StreamCodec, StreamFormat, StreamSupport};

packfs_blocks::options!(archive::Options);

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

/// Implements [`Source`] for pointers. Methods with a default are passed on, too: otherwise a boxed source would seem
/// to leave out nothing.
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
    /// [`FileData::Stored`](crate::tree::FileData::Stored).
    fn put(&mut self, from: &mut dyn Read, size: u64, data: &[(u64, u64)]) -> Result<u32>;

    /// Returns device and inode numbers of the files that the store writes to or replaces. Sources
    /// leave them out of the directories they scan.
    fn own_files(&self) -> &[(u64, u64)] {
        &[]
    }
}

/// Fails if the archive or image at `path` has changed since `bytes` was opened.
pub fn unchanged(bytes: &dyn ReadAt, path: &Path) -> Result<()> {
    bytes.check_unchanged().map_err(Error::io("cannot read the attributes", path))
}
