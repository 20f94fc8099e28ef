//! Everything that a build can be told: which sources it packs, what becomes of their entries, and how the image is
//! made.
//!
//! [`Builder`](crate::Builder) is for programs that build from a source or two. A [`BuildRequest`] is for programs that
//! offer their users what `packfs build` does. It decides the order in which sources, layers, rules and changes apply.

mod oversized;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::system::OsStrExt;
use packfs_source::LazySpool;
use packfs_tree::FileRank;

pub use self::oversized::OversizedFiles;
use self::oversized::{SmallFileStore, remove_oversized};
use crate::build::{AnyOptions, BuildSummary, MergedScans, Order, Plan};
use crate::name::display;
use crate::rules::{RuleMatchCount, Rules};
use crate::source::open::SourceOpener;
use crate::source::{self, HotList, PackList, PathList, SortFile, Source, Store, data_order, dir};
use crate::tree::{FsConfig, InodeAttributes, ROOT, Time, TimeChange, Tree, TreeTransform, WhiteoutPolicy, XattrId};
use crate::{Error, Result, Warning, WarningKind, Warnings};

/// A build with all that it can be told. Every field has a default that changes nothing.
///
/// ```
/// # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?;
/// # std::fs::create_dir_all("base/etc")?; std::fs::write("base/etc/motd", "Welcome.")?; std::fs::create_dir("local")?;
/// use packfs_image::{BuildRequest, squashfs, tree::WhiteoutPolicy};
/// let mut request = BuildRequest::new(squashfs::SquashfsOptions::default());
/// request.sources = vec!["base".into(), "local".into()];
/// request.whiteouts = WhiteoutPolicy::Overlay;
/// let built = request.build("root.sqfs".as_ref(), &Default::default())?;
/// println!("{} inodes", built.inodes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct BuildRequest {
    /// The image: format, codec, sizes and all that does not depend on its entries.
    pub target: AnyOptions,
    /// Directories, files, archives, images and pack lists, as [`source::open()`] takes them. Of two entries with one
    /// path, that of the later source is kept.
    pub sources: Vec<PathBuf>,
    /// True if an opaque directory hides entries of earlier sources.
    pub layers: bool,
    /// Further files, packed after the sources.
    pub listed_files: Option<ListedFiles>,
    /// The directory of the sources that becomes the root.
    pub new_root: Option<NewRoot>,
    /// Lines of a pack list, applied after the sources. Its paths are those in the image.
    pub additions: Vec<OsString>,
    /// An image whose entries stay.
    pub append: Option<AppendedImage>,
    /// Scan of the sources. Attributes that `transform` drops are not read, and `progress` is that of the build.
    pub scan: dir::Options,
    /// Way to open sources that are no files.
    pub elsewhere: SourceOpener,
    /// Largest length of a file in bytes. Longer files of the sources are left out and
    /// [counted](BuildSummary::oversized); those of an appended image stay.
    pub max_file_size: Option<u64>,
    /// Time of entries whose source has none.
    pub entry_time: Time,
    /// Attributes of directories that no source describes.
    pub implied_dirs: Option<InodeAttributes>,
    /// False to make a file of its own of each name of a hard-linked file.
    pub hard_links: bool,
    /// What becomes of the marks by which a layer hides entries of those below it.
    pub whiteouts: WhiteoutPolicy,
    /// Owners, modes and capabilities of a list, instead of those of the sources.
    pub fs_config: Option<FsConfig>,
    /// Tests that choose entries, and what becomes of them. They see what the sources have, and win over `transform`.
    pub rules: Rules,
    /// Changes of the attributes of all entries.
    pub transform: TreeTransform,
    /// True to move times that SquashFS cannot hold to the nearest that it can.
    pub clip_times: bool,
    /// Priorities by which files are ordered.
    pub sort: Option<SortFile>,
    /// Files that are used first.
    pub hot: Option<HotList>,
    /// True to copy what can be read only once to a temporary file. It is done in any case where the data cannot be
    /// placed before all entries are known.
    pub spool: bool,
    /// Directory for temporary files.
    pub temporary_dir: PathBuf,
    /// True to take the first warning for an error.
    pub strict: bool,
    /// Names of fields for messages.
    pub names: FieldNames,
}

