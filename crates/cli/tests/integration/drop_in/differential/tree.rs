//! All that a tree shows: names, attributes, contents, links and extended attributes, as lines of text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Length of the buffers for extended attributes.
const XATTR_MAX: usize = 64 << 10;

/// Returns a line for each entry, in the order of the paths.
pub(crate) fn lines(root: &Path) -> String {
    let mut out = String::new();
    let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
    entry(root, Path::new(""), &mut first, &mut out);
    out
}

/// Mounts an image and returns its lines; an error if the kernel does not mount it.
pub(crate) fn mounted(image: &Path, options: &str) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let options = format!("loop,ro{options}");
    let mounted = Command::new("mount").args(["-o", &options]).arg(image).arg(dir.path()).output().unwrap();
    if !mounted.status.success() {
        return Err(String::from_utf8_lossy(&mounted.stderr).into_owned());
    }
    let lines = lines(dir.path());
    // Others that look at all mounts may be in it.
    assert!(Command::new("umount").arg("-l").arg(dir.path()).status().unwrap().success(), "{image:?}");
    Ok(lines)
}

fn entry(root: &Path, inside: &Path, first: &mut BTreeMap<u64, PathBuf>, out: &mut String) {
    let path = root.join(inside);
    let stat = path.symlink_metadata().unwrap();
    let kind = stat.file_type();
    // That of a symbolic link means nothing.
    let mode = if kind.is_symlink() { 0o120_777 } else { stat.mode() };
    let (uid, gid) = (stat.uid(), stat.gid());
    let _ = write!(out, "/{} {mode:o} {uid}:{gid} {}", inside.to_string_lossy(), time(&stat));
    if kind.is_file() {
        let mut hasher = DefaultHasher::new();
        let _ = match std::fs::read(&path) {
            Ok(data) => {
                hasher.write(&data);
                write!(out, " {} {:016x}", data.len(), hasher.finish())
            }
            Err(error) => write!(out, " {} unreadable: {error}", stat.size()),
        };
    } else if kind.is_symlink() {
        let _ = write!(out, " -> {}", std::fs::read_link(&path).unwrap().to_string_lossy());
    } else if !kind.is_dir() {
        let _ = write!(out, " device {:x}", stat.rdev());
    }
    xattrs(&path, out);
    if !kind.is_dir() && stat.nlink() > 1 {
        let name = first.entry(stat.ino()).or_insert_with(|| inside.to_owned());
        let _ = write!(out, " {} links, /{}", stat.nlink(), name.to_string_lossy());
    }
    out.push('\n');
    if kind.is_dir() {
        let mut names: Vec<_> = path.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        for name in names {
            entry(root, &inside.join(name), first, out);
        }
    }
}

/// Formats the time of an entry. Times of the run differ by the moment, and some have no fraction of a second.
fn time(stat: &Metadata) -> String {
    let year = Duration::from_secs(3600 * 24 * 365);
    let lately = SystemTime::now().checked_sub(year).and_then(|then| then.duration_since(UNIX_EPOCH).ok());
    if lately.is_some_and(|then| u64::try_from(stat.mtime()).is_ok_and(|secs| secs > then.as_secs())) {
        return "now".into();
    }
    format!("{}.{:09}", stat.mtime(), stat.mtime_nsec())
}

fn xattrs(path: &Path, out: &mut String) {
    let mut buffer = vec![0; XATTR_MAX];
    let len = rustix::fs::llistxattr(path, &mut buffer[..]).unwrap_or(0);
    let mut names: Vec<Vec<u8>> = buffer[..len].split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    names.retain(|name| !name.is_empty());
    names.sort();
    for name in names {
        let name = std::ffi::OsStr::from_bytes(&name);
        let len = rustix::fs::lgetxattr(path, name, &mut buffer[..]).unwrap_or(0);
        let _ = write!(out, " {}={:?}", name.to_string_lossy(), String::from_utf8_lossy(&buffer[..len]));
    }
}
