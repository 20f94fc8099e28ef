//! Opens entries below a directory without ever following a symbolic link, however long the path is.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};

use crate::tree::path_of;

/// Longest path that a system call accepts, without the NUL.
const PATH_MAX: usize = 4095;

/// An open directory from which everything below it is opened.
#[derive(Debug)]
pub(super) struct ScanRoot {
    fd: OwnedFd,
    path: PathBuf,
    /// True if the kernel resolves whole paths without symbolic links in one call (Linux 5.6).
    resolves: bool,
    /// True to read files without updating their access time; cleared when the system first refuses.
    noatime: AtomicBool,
}

impl ScanRoot {
    /// Opens a directory; symbolic links on the way to it are followed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let fd = fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let probe = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolves = fs::openat2(&fd, ".", probe, Mode::empty(), ResolveFlags::NO_SYMLINKS).is_ok();
        Ok(ScanRoot { fd, path: path.to_owned(), resolves, noatime: AtomicBool::new(true) })
    }

    /// Returns the path by which the directory was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of an entry for messages.
    pub(super) fn name(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.path.clone() } else { self.path.join(path_of(path)) }
    }

    /// Opens a directory for reading.
    pub(super) fn open_dir(&self, path: &[u8]) -> Result<OwnedFd> {
        self.open_noatime(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a file for reading. Does not block if a pipe has taken its place.
    pub(super) fn open_file(&self, path: &[u8]) -> Result<OwnedFd> {
        self.open_noatime(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    /// Only the owner may skip updating the access time; for others the first refusal is remembered.
    fn open_noatime(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
        if self.noatime.load(Relaxed) {
            match self.open_beneath(path, flags | OFlags::NOATIME) {
                Err(Errno::PERM) => self.noatime.store(false, Relaxed),
                done => return done,
            }
        }
        self.open_beneath(path, flags)
    }

    fn open_beneath(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path = if path.is_empty() { b"." } else { path };
        // `O_PATH`, since directories on the way need not be readable.
        let through = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut held: Option<OwnedFd> = None;
        let mut rest = path;
        loop {
            let dir = held.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            let (piece, after) = self.split(rest)?;
            if after.is_empty() {
                return self.open_piece(dir, piece, flags);
            }
            held = Some(self.open_piece(dir, piece, through)?);
            rest = after;
        }
    }

    fn open_piece(&self, dir: BorrowedFd<'_>, piece: &[u8], flags: OFlags) -> Result<OwnedFd> {
        if self.resolves {
            fs::openat2(dir, piece, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        } else {
            fs::openat(dir, piece, flags, Mode::empty())
        }
    }

    /// Splits a path into the part that one call can open safely, and the rest. Without `openat2`, that is a single
    /// component: `O_NOFOLLOW` covers only the last one.
    fn split<'p>(&self, path: &'p [u8]) -> Result<(&'p [u8], &'p [u8])> {
        if self.resolves && path.len() <= PATH_MAX {
            return Ok((path, b""));
        }
        let slash = if self.resolves {
            path[..=PATH_MAX].iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?
        } else {
            match path.iter().position(|byte| *byte == b'/') {
                Some(at) => at,
                None => return Ok((path, b"")),
            }
        };
        Ok((&path[..slash], &path[slash + 1..]))
    }

    /// Returns the descriptor of the directory.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::deep;
    use std::os::unix::fs::symlink;

    #[test]
    fn both_ways_of_opening_refuse_links_anywhere_and_reach_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        deep(60, 100).create(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::fs::write(dir.path().join("real/file"), "x").unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        symlink("file", dir.path().join("real/also")).unwrap();
        let name = vec![b'd'; 100];
        let path = vec![name.as_slice(); 61].join(&b'/');
        assert!(path.len() > PATH_MAX);
        let mut root = ScanRoot::open(dir.path()).unwrap();
        for resolves in [root.resolves, false] {
            root.resolves = resolves;
            root.open_file(&path).unwrap();
            root.open_dir(&path[..path.len() - 101]).unwrap();
            root.open_file(b"real/file").unwrap();
            root.open_dir(b"").unwrap();
            for (path, errno) in [
                (&b"link/file"[..], [Errno::LOOP, Errno::NOTDIR]),
                (b"real/also", [Errno::LOOP; 2]),
                (b"real/gone", [Errno::NOENT; 2]),
            ] {
                assert!(errno.contains(&root.open_file(path).unwrap_err()), "{}", path.escape_ascii());
            }
            assert!(root.open_dir(b"link").is_err() && root.open_dir(b"real/file").is_err());
        }
    }
}
