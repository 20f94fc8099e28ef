//! Metadata on its way to the output: many small pieces, few large writes, and a digest of them.

use crate::Result;

/// Number of bytes written at a time: so many calls fewer for a buffer that is small beside the tree. Not measured.
const WRITE_LEN: usize = 1 << 20;

/// Collects bytes into large writes.
pub(crate) struct MetadataStream<F> {
    /// Writes bytes at an offset.
    write: F,
    /// Number of bytes written.
    written: u64,
    pending: Vec<u8>,
    hasher: blake3::Hasher,
}

impl<F: FnMut(&[u8], u64) -> Result<()>> MetadataStream<F> {
    pub(crate) fn new(write: F) -> Self {
        MetadataStream { write, written: 0, pending: Vec::with_capacity(WRITE_LEN), hasher: blake3::Hasher::new() }
    }

    /// Pads with zeros to `at` bytes after the start.
    pub(crate) fn seek(&mut self, at: u64) -> Result<()> {
        let zeros = at - self.written - self.pending.len() as u64;
        self.pending.resize(self.pending.len() + usize::try_from(zeros).expect("gaps are short"), 0);
        self.flush(WRITE_LEN)
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.pending.extend_from_slice(bytes);
        self.flush(WRITE_LEN)
    }

    /// Writes the pending bytes if there are at least `least`.
    fn flush(&mut self, least: usize) -> Result<()> {
        if self.pending.len() < least {
            return Ok(());
        }
        (self.write)(&self.pending, self.written)?;
        self.hasher.update(&self.pending);
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Pads to `len` bytes and writes everything; returns the hash of it.
    pub(crate) fn finish(mut self, len: u64) -> Result<blake3::Hash> {
        self.seek(len)?;
        self.flush(0)?;
        Ok(self.hasher.finalize())
    }
}
