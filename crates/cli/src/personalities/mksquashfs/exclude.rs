//! `-e` and `-ef`: names, globs or regular expressions of entries to leave out, as patterns of packfs.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use packfs_image::name::display;

use crate::personalities::command_line::CommandLine;
use crate::personalities::paths::glob_of;
use crate::personalities::refusals;
use crate::personalities::regex::translate_path;

/// Entries to leave out.
#[derive(Debug, Default)]
pub(super) struct ExcludedEntries {
    pub(super) names: Vec<OsString>,
    pub(super) patterns: ExcludeSyntax,
}

/// Ways to read the names.
#[derive(Debug, Default, Clone, Copy)]
pub(super) enum ExcludeSyntax {
    #[default]
    Literal,
    Globs,
    Regexes,
}

impl ExcludedEntries {
    /// Adds the lines of a file.
    pub(super) fn read(&mut self, path: &Path) -> Result<(), String> {
        let text = std::fs::read(path).map_err(|error| format!("-ef {}: cannot read: {error}", display(path)))?;
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
        let lines = lines.filter(|line| !line.is_empty() && line[0] != b'#');
        self.names.extend(lines.map(|line| std::ffi::OsStr::from_bytes(line).to_owned()));
        Ok(())
    }

    /// Returns true if there are names, and none of them selects anything: [`ExcludedEntries::options`] returns nothing then.
    pub(super) fn select_nothing(&self, options: &CommandLine) -> bool {
        !self.names.is_empty() && options.is_empty()
    }

    /// Returns options of `packfs build`.
    pub(super) fn options(&self, sources: &[PackedSource]) -> Result<CommandLine, String> {
        let mut line = CommandLine::default();
        // Collected over all names, so that the sources are searched only once for the other names of these
        // files.
        let mut linked = LinkedFiles::default();
        for name in &self.names {
            let text = name.to_str().ok_or_else(|| not_utf8(Path::new(name)))?;
            if !matches!(self.patterns, ExcludeSyntax::Literal) && is_system_path(text) {
                return Err(format!("-e {text}: with -wildcards and -regex nothing begins with /, ./ or ../"));
            }
            match self.patterns {
                ExcludeSyntax::Literal => {
                    let patterns = translate_literal(text, sources, &mut linked)?;
                    patterns.iter().for_each(|pattern| line.set("--exclude", pattern));
                }
                ExcludeSyntax::Globs => line.set("--exclude", translate_glob(text)?),
                ExcludeSyntax::Regexes => {
                    line.set("--exclude-regex", translate_path(text).map_err(|why| format!("-e {text}: {why}"))?);
                }
            }
        }
        for place in linked.names_in(sources) {
            let text = place.to_str().ok_or_else(|| not_utf8(&place))?;
            line.set("--exclude", glob_of(Path::new(text)).map_err(|why| format!("-e {text}: {why}"))?);
        }
        Ok(line)
    }
}

/// A file or directory to pack, and its path in the image.
#[derive(Debug)]
pub(super) struct PackedSource {
    pub(super) path: PathBuf,
    pub(super) place: PathBuf,
}

/// Translates a glob: relative to the root, or after `... ` to any directory.
fn translate_glob(text: &str) -> Result<String, String> {
    if ["!(", "@(", "+(", "*(", "?("].iter().any(|extended| text.contains(extended)) {
        return Err(refusals::EXTENDED_PATTERNS.error(format_args!("-e {text}")));
    }
    // Braces mean nothing in these globs, and neither do needless slashes.
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
    let plain = names.join("/").replace('{', "\\{").replace('}', "\\}");
    Ok(match plain.strip_prefix("... ").map(|anywhere| anywhere.trim_start_matches('/')) {
        Some(anywhere) if anywhere.contains('/') => format!("/**/{anywhere}"),
        Some(anywhere) => anywhere.to_owned(),
        None => format!("/{plain}"),
    })
}

/// Returns true for a path of this system, as mksquashfs decides it: any other is below the sources.
fn is_system_path(text: &str) -> bool {
    ["/", "./", "../"].iter().any(|prefix| text.starts_with(prefix))
}

fn not_utf8(path: &Path) -> String {
    format!("-e {}: not UTF-8", display(path))
}

/// Translates a path: below the sources, or on this system if it begins with `/`, `./` or `../`. Without sources of this
/// system it is a path in the image. A file with several names goes to `linked` instead.
fn translate_literal(text: &str, sources: &[PackedSource], linked: &mut LinkedFiles) -> Result<Vec<String>, String> {
    let path = Path::new(text);
    let files = if sources.is_empty() {
        Vec::new()
    } else if is_system_path(text) {
        vec![path.to_owned()]
    } else {
        sources.iter().map(|source| source.path.join(path)).collect()
    };
    let mut places = if sources.is_empty() { vec![path.to_owned()] } else { Vec::new() };
    for file in files {
        // Its other names have to be found first, and are then left out with this one.
        if !linked.take(&file) {
            places.extend(self::image_paths(&file, sources));
        }
    }
    places.iter().map(|place| glob_of(place).map_err(|why| format!("-e {text}: {why}"))).collect()
}

