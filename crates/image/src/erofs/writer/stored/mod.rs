//! The data of an image as it is stored, below all stages: physical clusters, tails that follow inodes, the location of each
//! file's data. The stages pass these types on; shards encode them.

pub(crate) mod cluster;
pub(crate) mod data;
pub(crate) mod file;
pub(crate) mod shards;
pub(crate) mod tails;
