//! Destinations of images: directories, tar archives, listings.
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

/// Returns the number of entries that will be visited; 0 if only a walk would tell. Additional
/// names of files are not counted.
fn count(image: &dyn Image, paths: &[PathBuf], exclude: &Exclude) -> u64 {
    if paths.is_empty() && exclude.is_empty() { image.inode_count() } else { 0 }
}
