//! The beginning of a block with codes of its own: their lengths, with repeats, in a code of its own.
//!
//! Source: RFC 1951, section 3.2.7.

use super::bits::BitWriter;
use super::codes::{PrefixCoder, codes};
use super::symbols::{DISTANCES, END, LITERALS};

/// Number of symbols for lengths of codes.
const SYMBOLS: usize = 19;
/// Longest code of such a symbol.
const LIMIT: usize = 7;
/// Order in which the lengths of their codes are written.
const ORDER: [usize; SYMBOLS] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// Symbol that repeats the last length, those that repeat no length a few and many times; number of plain bits, fewest and
/// most repeats.
const AGAIN: LengthRepeat = LengthRepeat { symbol: 16, bits: 2, least: 3, most: 6 };
const FEW_ZEROS: LengthRepeat = LengthRepeat { symbol: 17, bits: 3, least: 3, most: 10 };
const MANY_ZEROS: LengthRepeat = LengthRepeat { symbol: 18, bits: 7, least: 11, most: 138 };

#[derive(Debug, Clone, Copy)]
struct LengthRepeat {
    symbol: u8,
    bits: u32,
    least: usize,
    most: usize,
}

/// Lengths of the codes of a block.
#[derive(Debug, Clone)]
pub(super) struct CodeLengths {
    pub(super) literals: [u8; LITERALS],
    pub(super) distances: [u8; DISTANCES],
}

impl CodeLengths {
    pub(super) const NONE: CodeLengths = CodeLengths { literals: [0; LITERALS], distances: [0; DISTANCES] };
}

/// How the lengths of a block's codes are written.
#[derive(Debug, Clone, Default)]
pub(super) struct CodeHeader {
    literals: usize,
    distances: usize,
    /// Symbols, each with the value of its plain bits and their number.
    tokens: Vec<(u8, u8, u8)>,
    lengths: [u8; SYMBOLS],
    /// Number of lengths in [`CodeHeader::lengths`], in their order, that are written.
    written: usize,
}

impl CodeHeader {
    /// Returns the shortest header: with or without each kind of repeats. Those that pay depend on the code, and the code
    /// on what is used.
    pub(super) fn shortest(lengths: &CodeLengths, coder: &mut PrefixCoder) -> CodeHeader {
        // The format has room for no fewer than 257 lengths of literals and one of distances.
        let literals = lengths.literals.iter().rposition(|len| *len > 0).map_or(0, |last| last + 1).max(END + 1);
        let distances = lengths.distances.iter().rposition(|len| *len > 0).map_or(0, |last| last + 1).max(1);
        let all: Vec<u8> = [&lengths.literals[..literals], &lengths.distances[..distances]].concat();
        let mut best = CodeHeader::default();
        let mut least = u64::MAX;
        for with in 0..8 {
            let mut header = CodeHeader { literals, distances, ..CodeHeader::default() };
            header.write_tokens(&all, with);
            header.code(coder);
            let bits = header.bits();
            if bits < least {
                (best, least) = (header, bits);
            }
        }
        best
    }

    /// Writes the lengths as tokens, with the repeats whose bits are set in `with`.
    fn write_tokens(&mut self, lengths: &[u8], with: u8) {
        for run in lengths.chunk_by(|one, other| one == other) {
            let len = run[0];
            let mut left = run.len();
            if len == 0 {
                left = self.repeat(left, Some(MANY_ZEROS).filter(|_| with & 1 != 0));
                left = self.repeat(left, Some(FEW_ZEROS).filter(|_| with & 2 != 0));
            } else if with & 4 != 0 {
                // The symbol repeats the length before it, so one length is written as it is.
                self.tokens.push((len, 0, 0));
                left = self.repeat(left - 1, Some(AGAIN));
            }
            self.tokens.extend((0..left).map(|_| (len, 0, 0)));
        }
    }

    /// Writes as much of a run as repeats can; returns the rest.
    fn repeat(&mut self, mut run: usize, repeat: Option<LengthRepeat>) -> usize {
        let Some(LengthRepeat { symbol, bits, least, most }) = repeat else { return run };
        while run >= least {
            // Leaves no rest that is too short, if that can be avoided.
            let count = if run > most && run - most < least { (run - least).max(least) } else { run.min(most) };
            self.tokens.push((symbol, (count - least) as u8, bits as u8));
            run -= count;
        }
        run
    }

    fn code(&mut self, coder: &mut PrefixCoder) {
        let mut counts = [0; SYMBOLS];
        self.tokens.iter().for_each(|(symbol, ..)| counts[usize::from(*symbol)] += 1);
        coder.lengths(&counts, LIMIT, &mut self.lengths);
        let last = ORDER.iter().rposition(|symbol| self.lengths[*symbol] > 0).expect("at least two have a code");
        // The format writes at least four.
        self.written = (last + 1).max(4);
    }

    /// Returns its length in bits.
    pub(super) fn bits(&self) -> u64 {
        let token = |(symbol, _, bits): &(u8, u8, u8)| u64::from(self.lengths[usize::from(*symbol)] + bits);
        5 + 5 + 4 + 3 * self.written as u64 + self.tokens.iter().map(token).sum::<u64>()
    }

    pub(super) fn write(&self, out: &mut BitWriter<'_>) {
        out.put((self.literals - END - 1) as u32, 5);
        out.put((self.distances - 1) as u32, 5);
        out.put((self.written - 4) as u32, 4);
        ORDER[..self.written].iter().for_each(|symbol| out.put(self.lengths[*symbol].into(), 3));
        let codes = codes(&self.lengths);
        for (symbol, extra, bits) in &self.tokens {
            let symbol = usize::from(*symbol);
            out.put(codes[symbol].into(), self.lengths[symbol].into());
            out.put((*extra).into(), (*bits).into());
        }
    }
}
