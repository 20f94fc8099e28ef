//! Packs file trees into mountable images, SquashFS and EROFS, and unpacks them.
//!
//! A [`Builder`] makes images from sources: directories, archives, pack lists, other images, your
//! own entries. An [`Fs`] reads them as a file system. Both are built from these parts: a
//! [`source`] fills a [`tree`], and a format's writer ([`squashfs`], [`erofs`]) stores it; a
//! format's reader provides an [`Image`], which a [`sink`] turns into a directory or a tar archive.
//! [`Image::check`] verifies an image, and [`diff`](mod@diff) compares it with another one or with
//! its source.
//!
//! This crate never prints, and never panics on bad input. Errors are typed; see [`Error`] and [`Error::kind`].
//!
//! # Build from a directory
//!
//! Zstandard in EROFS needs Linux 6.10. An image is made for Linux 6.1 unless
//! [`target_kernel`](Builder::target_kernel) names a newer one, so zstd is refused without it.
//!
//! ```
//! # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?; std::fs::create_dir("root")?;
//! use packfs_image::erofs::Kernel;
//! use packfs_image::{Builder, Choice, Codec};
//! let codec = Choice::new(Codec::Zstd).with_level(19)?;
//! let builder = Builder::erofs().codec(codec).target_kernel(Kernel::new(6, 10));
//! let summary = builder.dir("root").build("root.erofs")?;
//! println!("{} files in {} bytes", summary.files, summary.image_bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Build from archives
//!
//! ```
//! # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?; std::fs::create_dir("root")?;
//! # use packfs_image::Fs;
//! # Builder::erofs().dir("root").build("a.erofs")?;
//! # Fs::open("a.erofs")?.write_tar(std::fs::File::create("layer.tar")?)?;
//! use packfs_image::Builder;
//! let pipe = std::fs::File::open("layer.tar")?; // or any other reader
//! Builder::squashfs().archive("layer.tar").tar(pipe).build("layers.sqfs")?;
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
//! let log = Entry::stream("var/log/messages", 4, &b"line"[..]).mtime(std::time::SystemTime::now());
//! let builder = Builder::erofs().entries(files.chain([log]));
//! let (image, summary) = builder.write_to(std::io::Cursor::new(Vec::new()))?;
//! assert!(summary.files == 4 && summary.left_out.is_empty() && summary.warnings.is_empty());
//! assert_eq!(Fs::from_reader(image)?.read_dir("srv")?.len(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Open a path, bytes, or any storage with positional reads
//!
//! ```
//! # use packfs_image::{Builder, source::Entry};
//! # let place = tempfile::tempdir()?; let path = place.path().join("root.sqfs");
//! # Builder::squashfs().entries([Entry::dir("etc")]).build(&path)?;
//! use packfs_image::{FileAt, Fs};
//! let from_path = Fs::open(&path)?;
//! let from_bytes = Fs::from_reader(std::fs::read(&path)?)?; // or a Cursor around a slice or a memory map
//! let from_file = Fs::from_reader(FileAt::new(std::fs::File::open(&path)?, 0)?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Storage of your own:
//!
//! ```
//! # use packfs_image::{Builder, Fs, source::Entry};
//! # let entries = [Entry::file("etc/motd", "Welcome.")];
//! # let (bytes, _) = Builder::squashfs().entries(entries).write_to(std::io::Cursor::new(Vec::new()))?;
//! # let bytes = bytes.into_inner();
//! # let object = Object(bytes);
//! use packfs_image::ReadAt;
//! #[derive(Debug)]
//! struct Object(Vec<u8>); // in a store, behind a protocol, ...
//! impl ReadAt for Object {
//!     fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
//!         self.0.read_at(buf, offset)
//!     }
//!     fn len(&self) -> u64 {
//!         self.0.len() as u64
//!     }
//! }
//! assert_eq!(Fs::from_reader(object)?.read("etc/motd")?, b"Welcome.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Read a file, list a directory, walk
//!
//! ```
//! # use packfs_image::{Builder, source::Entry};
//! # let entries = [Entry::file("etc/motd", "Welcome to this machine."), Entry::file("etc/empty", "")];
//! # let (image, _) = Builder::squashfs().entries(entries).write_to(std::io::Cursor::new(Vec::new()))?;
//! # let fs = packfs_image::Fs::from_reader(image)?;
//! use std::io::{Read, Seek, SeekFrom};
//! assert_eq!(fs.read("/etc/motd")?, b"Welcome to this machine.");
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
//! # let (image, _) = Builder::squashfs().entries(entries).write_to(std::io::Cursor::new(Vec::new()))?;
//! # let fs = packfs_image::Fs::from_reader(image)?;
//! use packfs_image::image::FileType;
//! for entry in fs.read_dir("/etc")? {
//!     match &entry.stat.kind {
//!         FileType::File { size } => println!("{:?}: {size} bytes", entry.name()),
//!         kind => println!("{:?}: {kind:?}", entry.name()),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```
//! # use packfs_image::{Builder, source::Entry};
//! # let entries = [Entry::file("etc/motd", "Welcome to this machine."), Entry::file("etc/empty", "")];
//! # let (image, _) = Builder::squashfs().entries(entries).write_to(std::io::Cursor::new(Vec::new()))?;
//! # let fs = packfs_image::Fs::from_reader(image)?;
//! use std::ops::ControlFlow;
//! let found = fs.walk(|entry| match entry.path.ends_with("motd") {
//!     true => ControlFlow::Break(entry),
//!     false => ControlFlow::Continue(()),
//! })?;
//! let ControlFlow::Break(motd) = found else { return Err("there is no such file".into()) };
//! println!("{:?}: {}", motd.path, std::io::read_to_string(fs.open_inode(motd.nid)?)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Extract, write a tar archive, convert
//!
//! ```
//! # use packfs_image::source::Entry;
//! # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?;
//! # packfs_image::Builder::squashfs().entries([Entry::file("etc/motd", "Welcome.")]).build("root.sqfs")?;
//! use packfs_image::{Builder, Fs};
//! let fs = Fs::open("root.sqfs")?;
//! let extracted = fs.extract("unpacked")?;
//! assert_eq!((extracted.files, extracted.directories), (1, 2));
//! fs.write_tar(std::fs::File::create("root.tar")?)?;
//! Builder::erofs().image(&fs).build("root.erofs")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A function decides about each entry: here, documents are left out, and all other names are written in lower case. A
//! [`Selection`](sink::Selection) also has paths, patterns and types.
//!
//! ```
//! # use packfs_image::{Builder, source::Entry};
//! # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?;
//! # Builder::squashfs().entries([Entry::file("README.TXT", ""), Entry::dir("usr/share/doc")]).build("root.sqfs")?;
//! use packfs_image::sink::{EntryDecision, dir};
//! use packfs_image::{Fs, Progress};
//! let mut options = dir::ExtractOptions::default();
//! options.select.decide = EntryDecision::rename(|path, _| match path.starts_with("usr/share/doc") {
//!     true => None,
//!     false => Some(path.file_name()?.to_ascii_lowercase()),
//! });
//! dir::extract(Fs::open("root.sqfs")?.image(), "unpacked".as_ref(), &options, &Progress::default())?;
//! # assert!(std::fs::exists("unpacked/readme.txt")? && !std::fs::exists("unpacked/usr/share/doc")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Check, compare
//!
//! ```
//! # use packfs_image::source::Entry;
//! # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?;
//! # packfs_image::Builder::squashfs().entries([Entry::file("etc/motd", "Welcome.")]).build("root.sqfs")?;
//! # packfs_image::Builder::erofs().entries([Entry::file("etc/motd", "Hello.")]).build("new.erofs")?;
//! use packfs_image::Fs;
//! let old = Fs::open("root.sqfs")?;
//! let new = Fs::open("new.erofs")?;
//! new.check(|finding| println!("{finding}"))?;
//! let mut differences = Vec::new();
//! old.diff(&new, |difference| differences.push(difference))?;
//! assert_eq!(*differences[0].path, *b"etc/motd");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Watch the progress, cancel
//!
//! ```
//! # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?; std::fs::create_dir("root")?;
//! use packfs_image::{Builder, Error};
//! use std::sync::atomic::Ordering::Relaxed;
//! let watched = Builder::squashfs().on_progress(|progress| {
//!     println!("{:?}: {} of {} bytes", progress.phase(), progress.done.load(Relaxed), progress.total.load(Relaxed));
//!     progress.cancel(); // once the user has had enough
//! });
//! assert!(matches!(watched.dir("root").build("root.sqfs"), Ok(_) | Err(Error::Cancelled)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Another thread may hold the counters, too: [`Builder::progress`]. Long operations of other modules take a [`Progress`],
//! whose [`watch`](Progress::watch) calls a function meanwhile.
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
mod followed;
mod fs;
mod limits;
mod open;
pub mod placement;
pub mod request;
pub mod sink;
pub mod source;
pub mod squashfs;
pub mod stats;
pub mod stored_blocks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

