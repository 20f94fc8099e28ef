//! The identity of a file: its length and the digest of its bytes.

use packfs_blocks::{Progress, ReadAt};

use crate::PatchEffort;
use crate::error::{Error, Result};

/// Bytes read and hashed at a time.
const CHUNK_LEN: usize = 1 << 20;

/// Longest file: offsets of the system are signed.
pub(crate) const FILE_LEN_MAX: u64 = i64::MAX.unsigned_abs();

/// Length and BLAKE3 digest of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// Length in bytes.
    pub len: u64,
    /// BLAKE3 digest of all bytes, as `b3sum` prints it.
    pub digest: [u8; 32],
}

impl FileIdentity {
    /// Reads the first `len` bytes of a file and computes their identity; counts bytes as done.
    pub(crate) fn of_beginning(bytes: &dyn ReadAt, len: u64, what: &'static str, effort: &PatchEffort) -> Result<Self> {
        let mut hasher = blake3::Hasher::new();
        each_chunk(bytes, 0..len, what, effort, &mut |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        Ok(FileIdentity { len, digest: *hasher.finalize().as_bytes() })
    }
}

/// Calls `take` for the bytes of a range, a chunk at a time; counts bytes as done.
pub(crate) fn each_chunk(
    bytes: &dyn ReadAt,
    range: std::ops::Range<u64>,
    what: &'static str,
    effort: &PatchEffort,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut chunk = vec![0; CHUNK_LEN];
    let mut at = range.start;
    while at < range.end {
        effort.check()?;
        let len = usize::try_from(range.end - at).unwrap_or(CHUNK_LEN).min(CHUNK_LEN);
        bytes.read_exact_at(&mut chunk[..len], at).map_err(Error::io(what))?;
        take(&chunk[..len])?;
        Progress::add(&effort.progress.done, len as u64);
        at += len as u64;
    }
    Ok(())
}
