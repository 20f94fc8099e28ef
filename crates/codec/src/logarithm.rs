//! Logarithms of counts, as prices of symbols.

/// The price of one bit.
pub(crate) const BIT: u32 = 256;

/// Fractions of the logarithms of 256 to 511, times 256.
static FRACTIONS: [u8; 256] = fractions();

/// Computes them in integers: eight squarings give eight bits.
const fn fractions() -> [u8; 256] {
    let mut fractions = [0; 256];
    let mut index = 0;
    while index < fractions.len() {
        // The middle of the step, with 30 bits after the point.
        let mut power: u64 = ((256 + index as u64) << 22) + (1 << 21);
        let mut log = 0_u32;
        let mut squaring = 0;
        while squaring < 8 {
            power = (power * power) >> 30;
            log <<= 1;
            if power >= 1 << 31 {
                power >>= 1;
                log |= 1;
            }
            squaring += 1;
        }
        fractions[index] = (log & 0xff) as u8;
        index += 1;
    }
    fractions
}

/// Returns the logarithm of `count`, which is not 0, as a price.
#[inline(always)]
pub(crate) fn log2(count: u32) -> u32 {
    let whole = count.ilog2();
    let step = count << (31 - whole) >> 23 & 0xff;
    whole * BIT + u32::from(FRACTIONS[step as usize])
}
