//! The last three offsets of a zstd frame, which later matches can repeat for less than their bits.
//!
//! Source: RFC 8878, section 3.1.1.5.

/// Offsets that can be repeated, the last one first.
pub(super) type RepeatOffsets = [u32; 3];

/// Offsets at the beginning of a frame.
pub(super) const REPEATS: RepeatOffsets = [1, 4, 8];

/// Returns the offset of a repeat; its meaning depends on whether literals come before it.
#[inline(always)]
pub(super) fn repeated(repeats: RepeatOffsets, number: u32, after_literals: bool) -> u32 {
    match number - u32::from(after_literals) {
        0 => repeats[0],
        1 => repeats[1],
        2 => repeats[2],
        _ => repeats[0].wrapping_sub(1),
    }
}

/// Returns the repeats after a match.
#[inline(always)]
pub(super) fn after(repeats: RepeatOffsets, offset: u32, after_literals: bool) -> RepeatOffsets {
    let [first, second, third] = repeats;
    if offset > 3 {
        return [offset - 3, first, second];
    }
    let distance = repeated(repeats, offset, after_literals);
    match offset - u32::from(after_literals) {
        0 => repeats,
        1 => [distance, first, third],
        _ => [distance, first, second],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_follow_the_format() {
        let repeats = [10, 20, 30];
        assert_eq!([1, 2, 3].map(|number| repeated(repeats, number, true)), [10, 20, 30]);
        assert_eq!([1, 2, 3].map(|number| repeated(repeats, number, false)), [20, 30, 9]);
        assert_eq!([1, 2, 3].map(|number| after(repeats, number, true)), [[10, 20, 30], [20, 10, 30], [30, 10, 20]]);
        assert_eq!([1, 2, 3].map(|number| after(repeats, number, false)), [[20, 10, 30], [30, 10, 20], [9, 10, 20]]);
        assert_eq!(after(repeats, 3 + 77, true), [77, 10, 20]);
    }
}
