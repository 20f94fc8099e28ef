//! Gives everything its place: clusters in the data zone, inodes and directories in the metadata zone, and both within the
//! reach of block addresses. Places of inodes depend on their lengths, which [`emit`](super::emit) knows.

pub(crate) mod data_zone;
pub(crate) mod metadata_zone;
pub(crate) mod reach;
pub(crate) mod space;
pub(crate) mod unused;
