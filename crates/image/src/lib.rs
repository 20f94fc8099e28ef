//! File trees in, mountable images out, and back.
//!
//! The path of data: a [`source`] (directory, tar, pack list, another image) fills a [`tree`], a format's
//! writer ([`squashfs`], [`erofs`]) puts it down; a format's reader gives an [`Image`], which a [`sink`] turns into a
//! directory, a tar archive or a listing. [`Image::check`] and [`diff`](mod@diff) compare what is there
//! with what should be.
//!
//! ```
//! use std::sync::Arc;
//! use packfs_blocks::{Progress, io::FileAt};
//! use packfs_image::source::{Dir, Source, dir};
//! use packfs_image::{Image, Plan, Tree, sink, squashfs};
//! # let place = tempfile::tempdir()?;
//! # let (root, target) = (place.path().join("root"), place.path().join("root.sqfs"));
//! # std::fs::create_dir(&root)?;
//!
//! std::fs::write(root.join("hello"), "Hello.")?;
//! squashfs::build(&target, &squashfs::Options::default(), &Progress::default(), |store| {
//!     let mut tree = Tree::default();
//!     Dir::new(&root, dir::Options::default()).scan(&mut tree, store)?;
//!     Ok(Plan { tree, order: Vec::new() })
//! })?;
//!
//! let file = Arc::new(FileAt::open(&target, 0)?);
//! let image = squashfs::Reader::open(file, squashfs::ReadOptions::default())?;
//! let hello = sink::lookup(&image, b"hello")?.expect("it was packed");
//! let mut text = [0; 6];
//! image.read_at(hello, &mut text, 0)?;
//! assert_eq!(&text, b"Hello.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod build;
pub mod diff;
pub mod erofs;
mod error;
mod finding;
pub mod image;
mod limits;
pub mod name;
mod open;
pub mod sink;
pub mod source;
pub mod squashfs;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tree;
mod warning;

pub use build::Plan;
pub use error::{Error, Excess, OnError, Result};
pub use finding::{Finding, Severity};
pub use image::Image;
pub use open::{AnyImage, OpenOptions};
pub use tree::Tree;
pub use warning::{Counted, Warning, WarningKind, Warnings};
