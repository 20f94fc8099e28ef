//! Reads that are observed: to count them, or to show the speed of a disk.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::ReadAt;

/// Bytes that pass on how many of them each read returns.
pub struct ObservedReads {
    bytes: Arc<dyn ReadAt>,
    observe: Box<dyn Fn(u64) + Send + Sync>,
}

impl ObservedReads {
    /// Calls `observe` with the number of bytes of each read, on the thread that reads. Bytes read twice count twice.
    pub fn new(bytes: Arc<dyn ReadAt>, observe: impl Fn(u64) + Send + Sync + 'static) -> Self {
        ObservedReads { bytes, observe: Box::new(observe) }
    }

    /// Adds the number of bytes of each read to `counter`.
    pub fn counting(bytes: Arc<dyn ReadAt>, counter: Arc<AtomicU64>) -> Self {
        ObservedReads::new(bytes, move |len| {
            counter.fetch_add(len, Relaxed);
        })
    }
}

impl fmt::Debug for ObservedReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObservedReads").field(&self.bytes).finish()
    }
}

impl ReadAt for ObservedReads {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let got = self.bytes.read_at(buf, offset)?;
        (self.observe)(got as u64);
        Ok(got)
    }

    fn len(&self) -> u64 {
        self.bytes.len()
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.bytes.check_unchanged()
    }

    fn will_read(&self, range: Range<u64>) {
        self.bytes.will_read(range);
    }

    fn will_read_ranges(&self, ranges: &[Range<u64>]) {
        self.bytes.will_read_ranges(ranges);
    }

    fn has_delay(&self) -> bool {
        self.bytes.has_delay()
    }
}
