//! Creates a described tree in a real directory, by names relative to open directories, so that
//! paths may exceed the system's limit.

use std::io::{self, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};

use super::{Attrs, Node, Piece, Spec, What, is_root};
use crate::tree::{self, DeviceNumber};

impl Spec {
    /// Creates the tree in `dir`, which exists and receives the root's attributes.
    pub fn create(&self, dir: &Path) -> Result<()> {
        let root = fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let What::Dir(entries) = &self.root.what else { return Err(io::ErrorKind::NotADirectory.into()) };
        for (name, node) in entries {
            create(root.as_fd(), name, node)?;
        }
        for (old, new) in &self.links {
            let (old_dir, old_name) = open_parent(root.as_fd(), old)?;
            let (new_dir, new_name) = open_parent(root.as_fd(), new)?;
            // The new name must not affect the time of its directory.
            let before = fs::fstat(&new_dir)?;
            fs::linkat(&old_dir, old_name, &new_dir, new_name, AtFlags::empty())?;
            fs::futimens(&new_dir, &times(before.st_mtime, u32::try_from(before.st_mtime_nsec).unwrap_or(0)))?;
        }
        set_attrs(root.as_fd(), b".", &self.root)
    }
}

fn create(dir: BorrowedFd<'_>, name: &[u8], node: &Node) -> Result<()> {
    match &node.what {
        What::Dir(entries) => {
            fs::mkdirat(dir, name, Mode::RWXU)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let inner = fs::openat(dir, name, flags, Mode::empty())?;
            for (name, node) in entries {
                create(inner.as_fd(), name, node)?;
            }
        }
        What::File(pieces) => write_file(dir, name, pieces)?,
        What::Symlink(target) => fs::symlinkat(target.as_slice(), dir, name)?,
        What::Char(device) => make_node(dir, name, FileType::CharacterDevice, *device)?,
        What::Block(device) => make_node(dir, name, FileType::BlockDevice, *device)?,
        What::Fifo => make_node(dir, name, FileType::Fifo, NO_DEVICE)?,
        What::Socket => make_node(dir, name, FileType::Socket, NO_DEVICE)?,
    }
    set_attrs(dir, name, node)
}

const NO_DEVICE: DeviceNumber = DeviceNumber { major: 0, minor: 0 };

fn make_node(dir: BorrowedFd<'_>, name: &[u8], kind: FileType, device: DeviceNumber) -> Result<()> {
    let number = fs::makedev(device.major, device.minor);
    Ok(fs::mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, number)?)
}

fn write_file(dir: BorrowedFd<'_>, name: &[u8], pieces: &[Piece]) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = std::fs::File::from(fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?);
    let mut buf = vec![0; 1 << 16];
    let mut start = 0;
    for piece in pieces {
        let mut at = 0;
        while at < piece.len() && !matches!(piece, Piece::Hole(_)) {
            let n = usize::try_from(piece.len() - at).map_or(buf.len(), |n| n.min(buf.len()));
            piece.fill(&mut buf[..n], at);
            file.write_all_at(&buf[..n], start + at)?;
            at += n as u64;
        }
        start += piece.len();
    }
    file.set_len(start)
}

/// Sets the owner first (it clears bits of the mode) and the time last.
fn set_attrs(dir: BorrowedFd<'_>, name: &[u8], node: &Node) -> Result<()> {
    let Attrs { mode, owner: (uid, gid), mtime, xattrs } = &node.attrs;
    if is_root() {
        let uid = fs::Uid::from_raw(*uid);
        let gid = fs::Gid::from_raw(*gid);
        fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    let through_proc = [format!("/proc/self/fd/{}/", dir.as_raw_fd()).as_bytes(), name].concat();
    for (key, value) in xattrs {
        fs::lsetxattr(through_proc.as_slice(), key.as_str(), value, fs::XattrFlags::empty())?;
    }
    if !matches!(node.what, What::Symlink(_)) {
        fs::chmodat(dir, name, Mode::from_raw_mode(u32::from(*mode)), AtFlags::empty())?;
    }
    fs::utimensat(dir, name, &times(mtime.secs, mtime.nanos), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

fn times(secs: i64, nanos: u32) -> Timestamps {
    let time = Timespec { tv_sec: secs, tv_nsec: i64::from(nanos) };
    Timestamps { last_access: time, last_modification: time }
}

fn open_parent<'p>(root: BorrowedFd<'_>, path: &'p [u8]) -> Result<(OwnedFd, &'p [u8])> {
    let mut names: Vec<&[u8]> = tree::components(path).collect();
    let last = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
    let mut dir = root.try_clone_to_owned()?;
    for name in names {
        dir = fs::openat(&dir, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok((dir, last))
}
