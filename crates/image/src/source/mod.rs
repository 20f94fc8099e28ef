//! Sources of file trees: directories, archives, pack lists, images.
//!
//! A [`Source`] lists its entries into a [`Tree`](crate::Tree). File contents stay where they are and are read
//! later through [`Contents`], by many threads at once. Only a source that cannot be read twice (an
//! archive on a pipe) passes its data on while it lists, through [`Store`].

#[cfg(test)]
mod changed_tests;
mod image;
pub mod open;

pub use image::FromImage;
pub use open::open;
pub use packfs_source::{Dir, Entries, Entry, HotList, LazySpool, PackList, SortFile, Source, Spool, Store, archive};
pub(crate) use packfs_source::{PathList, data_order, tar, unchanged};
pub(crate) use packfs_tree::{
    ClusterDecoder, ClusteredImage, DataRun, ExtentStorage, PackedStream, SourceDevice, StayingData, StoredExtent,
};
pub use packfs_tree::{Contents, ExcludeRules, FileFingerprint, FileReader, xattr_value};

/// Directories and files of the running system.
pub mod dir {
    pub use packfs_source::dir::{Options, Parts, Scanned, scan_part};
    pub(crate) use packfs_source::dir::{Receive, Streamed, reopen, stream};
}

/// Compressed archives.
pub mod decompress {
    pub use packfs_source::decompress::reader;
    pub(crate) use packfs_source::decompress::{is_out_of_memory, out_of_memory};
}

/// Pack lists: text that describes entries.
pub mod packlist {
    pub(crate) use packfs_source::packlist::DATA_MARK;
    pub use packfs_source::packlist::read_lines;
}
