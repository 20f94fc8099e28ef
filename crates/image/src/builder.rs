//! Building an image in a few lines: a format with its options, layered sources, and a target.
//!
//! A thin layer over [`AnyOptions::build`], which also supports transformed trees and an order of the data.

use std::fmt;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use packfs_blocks::io::Storage;
use packfs_blocks::mutex;
use packfs_blocks::{Output, Progress};
use packfs_codec::Choice;

use crate::build::{AnyOptions, BuildSummary, Plan, SharedOptions};
use crate::erofs::{Features, Kernel};
use crate::source::{Dir, Entries, Entry, ExcludeRules, FromImage, Source, Store, archive, dir};
use crate::squashfs::Fragments;
use crate::{Error, Fs, OnError, Result, Tree, erofs, squashfs};

/// Interval of the calls of [`Builder::on_progress`]: what people see moves, and costs nothing.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Builder of an image.
///
/// Its methods set the options that many programs need. All others are fields of [`squashfs::SquashfsOptions`] and
/// [`erofs::ErofsOptions`], which [`Builder::new`] takes.
///
/// ```
/// use packfs_image::source::Entry;
/// use packfs_image::{Builder, Choice, Codec};
/// # let place = tempfile::tempdir()?;
/// # let target = place.path().join("root.erofs");
///
/// let entries = [Entry::file("etc/motd", "Welcome.\n"), Entry::symlink("motd", "etc/motd")];
/// let codec = Choice::new(Codec::Lz4hc).with_level(12)?;
/// let summary = Builder::erofs().codec(codec).threads(2).entries(entries).build(&target)?;
/// assert_eq!(summary.files, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Builder<'a> {
    options: AnyOptions,
    sources: Vec<AddedSource<'a>>,
    progress: Arc<Progress>,
    watcher: Option<Box<ProgressWatcher<'a>>>,
}

type ProgressWatcher<'a> = dyn FnMut(&Progress) + Send + 'a;

/// A source, or what becomes one once all options are known.
enum AddedSource<'a> {
    Dir(PathBuf),
    Archive(PathBuf),
    Stream(Box<dyn Read + Send>),
    Source(Box<dyn Source + 'a>),
}

impl<'a> AddedSource<'a> {
    fn open(self, options: &SharedOptions, progress: &Arc<Progress>) -> Result<Box<dyn Source + 'a>> {
        match self {
            AddedSource::Dir(path) => {
                let scan_options = dir::Options::default().set(|scan_options| {
                    scan_options.threads = options.threads;
                    scan_options.on_error = options.on_error;
                    scan_options.progress = Some(Arc::clone(progress));
                });
                Ok(Box::new(Dir::new(path, scan_options)))
            }
            AddedSource::Archive(path) => archive::open(Some(&path), archive::Options::default()),
            AddedSource::Stream(from) => archive::from_stream(from, Path::new("archive"), archive::Options::default()),
            AddedSource::Source(source) => Ok(source),
        }
    }
}

impl fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'a> Builder<'a> {
    /// Makes a builder with the options of a format.
    pub fn new(options: impl Into<AnyOptions>) -> Self {
        Builder { options: options.into(), sources: Vec::new(), progress: Arc::default(), watcher: None }
    }

    /// Makes a builder of a SquashFS image with default options.
    pub fn squashfs() -> Self {
        Builder::new(squashfs::SquashfsOptions::default())
    }

    /// Makes a builder of an EROFS image with default options.
    pub fn erofs() -> Self {
        Builder::new(erofs::ErofsOptions::default())
    }

    /// Sets the codec: a [`Codec`](crate::Codec) or a [`Choice`] of level and options.
    pub fn codec(mut self, codec: impl Into<Choice>) -> Self {
        self.options.common_mut().codec = codec.into();
        self
    }

    /// Sets the size in bytes of a SquashFS block, or of the largest physical cluster of EROFS.
    pub fn block_size(mut self, bytes: u32) -> Self {
        match &mut self.options {
            AnyOptions::Squashfs(options) => options.block_size = bytes,
            AnyOptions::Erofs(options) => options.cluster_size = bytes,
        }
        self
    }

    /// Packs small files and tails together, which is the default. Without, the image is larger, and a read of a small
    /// file decodes only that file.
    pub fn fragments(mut self, together: bool) -> Self {
        match &mut self.options {
            AnyOptions::Squashfs(options) => {
                options.fragments = if together { Fragments::default() } else { Fragments::None };
            }
            AnyOptions::Erofs(options) => {
                options.features.remove(Features::ALL_FRAGMENTS);
                options.features.set(Features::FRAGMENTS, together);
            }
        }
        self
    }

    /// Sets the oldest Linux that must be able to read the image, by default [`Kernel::DEFAULT`]. A codec or feature that
    /// it lacks fails the build: zstd in EROFS needs Linux 6.10. All versions that EROFS images can be made for read every
    /// SquashFS image, so there it changes nothing.
    pub fn target_kernel(mut self, kernel: Kernel) -> Self {
        if let AnyOptions::Erofs(options) = &mut self.options {
            options.target_kernel = kernel;
        }
        self
    }

