//! Paths of other programs' command lines, as packfs takes them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns a path that cannot be taken for an option or a pack list.
pub(super) fn safe_path(path: &OsStr) -> OsString {
    match path.as_bytes() {
        // As `./@list` it is a path to packfs, and the same path to the system.
        [b'@' | b'-', _, ..] => PathBuf::from(".").join(path).into_os_string(),
        _ => path.to_owned(),
    }
}

/// Returns the glob that matches one path of an image only; an error if that is all of it.
pub(super) fn glob_of(path: &Path) -> Result<String, &'static str> {
    let path = path.to_string_lossy();
    let mut pattern = String::new();
    for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
        pattern.push('/');
        for letter in name.chars() {
            // What has a meaning in packfs's globs, so that it stands for itself.
            if "*?[]{}\\!".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
    }
    if pattern.is_empty() { Err("this would leave out everything") } else { Ok(pattern) }
}
