//! The place of an image that is being updated. Unlike other outputs, it stays after a failure, so that the next attempt
//! fetches only the rest: as NEW.part beside NEW, or on the device itself.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use packfs_blocks::Output;
use packfs_blocks::io::Storage;
use packfs_image::name::display;
use rustix::fs::{FlockOperation, Mode, OFlags, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use crate::output::target;

/// The file or device that an update writes, before it is opened.
pub(super) enum UpdateDestination {
    File { target: PathBuf, part: PathBuf, force: bool },
    Device(PathBuf),
}

/// The file or device that an update writes.
pub(super) enum OpenDestination {
    File { file: File, target: PathBuf, part: PathBuf, force: bool },
    Device(DeviceStorage),
}

impl UpdateDestination {
    /// Finds out what is to be written; fails if it exists and must not be replaced.
    pub(super) fn find(path: &Path, force: bool) -> Result<Self> {
        // `target::create` reports all that no output can be written to, and what exists.
        let found = fs::metadata(path);
        if found.as_ref().is_ok_and(|found| found.file_type().is_block_device()) {
            if !force {
                return Err(exists(path));
            }
            return Ok(UpdateDestination::Device(path.to_owned()));
        }
        drop(target::create(path, target::READABLE, force)?);
        // As for other outputs, the file that a link names is replaced, and not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut part = target.clone().into_os_string();
        part.push(".part");
        Ok(UpdateDestination::File { target, part: part.into(), force })
    }

    /// Opens the place for a file of so many bytes, with what an earlier attempt left there.
    pub(super) fn open(self, len: u64) -> Result<OpenDestination> {
        match self {
            UpdateDestination::File { target, part, force } => {
                let file = open_part(&part, &target)?;
                Ok(OpenDestination::File { file, target, part, force })
            }
            UpdateDestination::Device(path) => {
                let output = target::create(&path, target::READABLE, true)?;
                let device_len = output.device_len()?.unwrap_or_default();
                if device_len < len {
                    bail!("{}: the image has {len} bytes, the device only {device_len}", display(&path));
                }
                Ok(OpenDestination::Device(DeviceStorage(output)))
            }
        }
    }
}

/// Opens the file of an earlier attempt, or a new one, which nobody else may be writing. It is for those alone who may read
/// the file that it replaces.
fn open_part(part: &Path, target: &Path) -> Result<File> {
    let name = || display(part).to_string();
    // Also for its owner to go on with.
    let mode = fs::metadata(target).map_or(target::READABLE, |old| old.mode() & target::READABLE | 0o600);
    // No link is followed: whoever may create files beside NEW must not decide what is overwritten.
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(part, flags, Mode::from_raw_mode(mode)).with_context(name)?);
    if !file.metadata().with_context(name)?.is_file() {
        bail!("{}: not a regular file: remove it", name());
    }
    // Where there are no locks, two updates at once are not noticed.
    if let Err(Errno::WOULDBLOCK) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        bail!("{}: another packfs update writes it", name());
    }
    // The other update may have given it its name between the two calls.
    let named = fs::symlink_metadata(part).is_ok_and(|named| {
        file.metadata().is_ok_and(|opened| (named.dev(), named.ino()) == (opened.dev(), opened.ino()))
    });
    if named { Ok(file) } else { bail!("{}: another packfs update has just completed it", name()) }
}

impl OpenDestination {
    pub(super) fn storage(&self) -> &dyn Storage {
        match self {
            OpenDestination::File { file, .. } => file,
            OpenDestination::Device(device) => device,
        }
    }

    /// Says where the blocks stay that have come.
    pub(super) fn remains(&self) -> String {
        match self {
            OpenDestination::File { part, .. } => format!("{} keeps what has come", display(part)),
            OpenDestination::Device(device) => format!("{} is incomplete", display(device.0.target())),
        }
    }

    /// Removes a file to which nothing was written.
    pub(super) fn remove_empty(self) {
        if let OpenDestination::File { file, part, .. } = self
            && file.metadata().is_ok_and(|found| found.len() == 0)
        {
            let _ = fs::remove_file(part);
        }
    }

    /// Removes what turned out to be wrong; returns what is left to do.
    pub(super) fn discard(self) -> &'static str {
        match self {
            OpenDestination::File { part, .. } => {
                let _ = fs::remove_file(part);
                "not made; download it as a whole"
            }
            OpenDestination::Device(_) => "it has the wrong bytes: do not use it, download the image as a whole",
        }
    }

    /// Makes the image durable, and gives it its name.
    pub(super) fn complete(self) -> Result<()> {
        let (file, target, part, force) = match self {
            OpenDestination::File { file, target, part, force } => (file, target, part, force),
            OpenDestination::Device(DeviceStorage(output)) => return target::commit(output),
        };
        let failed = || format!("{}: cannot finish", display(&target));
        if let Ok(replaced) = fs::metadata(&target) {
            file.set_permissions(replaced.permissions()).with_context(failed)?;
        }
        file.sync_all().with_context(failed)?;
        rename(&part, &target, force)?;
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The name is there; a directory that cannot be flushed takes nothing of that back.
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
        Ok(())
    }
}

/// Renames a file; fails if `to` exists, unless it is to be replaced.
fn rename(from: &Path, to: &Path, replace: bool) -> Result<()> {
    let failed = || format!("{}: cannot finish", display(to));
    if replace {
        return fs::rename(from, to).with_context(failed);
    }
    match renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(exists(to)),
        // Some file systems cannot do both at once.
        Err(Errno::INVAL | Errno::NOSYS) if !to.exists() => fs::rename(from, to).with_context(failed),
        Err(Errno::INVAL | Errno::NOSYS) => Err(exists(to)),
        Err(error) => Err(anyhow::Error::new(std::io::Error::from(error)).context(failed())),
    }
}

fn exists(path: &Path) -> anyhow::Error {
    packfs_image::Error::Exists { path: path.to_owned() }.into()
}

/// A block device that is written in place.
#[derive(Debug)]
pub(super) struct DeviceStorage(Output);

impl Storage for DeviceStorage {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn len(&self) -> std::io::Result<u64> {
        Ok(self.0.device_len()?.unwrap_or_default())
    }

    fn set_len(&self, _: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn is_fixed(&self) -> bool {
        true
    }
}