/// A list of the paths of files.
#[derive(Debug, Clone)]
pub struct ListedFiles {
    /// The paths.
    pub paths: Vec<u8>,
    /// Byte between paths.
    pub separator: u8,
}

/// A directory of the sources that becomes the root.
#[derive(Debug, Clone)]
pub struct NewRoot {
    /// Its path in the sources.
    pub dir: PathBuf,
    /// True to change targets of symbolic links with it.
    pub retarget: bool,
}

/// An image whose entries stay, as new ones are added.
#[derive(Debug, Clone)]
pub struct AppendedImage {
    /// The image.
    pub image: PathBuf,
    /// Name of a directory in the root for its entries; without, they are in the root.
    pub below: Option<OsString>,
}

/// Names of fields of a request in errors and warnings, for programs whose users know them by other names.
#[derive(Debug, Clone, Copy)]
pub struct FieldNames {
    /// Name of [`BuildRequest::new_root`].
    pub new_root: &'static str,
    /// Name of [`BuildRequest::additions`].
    pub additions: &'static str,
    /// Name of the patterns of what is left out.
    pub exclude: &'static str,
}

impl Default for FieldNames {
    fn default() -> Self {
        FieldNames { new_root: "new root", additions: "additions", exclude: "exclude" }
    }
}

/// What a request told while its sources were read.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RequestNotes {
    /// The source being read: after an error, the one at fault.
    pub reading: Option<PathBuf>,
    /// Entries that sources left out, with the reasons.
    pub left_out: Vec<(String, String)>,
    /// Files that were left out because of their length; `None` without [a limit](BuildRequest::max_file_size).
    pub oversized: Option<OversizedFiles>,
    /// Number of entries that each rule matched.
    pub matches: Vec<RuleMatchCount>,
}

impl RequestNotes {
    /// Adds to the summary of a build what was left out before it began.
    pub fn add_to(self, summary: &mut BuildSummary) {
        summary.left_out.splice(0..0, self.left_out);
        summary.oversized = self.oversized;
    }

    fn add_left_out(&mut self, source: &dyn Source) {
        for error in source.left_out() {
            let place = error.path().map_or_else(String::new, |path| display(path).to_string());
            self.left_out.push((place, error.to_string()));
        }
    }
}

impl BuildRequest {
    /// Makes a request for an image without entries.
    pub fn new(target: impl Into<AnyOptions>) -> Self {
        BuildRequest {
            target: target.into(),
            sources: Vec::new(),
            layers: false,
            listed_files: None,
            new_root: None,
            additions: Vec::new(),
            append: None,
            scan: dir::Options::default(),
            elsewhere: SourceOpener::default(),
            max_file_size: None,
            entry_time: Time::default(),
            implied_dirs: None,
            hard_links: true,
            whiteouts: WhiteoutPolicy::Keep,
            fs_config: None,
            rules: Rules::default(),
            transform: TreeTransform::default(),
            clip_times: false,
            sort: None,
            hot: None,
            spool: false,
            temporary_dir: std::env::temp_dir(),
            strict: false,
            names: FieldNames::default(),
        }
    }

    /// Builds the image at `output`, which appears whole or not at all.
    ///
    /// # Errors
    /// [`Error::Exists`] if `output` already exists and the options do not [replace
    /// it](crate::build::SharedOptions::force).
    pub fn build(&self, output: &Path, progress: &Arc<Progress>) -> Result<BuildSummary> {
        let mut notes = RequestNotes::default();
        let mut summary =
            self.target.build(output, progress, |store| self.fill(Some(output), store, progress, &mut notes))?;
        notes.add_to(&mut summary);
        Ok(summary)
    }