/// The tree between a source and an image: inodes without data, their names and attributes.
pub mod tree {
    pub use packfs_tree::tree::{
        ConflictPolicy, DataHandling, DeviceNumber, ExcludeXattrs, FileData, FileRecipe, FsConfig, Ino, Inode,
        InodeAttributes, Kind, ModeChange, ROOT, Time, TimeChange, TreeImage, TreeTransform, WhiteoutPolicy, XattrId,
        XattrSet, components, parse_c_number,
    };
    pub(crate) use packfs_tree::tree::{
        KindRef, ORIGIN_XATTR, ReducedSet, Tree, TreeXattrs, acl, capability, check_name, child_path, normal_path,
        path_of, push_name, wire,
    };
}

/// The view of an open image, of any format.
pub mod image {
    pub(crate) use packfs_tree::image::mode_without_acl;
    pub use packfs_tree::image::{Entry, Extent, FileType, Image, ImageWrapper, Nid, Stat, StoredPiece, StoredUnit};
}

pub use build::Plan;
pub use builder::Builder;
pub use fs::{DirEntry, Fs, ImageFile, ManyBytes, ReadRequest, RequestError};
pub use open::{AnyImage, OpenOptions};
pub use packfs_tree::{
    CountedWarnings, Error, ExceededLimit, Finding, Image, OnError, Part, Result, Severity, Tree, Warning, WarningKind,
    Warnings, rules,
};
pub use request::BuildRequest;

packfs_blocks::options!(
    BuildRequest,
    OpenOptions,
    build::SharedOptions,
    diff::DiffOptions,
    erofs::ErofsOptions,
    erofs::ReadOptions,
    sink::tar::TarOptions,
    source::open::SourceReadOptions,
    squashfs::SquashfsOptions,
    squashfs::ReadOptions,
);

// Types of lower crates that users of this crate need.
pub use packfs_blocks::io::{FileAt, Memory, Storage};
pub use packfs_blocks::{Progress, ReadAt, name};
pub use packfs_codec::{Choice, Codec};
