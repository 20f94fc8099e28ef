//! Counts the bytes read from a part, which shows the speed of each disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use packfs_blocks::ReadAt;

/// A part's bytes with a count of those read.
#[derive(Debug)]
pub(super) struct CountedReads {
    source: Arc<dyn ReadAt>,
    read: Arc<AtomicU64>,
}

impl CountedReads {
    pub(super) fn new(source: Arc<dyn ReadAt>) -> Self {
        CountedReads { source, read: Arc::default() }
    }

    /// Starts a new count.
    pub(super) fn restart(&self) -> Arc<AtomicU64> {
        self.read.store(0, Relaxed);
        Arc::clone(&self.read)
    }
}

impl ReadAt for CountedReads {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let got = self.source.read_at(buf, offset)?;
        self.read.fetch_add(got as u64, Relaxed);
        Ok(got)
    }

    fn len(&self) -> u64 {
        self.source.len()
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.source.check_unchanged()
    }
}