/// Returns the paths in the image of a file of this system, if it exists. Paths are compared without symbolic links,
/// `..` and needless slashes, as mksquashfs compares files by their inodes.
fn image_paths(path: &Path, sources: &[PackedSource]) -> Vec<PathBuf> {
    let Some(real) = real_path(path) else { return Vec::new() };
    let inside = |source: &PackedSource| {
        // A source that is a link to a directory is followed, but one to a file is packed as a link.
        let top = if source.path.symlink_metadata().ok()?.is_dir() {
            source.path.canonicalize().ok()?
        } else {
            real_path(&source.path)?
        };
        if let Ok(rest) = real.strip_prefix(&top) {
            return Some(source.place.join(rest));
        }
        // Where paths are kept whole, it may be a directory on the way to the source.
        let way = top.strip_prefix(&real).ok()?;
        let kept_names = source.place.components().count().checked_sub(way.components().count())?;
        source.place.ends_with(way).then(|| source.place.components().take(kept_names).collect())
    };
    // The root of the image is never left out.
    sources.iter().filter_map(inside).filter(|place| !place.as_os_str().is_empty()).collect()
}

/// Files with several names to leave out, by device and inode number: like mksquashfs, under all of their names.
#[derive(Debug, Default)]
struct LinkedFiles(HashSet<(u64, u64)>);

impl LinkedFiles {
    /// Takes a file; returns false if it has one name, is a directory, or does not exist.
    fn take(&mut self, file: &Path) -> bool {
        // Directories count their subdirectories as links.
        let attributes = file.symlink_metadata().ok().filter(|found| !found.is_dir() && found.nlink() > 1);
        attributes.map(|found| self.0.insert((found.dev(), found.ino()))).is_some()
    }

    /// Returns the paths in the image of all names that the files have in the sources. What cannot be read is passed over:
    /// the build tells it.
    fn names_in(&self, sources: &[PackedSource]) -> Vec<PathBuf> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut names = Vec::new();
        // No recursion: sources may be as deep as the file system allows.
        let mut waiting: Vec<_> = sources.iter().map(|source| (source.path.clone(), source.place.clone())).collect();
        while let Some((path, place)) = waiting.pop() {
            let Ok(attributes) = path.symlink_metadata() else { continue };
            if attributes.is_dir() {
                let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
                waiting.extend(entries.map(|entry| (entry.path(), place.join(entry.file_name()))));
            } else if self.0.contains(&(attributes.dev(), attributes.ino())) {
                names.push(place);
            }
        }
        // Directories are read in any order, and the command line is shown to users.
        names.sort();
        names
    }
}

/// Returns the path of a file that exists without symbolic links on the way to it.
fn real_path(path: &Path) -> Option<PathBuf> {
    path.symlink_metadata().ok()?;
    match (path.parent(), path.file_name()) {
        // Only the way to it: a link is left out itself, not what it leads to.
        (Some(dir), Some(name)) => {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            Some(dir.canonicalize().ok()?.join(name))
        }
        _ => path.canonicalize().ok(),
    }
}

/// Namespaces of extended attributes that an image can hold.
pub(in crate::personalities) const NAMESPACES: [&str; 3] = ["user.", "trusted.", "security."];

/// Translates a regular expression that names the extended attributes to keep, if it is a namespace: returns the globs of
/// the others.
pub(in crate::personalities) fn other_xattrs(expression: &str) -> Result<Vec<String>, String> {
    let wanted = expression.strip_prefix('^').map(|name| name.replace("\\.", "."));
    match wanted.filter(|wanted| NAMESPACES.contains(&wanted.as_str())) {
        Some(wanted) => Ok(NAMESPACES.iter().filter(|name| **name != wanted).map(|name| format!("{name}*")).collect()),
        None => Err(refusals::XATTR_NAMESPACES.error(expression)),
    }
}

/// Translates a regular expression for names of extended attributes, if it is a prefix.
pub(in crate::personalities) fn xattr_glob(expression: &str) -> Result<String, String> {
    let plain = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
    match expression.strip_prefix('^').map(|prefix| prefix.replace("\\.", ".")) {
        Some(prefix) if plain(&prefix) => Ok(format!("{prefix}*")),
        _ => Err(refusals::XATTR_PREFIXES.error(format_args!("-xattrs-exclude {expression}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_left_out_under_all_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["a/deep", "b"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        for name in ["a/one", "a/{two}", "outside"] {
            std::fs::write(path(name), "").unwrap();
        }
        for (name, link) in [("a/{two}", "a/deep/2"), ("a/{two}", "b/two"), ("outside", "b/inside")] {
            std::fs::hard_link(path(name), path(link)).unwrap();
        }
        let outside = path("outside").into_os_string();
        let source = |name: &str, place: &str| PackedSource { path: path(name), place: place.into() };
        let root = || vec![source("a", "")];
        let several = || vec![source("a", "a"), source("b", "b")];
        let whole = || vec![source("a/deep", "top/a/deep")];
        let with_file = || vec![source("b", "b"), source("outside", "outside")];
        for (sources, name, expected) in [
            (root(), "one".into(), &["/one"][..]),
            (root(), "{two}".into(), &["/deep/2", "/\\{two\\}"]),
            (root(), "deep".into(), &["/deep"]),
            (root(), outside.clone(), &[]),
            (several(), "deep/2".into(), &["/a/deep/2", "/a/\\{two\\}", "/b/two"]),
            (several(), "two".into(), &["/a/deep/2", "/a/\\{two\\}", "/b/two"]),
            (with_file(), outside.clone(), &["/b/inside", "/outside"]),
            (whole(), path("a").into_os_string(), &["/top/a"]),
            (whole(), path("a/deep").into_os_string(), &["/top/a/deep"]),
            (Vec::new(), "{two}".into(), &["/\\{two\\}"]),
        ] {
            let excluded = ExcludedEntries { names: vec![name], patterns: ExcludeSyntax::Literal };
            let options = excluded.options(&sources).unwrap();
            assert_eq!(options.values("--exclude").collect::<Vec<_>>(), expected, "{excluded:?} {sources:?}");
        }
    }
}
