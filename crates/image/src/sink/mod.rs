//! Destinations of images: directories, tar archives, listings.
//!
//! Each sink follows a [`Walk`] over an [`Image`], whatever its format.

mod altered;
pub mod compress;
pub mod dir;
#[cfg(test)]
pub(crate) mod fake;
mod lookup;
mod select;
pub mod tar;
mod walk;

pub use altered::Altered;
pub use lookup::{lookup, resolve};
pub use select::Selection;
pub use walk::{Visit, Walk};

use crate::image::Image;

/// Returns the number of entries that will be visited; 0 if only a walk would tell. Additional
/// names of files are not counted.
fn count(image: &dyn Image, select: &Selection) -> u64 {
    if select.is_everything() { image.inode_count() } else { 0 }
}
