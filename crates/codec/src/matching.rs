//! Comparisons that match finders share: whole words at unaligned places, and how far two positions agree.
#![allow(unsafe_code)]

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
/// so `data` must go on for seven bytes after the limit.
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

/// Has the processor fetch the memory of a value that is needed soon.
#[cfg(feature = "zstd")]
#[inline(always)]
pub(crate) fn prefetch(values: &[u32], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(value) = values.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction reads nothing and takes any address; every processor of this architecture has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, index);
}
