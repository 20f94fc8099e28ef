//! dm-verity: a hash tree beside or after an image, with the bytes that `veritysetup format` writes.
//!
//! The hash area begins with a superblock, if it has one, which takes a whole hash block. The tree follows, its highest
//! level first. Source: Documentation/admin-guide/device-mapper/verity.rst of Linux, and the on-disk format that
//! cryptsetup describes in its wiki ("DMVerity").

mod area;
mod build;
mod check;
mod options;
mod superblock;
mod uuid;

pub use area::HashArea;
pub use build::{VeritySeal, seal};
pub use check::{VerityFinding, verify};
pub use options::VerityOptions;
pub use superblock::{SUPERBLOCK_LEN, Superblock};
pub use uuid::Uuid;

pub(crate) use superblock::SALT_MAX;
