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
pub use packfs_source::{
    Dir, Entries, Entry, HotList, LazySpool, PackList, PathList, SortFile, Source, Spool, Store, archive, data_order,
    decompress, dir, packlist,
};
pub(crate) use packfs_source::{tar, unchanged};
pub use packfs_tree::{
    ClusterDecoder, ClusteredImage, Contents, Device, Exclude, ExtentStorage, FileReader, PackedStream, Run, Seen,
    StayingData, StoredExtent, xattr_value,
};
