//! Comparisons that match finders share: whole words at unaligned places, and how far two positions agree.

/// Returns the four bytes at `at`, as a little-endian number.
#[inline(always)]
pub(crate) fn four_bytes(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes"))
}

/// Returns the eight bytes at `at`, as a little-endian number.
#[inline(always)]
pub(crate) fn eight_bytes(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(data[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns how many bytes two positions of `data` share, from `known` up to `limit`. Eight bytes are compared at once,
/// so `data` must go on for seven bytes behind the limit.
#[inline(always)]
pub(crate) fn common(data: &[u8], one: usize, other: usize, known: usize, limit: usize) -> usize {
    let mut len = known;
    while len < limit {
        let differ = eight_bytes(data, one + len) ^ eight_bytes(data, other + len);
        if differ != 0 {
            return limit.min(len + (differ.trailing_zeros() / 8) as usize);
        }
        len += 8;
    }
    limit
}
