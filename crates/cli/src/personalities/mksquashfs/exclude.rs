//! `-e` and `-ef`: names, globs or regular expressions of entries to leave out, as patterns of packfs.

use crate::personalities::paths::glob_of;
use crate::personalities::refusals;
use crate::personalities::regex::path;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use packfs_image::name::display;

/// Entries to leave out.
#[derive(Debug, Default)]
pub(super) struct Excluded {
    pub(super) names: Vec<OsString>,
    pub(super) patterns: Patterns,
}

/// Ways to read the names.
#[derive(Debug, Default, Clone, Copy)]
pub(super) enum Patterns {
    #[default]
    Literal,
    Globs,
    Regexes,
}

impl Excluded {
    /// Adds the lines of a file.
    pub(super) fn read(&mut self, path: &Path) -> Result<(), String> {
        let text = std::fs::read(path).map_err(|error| format!("-ef {}: cannot read: {error}", display(path)))?;
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
        let lines = lines.filter(|line| !line.is_empty() && line[0] != b'#');
        self.names.extend(lines.map(|line| std::ffi::OsStr::from_bytes(line).to_owned()));
        Ok(())
    }

    /// Returns true if there are names, and none of them selects anything: [`Excluded::words`] returns nothing then.
    pub(super) fn select_nothing(&self, words: &[OsString]) -> bool {
        !self.names.is_empty() && words.is_empty()
    }

    /// Returns options of `packfs build`.
    pub(super) fn words(&self, sources: &[Source]) -> Result<Vec<OsString>, String> {
        let mut words = Vec::new();
        for name in &self.names {
            let text = name.to_str().ok_or_else(|| format!("-e {}: not UTF-8", display(Path::new(name))))?;
            let (option, patterns) = match self.patterns {
                Patterns::Literal => ("--exclude", literal(text, sources)?),
                Patterns::Globs => ("--exclude", vec![glob(text)?]),
                Patterns::Regexes => ("--exclude-regex", vec![path(text).map_err(|why| format!("-e {text}: {why}"))?]),
            };
            words.extend(patterns.into_iter().map(|pattern| OsString::from(format!("{option}={pattern}"))));
        }
        Ok(words)
    }
}

/// A file or directory to pack, and its path in the image.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) place: PathBuf,
}

/// Translates a glob: relative to the root, or after `... ` to any directory.
fn glob(text: &str) -> Result<String, String> {
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

/// Translates a path: below the sources, or on this system if it begins with `/`, `./` or `../`. Without sources of this
/// system it is a path in the image.
fn literal(text: &str, sources: &[Source]) -> Result<Vec<String>, String> {
    let path = Path::new(text);
    let places = if sources.is_empty() {
        vec![path.to_owned()]
    } else if ["/", "./", "../"].iter().any(|prefix| text.starts_with(prefix)) {
        places(path, sources)
    } else {
        sources.iter().flat_map(|source| places(&source.path.join(path), sources)).collect()
    };
    places.iter().map(|place| glob_of(place).map_err(|why| format!("-e {text}: {why}"))).collect()
}

/// Returns the paths in the image of a file of this system, if it exists. Paths are compared without symbolic links,
/// `..` and needless slashes, as mksquashfs compares files by their inodes.
fn places(path: &Path, sources: &[Source]) -> Vec<PathBuf> {
    let Some(real) = real_path(path) else { return Vec::new() };
    let inside = |source: &Source| {
        let top = if source.path.symlink_metadata().ok()?.is_dir() {
            source.path.canonicalize().ok()?
        } else {
            real_path(&source.path)?
        };
        Some(source.place.join(real.strip_prefix(top).ok()?))
    };
    // The root of the image is never left out.
    sources.iter().filter_map(inside).filter(|place| !place.as_os_str().is_empty()).collect()
}

/// Returns the path of a file that exists without symbolic links on the way to it.
fn real_path(path: &Path) -> Option<PathBuf> {
    path.symlink_metadata().ok()?;
    match (path.parent(), path.file_name()) {
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
pub(in crate::personalities) fn xattr(expression: &str) -> Result<String, String> {
    let plain = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
    match expression.strip_prefix('^').map(|prefix| prefix.replace("\\.", ".")) {
        Some(prefix) if plain(&prefix) => Ok(format!("{prefix}*")),
        _ => Err(refusals::XATTR_PREFIXES.error(format_args!("-xattrs-exclude {expression}"))),
    }
}
