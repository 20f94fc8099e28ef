//! The entries of an image that a sink takes.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Result;
use crate::image::Stat;
use crate::source::ExcludeRules;
use crate::tree::check_name;
use packfs_blocks::system::{OsStrExt, os_str};

/// Entries of an image. The default is all of them.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Paths with everything below them, see [`Walk::new`](super::Walk::new); empty for everything.
    pub paths: Vec<PathBuf>,
    /// Regular expressions; entries whose path matches one are selected, too, with everything below them. The syntax is
    /// that of [`ExcludeRules::with_regexes`].
    pub regexes: Vec<String>,
    /// True to follow symbolic links in paths that are no globs: each link on the way is selected, and the entry to which
    /// they lead. If they lead nowhere, the path is missing.
    pub follow: bool,
    /// Entries to leave out of that.
    pub exclude: ExcludeRules,
    /// Greatest number of components of a path; deeper entries are left out.
    pub max_depth: Option<usize>,
    /// Types to leave out, by the letters of `find -type`.
    pub without_types: Vec<u8>,
    /// True to leave out directories in which nothing is left.
    pub without_empty_dirs: bool,
    /// True if a path that selects nothing is no error.
    pub may_miss: bool,
    /// A function that leaves out or renames entries of that.
    pub decide: EntryDecision,
}

/// A function of a program that decides about each entry except the root. Without a function, every entry is taken.
///
/// It gets the path of the entry in the image and its attributes, and has to return the same for the same entry. A
/// directory that is left out is not entered. An entry that is renamed stays in its directory, and its new name must
/// differ from all others there. Links keep their targets.
///
/// ```
/// # use packfs_image::{Builder, Fs, source::Entry};
/// # let place = tempfile::tempdir()?; std::env::set_current_dir(&place)?;
/// # let entries = [Entry::file("bin/ls", ""), Entry::file("bin/ls.debug", "")];
/// # let fs = Fs::from_reader(Builder::erofs().entries(entries).write_to(std::io::Cursor::new(Vec::new()))?.0)?;
/// use packfs_image::sink::{EntryDecision, dir};
/// let mut options = dir::ExtractOptions::default();
/// options.select.decide = EntryDecision::filter(|path, _| path.extension().is_none_or(|end| end != "debug"));
/// dir::extract(fs.image(), "unpacked".as_ref(), &options, &Default::default())?;
/// # assert_eq!(std::fs::read_dir("unpacked/bin")?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct EntryDecision(Option<Arc<DecideName>>);

/// Returns the name of an entry; `None` if it is left out.
type DecideName = dyn Fn(&Path, &Stat) -> Option<OsString> + Send + Sync;

impl EntryDecision {
    /// Takes the entries for which `keep` returns true.
    pub fn filter(keep: impl Fn(&Path, &Stat) -> bool + Send + Sync + 'static) -> Self {
        EntryDecision::rename(move |path, stat| {
            keep(path, stat).then(|| path.file_name().unwrap_or_default().to_owned())
        })
    }

    /// Takes the entries for which `name` returns a name, which replaces the last component of their path. A name that
    /// is empty, `.` or `..`, or has a `/` or NUL, fails with [`Error::BadName`](crate::Error::BadName).
    pub fn rename(name: impl Fn(&Path, &Stat) -> Option<OsString> + Send + Sync + 'static) -> Self {
        EntryDecision(Some(Arc::new(name)))
    }

    /// Returns the new name of an entry; `None` if it is left out.
    pub(super) fn name(&self, path: &[u8], name: Box<[u8]>, stat: &Stat) -> Result<Option<Box<[u8]>>> {
        let Some(decide) = &self.0 else { return Ok(Some(name)) };
        let Some(name) = decide(Path::new(&os_str(path)), stat) else { return Ok(None) };
        check_name(name.as_bytes())?;
        Ok(Some(name.as_bytes().into()))
    }
}

impl fmt::Debug for EntryDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EntryDecision").field(&self.0.is_some()).finish()
    }
}

impl Selection {
    /// Returns true if nothing is left out.
    pub fn is_everything(&self) -> bool {
        self.paths.is_empty()
            && self.regexes.is_empty()
            && self.exclude.is_empty()
            && self.max_depth.is_none()
            && self.without_types.is_empty()
            && !self.without_empty_dirs
            && self.decide.0.is_none()
    }
}

impl From<Vec<PathBuf>> for Selection {
    fn from(paths: Vec<PathBuf>) -> Self {
        Selection { paths, ..Selection::default() }
    }
}
