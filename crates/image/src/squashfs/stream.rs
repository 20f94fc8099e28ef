//! Streamed images, whose superblock is at their end: `complete` moves it to its place.

use std::fs::File;
use std::path::Path;

use zerocopy::FromBytes;

use super::format::{MAGIC, MAGIC_STREAMED, Superblock};
use crate::{Error, Result};
use packfs_blocks::system::FileExt;

/// Length of the superblock.
const LEN: u64 = size_of::<Superblock>() as u64;

/// Puts the superblock at the end of the streamed image in a file at its beginning, and removes it from the end. After an
/// error, or if it is killed, the image is as it was or complete except for the superblock at its end, and `complete` may be
/// called again.
///
/// # Errors
/// [`Error::Damaged`] if the file is not a streamed image, or not a regular file.
pub fn complete(path: &Path) -> Result<()> {
    let damaged = |why: &str| Error::Damaged { path: path.to_owned(), why: why.into() };
    let file = File::options().read(true).write(true).open(path).map_err(Error::io("cannot open", path))?;
    let about = file.metadata().map_err(Error::io("cannot read", path))?;
    if !about.is_file() {
        return Err(damaged(
            "not a regular file: the superblock lies at the end of the image, and a device does not tell where that is; \
             complete the image in a file, then write it to the device",
        ));
    }
    let len = about.len();
    let end = len.checked_sub(LEN).filter(|end| *end >= LEN);
    let end = end.ok_or_else(|| damaged("not a streamed image: it is too short"))?;
    let read = |at| {
        let mut bytes = [0; size_of::<Superblock>()];
        file.read_exact_at(&mut bytes, at).map_err(Error::io("cannot read", path))?;
        Ok::<_, Error>(bytes)
    };
    let first = read(0)?;
    let last = read(end)?;
    // A superblock at both ends is left by a process that was killed.
    if first[..4] != MAGIC_STREAMED.to_le_bytes() && first != last {
        return Err(damaged("not a streamed image: it does not begin with `HSQS`"));
    }
    let is_whole = Superblock::read_from_bytes(&last)
        .is_ok_and(|last| last.s_magic.get() == MAGIC && last.bytes_used.get() <= end);
    if !is_whole {
        return Err(damaged("a streamed image without a superblock at its end: it is cut short, or bytes follow it"));
    }
    file.write_all_at(&last, 0).map_err(Error::io("cannot write", path))?;
    // An image without a superblock would be lost.
    file.sync_all().map_err(Error::io("cannot write", path))?;
    file.set_len(end).map_err(Error::io("cannot shorten", path))?;
    file.sync_all().map_err(Error::io("cannot write", path))
}
