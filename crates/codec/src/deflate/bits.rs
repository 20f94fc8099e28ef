//! Writes bits, the lowest first.

/// Bits written into a buffer; once it is full, nothing more is written.
#[derive(Debug)]
pub(super) struct BitWriter<'a> {
    dst: &'a mut [u8],
    at: usize,
    held: u64,
    count: u32,
    is_full: bool,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(dst: &'a mut [u8]) -> Self {
        BitWriter { dst, at: 0, held: 0, count: 0, is_full: false }
    }

    /// Writes the lower `count` bits of `value`, at most 32, which has no others.
    #[inline(always)]
    pub(super) fn put(&mut self, value: u32, count: u32) {
        // Fewer than 32 bits are held and at most 32 are added, so 64 have room for them.
        self.held |= u64::from(value) << self.count;
        self.count += count;
        if self.count >= 32 {
            self.flush(4);
            self.held >>= 32;
            self.count -= 32;
        }
    }

    /// Returns true if something did not fit.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns how many bits of the last byte are written.
    pub(super) fn in_byte(&self) -> u32 {
        self.count % 8
    }

    /// Ends a byte.
    pub(super) fn align(&mut self) {
        let bytes = self.count.div_ceil(8);
        self.flush(bytes as usize);
        (self.held, self.count) = (0, 0);
    }

    /// Writes whole bytes at the end of a byte.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        match self.dst.get_mut(self.at..self.at + bytes.len()) {
            Some(to) if !self.is_full => to.copy_from_slice(bytes),
            _ => self.is_full = true,
        }
        // Moves on even if nothing was written, so that nothing shorter can be written after a gap.
        self.at += bytes.len();
    }

    #[inline(always)]
    fn flush(&mut self, bytes: usize) {
        let held = self.held.to_le_bytes();
        self.bytes(&held[..bytes]);
    }

    /// Ends the last byte; returns the number of bytes, or `None` if they did not fit.
    pub(super) fn finish(mut self) -> Option<usize> {
        self.align();
        (!self.is_full).then_some(self.at)
    }
}