    /// Sets the number of compression threads; with 0, everything runs on the calling thread.
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.common_mut().threads = threads;
        self
    }

    /// Replaces an existing target.
    pub fn force(mut self, force: bool) -> Self {
        self.options.common_mut().force = force;
        self
    }

    /// Sets the action for a file that cannot be read or changes meanwhile. [`BuildSummary::left_out`] lists those left
    /// out.
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.options.common_mut().on_error = on_error;
        self
    }

    /// Counts in `progress`, and stops when it is cancelled.
    pub fn progress(self, progress: Arc<Progress>) -> Self {
        Builder { progress, ..self }
    }

    /// Calls `watcher` ten times a second during the build, on a thread of its own, and once at the end. It may
    /// [cancel](Progress::cancel) the build.
    pub fn on_progress(self, watcher: impl FnMut(&Progress) + Send + 'a) -> Self {
        Builder { watcher: Some(Box::new(watcher)), ..self }
    }

    /// Adds the entries of a directory, or one file.
    pub fn dir(self, path: impl Into<PathBuf>) -> Self {
        self.add(AddedSource::Dir(path.into()))
    }

    /// Adds the entries of an archive in a file, recognised by its first bytes: tar and cpio, also compressed, and zip.
    pub fn archive(self, path: impl Into<PathBuf>) -> Self {
        self.add(AddedSource::Archive(path.into()))
    }

    /// Adds the entries of a tar or cpio archive, possibly compressed, which is read once, when its turn comes.
    pub fn tar(self, from: impl Read + Send + 'static) -> Self {
        self.add(AddedSource::Stream(Box::new(from)))
    }

    /// Adds the entries of another image, which converts it.
    pub fn image(self, fs: &Fs) -> Self {
        self.source(FromImage::new(fs.clone().into_image(), "image", ExcludeRules::default(), true))
    }

    /// Adds entries defined by the caller; see [`Entries`].
    pub fn entries<I: IntoIterator<Item = Entry<'a>>>(self, entries: I) -> Self
    where
        I::IntoIter: 'a,
    {
        self.source(Entries::new(entries))
    }

    /// Adds any source. If two sources have the same path the later one is kept; directories are merged.
    pub fn source(self, source: impl Source + 'a) -> Self {
        self.add(AddedSource::Source(Box::new(source)))
    }

    fn add(mut self, added: AddedSource<'a>) -> Self {
        self.sources.push(added);
        self
    }

    /// Builds the image at `target`, which appears whole or not at all.
    ///
    /// # Errors
    /// [`Error::Exists`] if `target` already exists and [`Builder::force`] is not set.
    pub fn build(self, target: impl AsRef<Path>) -> Result<BuildSummary> {
        self.run(|options, progress, fill| options.build(target.as_ref(), progress, fill))
    }

    /// Builds the image into any reader, writer and seeker, from its first byte on, and returns it with the summary.
    /// It should be empty: bytes after the image stay.
    pub fn write_to<W: Read + Write + Seek + Send + fmt::Debug + 'static>(
        self,
        writer: W,
    ) -> Result<(W, BuildSummary)> {
        let shared = Arc::new(Mutex::new(writer));
        let summary = self.store_in(shared.clone())?;
        let writer = Arc::into_inner(shared).ok_or_else(|| Error::Misuse("the image is still being written".into()))?;
        Ok((mutex::into_inner(writer), summary))
    }

    /// Builds the image into storage that several threads write at any offset.
    pub fn store_in(self, storage: impl Storage + 'static) -> Result<BuildSummary> {
        self.run(|options, progress, fill| options.build_to(Output::over(storage, "image"), progress, fill))
    }

    /// Calls `build` with a function that scans the sources, and adds the entries they left out to its summary.
    fn run(
        self,
        build: impl FnOnce(&AnyOptions, &Progress, &mut TreeFiller<'_>) -> Result<BuildSummary>,
    ) -> Result<BuildSummary> {
        let Builder { options, sources, progress, watcher } = self;
        let sources = sources.into_iter().map(|added| added.open(options.common(), &progress));
        let mut sources = sources.collect::<Result<Vec<_>>>()?;
        let mut fill = |store: &mut dyn Store| {
            let mut tree = Tree::default();
            sources.iter_mut().try_for_each(|source| source.scan(&mut tree, store))?;
            Ok(Plan { tree, order: Vec::new() })
        };
        let work = || build(&options, &progress, &mut fill);
        let mut summary = match watcher {
            Some(watcher) => progress.watch(PROGRESS_INTERVAL, watcher, work),
            None => work(),
        }?;
        for error in sources.iter().flat_map(|source| source.left_out()) {
            let path = error.path().map(|path| crate::name::display(path).to_string()).unwrap_or_default();
            summary.left_out.push((path, error.to_string()));
        }
        Ok(summary)
    }
}

/// Function that scans the sources of a build.
type TreeFiller<'f> = dyn FnMut(&mut dyn Store) -> Result<Plan> + 'f;
