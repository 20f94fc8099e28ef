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

pub use contents::{Contents, FileFingerprint, FileReader};
pub use device::{
    ClusterDecoder, ClusteredImage, DataRun, ExtentStorage, PackedStream, SourceDevice, StayingData, StoredExtent,
};
pub use error::{Error, ExceededLimit, OnError, Result};
pub use exclude::ExcludeRules;
pub use finding::{CheckRemark, Finding, FindingCollector, Severity};
pub use image::Image;
pub use packfs_blocks::name;
pub use part::Part;
pub use recipes::{FileRank, RecipeTable};
pub use tree::Tree;
pub use warning::{CountedWarnings, Warning, WarningKind, Warnings};
pub use xattr_value::{decode_base64, xattr_value};
