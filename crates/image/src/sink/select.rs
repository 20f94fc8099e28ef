//! The entries of an image that a sink takes.

use std::path::PathBuf;

use crate::source::Exclude;

/// Entries of an image. The default is all of them.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Paths with everything below them, see [`Walk::new`](super::Walk::new); empty for everything.
    pub paths: Vec<PathBuf>,
    /// Regular expressions; entries whose path matches one are selected, too, with everything below them. The syntax is
    /// that of [`Exclude::with_regexes`].
    pub regexes: Vec<String>,
    /// True to follow symbolic links in paths that are no globs: each link on the way is selected, and the entry to which
    /// they lead. If they lead nowhere, the path is missing.
    pub follow: bool,
    /// Entries to leave out of that.
    pub exclude: Exclude,
    /// Greatest number of components of a path; deeper entries are left out.
    pub max_depth: Option<usize>,
    /// Types to leave out, by the letters of `find -type`.
    pub without_types: Vec<u8>,
    /// True to leave out directories in which nothing is left.
    pub without_empty_dirs: bool,
    /// True if a path that selects nothing is no error.
    pub may_miss: bool,
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
    }
}

impl From<Vec<PathBuf>> for Selection {
    fn from(paths: Vec<PathBuf>) -> Self {
        Selection { paths, ..Selection::default() }
    }
}
