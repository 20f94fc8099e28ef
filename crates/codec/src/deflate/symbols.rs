//! Symbols of deflate streams: which one stands for a length or a distance, and how many plain bits follow it.
//!
//! Source: RFC 1951, section 3.2.5.

/// Shortest and longest match.
pub(super) const LEN_MIN: usize = 3;
pub(super) const LEN_MAX: usize = 258;
/// Greatest distance.
pub(super) const REACH: usize = 1 << 15;

/// Symbol that ends a block.
pub(super) const END: usize = 256;
/// Number of symbols of literals, of the end and of lengths. The last two are never used, but the fixed code has them.
pub(super) const LITERALS: usize = 288;
/// Number of symbols of distances.
pub(super) const DISTANCES: usize = 30;

/// Symbols of lengths, less those before them.
static LEN_SYMBOL: [u8; LEN_MAX + 1] = len_symbols();

/// Smallest length of each symbol, and the one after the last.
const LEN_BASE: [u16; 30] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258,
    259,
];

const fn len_symbols() -> [u8; LEN_MAX + 1] {
    let mut symbols = [0; LEN_MAX + 1];
    let mut symbol = 0;
    let mut len = LEN_MIN;
    while len <= LEN_MAX {
        if LEN_BASE[symbol + 1] as usize == len {
            symbol += 1;
        }
        symbols[len] = symbol as u8;
        len += 1;
    }
    symbols
}

/// A symbol and the plain bits after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodedSymbol {
    pub(super) symbol: usize,
    pub(super) extra: u32,
    pub(super) extra_bits: u32,
}

/// Returns what stands for a length.
#[inline(always)]
pub(super) fn of_len(len: usize) -> CodedSymbol {
    let symbol = usize::from(LEN_SYMBOL[len]);
    CodedSymbol {
        symbol: END + 1 + symbol,
        extra: len as u32 - u32::from(LEN_BASE[symbol]),
        extra_bits: len_bits(symbol),
    }
}

/// Returns the number of plain bits after a symbol of lengths, counted from 0.
const fn len_bits(symbol: usize) -> u32 {
    if symbol < 8 || symbol == 28 { 0 } else { symbol as u32 / 4 - 1 }
}

/// Returns the number of plain bits after a symbol of literals and lengths.
pub(super) fn literal_bits(symbol: usize) -> u32 {
    symbol.checked_sub(END + 1).map_or(0, len_bits)
}

/// Returns the number of plain bits after a symbol of distances.
pub(super) const fn distance_bits(symbol: usize) -> u32 {
    if symbol < 4 { 0 } else { symbol as u32 / 2 - 1 }
}

/// Returns the symbol of a distance, which is given less one.
#[inline(always)]
pub(super) fn distance_symbol(less_one: u32) -> usize {
    if less_one < 4 {
        return less_one as usize;
    }
    let log = less_one.ilog2();
    (2 * log + (less_one >> (log - 1) & 1)) as usize
}

/// Returns what stands for a distance, which is given less one.
#[inline(always)]
pub(super) fn of_distance(less_one: u32) -> CodedSymbol {
    let symbol = distance_symbol(less_one);
    let extra_bits = distance_bits(symbol);
    CodedSymbol { symbol, extra: less_one & ((1 << extra_bits) - 1), extra_bits }
}

/// A literal or a match, in four bytes: the distance less one in the lower 16 bits and the length above them. A literal
/// has length 1, and its byte in place of the distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeflateItem(u32);

impl DeflateItem {
    #[inline(always)]
    pub(super) fn literal(byte: u8) -> DeflateItem {
        DeflateItem(1 << 16 | u32::from(byte))
    }

    #[inline(always)]
    pub(super) fn matching(len: usize, distance_less_one: u32) -> DeflateItem {
        DeflateItem((len as u32) << 16 | distance_less_one)
    }

    /// Returns the number of bytes it stands for.
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        (self.0 >> 16) as usize
    }

    /// Returns the byte of a literal, or the distance less one.
    #[inline(always)]
    pub(super) fn value(self) -> u32 {
        self.0 & 0xffff
    }
}

/// Number of uses of each symbol in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeflateCounts {
    pub(super) literals: [u32; LITERALS],
    pub(super) distances: [u32; DISTANCES],
}

impl DeflateCounts {
    /// Returns the counts of a block without content: it has an end.
    pub(super) fn new() -> DeflateCounts {
        let mut literals = [0; LITERALS];
        literals[END] = 1;
        DeflateCounts { literals, distances: [0; DISTANCES] }
    }

    /// Returns the counts of a block of `items`.
    pub(super) fn of(items: &[DeflateItem]) -> DeflateCounts {
        let mut counts = DeflateCounts::new();
        items.iter().for_each(|item| counts.add(*item));
        counts
    }

    /// Returns the counts of a block of nothing but literals.
    pub(super) fn of_literals(data: &[u8]) -> DeflateCounts {
        let mut counts = DeflateCounts::new();
        data.iter().for_each(|byte| counts.literals[usize::from(*byte)] += 1);
        counts
    }

    #[inline(always)]
    pub(super) fn add(&mut self, item: DeflateItem) {
        if item.len() == 1 {
            self.literals[item.value() as usize] += 1;
        } else {
            self.literals[END + 1 + usize::from(LEN_SYMBOL[item.len()])] += 1;
            self.distances[distance_symbol(item.value())] += 1;
        }
    }

    /// Returns the number of plain bits after all symbols.
    pub(super) fn extra_bits(&self) -> u64 {
        let lens = (0..).zip(&self.literals).map(|(symbol, count)| u64::from(literal_bits(symbol) * count));
        let distances = (0..).zip(&self.distances).map(|(symbol, count)| u64::from(distance_bits(symbol) * count));
        lens.chain(distances).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_those_of_the_standard() {
        // (length, symbol, plain bits, their value)
        for (len, symbol, extra_bits, extra) in [
            (3, 257, 0, 0),
            (10, 264, 0, 0),
            (11, 265, 1, 0),
            (12, 265, 1, 1),
            (18, 268, 1, 1),
            (19, 269, 2, 0),
            (114, 279, 4, 15),
            (257, 284, 5, 30),
            (258, 285, 0, 0),
        ] {
            assert_eq!(of_len(len), CodedSymbol { symbol, extra, extra_bits }, "{len}");
        }
        for (distance, symbol, extra_bits, extra) in [
            (1, 0, 0, 0),
            (4, 3, 0, 0),
            (5, 4, 1, 0),
            (8, 5, 1, 1),
            (9, 6, 2, 0),
            (193, 15, 6, 0),
            (24_577, 29, 13, 0),
            (32_768, 29, 13, 8191),
        ] {
            assert_eq!(of_distance(distance - 1), CodedSymbol { symbol, extra, extra_bits }, "{distance}");
        }
    }
}
