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

/// A directory to pack, and its path in the image.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) dir: PathBuf,
    pub(super) place: PathBuf,
}

/// Translates a glob: relative to the root, or after `... ` to any directory.
fn glob(text: &str) -> Result<String, String> {
    if ["!(", "@(", "+(", "*(", "?("].iter().any(|extended| text.contains(extended)) {
        return Err(refusals::EXTENDED_PATTERNS.error(format_args!("-e {text}")));
    }
    // Braces mean nothing in these globs.
    let plain = text.replace('{', "\\{").replace('}', "\\}");
    Ok(match plain.strip_prefix("... ").map(|anywhere| anywhere.trim_start_matches('/')) {
        Some(anywhere) if anywhere.contains('/') => format!("/**/{anywhere}"),
        Some(anywhere) => anywhere.to_owned(),
        None => format!("/{}", plain.trim_start_matches('/')),
    })
}

/// Translates a path: below the sources, or on this system if it begins with `/`, `./` or `../`. Without directories as
/// sources it is a path in the image.
fn literal(text: &str, sources: &[Source]) -> Result<Vec<String>, String> {
    let path = Path::new(text);
    let paths: Vec<PathBuf> = if sources.is_empty() {
        vec![path.to_owned()]
    } else if ["/", "./", "../"].iter().any(|prefix| text.starts_with(prefix)) {
        below(path, sources).into_iter().collect()
    } else {
        let there = sources.iter().filter(|source| source.dir.join(path).symlink_metadata().is_ok());
        there.map(|source| source.place.join(path)).collect()
    };
    paths.iter().map(|path| glob_of(path).map_err(|why| format!("-e {text}: {why}"))).collect()
}

/// Returns the path in the image of a path of this system.
fn below(path: &Path, sources: &[Source]) -> Option<PathBuf> {
    let whole = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    sources.iter().find_map(|source| {
        let inside = whole.strip_prefix(source.dir.canonicalize().ok()?).ok()?.to_owned();
        Some(source.place.join(inside))
    })
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
