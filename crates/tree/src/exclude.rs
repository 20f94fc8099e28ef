//! Globs, regular expressions and a depth of entries that a source leaves out; every kind of source uses them the same way.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use packfs_blocks::system::OsStrExt;

use crate::regex::RegexSet;
use crate::tree::normal_path;
use crate::{Error, Result};

/// Entries to leave out. Patterns match paths relative to the source's root:
///
/// - `*.o`: without a slash, any entry of that name, in any directory;
/// - `usr/share/doc/*` or `/tmp`: with a slash, the whole path from the root (`*` and `?` stop at
///   slashes, `**` does not);
/// - `cache/`: with a slash at the end, directories only.
///
/// A directory that is left out takes everything below it with it. Braces, character classes and
/// backslashes work as in the shell. No pattern ever leaves out the root itself.
#[derive(Debug, Clone, Default)]
pub struct ExcludeRules {
    any: PatternSet,
    dirs: PatternSet,
    regexes: Option<RegexSet>,
    max_depth: Option<usize>,
    below: Option<NewRoot>,
    /// The patterns and expressions as they were given.
    text: String,
    /// True once a pattern or expression has matched; copies share it.
    has_matched: Arc<AtomicBool>,
}

/// A directory that becomes the root.
#[derive(Debug, Clone)]
struct NewRoot {
    /// Its path, without needless slashes.
    dir: Vec<u8>,
    /// True to keep what lies elsewhere.
    elsewhere: bool,
}

impl NewRoot {
    /// Returns the path from the directory on, or what becomes of an entry that does not lie below it.
    fn path<'p>(&self, path: &'p [u8]) -> std::result::Result<&'p [u8], bool> {
        if let Some(rest) = path.strip_prefix(&*self.dir) {
            // Below the directory its path counts without it, the directory itself is the root.
            match rest {
                [] => return Err(false),
                [b'/', rest @ ..] => return Ok(rest),
                _ => {}
            }
        }
        // A directory on the way has to be entered, although it does not stay.
        let leads_there =
            self.dir.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.first() == Some(&b'/'));
        Err(!leads_there && !self.elsewhere)
    }
}

/// Patterns by what they match.
#[derive(Debug, Clone, Default)]
struct PatternSet {
    names: GlobSet,
    paths: GlobSet,
}

impl ExcludeRules {
    /// Compiles patterns; a malformed one fails with [`Error::BadPattern`].
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self> {
        let mut text = String::new();
        let mut builders = [(); 2].map(|()| [(); 2].map(|()| GlobSetBuilder::new()));
        for pattern in patterns {
            let pattern = pattern.as_ref();
            text.push_str(&format!("{pattern:?}\n"));
            let stem = pattern.trim_end_matches('/');
            let glob = GlobBuilder::new(stem.trim_start_matches('/'))
                // As in the shell: a star stops at a slash.
                .literal_separator(true)
                .backslash_escape(true)
                .empty_alternates(true)
                .build()
                .map_err(|e| Error::pattern(pattern, format!("is malformed: {}", e.kind())))?;
            // A pattern of slashes only would match the root, which is never left out.
            if stem.is_empty() {
                return Err(Error::pattern(pattern, "cannot match any entry"));
            }
            // A slash at the end is for directories only, one elsewhere for whole paths.
            builders[usize::from(stem.len() < pattern.len())][usize::from(stem.contains('/'))].add(glob);
        }
        let [any, dirs] =
            builders.map(|[names, paths]| Some(PatternSet { names: build(&names)?, paths: build(&paths)? }));
        let too_large = || Error::pattern("", "is too large");
        Ok(ExcludeRules {
            any: any.ok_or_else(too_large)?,
            dirs: dirs.ok_or_else(too_large)?,
            text,
            ..ExcludeRules::default()
        })
    }

    /// Also leaves out entries whose path from the root, without a slash in front, matches one of these regular expressions;
    /// a malformed one fails with [`Error::BadPattern`]. The syntax is that of the crate `regex`, on bytes.
    ///
    /// A part of the path is enough unless `^` and `$` say otherwise. With `(?m)` in front these also match at slashes,
    /// with `(?-s)` a dot matches no slash.
    pub fn with_regexes<P: AsRef<str>>(self, expressions: &[P]) -> Result<Self> {
        let given = expressions.iter().map(|expression| format!("regex {:?}\n", expression.as_ref()));
        // The text is compared when parts of a scan are put together.
        let text = self.text.clone() + &given.collect::<String>();
        let regexes = if expressions.is_empty() { None } else { Some(RegexSet::new(expressions)?) };
        Ok(ExcludeRules { regexes, text, ..self })
    }

