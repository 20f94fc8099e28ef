//! Files that an output replaces: a file that cannot be replaced is overwritten.

use std::io::{self, ErrorKind};

use super::storage::Storage;
use crate::system;

/// Bytes copied at once.
const COPY_LEN: usize = 1 << 20;
/// Bytes at the beginning of an image that are written last. Without them it is not taken for one.
const HEAD_LEN: u64 = 4096;

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
    system::reserve_room(old, new).inspect_err(|_| {
        // The file system may have reserved a part.
        let _ = existing.len().and_then(|len| existing.set_len(len));
    })
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
    use crate::io::faults::{FaultKind, FaultyFiles};
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
        for fault in [FaultKind::Full, FaultKind::Io] {
            for number in 0.. {
                let file = tempfile::NamedTempFile::new().unwrap();
                std::fs::write(file.path(), [0xee; 5000]).unwrap();
                let faults = FaultyFiles::failing(number, fault);
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
