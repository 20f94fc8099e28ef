//! Emits the metadata once all data has its place: indexes, inodes, directories, extended attributes, superblock.

pub(crate) mod devices;
pub(crate) mod digest_xattr;
pub(crate) mod dir;
pub(crate) mod epoch;
pub(crate) mod index;
pub(crate) mod inode;
pub(crate) mod late_stream;
pub(crate) mod metadata;
pub(crate) mod metadata_stream;
pub(crate) mod payload;
pub(crate) mod prove;
pub(crate) mod superblock;
pub(crate) mod xattr;
