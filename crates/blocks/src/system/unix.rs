//! Calls that all Unix systems have: names of any bytes, positional reads and writes, attributes of files.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::Metadata;
pub use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
pub use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

/// Returns a name in an image as one of the system.
pub fn os_str(name: &[u8]) -> Cow<'_, OsStr> {
    Cow::Borrowed(OsStr::from_bytes(name))
}

/// Returns device and inode number of a file.
pub fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Returns true if two paths are one file or one block device.
pub fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    let device = |file: &Metadata| file.file_type().is_block_device().then(|| file.rdev());
    identity(one) == identity(other) || (device(one).is_some() && device(one) == device(other))
}

/// Returns the permission bits of a file, with those of its type.
pub fn mode(file: &Metadata) -> u32 {
    file.mode()
}

/// Returns the time of last modification, in seconds and nanoseconds.
pub fn modification_time(file: &Metadata) -> (i64, i64) {
    (file.mtime(), file.mtime_nsec())
}

/// Returns the time of the last change of attributes, in seconds and nanoseconds.
pub fn change_time(file: &Metadata) -> (i64, i64) {
    (file.ctime(), file.ctime_nsec())
}

/// Creates a directory that only its owner may read, with those that lead to it, unless it exists.
pub fn create_private_dir(dir: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
