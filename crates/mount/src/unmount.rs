//! Unmounts, with or without privilege, whether or not the program behind the mount still lives.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use packfs_blocks::name::decode_octal;
use packfs_blocks::threads::program_limit;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::{Error, Result};

/// Programs that unmount for users without privilege.
const HELPERS: [&str; 4] = ["fusermount3", "fusermount", "/bin/fusermount3", "/bin/fusermount"];

/// Treatment of a mount that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmountMode {
    /// It stays, and that is an error.
    Now,
    /// It is taken out of the tree at once, and ends when nobody uses it any more.
    Detach,
}

/// Unmounts what is mounted by FUSE at `place`.
///
/// # Errors
/// [`Error::Place`] if nothing is, or something of another kind; [`Error::Busy`] if it is in use.
pub fn unmount(place: &Path, how: UnmountMode) -> Result<()> {
    let place = absolute(place)?;
    match mounted(&place).map_err(Error::io("cannot read the table of mounts", Path::new(MOUNTS)))? {
        Some(kind) if kind.starts_with("fuse") => {}
        Some(kind) => return Err(Error::place(&place, format!("a mount of type {kind}, not by FUSE"))),
        None => return Err(Error::place(&place, "nothing is mounted there")),
    }
    let flags = if how == UnmountMode::Detach { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(&place, flags) {
        Ok(()) => Ok(()),
        // Without privilege. The helper is set-user-ID and lets users unmount what they mounted.
        Err(Errno::PERM) => by_helper(&place, how),
        Err(Errno::BUSY) => Err(Error::Busy { path: place }),
        Err(error) => Err(Error::io("cannot unmount", &place)(error.into())),
    }
}

/// Unmounts by one of the helpers, whichever can be started.
fn by_helper(place: &Path, how: UnmountMode) -> Result<()> {
    for helper in HELPERS {
        let mut command = Command::new(helper);
        command.args(if how == UnmountMode::Detach { &["-u", "-z", "--"][..] } else { &["-u", "--"] }).arg(place);
        // It tells that a mount is in use by its message alone, so that must not be translated.
        match command.env("LC_ALL", "C").stdin(Stdio::null()).output() {
            Ok(done) if done.status.success() => return Ok(()),
            Ok(done) => {
                let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                if why.contains("busy") {
                    return Err(Error::Busy { path: place.to_owned() });
                }
                return Err(Error::place(place, format!("cannot unmount: {why}")));
            }
            Err(error) => {
                if let Some(limited) = program_limit(&error) {
                    return Err(Error::io("cannot unmount", place)(limited));
                }
                // Not there, not executable, or below a directory that may not be entered: the next one may be better.
            }
        }
    }
    Err(Error::NoFuse { why: no_helper() })
}

/// Returns true if one of the programs that mount for unprivileged users can be started.
pub(crate) fn has_helper() -> bool {
    HELPERS.iter().any(|helper| {
        let mut command = Command::new(helper);
        command.arg("-V").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    })
}

/// Says that users without privilege need a program that is not there.
pub(crate) fn no_helper() -> String {
    "fusermount3, which mounts and unmounts for users without privilege, is not installed (package fuse3)".into()
}

/// Returns an absolute path without links, though what is mounted there may not answer any more.
pub(crate) fn absolute(place: &Path) -> Result<PathBuf> {
    let failed = || Error::io("cannot find", place);
    let (parent, name) = match (place.parent(), place.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => (Path::new("."), name),
        (Some(parent), Some(name)) => (parent, name),
        // `.`, `..` and the root.
        _ => return place.canonicalize().map_err(failed()),
    };
    // The parent only: to resolve the last component asks the mount, which fails or hangs if its program is
    // gone.
    let path = parent.canonicalize().map_err(failed())?.join(name);
    let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    if is_link { path.canonicalize().map_err(failed()) } else { Ok(path) }
}

const MOUNTS: &str = "/proc/self/mountinfo";

/// Returns the type of the file system that is mounted at a path; of several the last, which covers the others.
fn mounted(place: &Path) -> io::Result<Option<String>> {
    let table = std::fs::read(MOUNTS)?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(|line| parse(line, place)).next_back())
}

/// Returns the type of the file system in a line of the table, if it is the line of `place`.
fn parse(line: &[u8], place: &Path) -> Option<String> {
    let mut fields = line.split(|byte| *byte == b' ');
    let here = OsString::from_vec(decode_octal(fields.nth(4)?));
    // A varying number of fields ends with a hyphen.
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    (Path::new(&here) == place).then(|| String::from_utf8_lossy(kind).into_owned())
}

/// Returns a path as an option of a mount can have it: commas end options.
pub(crate) fn without_commas(name: &str) -> String {
    // Commas separate options, and fusermount takes a backslash for an escape.
    name.replace([',', '\\', '\n'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_found_by_place() {
        let line = br"36 35 0:45 / /mnt/a\040b rw,noatime shared:1 master:2 - fuse.packfs a.sqfs ro,user_id=0";
        assert_eq!(parse(line, "/mnt/a b".as_ref()).as_deref(), Some("fuse.packfs"));
        assert_eq!(parse(line, "/mnt/a".as_ref()), None);
        assert_eq!(parse(b"", "/".as_ref()), None);
        assert_eq!(mounted("/proc".as_ref()).unwrap().as_deref(), Some("proc"));
    }

    #[test]
    fn only_what_fuse_mounted_is_unmounted() {
        assert!(unmount("/proc".as_ref(), UnmountMode::Now).unwrap_err().to_string().contains("type proc"));
        let dir = tempfile::tempdir().unwrap();
        assert!(unmount(dir.path(), UnmountMode::Detach).unwrap_err().to_string().contains("nothing is mounted"));
        assert!(unmount(&dir.path().join("none/dir"), UnmountMode::Now).is_err());
    }
}