    /// Also leaves out entries more than `levels` below the root.
    #[must_use]
    pub fn with_max_depth(self, levels: Option<usize>) -> Self {
        ExcludeRules { max_depth: levels, ..self }
    }

    /// Also leaves out what does not lie below a directory that becomes the root, see [`Tree::make_root`]. Patterns then match
    /// paths from that directory on.
    ///
    /// [`Tree::make_root`]: crate::Tree::make_root
    #[must_use]
    pub fn with_root(self, dir: &Path) -> Self {
        let dir = normal_path(dir.as_os_str().as_bytes());
        ExcludeRules { below: (!dir.is_empty()).then_some(NewRoot { dir, elsewhere: false }), ..self }
    }

    /// Returns the same patterns for sources whose paths begin at the new root already.
    #[must_use]
    pub fn without_root(self) -> Self {
        ExcludeRules { below: None, ..self }
    }

    /// Returns the same patterns for sources in which entries share data with others elsewhere.
    pub fn with_elsewhere(mut self) -> Self {
        if let Some(below) = &mut self.below {
            below.elsewhere = true;
        }
        self
    }

    /// Returns a text that is the same for exclusions of the same entries that were made in the same way.
    pub fn text(&self) -> String {
        let root = self.below.as_ref().map_or_else(String::new, |below| format!("\nroot {}", below.dir.escape_ascii()));
        format!("{}depth {:?}{root}", self.text, self.max_depth)
    }

    /// Returns true if there are no patterns.
    pub fn is_empty(&self) -> bool {
        let sets = [&self.any, &self.dirs];
        let no_globs = sets.iter().all(|set| set.names.is_empty() && set.paths.is_empty());
        no_globs && self.regexes.is_none() && self.max_depth.is_none() && self.below.is_none()
    }

    /// Returns true if the entry at `path` is left out, given that its parent directories are not.
    pub fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        let path = match self.below.as_ref().map_or(Ok(path), |below| below.path(path)) {
            Ok(path) => path,
            Err(left_out) => return left_out,
        };
        // Compared last: the depth of most entries is not limited.
        let too_deep = |levels| !path.is_empty() && path.split(|byte| *byte == b'/').count() > levels;
        let matches = self.any.matches(path)
            || (is_dir && self.dirs.matches(path))
            || self.regexes.as_ref().is_some_and(|regexes| !path.is_empty() && regexes.is_match(path));
        // Remembered for all copies, so that a pattern that matches nothing anywhere is told.
        if matches {
            self.has_matched.store(true, Relaxed);
        }
        matches || self.max_depth.is_some_and(too_deep)
    }

    /// Returns the patterns and expressions, one a line, if there are any and none has matched an entry so far.
    pub fn without_match(&self) -> Option<&str> {
        (!self.text.is_empty() && !self.has_matched.load(Relaxed)).then_some(&*self.text)
    }

    /// Returns true if the entry at `path` or one of its parent directories is left out.
    pub fn covers(&self, path: &[u8], is_dir: bool) -> bool {
        // From the root down: what a directory takes with it needs no pattern of its own.
        let parents = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        !self.is_empty() && (parents.into_iter().any(|dir| self.matches(dir, true)) || self.matches(path, is_dir))
    }
}

