//! What tests of images share, besides what [`packfs_source::testing`] has for all crates: oracles that judge single bytes
//! of an image.

#[cfg(test)]
mod flipped;
#[cfg(test)]
mod fuse;
#[cfg(test)]
pub mod mutate;
#[cfg(test)]
pub mod probe;
#[cfg(test)]
mod readings;
#[cfg(test)]
mod sharing;
#[cfg(test)]
pub mod streams;
#[cfg(test)]
pub mod verdict;

pub use packfs_source::testing::*;

#[cfg(test)]
pub use flipped::Flipped;
#[cfg(test)]
pub use fuse::{FuseMount, can_mount_by_fuse};
#[cfg(test)]
pub use readings::misreadings;
#[cfg(test)]
pub use sharing::sharing_files;
