//! Prices of literals and sequences in zstd blocks, estimated from how often each symbol was used so far.
//!
//! A sequence is a number of literals, the length of a match and its offset; each is coded by a symbol for its magnitude
//! and as many plain bits as that symbol says. Literals have a Huffman code and symbols have finite-state codes, so the
//! price of either is close to the logarithm of its share.
//!
//! Source: RFC 8878, sections 3.1.1.3.2.1.1 and 3.1.1.4.

pub(super) use crate::logarithm::BIT;
use crate::logarithm::log2;

/// A price above any that occurs.
pub(super) const INFINITE: u32 = 1 << 30;
/// Shortest match.
pub(super) const LEN_MIN: usize = 3;
/// Lengths of matches below this have a price of their own.
pub(super) const LENS: usize = 1 << 10;
/// Numbers of literals below this have a price of their own.
const RUNS: usize = 1 << 6;
/// Added to each match: fewer sequences decode faster.
const SEQUENCE: u32 = BIT / 5;
/// The same in large blocks, where fewer sequences also take fewer bytes.
const LARGE_SEQUENCE: u32 = 5 * BIT / 8;

const RUN_CODES: usize = 36;
const LEN_CODES: usize = 53;
const OFFSET_CODES: usize = 32;

/// Smallest number of literals of each code; the number of plain bits is the logarithm of the distance to the next.
const RUN_BASE: [u32; RUN_CODES + 1] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 28, 32, 40, 48, 64, 128, 256, 512, 1024,
    2048, 4096, 8192, 16384, 32768, 65536, 131_072,
];
/// Smallest length of each code.
const LEN_BASE: [u32; LEN_CODES + 1] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
    33, 34, 35, 37, 39, 41, 43, 47, 51, 59, 67, 83, 99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539,
    131_075,
];

/// Codes of small numbers of literals and of short matches.
static RUN_CODE: [u8; 64] = codes(&RUN_BASE);
static LEN_CODE: [u8; 131] = codes(&LEN_BASE);

const fn codes<const COUNT: usize>(base: &[u32]) -> [u8; COUNT] {
    let mut codes = [0; COUNT];
    let mut code = 0;
    let mut value = base[0] as usize;
    while value < COUNT {
        if base[code + 1] as usize == value {
            code += 1;
        }
        codes[value] = code as u8;
        value += 1;
    }
    codes
}

#[inline(always)]
fn run_code(literals: u32) -> usize {
    match RUN_CODE.get(literals as usize) {
        Some(code) => usize::from(*code),
        // A block of nothing but literals has no code, but needs a price.
        None => (literals.ilog2() as usize + 19).min(RUN_CODES - 1),
    }
}

#[inline(always)]
fn len_code(len: u32) -> usize {
    match LEN_CODE.get(len as usize) {
        Some(code) => usize::from(*code),
        None => (len - LEN_MIN as u32).ilog2() as usize + 36,
    }
}

/// Number of uses of each symbol.
#[derive(Debug)]
pub(super) struct ZstdCounts {
    literals: [u32; 256],
    runs: [u32; RUN_CODES],
    lens: [u32; LEN_CODES],
    offsets: [u32; OFFSET_CODES],
}

impl ZstdCounts {
    /// Returns the counts to begin with: literals as in `data`, all else as is usual, and none weighs much.
    pub(super) fn new(data: &[u8]) -> Self {
        let mut literals = [0; 256];
        data.iter().for_each(|byte| literals[usize::from(*byte)] += 1);
        literals.iter_mut().filter(|count| **count > 0).for_each(|count| *count = 1 + (*count >> 8));
        // What libzstd begins with, too: `baseLLfreqs` and `baseOFCfreqs` in zstd_opt.c.
        let mut runs = [1; RUN_CODES];
        let mut offsets = [1; OFFSET_CODES];
        runs[..2].copy_from_slice(&[4, 2]);
        offsets[..11].copy_from_slice(&[6, 2, 1, 1, 2, 3, 4, 4, 4, 3, 2]);
        ZstdCounts { literals, runs, lens: [1; LEN_CODES], offsets }
    }

    /// Counts a sequence; `offset` is its offset or repeat as the format numbers them.
    #[inline(always)]
    pub(super) fn add(&mut self, literals: &[u8], len: u32, offset: u32) {
        // Literals weigh twice as much, as in libzstd (`ZSTD_LITFREQ_ADD`).
        literals.iter().for_each(|byte| self.literals[usize::from(*byte)] += 2);
        self.runs[run_code(literals.len() as u32)] += 1;
        self.lens[len_code(len)] += 1;
        self.offsets[offset.ilog2() as usize] += 1;
    }