    /// Reads the sources into a tree, and applies everything else that is requested of entries. `output` is the image,
    /// if that is a file.
    pub fn fill(
        &self,
        output: Option<&Path>,
        store: &mut dyn Store,
        progress: &Arc<Progress>,
        notes: &mut RequestNotes,
    ) -> Result<Plan> {
        let mut tree = self.empty_tree();
        self.scan_sources(&mut tree, store, progress, notes)?;
        let ranks = self.change_entries(&mut tree, notes)?;
        self.append_image(&mut tree, notes)?;
        self.warn(&mut tree, output)?;
        let mut order = match &self.sort {
            Some(sort) => data_order(&mut tree, sort)?,
            None => Vec::new(),
        };
        order.extend(ranks);
        if let Some(hot) = &self.hot {
            hot.mark(&mut tree)?;
        }
        Ok(Plan { tree, order })
    }

    /// Returns the source of a plan whose entries come from [parts of a scan](dir::Options::parts) one by one; `None`
    /// if there are no parts, or if something needs all entries at once: several sources, and what adds, removes, moves
    /// or selects entries.
    pub fn merged(&self, output: Option<&Path>, progress: &Arc<Progress>) -> Result<Option<MergedScans>> {
        let [source] = &self.sources[..] else { return Ok(None) };
        if self.scan.parts.is_none() || self.needs_all_entries() {
            return Ok(None);
        }
        let mut warnings = Warnings::new(self.strict);
        self.warn_of_output(output, &mut warnings)?;
        let merged = MergedScans::new(source, self.scan_options(progress)).set(|merged| {
            merged.transform = self.transform.clone();
            merged.clip_times = self.clips_times();
            merged.warnings = warnings;
        });
        Ok(Some(merged))
    }

    /// Returns the options by which directories are scanned.
    pub fn scan_options(&self, progress: &Arc<Progress>) -> dir::Options {
        self.scan.clone().set(|scan| {
            scan.xattrs = !self.transform.drop_xattrs;
            scan.progress = Some(Arc::clone(progress));
        })
    }

    /// Returns true if data stays in the sources.
    pub fn refers_to_sources(&self) -> bool {
        matches!(&self.target, AnyOptions::Erofs(options) if options.refer > 0)
    }

    /// Returns true if anything but attributes of single entries is requested.
    fn needs_all_entries(&self) -> bool {
        let adds_entries = self.listed_files.is_some() || !self.additions.is_empty() || self.append.is_some();
        let moves_entries = self.new_root.is_some()
            || self.layers
            || !self.hard_links
            || !matches!(self.whiteouts, WhiteoutPolicy::Keep);
        let selects_entries = !self.rules.is_empty() || self.fs_config.is_some() || self.max_file_size.is_some();
        let orders_entries = self.sort.is_some() || self.hot.is_some();
        // ACLs follow modes, and those that a merged plan has are complete before its entries come. SquashFS has none.
        let changes_acls = self.transform.mode != Default::default() && matches!(self.target, AnyOptions::Erofs(_));
        let is_of_all = self.refers_to_sources() || !self.target.merges();
        adds_entries || moves_entries || selects_entries || orders_entries || changes_acls || is_of_all
    }

    fn clips_times(&self) -> bool {
        self.clip_times && matches!(self.target, AnyOptions::Squashfs(_))
    }

    /// Returns true if data that can be read only once has to wait until all entries are known: its place would be
    /// decided while it is listed, but an order and cuts are made of all files, and another root leaves out most of a
    /// stream.
    fn places_data_later(&self) -> bool {
        let common = self.target.common();
        let is_ordered = common.order.is_some_and(|order| order != Order::Path) || common.shards.is_some();
        let is_sorted = self.sort.is_some() || self.hot.is_some();
        is_ordered || is_sorted || self.new_root.is_some() || self.rules.need_data()
    }

