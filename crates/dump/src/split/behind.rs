//! Drops written data from the page cache: a dump is larger than memory, and nobody reads it soon.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use packfs_blocks::Storage;
use rustix::fs::{Advice, fadvise};

/// Maximum number of bytes in writeback before more are written. Without it, the kernel collects what memory holds, and
/// then writes in bursts.
const MAX_WRITEBACK_LEN: u64 = 8 << 20;

/// Tracks a file that is written from front to back.
#[derive(Debug)]
pub(super) struct WriteBehind {
    on: bool,
    /// Everything before this offset is on disk and no longer cached.
    dropped: u64,
    /// Writeback was started for everything before this offset.
    started: u64,
}

impl WriteBehind {
    /// Begins at byte `position`; does nothing unless `on`.
    pub(super) fn new(on: bool, position: u64) -> Self {
        WriteBehind { on, dropped: position, started: position }
    }

    /// Notes that everything before `position` is written. The error is that of writing something
    /// to the disk: the system reports it once, here or when the file is synced.
    pub(super) fn advance(&mut self, storage: &dyn Storage, position: u64) -> io::Result<()> {
        let Some(file) = storage.file().filter(|_| self.on) else { return Ok(()) };
        // Started at once and waited for later, so that the disk always has something to write.
        self.on = sync_range(file, self.started, position, libc::SYNC_FILE_RANGE_WRITE)?;
        self.started = position;
        let target = position.saturating_sub(MAX_WRITEBACK_LEN);
        // In larger steps, as each waits for the disk.
        if self.on && target >= self.dropped + MAX_WRITEBACK_LEN / 4 {
            const WAIT: libc::c_uint =
                libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
            self.on = sync_range(file, self.dropped, target, WAIT)?;
            let len = std::num::NonZeroU64::new(target - self.dropped);
            // A hint only.
            let _ = fadvise(file, self.dropped, len, Advice::DontNeed);
            self.dropped = target;
        }
        Ok(())
    }
}

/// Returns `false` if the file does not support it.
#[allow(unsafe_code, reason = "no safe binding of this call is among the dependencies")]
fn sync_range(file: &File, from: u64, to: u64, flags: libc::c_uint) -> io::Result<bool> {
    let (Ok(at), Ok(len)) = (i64::try_from(from), i64::try_from(to - from)) else { return Ok(false) };
    // SAFETY: the call takes no pointers, and the descriptor is open as long as `file` is borrowed.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), at, len, flags) };
    if result == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Only these say that data did not reach the disk. Any other error means that the file cannot do
        // this.
        Some(libc::EIO | libc::ENOSPC | libc::EDQUOT) => Err(error),
        _ => Ok(false),
    }
}
