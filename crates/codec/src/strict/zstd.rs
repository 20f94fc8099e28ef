//! Headers of zstd frames: the window that a decoder has to keep.

/// Where the descriptor is, behind the magic number.
const DESCRIPTOR: usize = 4;
/// The flag of frames whose window is their content, and which declare none.
const SINGLE_SEGMENT: u8 = 1 << 5;
/// log2 of the smallest window.
const WINDOW_LOG_MIN: u8 = 10;

/// Why Linux does not decode a frame with a window of at most `window` bytes. What is damaged is for the decoder to tell.
pub(super) fn defect(frame: &[u8], window: u32) -> Option<String> {
    let [descriptor, byte, ..] = *frame.get(DESCRIPTOR..)? else { return None };
    if descriptor & SINGLE_SEGMENT != 0 {
        return None;
    }
    let base = 1u64 << (WINDOW_LOG_MIN + (byte >> 3));
    let declared = base + base / 8 * u64::from(byte & 7);
    (declared > window.into()).then(|| format!("a window of {declared} bytes, where Linux has one of {window}"))
}
