//! `Output`: a file that appears whole under its name, or not at all.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags};

/// An output file being written. Until [`commit`](Output::commit) the target is untouched; dropped
/// without it, or killed at any moment, nothing is left behind.
///
/// The bytes go to a file without a name (`O_TMPFILE`) in the target's directory, which is linked in and
/// renamed over the target at the end. Where the file system has no such files, a hidden
/// `.NAME.packfs-PID` beside the target takes its place, removed on drop. A block device is written in place.
#[derive(Debug)]
pub struct Output {
    file: File,
    target: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Unnamed,
    Named(PathBuf),
    Device,
    Sealed,
}

impl Output {
    /// Begins an output at `target` with permissions `mode` (less the umask). An existing target is an
    /// error of kind [`io::ErrorKind::AlreadyExists`] unless `replace`.
    pub fn create(target: &Path, mode: u32, replace: bool) -> io::Result<Self> {
        let found = std::fs::metadata(target);
        if let Ok(found) = &found {
            if found.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if !replace {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if found.file_type().is_block_device() {
                // O_EXCL on a block device means: fail if it is mounted.
                let options = rustix::fs::OFlags::EXCL.bits().cast_signed();
                let file = OpenOptions::new().read(true).write(true).custom_flags(options).open(target)?;
                return Ok(Output { file, target: target.into(), kind: Kind::Device });
            }
            if !found.is_file() {
                return Err(io::Error::other("neither a regular file nor a block device"));
            }
        }
        // Renaming over a symlink would replace the link: write where it points.
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let unnamed = rustix::fs::open(
            directory(&target),
            OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
            Mode::from_raw_mode(mode),
        );
        match unnamed {
            Ok(fd) => Ok(Output { file: fd.into(), target, kind: Kind::Unnamed }),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
                let temp = temporary_name(&target);
                let file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&temp)?;
                Ok(Output { file, target, kind: Kind::Named(temp) })
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Where the file will be.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Reads back what was written.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    /// The length written so far.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        match self.kind {
            Kind::Device => Ok(()),
            _ => self.file.set_len(len),
        }
    }

    /// The length of a block device, which cannot be set; `None` for a file.
    pub fn device_len(&self) -> io::Result<Option<u64>> {
        match self.kind {
            Kind::Device => Ok(Some(io::Seek::seek(&mut &self.file, io::SeekFrom::End(0))?)),
            _ => Ok(None),
        }
    }

    /// The `len` bytes at `offset` are zeros, and nothing was written there: in a file they stay a hole, a device,
    /// which has old bytes there, is told, or written to if it cannot be told.
    pub fn leave_zeros_at(&self, offset: u64, len: u64) -> io::Result<()> {
        if !matches!(self.kind, Kind::Device) || len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&self.file, flags, offset, len).is_ok() {
            return Ok(());
        }
        let zeros = [0; 1 << 16];
        let end = offset.saturating_add(len);
        for at in (offset..end).step_by(zeros.len()) {
            let piece = usize::try_from(end - at).unwrap_or(usize::MAX).min(zeros.len());
            self.file.write_all_at(&zeros[..piece], at)?;
        }
        Ok(())
    }

    /// Flushes to disk and puts the file under its name, then flushes the directory.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        let temp = match &self.kind {
            Kind::Device | Kind::Sealed => return Ok(()),
            Kind::Named(temp) => temp.clone(),
            Kind::Unnamed => {
                let temp = temporary_name(&self.target);
                self.link(&temp)?;
                temp
            }
        };
        self.kind = Kind::Named(temp.clone());
        std::fs::rename(&temp, &self.target)?;
        self.kind = Kind::Sealed;
        File::open(directory(&self.target))?.sync_all()
    }

    fn link(&self, name: &Path) -> io::Result<()> {
        let by_fd = rustix::fs::linkat(self.file.as_fd(), c"", CWD, name, AtFlags::EMPTY_PATH);
        // Without CAP_DAC_READ_SEARCH the descriptor has to be named through /proc.
        by_fd.or_else(|_| {
            use std::os::fd::AsRawFd;
            let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            rustix::fs::linkat(CWD, path, CWD, name, AtFlags::SYMLINK_FOLLOW)
        })?;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Kind::Named(temp) = &self.kind {
            // Nobody is left to tell if this fails.
            let _ = std::fs::remove_file(temp);
        }
    }
}

fn directory(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn temporary_name(target: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".packfs-{}", std::process::id()));
    target.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_is_seen_before_commit_and_nothing_left_without_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("image");
        let output = Output::create(&target, 0o644, false).unwrap();
        output.write_all_at(b"new", 0).unwrap();
        assert_eq!(names(dir.path()), Vec::<String>::new());
        drop(output);
        assert_eq!(names(dir.path()), Vec::<String>::new());
        let output = Output::create(&target, 0o600, false).unwrap();
        output.write_all_at(b"new", 0).unwrap();
        output.commit().unwrap();
        assert_eq!((names(dir.path()), std::fs::read(&target).unwrap()), (vec!["image".into()], b"new".to_vec()));
    }

    #[test]
    fn an_existing_target_is_refused_or_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("image");
        std::fs::write(&target, b"old contents").unwrap();
        let refused = Output::create(&target, 0o644, false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        let output = Output::create(&target, 0o644, true).unwrap();
        output.write_all_at(b"x", 0).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"old contents");
        output.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"x");
    }

    #[test]
    fn a_symlink_keeps_pointing_at_the_file_written() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        std::fs::write(&real, b"old").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let output = Output::create(&link, 0o644, true).unwrap();
        output.write_all_at(b"new", 0).unwrap();
        output.commit().unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read(&real).unwrap(), b"new");
    }

    #[test]
    fn a_directory_is_no_target() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Output::create(dir.path(), 0o644, true).is_err());
    }
}
