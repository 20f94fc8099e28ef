//! Bytes of the fuzzer as choices.

/// Takes choices from the front; at the end everything is zero.
#[derive(Debug)]
pub(crate) struct Take<'b>(pub(crate) &'b [u8]);

impl<'b> Take<'b> {
    pub(crate) fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn word(&mut self) -> u32 {
        u32::from(self.short()) | u32::from(self.short()) << 16
    }

    /// At most `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
