//! A MicroLZMA decoder that reports how far back a stream refers, which no library reports.

const PROBABILITY: u16 = 1 << 10;

/// Reads bits of a range coder; a stream that ends early continues with zeros.
struct Range<'a> {
    src: &'a [u8],
    at: usize,
    range: u32,
    code: u32,
}

impl Range<'_> {
    fn byte(&mut self) -> u32 {
        let byte = self.src.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte.into()
    }

    fn normalize(&mut self) {
        if self.range < 1 << 24 {
            self.range <<= 8;
            self.code = self.code << 8 | self.byte();
        }
    }

    fn bit(&mut self, probability: &mut u16) -> usize {
        self.normalize();
        let bound = (self.range >> 11) * u32::from(*probability);
        if self.code < bound {
            self.range = bound;
            *probability += (2048 - *probability) >> 5;
            0
        } else {
            self.range -= bound;
            self.code -= bound;
            *probability -= *probability >> 5;
            1
        }
    }

    fn direct(&mut self, bits: usize) -> usize {
        (0..bits).fold(0, |value, _| {
            self.normalize();
            self.range >>= 1;
            let bit = self.code >= self.range;
            self.code -= if bit { self.range } else { 0 };
            value << 1 | usize::from(bit)
        })
    }

    fn tree(&mut self, probabilities: &mut [u16], bits: usize) -> usize {
        (0..bits).fold(1, |at, _| at << 1 | self.bit(&mut probabilities[at])) - (1 << bits)
    }

    /// Reads bits, the lowest first.
    fn reverse(&mut self, probabilities: &mut [u16], bits: usize) -> usize {
        let (mut at, mut value) = (1, 0);
        for n in 0..bits {
            let bit = self.bit(&mut probabilities[at - 1]);
            at = at << 1 | bit;
            value |= bit << n;
        }
        value
    }
}

/// Lengths of matches.
struct Lengths {
    choice: [u16; 2],
    low: [[u16; 8]; 16],
    middle: [[u16; 8]; 16],
    high: [u16; 256],
}

impl Lengths {
    fn new() -> Self {
        let eight = [[PROBABILITY; 8]; 16];
        Lengths { choice: [PROBABILITY; 2], low: eight, middle: eight, high: [PROBABILITY; 256] }
    }

    fn next(&mut self, range: &mut Range<'_>, position: usize) -> usize {
        if range.bit(&mut self.choice[0]) == 0 {
            2 + range.tree(&mut self.low[position], 3)
        } else if range.bit(&mut self.choice[1]) == 0 {
            10 + range.tree(&mut self.middle[position], 3)
        } else {
            18 + range.tree(&mut self.high, 8)
        }
    }
}

/// Decodes `len` bytes. Returns them, and the largest distance of a match.
pub(super) fn decode(src: &[u8], len: usize) -> (Vec<u8>, usize) {
    let props = usize::from(!src[0]);
    let (lc, lp, pb) = (props % 9, props / 9 % 5, props / 45);
    let code = u32::from_be_bytes(*src[1..].first_chunk().unwrap());
    let range = &mut Range { src, at: 5, range: u32::MAX, code };
    let mut literals = vec![PROBABILITY; 0x300 << (lc + lp)];
    let (mut is_match, mut is_long) = ([[PROBABILITY; 16]; 12], [[PROBABILITY; 16]; 12]);
    let mut is_repeat = [[PROBABILITY; 12]; 4];
    let (mut matches, mut repeats) = (Lengths::new(), Lengths::new());
    let (mut slots, mut special, mut align) = ([[PROBABILITY; 64]; 4], [PROBABILITY; 128], [PROBABILITY; 16]);
    let (mut state, mut last, mut farthest) = (0, [0usize; 4], 0);
    let mut out: Vec<u8> = Vec::with_capacity(len);
    while out.len() < len {
        let position = out.len() & ((1 << pb) - 1);
        if range.bit(&mut is_match[state][position]) == 0 {
            let before = usize::from(out.last().copied().unwrap_or(0));
            let context = ((out.len() & ((1 << lp) - 1)) << lc) + (before >> (8 - lc));
            let literals = &mut literals[context * 0x300..][..0x300];
            let mut symbol = 1;
            if state >= 7 {
                let mut expected = usize::from(out[out.len() - 1 - last[0]]);
                let mut offset = 0x100;
                while symbol < 0x100 {
                    expected <<= 1;
                    let guess = expected & offset;
                    let bit = range.bit(&mut literals[offset + guess + symbol]);
                    symbol = symbol << 1 | bit;
                    offset &= if bit == 0 { !guess } else { guess };
                }
            }
            while symbol < 0x100 {
                symbol = symbol << 1 | range.bit(&mut literals[symbol]);
            }
            out.push((symbol & 0xff) as u8);
            state = [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 4, 5][state];
            continue;
        }
        let was_literal = state < 7;
        let mut count = 1;
        if range.bit(&mut is_repeat[0][state]) == 0 {
            count = matches.next(range, position);
            let slot = range.tree(&mut slots[(count - 2).min(3)], 6);
            last = [distance(range, slot, &mut special, &mut align), last[0], last[1], last[2]];
            state = if was_literal { 7 } else { 10 };
        } else {
            // One of the last four distances, which then becomes the latest.
            let again = match range.bit(&mut is_repeat[1][state]) {
                0 => 0,
                _ if range.bit(&mut is_repeat[2][state]) == 0 => 1,
                _ => 2 + range.bit(&mut is_repeat[3][state]),
            };
            last[..=again].rotate_right(1);
            if again == 0 && range.bit(&mut is_long[state][position]) == 0 {
                state = if was_literal { 9 } else { 11 };
            } else {
                count = repeats.next(range, position);
                state = if was_literal { 8 } else { 11 };
            }
        }
        farthest = farthest.max(last[0] + 1);
        for _ in 0..count {
            out.push(out[out.len() - 1 - last[0]]);
        }
    }
    out.truncate(len);
    (out, farthest)
}

fn distance(range: &mut Range<'_>, slot: usize, special: &mut [u16], align: &mut [u16]) -> usize {
    if slot < 4 {
        return slot;
    }
    let bits = (slot >> 1) - 1;
    let base = (2 | slot & 1) << bits;
    if slot < 14 {
        return base + range.reverse(&mut special[base - slot..], bits);
    }
    base + (range.direct(bits - 4) << 4) + range.reverse(align, 4)
}
