//! Calls that only Linux has: files without names, locks, copies by the kernel, limits of the process.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FallocateFlags, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::FileClaim;

/// File systems that copy ranges of files without passing the bytes through this machine's memory: by sharing blocks
/// (Btrfs, XFS, bcachefs, OCFS2, ZFS), or on a server (NFS, CIFS, SMB2, Ceph).
const COPYING: [u64; 9] =
    [0x9123_683e, 0x5846_5342, 0xca45_1a4e, 0x7461_636f, 0x2fc1_2fc1, 0x6969, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400];
/// Attribute with the access control list of a file.
const ACL: &str = "system.posix_acl_access";
/// Maximum length of an attribute value in Linux.
const XATTR_LEN_MAX: usize = 64 << 10;
/// Permissions of the group of a file; with an access control list, those that are allowed to anyone in it.
const GROUP_BITS: u32 = 0o070;
/// Unit in which the system counts the disk space of a file, in bytes.
const SECTOR_LEN: u64 = 512;
/// Assumed number of open descriptors if the system does not tell.
const OPEN: usize = 16;

/// Creates a file without a name in `dir`. Fails with [`io::ErrorKind::Unsupported`] where there are none.
pub fn create_unnamed(dir: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags, Mode::from_raw_mode(mode)) {
        Ok(fd) => Ok(File::from(fd)),
        // Without support for the flag, kernels and file systems see an attempt to open a
        // directory for writing.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// Gives a file without a name the name `path`. Never replaces a file.
pub fn name_file(file: &File, path: &Path) -> io::Result<()> {
    match rustix::fs::linkat(file.as_fd(), c"", CWD, path, AtFlags::EMPTY_PATH) {
        Err(errno) if errno != Errno::EXIST => {
            // Without CAP_DAC_READ_SEARCH the descriptor must be named through /proc.
            let name = format!("/proc/self/fd/{}", file.as_raw_fd());
            Ok(rustix::fs::linkat(CWD, name, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
        }
        done => Ok(done?),
    }
}

/// Creates `path`, which must not exist, with permissions `mode`.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)
}

/// Renames a file unless the target exists. Fails with [`io::ErrorKind::Unsupported`] or
/// [`io::ErrorKind::InvalidInput`] if the file system lacks the flag, or the kernel the call.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Locks a file as long as it is open.
pub fn claim(file: &File) -> FileClaim {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if file.metadata().is_ok_and(|found| found.nlink() > 0) => FileClaim::Ours,
        Ok(()) | Err(Errno::WOULDBLOCK) => FileClaim::Taken,
        Err(_) => FileClaim::Unknown,
    }
}

/// Opens a file that another process may have left, without following a link or waiting.
pub fn open_leftover(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens a block device to be overwritten; fails if it is mounted.
pub fn open_device(path: &Path) -> io::Result<File> {
    // O_EXCL on a block device means: fail if it is mounted.
    let options = OFlags::EXCL.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(options).open(path)
}

/// Makes a range of a block device read as zeros. Fails if the device cannot.
pub fn zero_range(device: &File, offset: u64, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(device, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, offset, len)?)
}

/// Has the kernel copy up to `len` bytes between files at offsets; returns the number of bytes that it copied.
pub fn copy_range(from: &File, mut start: u64, to: &File, mut offset: u64, len: usize) -> io::Result<usize> {
    Ok(rustix::fs::copy_file_range(from, Some(&mut start), to, Some(&mut offset), len)?)
}

/// Returns true if the file system of a file may copy ranges by itself.
pub fn copies_by_itself(file: &File) -> bool {
    let kind = rustix::fs::fstatfs(file).ok().and_then(|found| u64::try_from(found.f_type).ok());
    kind.is_some_and(|kind| COPYING.contains(&kind))
}

/// Gives a file the owner, the access control list and the permissions of the file at `path` that it will replace.
///
/// Attributes that this user cannot set are left out. Nobody gains rights by that: without the group or the list, the
/// group gets no permissions.
pub fn keep_access(path: &Path, old: &Metadata, new: &File) {
    let mut mode = old.mode() & 0o777;
    let Ok(made) = new.metadata() else { return };
    if made.uid() != old.uid() {
        // Only root may give a file away. The permissions of the owner are then those of the user who replaces the
        // file.
        let _ = rustix::fs::fchown(new, Some(Uid::from_raw(old.uid())), None);
    }
    if made.gid() != old.gid() && rustix::fs::fchown(new, None, Some(Gid::from_raw(old.gid()))).is_err() {
        mode &= !GROUP_BITS;
    }
    let mut list = vec![0; XATTR_LEN_MAX];
    match rustix::fs::getxattr(path, ACL, &mut list[..]) {
        Ok(len) => {
            if rustix::fs::fsetxattr(new, ACL, &list[..len], XattrFlags::empty()).is_err() {
                mode &= !GROUP_BITS;
            }
        }
        // The new file may have inherited a default list of its directory. This fails on file systems without lists.
        Err(_) => drop(rustix::fs::fremovexattr(new, ACL)),
    }
    // It fails on file systems without permissions, where all files have the same.
    let _ = rustix::fs::fchmod(new, Mode::from_raw_mode(mode));
}

/// Reserves space for the contents of one file in another, without changing its bytes or its length.
///
/// # Errors
/// If there is too little space. Not all file systems can reserve space, which is no error.
pub fn reserve_room(existing: &File, contents: &File) -> io::Result<()> {
    let wanted = contents.metadata()?;
    // Holes need no space. Space reserved at the beginning also serves the bytes after it.
    let len = wanted.len().min(wanted.blocks().saturating_mul(SECTOR_LEN));
    if len == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(existing, FallocateFlags::KEEP_SIZE, 0, len) {
        Err(full @ (Errno::NOSPC | Errno::DQUOT)) => Err(full.into()),
        _ => Ok(()),
    }
}

/// Fills `bytes` with random ones.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(())
}

