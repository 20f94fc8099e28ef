//! Bytes from an offset on, of sources that cannot begin there by themselves as [`FileAt`](super::FileAt) can.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::ReadAt;

/// The bytes of a source from an offset on: an image inside a larger object.
#[derive(Debug)]
pub struct ShiftedBytes {
    bytes: Arc<dyn ReadAt>,
    start: u64,
}

impl ShiftedBytes {
    /// Offsets count from `start`, in bytes.
    pub fn new(bytes: Arc<dyn ReadAt>, start: u64) -> Self {
        ShiftedBytes { bytes, start }
    }

    /// Returns a range of these bytes as one of the source.
    fn in_source(&self, range: &Range<u64>) -> Range<u64> {
        self.start.saturating_add(range.start)..self.start.saturating_add(range.end)
    }
}

impl ReadAt for ShiftedBytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.start.checked_add(offset).map_or(Ok(0), |at| self.bytes.read_at(buf, at))
    }

    fn len(&self) -> u64 {
        self.bytes.len().saturating_sub(self.start)
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.bytes.check_unchanged()
    }

    fn will_read(&self, range: Range<u64>) {
        self.bytes.will_read(self.in_source(&range));
    }

    fn will_read_ranges(&self, ranges: &[Range<u64>]) {
        let ranges_in_source: Vec<_> = ranges.iter().map(|range| self.in_source(range)).collect();
        self.bytes.will_read_ranges(&ranges_in_source);
    }

    fn has_delay(&self) -> bool {
        self.bytes.has_delay()
    }
}
