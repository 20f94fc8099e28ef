//! Packs file trees into mountable images, SquashFS and EROFS, and unpacks them.
//!
//! A [`Builder`] makes images from sources: directories, archives, pack lists, other images, your
//! own entries. An [`Fs`] reads them as a file system. Both are built from these parts: a
//! [`source`] fills a [`tree`], and a format's writer ([`squashfs`], [`erofs`]) stores it; a
//! format's reader provides an [`Image`], which a [`sink`] turns into a directory or a tar archive.
//! [`Image::check`] verifies an image, and [`diff`](mod@diff) compares it with another one or with
//! its source.
//!
//! This crate never prints, and never panics on bad input. Errors are typed; see [`Error`].
//!
//! # Build from a directory
//!
//! ```
//! # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?; std::fs::create_dir("root")?;
//! use packfs_image::Builder;
//! let summary = Builder::squashfs().options(|all| all.codec = "gzip".parse().unwrap()).dir("root").build("root.sqfs")?;
//! println!("{} files in {} bytes", summary.files, summary.image_bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Build from memory and iterators, into anything seekable
//!
//! ```
//! use packfs_image::source::Entry;
//! use packfs_image::{Builder, Fs};
//! let names = ["a", "b", "c"].into_iter();
//! let files = names.map(|name| Entry::file(format!("srv/{name}.txt"), format!("This is {name}.")).mode(0o600));
//! let log = Entry::stream("var/log/messages", 4, &b"line"[..]);
//! let image = Builder::erofs().entries(files.chain([log])).write_to(std::io::Cursor::new(Vec::new()))?;
//! assert_eq!(Fs::from_bytes(image.into_inner())?.read_dir("srv")?.len(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Open a path, bytes, or any storage with positional reads
//!
//! ```
//! # use packfs_image::{Builder, source::Entry};
//! # let place = tempfile::tempdir()?; let path = place.path().join("root.sqfs");
//! # Builder::squashfs().entries([Entry::dir("etc")]).build(&path)?;
//! use packfs_image::{Fs, OpenOptions, ReadAt};
//! use std::sync::Arc;
//! let from_path = Fs::open(&path)?;
//! let from_bytes = Fs::from_bytes(std::fs::read(&path)?)?;
//! let storage: Arc<dyn ReadAt> = Arc::new(std::fs::read(&path)?); // or a type of yours
//! let from_storage = Fs::with_options(storage, OpenOptions::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Read a file, list a directory, walk
//!
//! ```
//! # use packfs_image::{Builder, source::Entry};
//! # let entries = [Entry::file("etc/motd", "Welcome to this machine."), Entry::file("etc/empty", "")];
//! # let bytes = Builder::squashfs().entries(entries).write_to(std::io::Cursor::new(Vec::new()))?.into_inner();
//! # let fs = packfs_image::Fs::from_bytes(bytes)?;
//! use std::io::{Read, Seek, SeekFrom};
//! let (mut motd, mut text) = (fs.open_file("/etc/motd")?, String::new());
//! motd.seek(SeekFrom::Start(11))?;
//! motd.read_to_string(&mut text)?;
//! assert_eq!(text, "this machine.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```
//! # use packfs_image::{Builder, source::Entry};
//! # let entries = [Entry::file("etc/motd", "Welcome to this machine."), Entry::file("etc/empty", "")];
//! # let bytes = Builder::squashfs().entries(entries).write_to(std::io::Cursor::new(Vec::new()))?.into_inner();
//! # let fs = packfs_image::Fs::from_bytes(bytes)?;
//! use packfs_image::image::FileType;
//! for entry in fs.read_dir("/etc")? {
//!     match entry.stat.kind {
//!         FileType::File { size } => println!("{}: {size} bytes", entry.name.escape_ascii()),
//!         kind => println!("{}: {kind:?}", entry.name.escape_ascii()),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```
//! # use packfs_image::{Builder, source::Entry};
//! # let entries = [Entry::file("etc/motd", "Welcome to this machine."), Entry::file("etc/empty", "")];
//! # let bytes = Builder::squashfs().entries(entries).write_to(std::io::Cursor::new(Vec::new()))?.into_inner();
//! # let fs = packfs_image::Fs::from_bytes(bytes)?;
//! use std::ops::ControlFlow;
//! let found = fs.walk(|visit| match visit.path.ends_with(b"/motd") {
//!     true => ControlFlow::Break(visit.path.to_owned()),
//!     false => ControlFlow::Continue(()),
//! })?;
//! assert_eq!(found, ControlFlow::Break(b"etc/motd".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Extract, convert
//!
//! ```
//! # use packfs_image::source::Entry;
//! # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?;
//! # packfs_image::Builder::squashfs().entries([Entry::file("etc/motd", "Welcome.")]).build("root.sqfs")?;
//! use packfs_image::{Builder, Fs};
//! let fs = Fs::open("root.sqfs")?;
//! let extracted = fs.extract("unpacked")?;
//! assert_eq!((extracted.files, extracted.directories), (1, 2));
//! Builder::erofs().image(&fs).build("root.erofs")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Watch the progress, cancel
//!
//! ```
//! # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?; std::fs::create_dir("root")?;
//! use packfs_image::{Builder, Error, Progress};
//! use std::sync::{Arc, atomic::Ordering::Relaxed};
//! let progress = Arc::new(Progress::default());
//! let seen = progress.clone();
//! let build = std::thread::spawn(|| Builder::squashfs().progress(seen).dir("root").build("root.sqfs"));
//! println!("{} of {} bytes", progress.done.load(Relaxed), progress.total.load(Relaxed));
//! progress.cancel();
//! assert!(matches!(build.join().unwrap(), Ok(_) | Err(Error::Cancelled)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! All codecs and tar decompressors are on by default: `gzip`, `xz`, `lzo`, `snappy`, `lz4`, `zstd`, `tar-gzip`, `tar-xz`,
//! `tar-zstd`, `tar-bzip2`. Those of `gzip`, `xz`, `lz4`, `zstd`, `tar-xz` and `tar-zstd` compile C libraries. To read
//! images without a C compiler, and to write uncompressed ones:
//!
//! ```toml
//! packfs-image = { version = "0.2", default-features = false, features = ["rust-only"] }
//! ```
//!
//! Using a codec that was left out fails with an error that names the codec and its feature.

pub mod build;
mod builder;
mod check;
pub mod diff;
pub mod erofs;
mod error;
mod finding;
mod followed;
mod fs;
pub mod image;
mod limits;
mod open;
mod part;
pub mod placement;
mod regex;
pub mod rules;
pub mod sink;
pub mod source;
pub mod squashfs;
pub mod stats;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tree;
mod warning;

pub use build::Plan;
pub use builder::Builder;
pub use error::{Error, Excess, OnError, Result};
pub use finding::{Finding, Severity};
pub use fs::{DirEntry, File, Fs};
pub use image::Image;
pub use open::{AnyImage, OpenOptions};
pub use part::Part;
pub use tree::Tree;
pub use warning::{Counted, Warning, WarningKind, Warnings};

packfs_blocks::options!(
    OpenOptions,
    build::Options,
    diff::Options,
    erofs::Options,
    erofs::ReadOptions,
    sink::dir::Options,
    sink::tar::Options,
    source::dir::Options,
    source::open::Options,
    source::archive::Options,
    squashfs::Options,
    squashfs::ReadOptions,
);

// Types of lower crates that users of this crate need.
pub use packfs_blocks::io::{Memory, Storage};
pub use packfs_blocks::{Progress, ReadAt, name};
pub use packfs_codec::{Choice, Codec};