/// Returns the number of descriptors that the process can still open; a very large one if there is no limit.
pub fn free_descriptors() -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return usize::MAX };
    // The listing has a descriptor of its own, which is closed again.
    let open = std::fs::read_dir("/proc/self/fd").map_or(OPEN, |listed| listed.count().saturating_sub(1));
    usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(open)
}

/// Returns the number of bytes that the process may still map, by the limits of its addresses (`RLIMIT_AS`) and of its
/// data (`RLIMIT_DATA`); `None` if neither is set. If the system does not tell what the process has mapped, that counts
/// as nothing.
pub fn address_room() -> Option<u64> {
    let addresses = getrlimit(Resource::As).current;
    let data = getrlimit(Resource::Data).current;
    if addresses.is_none() && data.is_none() {
        return None;
    }
    let in_use = InUse::now();
    let rooms = [
        addresses.map(|limit| limit.saturating_sub(in_use.addresses)),
        data.map(|limit| limit.saturating_sub(in_use.data)),
    ];
    rooms.into_iter().flatten().min()
}

/// Numbers of bytes that a process has mapped.
#[derive(Debug, Default)]
struct InUse {
    /// All addresses.
    addresses: u64,
    /// Private writable ones, and stacks.
    data: u64,
}

impl InUse {
    fn now() -> Self {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages: Vec<u64> = pages.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let bytes = |field: usize| pages.get(field).copied().unwrap_or(0) * rustix::param::page_size() as u64;
        // Fields as in proc(5): size, resident, shared, text, lib, data.
        InUse { addresses: bytes(0), data: bytes(5) }
    }
}

/// Returns true if an error means that this process may open no more files.
pub fn is_own_file_limit(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MFILE)
}

/// Returns true if an error means that no process may open more files, or not this one.
pub fn is_file_limit(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Returns the name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Opens standard input.
pub fn open_stdin() -> io::Result<File> {
    // Not io::stdin(), which reads a descriptor that cannot be read as an empty archive.
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_addresses_is_known() {
        let before = InUse::now();
        assert!(before.addresses > before.data && before.data > 0, "{before:?}");
    }
}
