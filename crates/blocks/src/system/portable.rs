//! Stands in for `linux` on other systems. A caller that can go without is told so by `Unsupported`, as by a file system
//! of Linux that cannot do it either.

use std::fs::{File, Metadata, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;

use super::FileClaim;

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: a hidden name is used instead.
pub fn create_unnamed(_dir: &Path, _mode: u32) -> io::Result<File> {
    unsupported()
}

/// Fails: no file is without a name.
pub fn name_file(_file: &File, _path: &Path) -> io::Result<()> {
    unsupported()
}

/// Creates `path`, which must not exist.
pub fn create_new(path: &Path, _mode: u32) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// Fails: a link, or a new file, takes the name first.
pub fn rename_new(_from: &Path, _to: &Path) -> io::Result<()> {
    unsupported()
}

/// Claims nothing: files that killed runs left stay.
pub fn claim(_file: &File) -> FileClaim {
    FileClaim::Unknown
}

/// Opens a file that another process may have left.
pub fn open_leftover(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Fails: only Linux tells whether a device is mounted.
pub fn open_device(_path: &Path) -> io::Result<File> {
    unsupported()
}

/// Fails: the device is overwritten.
pub fn zero_range(_device: &File, _offset: u64, _len: u64) -> io::Result<()> {
    unsupported()
}

/// Fails: the bytes are read and written.
pub fn copy_range(_from: &File, _start: u64, _to: &File, _offset: u64, _len: usize) -> io::Result<usize> {
    unsupported()
}

/// Returns false.
pub fn copies_by_itself(_file: &File) -> bool {
    false
}

/// Gives a file the permissions of the file that it will replace.
pub fn keep_access(_path: &Path, old: &Metadata, new: &File) {
    // It fails on file systems without permissions, where all files have the same.
    let _ = new.set_permissions(old.permissions());
}

/// Reserves nothing, as on file systems that cannot.
pub fn reserve_room(_existing: &File, _contents: &File) -> io::Result<()> {
    Ok(())
}

/// Fills `bytes` with those of hashes whose keys the standard library draws: enough for names of files.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    for piece in bytes.chunks_mut(8) {
        piece.copy_from_slice(&RandomState::new().hash_one(0).to_ne_bytes()[..piece.len()]);
    }
    Ok(())
}

/// Returns a very large number: no limit is known.
pub fn free_descriptors() -> usize {
    usize::MAX
}

/// Returns `None`: no limit is known.
pub fn address_room() -> Option<u64> {
    None
}

/// Returns false: the error is not known.
pub fn is_own_file_limit(_error: &io::Error) -> bool {
    false
}

/// Returns false: the error is not known.
pub fn is_file_limit(_error: &io::Error) -> bool {
    false
}

/// Returns an empty name.
pub fn host_name() -> String {
    String::new()
}

/// Fails: an archive has to be in a file.
pub fn open_stdin() -> io::Result<File> {
    unsupported()
}