    /// Makes all that was counted weigh less than what follows.
    pub(super) fn age(&mut self) {
        scale(&mut self.literals, 12);
        scale(&mut self.runs, 11);
        scale(&mut self.lens, 11);
        scale(&mut self.offsets, 11);
    }
}

/// Brings the sum of `counts` to about 2^`log`, if it is greater.
fn scale(counts: &mut [u32], log: u32) {
    let factor = counts.iter().sum::<u32>() >> log;
    if factor > 1 {
        counts.iter_mut().for_each(|count| *count = 1 + (*count >> factor.ilog2()));
    }
}

#[derive(Debug)]
pub(super) struct ZstdPrices {
    /// Price of each byte as a literal.
    pub(super) literals: [u32; 256],
    runs: [u32; RUNS],
    run_codes: [u32; RUN_CODES],
    /// Price of each length below [`LENS`].
    pub(super) lens: Vec<u32>,
    offsets: [u32; OFFSET_CODES],
}

impl ZstdPrices {
    pub(super) fn new() -> Self {
        ZstdPrices {
            literals: [0; 256],
            runs: [0; RUNS],
            run_codes: [0; RUN_CODES],
            lens: vec![0; LENS],
            offsets: [0; OFFSET_CODES],
        }
    }

    /// Computes all prices anew, those of lengths up to `longest`.
    pub(super) fn update(&mut self, counts: &ZstdCounts, longest: usize, large: bool) {
        let sequence = if large { LARGE_SEQUENCE } else { SEQUENCE };
        // A Huffman code has at least one bit.
        self.literals = of_shares(&counts.literals, |_| 0).map(|price| price.max(BIT));
        self.run_codes = of_shares(&counts.runs, |code| (RUN_BASE[code + 1] - RUN_BASE[code]).ilog2());
        self.offsets = of_shares(&counts.offsets, |code| code as u32).map(|price| price + sequence);
        let lens = of_shares(&counts.lens, |code| (LEN_BASE[code + 1] - LEN_BASE[code]).ilog2());
        for (price, literals) in self.runs.iter_mut().zip(0..) {
            *price = self.run_codes[run_code(literals)];
        }
        let end = LENS.min(longest + 1);
        for (code, price) in lens.into_iter().enumerate() {
            let [from, to] = [LEN_BASE[code], LEN_BASE[code + 1]].map(|len| end.min(len as usize));
            self.lens[from..to].fill(price);
        }
    }

    /// Returns the price of a number of literals, without the literals themselves.
    #[inline(always)]
    pub(super) fn run(&self, literals: u32) -> u32 {
        match self.runs.get(literals as usize) {
            Some(price) => *price,
            None => self.run_codes[run_code(literals)],
        }
    }

    /// Returns the price of an offset or repeat, as the format numbers them.
    #[inline(always)]
    pub(super) fn offset(&self, offset: u32) -> u32 {
        self.offsets[offset.ilog2() as usize]
    }
}

/// Returns the prices of symbols, with the plain bits that go with them.
fn of_shares<const COUNT: usize>(counts: &[u32; COUNT], bits: impl Fn(usize) -> u32) -> [u32; COUNT] {
    let all = log2(1 + counts.iter().sum::<u32>());
    std::array::from_fn(|code| all.saturating_sub(log2(1 + counts[code])) + bits(code) * BIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_format() {
        for (literals, code) in
            [(0, 0), (15, 15), (16, 16), (17, 16), (18, 17), (63, 24), (64, 25), (65_536, 35), (131_072, 35)]
        {
            assert_eq!(run_code(literals), code, "{literals} literals");
        }
        for (len, code) in
            [(3, 0), (34, 31), (35, 32), (36, 32), (37, 33), (130, 42), (131, 43), (258, 43), (259, 44), (131_074, 52)]
        {
            assert_eq!(len_code(len), code, "length {len}");
        }
    }

    #[test]
    fn prices_follow_shares() {
        let mut prices = ZstdPrices::new();
        let mut counts = ZstdCounts::new(b"");
        (0..1000).for_each(|n| counts.add(if n % 4 == 0 { b"ab" } else { b"a" }, 7, 1));
        prices.update(&counts, LENS - 1, false);
        assert!(prices.run(1) < BIT && prices.run(2) > 3 * BIT / 2, "{} {}", prices.run(1), prices.run(2));
        assert_eq!(prices.literals[usize::from(b'a')], BIT, "no literal costs less than a bit");
        assert!(prices.lens[7] < BIT / 4 && prices.lens[8] > 8 * BIT);
        // The code of 35 and 36 has one plain bit.
        assert_eq!(prices.lens[35], prices.lens[34] + BIT);
        assert!(prices.offset(1) < BIT && prices.offset(1 << 20) > 28 * BIT);
    }
}
