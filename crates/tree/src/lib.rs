//! The file tree that [packfs-image](https://docs.rs/packfs-image) packs, and the view of an image that it reads.
//!
//! - [`tree`]: inodes without data, names and attributes, between a source and a writer; [`Contents`] finds their data.
//! - [`rules`]: tests that choose entries of a tree, and what becomes of them.
//! - [`image`]: the trait of an open image of any format.
//! - [`encoding`]: bytes of the files that tasks of a build hand on.
//!
//! Use packfs-image, which shows what programs need of this crate. What it does not show may change in any release.

mod contents;
mod device;
pub mod encoding;
mod error;
mod exclude;
mod finding;
pub mod image;
mod part;
mod recipes;
pub mod regex;
pub mod rules;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tree;
mod warning;
mod xattr_value;

pub use contents::{Contents, FileReader, Seen};
pub use device::{ClusterDecoder, ClusteredImage, Device, ExtentStorage, PackedStream, Run, StayingData, StoredExtent};
pub use error::{Error, Excess, OnError, Result};
pub use exclude::Exclude;
pub use finding::{Finding, Remark, Report, Severity};
pub use image::Image;
pub use packfs_blocks::name;
pub use part::Part;
pub use recipes::{Rank, Recipes};
pub use tree::Tree;
pub use warning::{Counted, Warning, WarningKind, Warnings};
pub use xattr_value::{decode_base64, xattr_value};