    fn empty_tree(&self) -> Tree {
        let mut tree = Tree::default();
        tree.warnings = Warnings::new(self.strict);
        if let Some(implied) = self.implied_dirs {
            tree.implied = Some(implied);
            tree.set_meta(ROOT, implied);
        }
        tree
    }

    /// Adds the entries of all sources, of the list of files and of the additions.
    fn scan_sources(
        &self,
        tree: &mut Tree,
        store: &mut dyn Store,
        progress: &Arc<Progress>,
        notes: &mut RequestNotes,
    ) -> Result<()> {
        let scan = self.scan_options(progress);
        let open_options = source::open::SourceReadOptions::default().set(|open_options| {
            open_options.scan = scan.clone();
            open_options.time = self.entry_time;
            open_options.refer = self.refers_to_sources();
            open_options.elsewhere = self.elsewhere.clone();
        });
        let mut copies = LazySpool::new(&self.temporary_dir);
        let store: &mut dyn Store = if self.spool || self.places_data_later() { &mut copies } else { store };
        let mut small_files = SmallFileStore::new(store, self.max_file_size.unwrap_or(u64::MAX));
        let store = &mut small_files;
        for argument in &self.sources {
            notes.reading = Some(argument.clone());
            if self.layers {
                tree.begin_layer(self.whiteouts);
            }
            let mut source = source::open(argument.as_os_str(), &open_options)?;
            source.scan(tree, store)?;
            notes.add_left_out(&*source);
        }
        notes.reading = None;
        if let Some(listed) = &self.listed_files {
            let mut list = PathList::new(listed.paths.clone(), listed.separator, scan.clone());
            list.scan(tree, store)?;
            notes.add_left_out(&list);
        }
        if let Some(new_root) = &self.new_root {
            self.make_root(tree, new_root)?;
        }
        if !self.additions.is_empty() {
            let lines: Vec<&[u8]> = self.additions.iter().map(|line| line.as_bytes()).collect();
            let exclude = scan.exclude.clone().without_root();
            let scan = scan.set(|scan| scan.exclude = exclude);
            let mut list = PackList::from_bytes(self.names.additions, lines.join(&b'\n'), scan, self.entry_time);
            list.scan(tree, store)?;
            notes.add_left_out(&list);
        }
        copies.serve(tree)
    }

    /// Applies what changes entries of sources; returns the ranks that rules give to files.
    fn change_entries(&self, tree: &mut Tree, notes: &mut RequestNotes) -> Result<Vec<FileRank>> {
        if let Some(max_len) = self.max_file_size {
            notes.oversized = Some(remove_oversized(tree, max_len)?);
        }
        let mut transform = self.transform.clone();
        if std::mem::take(&mut transform.drop_xattrs) {
            // Before whiteouts: the attributes they get are wanted.
            tree.inos().for_each(|ino| tree.set_xattrs(ino, XattrId::NONE));
        }
        self.whiteouts.apply(tree)?;
        if let Some(config) = &self.fs_config {
            config.apply(tree, !self.transform.drop_xattrs)?;
        }
        if !self.hard_links {
            tree.separate_hard_links()?;
        }
        // Rules see what the sources have, and win over changes of all entries.
        let selected = self.rules.select(tree)?;
        transform.apply(tree)?;
        if self.clips_times() {
            clip_times(tree);
        }
        let ranks = selected.apply(tree)?;
        notes.matches = selected.matches().to_vec();
        Ok(ranks)
    }

    /// Adds the entries of an image that stay as they are, but for shifted owners.
    fn append_image(&self, tree: &mut Tree, notes: &mut RequestNotes) -> Result<()> {
        let Some(AppendedImage { image, below }) = &self.append else { return Ok(()) };
        notes.reading = Some(image.clone());
        let first_old = tree.len();
        source::open::whole_image(image)?.append_to(tree, below.as_ref().map(|name| name.as_bytes()))?;
        self.transform.shift_owners_from(tree, first_old)?;
        notes.reading = None;
        Ok(())
    }

