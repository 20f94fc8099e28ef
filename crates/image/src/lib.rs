//! File trees in, mountable images out, and back.
//!
//! The path of data: a [`source`] (directory, tar, pack list, another image) fills a [`tree`], a format's
//! writer ([`squashfs`]) puts it down; a format's reader gives an [`Image`], which a [`sink`] turns into a
//! directory, a tar archive or a listing. [`diff`] compares two images, or an image with its source.

pub mod diff;
mod error;
mod feed;
pub mod image;
pub mod name;
pub mod sink;
pub mod source;
pub mod squashfs;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tree;

pub use error::{Error, Result};
pub use image::Image;
pub use tree::Tree;
