//! One block of a stream: which codes suit its symbols, how long it is with them, and writing it.
//!
//! Source: RFC 1951, section 3.2.

use super::bits::BitWriter;
use super::codes::{LIMIT, PrefixCoder, codes};
use super::header::{CodeHeader, CodeLengths};
use super::symbols::{DISTANCES, DeflateCounts, DeflateItem, END, LITERALS, of_distance, of_len};

/// Kinds of blocks.
const STORED: u32 = 0;
const FIXED: u32 = 1;
const DYNAMIC: u32 = 2;
/// Bits in front of each block: whether it is the last one, and its kind.
const KIND_BITS: u64 = 3;
/// Most bytes of a stored block.
const STORED_MAX: usize = 0xffff;
/// Counts are smoothed over stretches of at least this many symbols.
const STRETCH: usize = 4;
/// Lengths of the fixed codes.
static FIXED_LENGTHS: CodeLengths = fixed();

const fn fixed() -> CodeLengths {
    let mut literals = [8; LITERALS];
    let mut symbol = 144;
    while symbol < LITERALS {
        literals[symbol] = if symbol < 256 {
            9
        } else if symbol < 280 {
            7
        } else {
            8
        };
        symbol += 1;
    }
    CodeLengths { literals, distances: [5; DISTANCES] }
}

/// Codes of a block, and its length in bits with them.
#[derive(Debug, Clone)]
pub(super) struct BlockCodes {
    lengths: CodeLengths,
    /// `None` for the fixed codes, which need none.
    header: Option<CodeHeader>,
    pub(super) bits: u64,
}

impl BlockCodes {
    /// Returns the codes that make a block with these counts shortest.
    pub(super) fn best(counts: &DeflateCounts, coder: &mut PrefixCoder) -> BlockCodes {
        let exact = BlockCodes::dynamic(counts, counts, coder);
        let smooth = BlockCodes::dynamic(counts, &smoothed(counts), coder);
        let fixed = BlockCodes { lengths: FIXED_LENGTHS.clone(), header: None, bits: bits(counts, &FIXED_LENGTHS) };
        [exact, smooth, fixed].into_iter().min_by_key(|codes| codes.bits).expect("three")
    }

    /// Returns the codes that suit `like`, for a block with other counts.
    fn dynamic(counts: &DeflateCounts, like: &DeflateCounts, coder: &mut PrefixCoder) -> BlockCodes {
        let mut lengths = CodeLengths::NONE;
        coder.lengths(&like.literals, LIMIT, &mut lengths.literals);
        coder.lengths(&like.distances, LIMIT, &mut lengths.distances);
        let header = CodeHeader::shortest(&lengths, coder);
        let bits = bits(counts, &lengths) + header.bits();
        BlockCodes { lengths, header: Some(header), bits }
    }

    /// Writes a block of `items`, which stand for `data`; without codes, if that is shorter.
    pub(super) fn write(&self, items: &[DeflateItem], data: &[u8], is_last: bool, out: &mut BitWriter<'_>) {
        if stored_bits(data.len(), out) < self.bits {
            return store(data, is_last, out);
        }
        out.put(u32::from(is_last), 1);
        out.put(if self.header.is_some() { DYNAMIC } else { FIXED }, 2);
        if let Some(header) = &self.header {
            header.write(out);
        }
        let CodeLengths { literals: literal_lengths, distances: distance_lengths } = &self.lengths;
        let literals = codes(literal_lengths);
        let distances = codes(distance_lengths);
        for item in items {
            if item.len() == 1 {
                let byte = item.value() as usize;
                out.put(literals[byte].into(), literal_lengths[byte].into());
                continue;
            }
            let len = of_len(item.len());
            let distance = of_distance(item.value());
            out.put(literals[len.symbol].into(), literal_lengths[len.symbol].into());
            out.put(len.extra, len.extra_bits);
            out.put(distances[distance.symbol].into(), distance_lengths[distance.symbol].into());
            out.put(distance.extra, distance.extra_bits);
        }
        out.put(literals[END].into(), literal_lengths[END].into());
    }
}

/// Returns the length of a block with these codes, without what describes them.
fn bits(counts: &DeflateCounts, lengths: &CodeLengths) -> u64 {
    let sum = |counts: &[u32], lengths: &[u8]| -> u64 {
        counts.iter().zip(lengths).map(|(count, len)| u64::from(*count) * u64::from(*len)).sum()
    };
    let symbols = sum(&counts.literals, &lengths.literals) + sum(&counts.distances, &lengths.distances);
    KIND_BITS + symbols + counts.extra_bits()
}

/// Returns counts of which neighbours are equal where they are similar: the lengths of their codes are equal then, and
/// take less room in the header.
fn smoothed(counts: &DeflateCounts) -> DeflateCounts {
    let mut smooth = counts.clone();
    smooth_out(&mut smooth.literals);
    smooth_out(&mut smooth.distances);
    smooth
}

fn smooth_out(counts: &mut [u32]) {
    let mut at = 0;
    while at < counts.len() {
        let mut sum = counts[at];
        let mut len = 1;
        while let Some(count) = counts.get(at + len) {
            let mean = sum / len as u32;
            let near = if mean == 0 { *count == 0 } else { *count > 0 && count.abs_diff(mean) <= 2 + mean / 8 };
            if !near {
                break;
            }
            sum += count;
            len += 1;
        }
        if len >= STRETCH {
            counts[at..at + len].fill((sum + len as u32 / 2) / len as u32);
        }
        at += len;
    }
}

/// Returns the length of blocks that are stored as they are, after what is written.
fn stored_bits(len: usize, out: &BitWriter<'_>) -> u64 {
    let padding = (8 - (u64::from(out.in_byte()) + KIND_BITS) % 8) % 8;
    let blocks = len.div_ceil(STORED_MAX).max(1) as u64;
    // Blocks after the first begin with a byte, of which their kind and padding take all.
    (len as u64 + 4 * blocks) * 8 + KIND_BITS + padding + (blocks - 1) * 8
}

fn store(data: &[u8], is_last: bool, out: &mut BitWriter<'_>) {
    let mut blocks = data.chunks(STORED_MAX).peekable();
    while let Some(block) = blocks.next() {
        out.put(u32::from(is_last && blocks.peek().is_none()), 1);
        out.put(STORED, 2);
        out.align();
        let len = block.len() as u16;
        out.bytes(&len.to_le_bytes());
        out.bytes(&(!len).to_le_bytes());
        out.bytes(block);
    }
}
