//! Headers of zstd frames: the window that a decoder must keep.

/// Offset of the descriptor, after the magic number.
const DESCRIPTOR: usize = 4;
/// Flag of frames that declare no window because their content is the window.
const SINGLE_SEGMENT: u8 = 1 << 5;
/// log2 of the smallest window.
const WINDOW_LOG_MIN: u8 = 10;

/// Returns the reason why Linux cannot decode a frame with a window of at most `window` bytes.
/// Damage is left to the decoder to report.
pub(super) fn defect(frame: &[u8], window: u32) -> Option<String> {
    let [descriptor, byte, ..] = *frame.get(DESCRIPTOR..)? else { return None };
    if descriptor & SINGLE_SEGMENT != 0 {
        return None;
    }
    let base = 1u64 << (WINDOW_LOG_MIN + (byte >> 3));
    let declared = base + base / 8 * u64::from(byte & 7);
    (declared > window.into()).then(|| format!("a window of {declared} bytes; Linux allocates {window}"))
}
