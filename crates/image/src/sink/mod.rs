//! Where images go: directories, tar archives, listings.
//!
//! Each sink follows a [`Walk`] over an [`Image`], whatever its format.

pub mod dir;
#[cfg(test)]
pub(crate) mod fake;
mod lookup;
pub mod tar;
mod walk;

pub use lookup::{lookup, resolve};
pub use walk::{Visit, Walk};

use std::path::PathBuf;

use crate::image::Image;
use crate::source::Exclude;

/// Entries that will be met; 0 where only a walk would tell. Further names of files are not among them.
fn count(image: &dyn Image, paths: &[PathBuf], exclude: &Exclude) -> u64 {
    if paths.is_empty() && exclude.is_empty() { image.inode_count() } else { 0 }
}
