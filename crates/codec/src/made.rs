//! Made-up bytes for the tests of encoders.

/// Returns `len` bytes of `count` different values, in an order that depends on `seed`.
pub(crate) fn letters(len: usize, mut seed: u64, count: u8) -> Vec<u8> {
    let step = |_| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_le_bytes()[3] % count
    };
    (0..len).map(step).collect()
}