impl PatternSet {
    fn matches(&self, path: &[u8]) -> bool {
        if self.names.is_empty() && self.paths.is_empty() {
            return false;
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let is_match =
            |set: &GlobSet, text: &[u8]| !set.is_empty() && set.is_match_candidate(&Candidate::from_bytes(text));
        // The root has no name that a pattern could match.
        !path.is_empty() && (is_match(&self.names, name) || is_match(&self.paths, path))
    }
}

fn build(builder: &GlobSetBuilder) -> Option<GlobSet> {
    builder.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_without_a_match_are_known() {
        for (globs, regexes, path, matches) in [
            (&["/a/b"][..], &[][..], "a/b", true),
            (&["/a/b"], &[], "a/c", false),
            (&[], &["^x"], "xy", true),
            (&[], &["^x"], "yx", false),
            (&["a", "b"], &[], "b", true),
        ] {
            let exclude = ExcludeRules::new(globs).unwrap().with_regexes(regexes).unwrap().with_max_depth(Some(1));
            let copy = exclude.clone().without_root();
            assert!(exclude.without_match().is_some());
            copy.matches(path.as_bytes(), false);
            assert_eq!(exclude.without_match().is_none(), matches, "{globs:?} {regexes:?} {path}");
        }
        assert_eq!(ExcludeRules::default().with_max_depth(Some(0)).without_match(), None);
    }

    #[test]
    fn patterns_match_names_paths_and_directories() {
        let table: [(&str, &[u8], bool, bool); 24] = [
            ("*.o", b"a.o", false, true),
            ("*.o", b"x/y/a.o", false, true),
            ("*.o", b"x/y.o/a", false, false),
            ("*.o", b"a.ob", false, false),
            ("/tmp", b"tmp", true, true),
            ("/tmp", b"var/tmp", true, false),
            ("var/*", b"var/tmp", false, true),
            ("var/*", b"var/tmp/x", false, false),
            ("var/**", b"var/tmp/x", false, true),
            ("**/x", b"var/tmp/x", false, true),
            ("a/b", b"c/a/b", false, false),
            ("cache/", b"x/cache", true, true),
            ("cache/", b"x/cache", false, false),
            ("x/cache/", b"x/cache", true, true),
            ("/x/", b"y/x", true, false),
            ("{a,b}?", b"b1", false, true),
            ("[!a]x", b"ax", false, false),
            ("[!a]x", b"bx", false, true),
            ("\\*", b"*", false, true),
            ("\\*", b"a", false, false),
            ("caf?", b"caf\xe9", false, true),
            ("*\n*", b"a\nb", false, true),
            ("*", b"", true, false),
            (".*", b"a/.git", true, true),
        ];
        for (pattern, path, is_dir, expected) in table {
            let exclude = ExcludeRules::new([pattern]).unwrap();
            assert_eq!(exclude.matches(path, is_dir), expected, "{pattern} on {}", path.escape_ascii());
        }
    }

    #[test]
    fn entries_below_an_excluded_directory_are_covered() {
        let exclude = ExcludeRules::new(["doc/", "*.o"]).unwrap();
        assert!(exclude.covers(b"usr/doc/a", false) && exclude.covers(b"x.o/y", false));
        assert!(!exclude.covers(b"usr/doc", false) && exclude.covers(b"usr/doc", true));
        assert!(
            ExcludeRules::default().is_empty() && !exclude.is_empty() && !ExcludeRules::default().covers(b"a", true)
        );
    }

    #[test]
    fn what_lies_elsewhere_than_the_new_root_is_left_out() {
        let exclude = ExcludeRules::new(["/x", "*.o"]).unwrap().with_max_depth(Some(2)).with_root(Path::new("/a//b/"));
        for (path, left_out, in_archives) in [
            ("", false, false),
            ("a", false, false),
            ("a/b", false, false),
            ("a/b/c", false, false),
            ("a/b/c/d", false, false),
            ("a/b/c/d/e", true, true),
            ("a/b/x", true, true),
            ("a/b/c/x", false, false),
            ("a/b/c/y.o", true, true),
            ("a/bb", true, false),
            ("a/c", true, false),
            ("aa", true, false),
            ("x", true, false),
        ] {
            assert_eq!(exclude.covers(path.as_bytes(), false), left_out, "{path}");
            assert_eq!(exclude.clone().with_elsewhere().covers(path.as_bytes(), false), in_archives, "{path}");
        }
        assert!(exclude.clone().without_root().covers(b"x", false) && !exclude.without_root().covers(b"a/c", false));
        assert!(ExcludeRules::default().with_root(Path::new("/")).is_empty());
        assert_ne!(ExcludeRules::default().with_root(Path::new("a")).text(), ExcludeRules::default().text());
    }

    #[test]
    fn regexes_and_a_depth_leave_out_entries_as_globs_do() {
        let exclude =
            ExcludeRules::new(["*.o"]).unwrap().with_regexes(&["^usr/.*\\.so$"]).unwrap().with_max_depth(Some(2));
        for (path, expected) in [
            ("usr/a.so", true),
            ("usr/a.sox", false),
            ("x/usr/a.so", true),
            ("x.o", true),
            ("a", false),
            ("a/b", false),
            ("a/b/c", true),
        ] {
            assert_eq!(exclude.matches(path.as_bytes(), false), expected, "{path}");
        }
        assert!(exclude.covers(b"a/b/c/d", false) && !exclude.is_empty());
        let none = ExcludeRules::default().with_max_depth(Some(0));
        assert!(none.matches(b"a", true) && !none.matches(b"", true) && !none.is_empty());
        assert!(ExcludeRules::default().with_regexes::<&str>(&[]).unwrap().is_empty());
        assert!(!ExcludeRules::default().with_regexes(&["."]).unwrap().matches(b"", true), "the root stays");
    }

    #[test]
    fn malformed_patterns_are_named() {
        for pattern in ["[a", "a{b", "/", ""] {
            let error = ExcludeRules::new([pattern]).unwrap_err().to_string();
            assert!(error.contains(&format!("`{pattern}`")), "{error}");
        }
    }
}
