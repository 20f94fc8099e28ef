//! Temporary files: without a name if the file system allows it, otherwise under a unique name.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_system::{FileSystem, SystemFiles, remove_litter};
use super::storage::Storage;
use crate::system::{self, OsStrExt};

/// Names tried before giving up; of 2^64 random ones the first is free.
const TRIES: usize = 16;

/// Number of hexadecimal digits in a temporary name.
const DIGITS: usize = 16;

/// A place for temporary files. They have no names, and are deleted when they are dropped.
#[derive(Debug, Clone)]
pub struct Scratch {
    files: Arc<dyn FileSystem>,
    /// The directories to try, in order.
    dirs: Vec<PathBuf>,
}

impl Scratch {
    /// Makes a place for files in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Scratch::on(Arc::new(SystemFiles), vec![dir.into()])
    }

    /// Makes a place for files in the first of `dirs` in which a file can be created.
    pub(super) fn on(files: Arc<dyn FileSystem>, dirs: Vec<PathBuf>) -> Self {
        Scratch { files, dirs }
    }

    /// Creates a file. If no directory works, the error is that of the first.
    pub fn file(&self) -> io::Result<Box<dyn Storage>> {
        let mut failed = None;
        for dir in &self.dirs {
            match self.file_in(dir) {
                Ok(file) => return Ok(file),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn file_in(&self, dir: &Path) -> io::Result<Box<dyn Storage>> {
        match self.files.create_unnamed(dir, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let (storage, path) = create(&*self.files, &dir.join("scratch"), 0o600)?;
                self.files.remove(&path)?;
                Ok(storage)
            }
            created => created,
        }
    }
}

/// A temporary name in use. Removed on drop, unless the file was renamed.
#[derive(Debug)]
pub(super) struct TemporaryName {
    files: Arc<dyn FileSystem>,
    path: Option<PathBuf>,
}

impl TemporaryName {
    /// Creates a file beside `target` under a temporary name.
    pub(super) fn create(
        files: &Arc<dyn FileSystem>,
        target: &Path,
        mode: u32,
    ) -> io::Result<(Box<dyn Storage>, TemporaryName)> {
        let (storage, path) = create(&**files, target, mode)?;
        Ok((storage, TemporaryName { files: Arc::clone(files), path: Some(path) }))
    }

    /// Gives a file without a name a temporary one beside `target`.
    pub(super) fn link(files: &Arc<dyn FileSystem>, file: &dyn Storage, target: &Path) -> io::Result<TemporaryName> {
        let ((), path) = with_new_name(target, |path| files.link(file, path))?;
        Ok(TemporaryName { files: Arc::clone(files), path: Some(path) })
    }

    /// Renames the file to `target`.
    pub(super) fn rename(mut self, target: &Path, replace: bool) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if replace { self.files.rename(path, target) } else { self.files.rename_new(path, target) }?;
        self.path = None;
        Ok(())
    }
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Best effort: there is nobody to report an error to.
            let _ = self.files.remove(path);
        }
    }
}

fn create(files: &dyn FileSystem, target: &Path, mode: u32) -> io::Result<(Box<dyn Storage>, PathBuf)> {
    with_new_name(target, |path| files.create_new(path, mode))
}

/// Calls `make` with a new temporary name for `target`, after removing files that dead runs left under such names.
fn with_new_name<T>(target: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    remove_litter(directory(target), |name| is_temporary(name, target));
    let mut tries = 0;
    loop {
        let path = temporary_name(target)?;
        tries += 1;
        match make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
            made => return Ok((made?, path)),
        }
    }
}

/// Returns the directory that `target` is in.
pub(super) fn directory(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes a name of the form `.NAME.packfs-` and random digits. Long names are shortened, as file
/// names have at most 255 bytes.
fn temporary_name(target: &Path) -> io::Result<PathBuf> {
    let mut random = [0; DIGITS / 2];
    system::fill_random(&mut random)?;
    let mut name = prefix(target);
    name.push(format!("{:016x}", u64::from_ne_bytes(random)));
    Ok(target.with_file_name(name))
}

fn prefix(target: &Path) -> OsString {
    let name = target.file_name().unwrap_or_default().as_bytes();
    let mut prefix = OsString::from(".");
    prefix.push(system::os_str(&name[..name.len().min(200)]));
    prefix.push(".packfs-");
    prefix
}

/// Returns true if `name` is a temporary name for `target`.
fn is_temporary(name: &OsStr, target: &Path) -> bool {
    let digits = name.as_bytes().strip_prefix(prefix(target).as_bytes());
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::faults::FaultyFiles;

    fn names(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_temporary_file_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let files: [Arc<dyn FileSystem>; 2] = [Arc::new(SystemFiles), Arc::new(FaultyFiles::new().without_unnamed())];
        for files in files {
            // The first directory does not exist.
            let dirs = vec![dir.path().join("nowhere"), dir.path().to_owned()];
            let kept = Scratch::on(files, dirs).file().unwrap();
            kept.write_all_at(b"kept", 3).unwrap();
            assert_eq!((kept.len().unwrap(), names(dir.path())), (7, 0));
        }
    }

    #[test]
    fn only_files_of_dead_runs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let files: Arc<dyn FileSystem> = Arc::new(FaultyFiles::new().without_unnamed());
        let stay = [".image.packfs-1234", ".other.packfs-0123456789abcdef", ".image.packfs-0123456789abcdeg", "image"];
        stay.iter().for_each(|name| std::fs::write(at(name), "x").unwrap());
        std::fs::create_dir(at(".image.packfs-00000000000000d1")).unwrap();
        std::os::unix::fs::symlink("image", at(".image.packfs-00000000000000d2")).unwrap();
        // Belongs to a run that is still alive, in this process or another.
        let (_storage, live) = TemporaryName::create(&files, &at("image"), 0o600).unwrap();
        std::fs::write(at(".image.packfs-0123456789abcdef"), "of a dead run").unwrap();
        let (_, other) = TemporaryName::create(&files, &at("image"), 0o600).unwrap();
        assert!(!at(".image.packfs-0123456789abcdef").exists());
        assert!(live.path.as_ref().unwrap().exists());
        assert_eq!(names(dir.path()), stay.len() + 2 + 2);
        drop((live, other));
        assert_eq!(names(dir.path()), stay.len() + 2);
    }

    #[test]
    fn the_longest_names_have_temporary_names() {
        let dir = tempfile::tempdir().unwrap();
        let name = temporary_name(&dir.path().join("n".repeat(255))).unwrap();
        std::fs::write(&name, "").unwrap();
        assert!(is_temporary(name.file_name().unwrap(), &dir.path().join("n".repeat(255))));
    }
}
