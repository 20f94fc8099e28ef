//! Bytes that count how many of them are read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use packfs_blocks::ReadAt;

/// An image in memory, and the number of bytes read from it so far.
#[derive(Debug)]
pub struct CountedReads {
    /// The image.
    pub bytes: Vec<u8>,
    /// Number of bytes read, those read twice counted twice.
    pub read: Arc<AtomicU64>,
}

impl ReadAt for CountedReads {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let got = self.bytes.read_at(buf, offset)?;
        self.read.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}