    /// Makes a directory of the sources the root.
    fn make_root(&self, tree: &mut Tree, new_root: &NewRoot) -> Result<()> {
        let path = new_root.dir.as_os_str().as_bytes();
        let wrong = |why| Error::option(self.names.new_root, display(&new_root.dir), why);
        tree.make_root(path).map_err(|error| match error {
            Error::NotFound { .. } => wrong("no source has this directory"),
            Error::WrongType { .. } => wrong("not a directory of the sources"),
            other => other,
        })?;
        if new_root.retarget {
            tree.retarget(path)?;
        }
        Ok(())
    }

    /// Adds warnings about what is probably not meant.
    fn warn(&self, tree: &mut Tree, output: Option<&Path>) -> Result<()> {
        self.warn_of_output(output, &mut tree.warnings)?;
        // Who merges parts of a scan has not seen the entries that were left out.
        let is_scanned_elsewhere = self.scan.parts.is_some();
        if let Some(patterns) = self.scan.exclude.without_match().filter(|_| !is_scanned_elsewhere) {
            let first = patterns.lines().next().unwrap_or_default();
            let warning = Warning::new(WarningKind::ExcludeMatchesNothing, self.names.exclude);
            tree.warnings.add(warning.with_detail(first))?;
        }
        if let Some(image) = self.image_losing_fractions(tree) {
            tree.warnings.add(Warning::new(WarningKind::FractionsOfSeconds, image))?;
        }
        Ok(())
    }

    /// Adds a warning for each source in which the output lies.
    fn warn_of_output(&self, output: Option<&Path>, warnings: &mut Warnings) -> Result<()> {
        let Some(output) = output else { return Ok(()) };
        for source in &self.sources {
            if let Some(path) = output_below(source, output)
                && !self.scan.exclude.covers(path.as_os_str().as_bytes(), false)
            {
                warnings.add(Warning::new(WarningKind::OutputInSource, path))?;
            }
        }
        Ok(())
    }

    /// Returns the first image whose fractions of seconds get lost in the conversion. Other sources are not expected to
    /// convert without loss.
    fn image_losing_fractions(&self, tree: &Tree) -> Option<&Path> {
        let is_squashfs = matches!(self.target, AnyOptions::Squashfs(_));
        let keeps_times = !matches!(self.transform.time, TimeChange::Set(_));
        if !is_squashfs || !keeps_times || !tree.has_fractions_of_seconds() {
            return None;
        }
        self.sources.iter().map(PathBuf::as_path).find(|source| is_image_source(source))
    }
}

/// Returns true if a source that was read is an image.
fn is_image_source(source: &Path) -> bool {
    let argument = source.as_os_str().as_bytes();
    if argument == b"-" || argument.starts_with(b"@") {
        return false;
    }
    // What was read although it is no file lies elsewhere, where there are only images.
    let lies_elsewhere = source.symlink_metadata().is_err() && !argument.starts_with(b"file:");
    lies_elsewhere || source::open::file_format(source).is_image()
}

/// Moves times outside of what SquashFS holds to its ends.
fn clip_times(tree: &mut Tree) {
    for ino in tree.inos() {
        let meta = tree.meta(ino);
        let mtime = meta.mtime.clipped();
        if mtime != meta.mtime {
            tree.set_meta(ino, InodeAttributes { mtime, ..meta });
        }
    }
}

/// Returns the path of the output below a source directory, if it lies there.
fn output_below(source: &Path, output: &Path) -> Option<PathBuf> {
    let parent = output.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = parent.canonicalize().ok()?;
    let inside = parent.strip_prefix(source.canonicalize().ok()?).ok()?;
    Some(inside.join(output.file_name()?))
}
