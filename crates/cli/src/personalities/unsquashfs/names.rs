//! Paths and patterns of unsquashfs, as those of packfs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use packfs_image::name::display;

use crate::personalities::{refusals, regex};

/// Reads the lines of a file of names, without blanks in front; `#` begins a comment.
pub(super) fn read_lines(path: &Path) -> Result<Vec<OsString>, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: cannot read: {error}", display(path)))?;
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
    let lines = lines.filter(|line| !line.is_empty() && line[0] != b'#');
    Ok(lines.map(|line| OsStr::from_bytes(line).to_owned()).collect())
}

/// Translates paths whose names are regular expressions.
pub(super) fn translate_regexes(paths: &[OsString]) -> Result<Vec<String>, String> {
    let translated = |path: &OsString| {
        let shown = display(Path::new(path)).to_string();
        let text = path.to_str().ok_or_else(|| format!("{shown}: not UTF-8"))?;
        regex::translate_path(text).map_err(|why| format!("{shown}: {why}"))
    };
    paths.iter().map(translated).collect()
}

/// Returns the path, or the glob, that selects what a name selects: braces mean nothing in it, and stars never cross a
/// slash. With `plain`, nothing in it means anything.
pub(super) fn translate_pattern(name: &OsStr, plain: bool) -> Result<OsString, String> {
    let bytes = name.as_bytes();
    if !plain && bytes.windows(2).any(|pair| pair[1] == b'(' && b"!@+*?".contains(&pair[0])) {
        return Err(refusals::EXTENDED_PATTERNS.error(display(Path::new(name))));
    }
    let special: &[u8] = if plain { b"*?[]{}\\" } else { b"{}" };
    let mut out = Vec::with_capacity(bytes.len());
    let mut after_star = false;
    let mut rest = bytes.iter().skip_while(|byte| **byte == b'/');
    while let Some(byte) = rest.next() {
        // Before it is tested for a meaning: the byte after a backslash has none.
        if *byte == b'\\' && !plain {
            // What it protects is no more special here.
            out.push(*byte);
            out.extend(rest.next());
            after_star = false;
            continue;
        }
        if special.contains(byte) {
            out.push(b'\\');
        } else if *byte == b'*' && after_star {
            // Two stars would cross slashes in packfs.
            continue;
        }
        after_star = *byte == b'*' && !plain;
        out.push(*byte);
    }
    // A path of slashes only is the root.
    Ok(OsString::from_vec(if out.is_empty() { b"/".to_vec() } else { out }))
}
