//! File trees in, mountable images out, and back.
//!
//! The path of data: a [`source`] (directory, tar, pack list, another image) fills a [`tree`], a format's
//! writer ([`squashfs`], [`erofs`]) puts it down; a format's reader gives an [`Image`], which a [`sink`] turns into a
//! directory, a tar archive or a listing. [`Image::check`] and [`diff`](mod@diff) compare what is there
//! with what should be.
//!
//! ```
//! use packfs_image::source::{Dir, Exclude, FromImage, Source, dir};
//! use packfs_image::{Fs, Plan, Progress, Tree, erofs, sink, squashfs};
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
//! let fs = Fs::open(&target)?;
//! assert_eq!(std::io::read_to_string(fs.open_file("/hello")?)?, "Hello.");
//! for entry in fs.read_dir("/")? {
//!     println!("{} {:?}", entry.name.escape_ascii(), entry.stat.kind);
//! }
//! sink::dir::extract(&**fs.image(), &place.path().join("out"), &sink::dir::Options::default(), &Progress::default())?;
//! // An image is a source like any other: this converts.
//! let mut source = FromImage::new(fs.image().clone(), &target, Exclude::default(), true);
//! let converted = place.path().join("root.erofs");
//! erofs::build(&converted, &erofs::Options::default(), &Progress::default(), |store| {
//!     let mut tree = Tree::default();
//!     source.scan(&mut tree, store)?;
//!     Ok(Plan { tree, order: Vec::new() })
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod build;
mod check;
pub mod diff;
pub mod erofs;
mod error;
mod finding;
mod fs;
pub mod image;
mod limits;
mod lz4;
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
pub use fs::{DirEntry, File, Fs};
pub use image::Image;
pub use open::{AnyImage, OpenOptions};
pub use tree::Tree;
pub use warning::{Counted, Warning, WarningKind, Warnings};

// What a user of this crate needs of those below it.
pub use packfs_blocks::{Progress, ReadAt, name};
pub use packfs_codec::{Choice, Codec};
