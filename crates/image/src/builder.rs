//! Building an image in a few lines: a format with its options, layered sources, and a target.
//!
//! A thin layer over [`AnyOptions::build`], which also supports transformed trees and an order of the data.

use std::fmt;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use packfs_blocks::io::Storage;
use packfs_blocks::{Output, Progress};

use crate::build::{AnyOptions, Options, Plan, Summary};
use crate::source::{Dir, Entries, Entry, Exclude, FromImage, Source, Store, dir};
use crate::{Error, Fs, Result, Tree, erofs, squashfs};

/// Builder of an image.
///
/// ```
/// use packfs_image::Builder;
/// use packfs_image::source::Entry;
/// # let place = tempfile::tempdir()?;
/// # let target = place.path().join("root.erofs");
///
/// let entries = [Entry::file("etc/motd", "Welcome.\n"), Entry::symlink("motd", "etc/motd")];
/// let summary = Builder::erofs().options(|all| all.threads = 2).entries(entries).build(&target)?;
/// assert_eq!(summary.files, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Builder<'a> {
    options: AnyOptions,
    sources: Vec<Added<'a>>,
    progress: Arc<Progress>,
}

/// A source, or a directory that becomes one once all options are known.
enum Added<'a> {
    Dir(PathBuf),
    Source(Box<dyn Source + 'a>),
}

impl fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'a> Builder<'a> {
    /// Makes a builder with the options of a format.
    pub fn new(options: impl Into<AnyOptions>) -> Self {
        Builder { options: options.into(), sources: Vec::new(), progress: Arc::default() }
    }

    /// Makes a builder of a SquashFS image with default options.
    pub fn squashfs() -> Self {
        Builder::new(squashfs::Options::default())
    }

    /// Makes a builder of an EROFS image with default options.
    pub fn erofs() -> Self {
        Builder::new(erofs::Options::default())
    }

    /// Changes options that every format has.
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(self.options.common_mut());
        self
    }

    /// Counts in `progress`, and stops when it is cancelled.
    pub fn progress(self, progress: Arc<Progress>) -> Self {
        Builder { progress, ..self }
    }

    /// Adds the entries of a directory, or one file.
    pub fn dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.push(Added::Dir(path.into()));
        self
    }

    /// Adds the entries of another image, which converts it.
    pub fn image(self, fs: &Fs) -> Self {
        self.source(FromImage::new(fs.image().clone(), "image", Exclude::default(), true))
    }

    /// Adds entries defined by the caller; see [`Entries`].
    pub fn entries<I: IntoIterator<Item = Entry<'a>>>(self, entries: I) -> Self
    where
        I::IntoIter: 'a,
    {
        self.source(Entries::new(entries))
    }

    /// Adds any source. If two sources have the same path the later one is kept; directories are merged.
    pub fn source(mut self, source: impl Source + 'a) -> Self {
        self.sources.push(Added::Source(Box::new(source)));
        self
    }

    /// Builds the image at `target`, which appears whole or not at all.
    ///
    /// # Errors
    /// [`Error::Exists`] if `target` already exists and [`Options::force`] is not set.
    pub fn build(self, target: impl AsRef<Path>) -> Result<Summary> {
        let (options, sources, progress) = self.ready();
        scanned(sources, |fill| options.build(target.as_ref(), &progress, fill))
    }

    /// Builds the image into any reader, writer and seeker, from its first byte on, and returns it.
    /// It should be empty: bytes after the image stay.
    pub fn write_to<W: Read + Write + Seek + Send + fmt::Debug + 'static>(self, writer: W) -> Result<W> {
        let shared = Arc::new(Mutex::new(writer));
        self.store_in(shared.clone())?;
        let writer = Arc::into_inner(shared).ok_or_else(|| Error::Misuse("the image is still being written".into()))?;
        Ok(writer.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Builds the image into storage that several threads write at any offset.
    pub fn store_in(self, storage: impl Storage + 'static) -> Result<Summary> {
        let (options, sources, progress) = self.ready();
        scanned(sources, |fill| options.build_to(Output::over(storage, "image"), &progress, fill))
    }

    /// Returns options, sources and progress, with directories turned into sources.
    fn ready(self) -> (AnyOptions, Vec<Box<dyn Source + 'a>>, Arc<Progress>) {
        let Builder { options, sources, progress } = self;
        let Options { threads, on_error, .. } = *options.common();
        let source = |added| match added {
            Added::Source(source) => source,
            Added::Dir(path) => {
                let progress = Some(Arc::clone(&progress));
                Box::new(Dir::new(path, dir::Options { threads, on_error, progress, ..dir::Options::default() }))
            }
        };
        let sources = sources.into_iter().map(source).collect();
        (options, sources, progress)
    }
}

/// Calls `build` with a function that scans the sources, and adds the entries they left out to its summary.
fn scanned<'a>(
    mut sources: Vec<Box<dyn Source + 'a>>,
    build: impl FnOnce(&mut dyn FnMut(&mut dyn Store) -> Result<Plan>) -> Result<Summary>,
) -> Result<Summary> {
    let mut summary = build(&mut |store| {
        let mut tree = Tree::default();
        sources.iter_mut().try_for_each(|source| source.scan(&mut tree, store))?;
        Ok(Plan { tree, order: Vec::new() })
    })?;
    for error in sources.iter().flat_map(|source| source.left_out()) {
        let path = error.path().map(|path| crate::name::display(path).to_string()).unwrap_or_default();
        summary.left_out.push((path, error.to_string()));
    }
    Ok(summary)
}
