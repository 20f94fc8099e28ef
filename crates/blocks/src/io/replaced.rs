//! Files that an output replaces: the new file keeps their access, and a file that cannot be replaced is overwritten.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, Gid, Mode, Uid, XattrFlags};
use rustix::io::Errno;

use super::storage::Storage;

/// Attribute with the access control list of a file.
const ACL: &str = "system.posix_acl_access";
/// Maximum length of an attribute value in Linux.
const XATTR_LEN_MAX: usize = 64 << 10;
/// Permissions of the group of a file; with an access control list, those that are allowed to anyone in it.
const GROUP_BITS: u32 = 0o070;
/// Bytes copied at once.
const COPY_LEN: usize = 1 << 20;
/// Bytes at the beginning of an image that are written last. Without them it is not taken for one.
const HEAD_LEN: u64 = 4096;
/// Unit in which the system counts the disk space of a file, in bytes.
const SECTOR_LEN: u64 = 512;

/// Gives a file the owner, the access control list and the permissions of the file at `path` that it will replace.
///
/// Attributes that this user cannot set are left out. Nobody gains rights by that: without the group or the list, the
/// group gets no permissions.
pub(super) fn keep_access(path: &Path, old: &Metadata, new: &File) {
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

/// Returns true if the error means that files in a directory may not be created or replaced, though they may be
/// writable.
pub(super) fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::ResourceBusy)
}

/// Replaces the contents of a file and flushes them. If that is interrupted, the file has no beginning, so that a
/// mixture of old and new contents is never taken for an image.
///
/// # Errors
/// If there is no room, the file is unchanged. After any later error its old contents are gone, as the error says.
pub(super) fn overwrite(existing: &dyn Storage, contents: &dyn Storage) -> io::Result<()> {
    reserve_room(existing, contents)?;
    existing.set_len(0)?;
    fill(existing, contents).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{error}; it could only be overwritten in place: its old contents are lost"),
        )
    })
}

/// Reserves space for the new contents in the existing file, without changing its bytes or its length.
fn reserve_room(existing: &dyn Storage, contents: &dyn Storage) -> io::Result<()> {
    let (Some(old), Some(new)) = (existing.file(), contents.file()) else { return Ok(()) };
    let wanted = new.metadata()?;
    // Holes need no space. Space reserved at the beginning also serves the bytes after it.
    let len = wanted.len().min(wanted.blocks().saturating_mul(SECTOR_LEN));
    if len == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(old, FallocateFlags::KEEP_SIZE, 0, len) {
        Err(full @ (Errno::NOSPC | Errno::DQUOT)) => {
            // The file system may have reserved a part.
            let _ = existing.set_len(existing.len()?);
            Err(full.into())
        }
        // Not all file systems can reserve space.
        _ => Ok(()),
    }
}

/// Writes the contents to an empty file, the beginning last.
fn fill(existing: &dyn Storage, contents: &dyn Storage) -> io::Result<()> {
    let len = contents.len()?;
    let head_len = HEAD_LEN.min(len);
    existing.set_len(len)?;
    copy_range(existing, contents, head_len, len)?;
    existing.sync_data()?;
    copy_range(existing, contents, 0, head_len)?;
    existing.sync_all()
}

/// Copies the bytes from `start` to `end` to the same places of a file that has zeros there.
fn copy_range(existing: &dyn Storage, contents: &dyn Storage, start: u64, end: u64) -> io::Result<()> {
    let mut piece = vec![0; COPY_LEN];
    let mut at = start;
    while at < end {
        let piece_len = usize::try_from(end - at).unwrap_or(COPY_LEN).min(COPY_LEN);
        let piece = &mut piece[..piece_len];
        contents.read_exact_at(piece, at)?;
        // Zeros stay a hole.
        if piece.iter().any(|byte| *byte != 0) {
            existing.write_all_at(piece, at)?;
        }
        at += piece_len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::faults::{Fault, Faults};
    use crate::io::{FileSystem, Memory};

    #[test]
    fn contents_are_replaced_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for len in [0, 1, 4096, 4097, 3 << 20] {
            std::fs::write(file.path(), [0xee; 5000]).unwrap();
            let bytes: Vec<u8> = (0..len).map(|n: usize| u8::try_from(n % 251).unwrap()).collect();
            let contents = Memory::default();
            contents.write_all_at(&bytes, 0).unwrap();
            overwrite(file.as_file(), &contents).unwrap();
            assert!(std::fs::read(file.path()).unwrap() == bytes, "{len} bytes");
        }
    }

    #[test]
    fn after_a_failure_there_is_no_beginning_and_the_error_says_so() {
        let contents = tempfile::tempfile().unwrap();
        Storage::write_all_at(&contents, &[7; 10_000], 0).unwrap();
        for fault in [Fault::Full, Fault::Io] {
            for number in 0.. {
                let file = tempfile::NamedTempFile::new().unwrap();
                std::fs::write(file.path(), [0xee; 5000]).unwrap();
                let faults = Faults::failing(number, fault);
                let existing = faults.adopt(Box::new(file.reopen().unwrap()));
                let result = overwrite(&*existing, &contents);
                let found = std::fs::read(file.path()).unwrap();
                let Some(failed) = faults.failed() else {
                    assert!(result.is_ok() && found == [7; 10_000]);
                    break;
                };
                let told = result.unwrap_err().to_string();
                // The first operation gives up the old contents, and the last one flushes the new ones.
                let is_old = found == [0xee; 5000];
                assert_eq!((is_old, told.contains("its old contents are lost")), (number == 0, number > 0), "{told}");
                let has_beginning = found.iter().take(4096).any(|byte| *byte != 0);
                assert!(is_old || found == [7; 10_000] || !has_beginning, "{fault:?} of {failed}, number {number}");
            }
        }
    }
}
