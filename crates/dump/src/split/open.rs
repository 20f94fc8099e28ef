//! Opens the parts: none may be overwritten without permission, used twice, or be the input.

use std::collections::HashMap;
use std::fs::{Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use packfs_blocks::Storage;
use packfs_blocks::io::{BlockDevice, FileSystem};
use packfs_blocks::name::display;
use rustix::fs::OFlags;

use super::options::SplitOptions;
use super::part::PartTarget;
use super::pipe::PipeStorage;
use crate::format::PARTS_MAX;
use crate::input::{FileIdentity, Input};
use crate::{Error, Result};

/// A part that is open for writing. If it was created, dropping this deletes it, unless it is kept.
#[derive(Debug)]
pub(super) struct OpenedPart {
    pub(super) path: PathBuf,
    pub(super) sink: PartTarget,
    pub(super) direct: bool,
    storage: Option<Box<dyn Storage>>,
    created: bool,
}

impl OpenedPart {
    /// Returns the storage of the part. From now on the file stays.
    pub(super) fn keep(&mut self) -> io::Result<Box<dyn Storage>> {
        self.created = false;
        self.storage.take().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Replaces the file by a new one that only its owner can read. The old one may belong to others, or they may have
    /// it open, and a dump holds whatever was in memory.
    fn replace(&mut self, files: &dyn FileSystem) -> Result<()> {
        let replaced = || {
            // The file itself, not a link to it.
            let path = self.path.canonicalize()?;
            std::fs::remove_file(&path)?;
            write_options(self.direct, OFlags::empty()).create_new(true).open(path)
        };
        let file = replaced().map_err(Error::io("cannot replace", &self.path))?;
        self.storage = Some(files.adopt(Box::new(file)));
        Ok(())
    }

    /// Flushes it to the disk.
    pub(super) fn flush(&self) -> Result<()> {
        self.storage
            .as_ref()
            .map_or(Ok(()), |storage| storage.sync_data())
            .map_err(Error::io("cannot flush", &self.path))
    }

    /// Truncates a file to `len`; anything else stays as it is.
    pub(super) fn cut(&self, len: u64) -> Result<()> {
        self.storage
            .as_ref()
            .map_or(Ok(()), |storage| storage.set_len(len))
            .map_err(Error::io("cannot cut", &self.path))
    }
}

impl Drop for OpenedPart {
    fn drop(&mut self) {
        if self.created {
            // Best effort: there is nobody to report an error to.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens all parts, or creates them with mode 0600. Nothing is changed before all checks have passed.
pub(super) fn open(
    files: &dyn FileSystem,
    paths: &[PathBuf],
    options: &SplitOptions,
    input: &Input,
) -> Result<Vec<OpenedPart>> {
    let found = check(paths, options, input)?;
    let mut opened = Vec::new();
    for (path, found) in paths.iter().zip(&found) {
        opened.push(open_one(files, path, found.as_ref(), options)?);
    }
    if !options.resume {
        // Only now, as none must be lost because another cannot be opened.
        for part in opened.iter_mut().filter(|part| !part.created && part.sink == PartTarget::File) {
            part.replace(files)?;
        }
    }
    Ok(opened)
}

pub(super) fn check(paths: &[PathBuf], options: &SplitOptions, input: &Input) -> Result<Vec<Option<Metadata>>> {
    let unsuitable = |path: &Path, why: String| Err(Error::unsuitable(path, why));
    if paths.is_empty() || paths.len() > PARTS_MAX {
        return Err(Error::option("parts", paths.len(), format!("accepted: 1 to {PARTS_MAX}")));
    }
    if usize::from(options.parity) >= paths.len() {
        let why = format!("needs at least {} parts, not {}", options.parity + 1, paths.len());
        return Err(Error::option("parity", options.parity, why));
    }
    let mut names = HashMap::new();
    let mut identities = HashMap::new();
    let mut all = Vec::new();
    for path in paths {
        let found = match std::fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("cannot open", path)(error)),
        };
        // Character devices may be shared: they take whatever is written.
        let is_shared = found.as_ref().is_some_and(|found| found.file_type().is_char_device());
        if let Some(other) = names.insert(resolved(path), path).filter(|_| !is_shared) {
            return unsuitable(path, format!("this part is already named (as {})", display(other)));
        }
        if let Some(found) = &found {
            let identity = FileIdentity::of(found);
            if found.is_dir() {
                return unsuitable(path, "a directory cannot be a part; name a file in it".to_owned());
            }
            if input.identity() == Some(identity) && !is_shared {
                return unsuitable(path, "this is the input; name another file".to_owned());
            }
            let other = identities.insert(identity, path).filter(|_| !is_shared);
            if let Some(other) = other {
                return unsuitable(path, format!("the same file as {}", display(other)));
            }
            let holds = found.is_file() || found.file_type().is_block_device();
            if holds && !options.force && !options.resume {
                return Err(Error::Exists { path: path.clone(), device: false });
            }
        }
        all.push(found);
    }
    Ok(all)
}

/// Returns the path with links and dots resolved, as far as such a file exists.
fn resolved(path: &Path) -> PathBuf {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match (path.canonicalize(), parent.canonicalize(), path.file_name()) {
        (Ok(whole), ..) => whole,
        (_, Ok(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// Returns the options to open a part with: private if it is created, with these flags and those of direct I/O.
fn write_options(direct: bool, mut flags: OFlags) -> OpenOptions {
    flags.set(OFlags::DIRECT, direct);
    let mut how = OpenOptions::new();
    how.write(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    how
}

fn open_one(
    files: &dyn FileSystem,
    path: &Path,
    found: Option<&Metadata>,
    options: &SplitOptions,
) -> Result<OpenedPart> {
    let sink = match found.map(Metadata::file_type) {
        Some(kind) if kind.is_block_device() => PartTarget::Device,
        Some(kind) if !kind.is_file() => PartTarget::Pipe,
        _ => PartTarget::File,
    };
    let created = found.is_none();
    let try_open = |direct: bool| {
        // On a block device: fail if it is mounted.
        let exclusive = if sink == PartTarget::Device { OFlags::EXCL } else { OFlags::empty() };
        write_options(direct, exclusive).create_new(created).open(path)
    };
    let direct = options.direct && sink != PartTarget::Pipe;
    let (file, direct) = match try_open(direct) {
        // Created and then refused: some file systems detect it in this order.
        Err(error) if direct && error.kind() == io::ErrorKind::InvalidInput => {
            if created {
                let _ = std::fs::remove_file(path);
            }
            (try_open(false), false)
        }
        file => (file, direct),
    };
    let file = file.map_err(Error::io(if created { "cannot create" } else { "cannot open" }, path))?;
    let storage: Box<dyn Storage> = match sink {
        PartTarget::File => Box::new(file),
        PartTarget::Device => Box::new(BlockDevice(file)),
        PartTarget::Pipe => Box::new(PipeStorage(file)),
    };
    Ok(OpenedPart { path: path.to_owned(), sink, direct, storage: Some(files.adopt(storage)), created })
}
