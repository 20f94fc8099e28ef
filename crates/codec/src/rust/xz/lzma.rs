//! LZMA decoding, written from the public description of the format, which `crate::lzma` sums up. Operations write straight
//! into the destination, which serves as the dictionary: so no header decides how much memory is used.
//!
//! Bytes beyond the end of the input are read as zeros and counted. One check after each operation then replaces one after
//! each byte, and an operation that took such bytes fails.

use super::{StreamResult, TOO_LONG, TOO_SHORT};

/// A range below this takes in another byte.
const TOP: u32 = 1 << 24;
/// log2 of the scale of probabilities.
const PROB_BITS: u32 = 11;
/// The probability of a bit about which nothing is known.
const EVEN: u16 = 1 << (PROB_BITS - 1);
/// Right shift of a probability's change with each bit.
const ADAPT_SHIFT: u32 = 5;
/// Bytes of the range coder's first code.
const CODE_LEN: usize = 4;

/// Number of states: the kinds of the last operations, as the format counts them.
const STATES: usize = 12;
/// The first state that does not follow a literal.
const FIRST_AFTER_COPY: usize = 7;
/// The state after a literal, by the state before it.
const AFTER_LITERAL: [usize; STATES] = [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 4, 5];
/// Greatest number of values that the position's low bits take.
const POSITIONS: usize = 16;
/// Probabilities of one model of literals: a tree, and two more for literals that follow a copy.
const LITERAL_PROBS: usize = 0x300;
/// Smallest length of a match or repeat, except the short repeat.
const LEN_MIN: u32 = 2;
/// Lengths less two below these are in the first and the second tree.
const LOW: u32 = 8;
const MID: u32 = 16;
/// The models of slots differ for lengths 2, 3, 4 and above.
const LEN_MODELS: usize = 4;
/// Distances below this are their own slots.
const FIRST_FOOTER: u32 = 4;
/// Slots from here on end in even bits and four modelled ones.
const FIRST_EVEN: u32 = 14;
/// Distances below this have modelled bits only.
const NEAR: usize = 128;
const ALIGN_BITS: u32 = 4;
/// The distance that marks the end of a stream.
const END_MARKER: u32 = u32::MAX;
/// The greatest sum of `lc` and `lp`. Other decoders refuse more, too: it bounds the number of models.
const LITERAL_BITS_MAX: u8 = 4;

/// The decoder of range-coded bits.
pub(super) struct RangeDecoder<'a> {
    src: &'a [u8],
    /// Offset of the next byte; beyond `src` if bytes were missing.
    at: usize,
    range: u32,
    code: u32,
}

impl<'a> RangeDecoder<'a> {
    /// Begins with the first byte of a stream, which is always zero.
    pub(super) fn new(src: &'a [u8]) -> StreamResult<Self> {
        match src.split_first() {
            Some((0, src)) => RangeDecoder::without_first(src),
            Some(_) => Err("the first byte is not zero"),
            None => Err(TOO_SHORT),
        }
    }

    /// Begins after the first byte of a stream.
    pub(super) fn without_first(src: &'a [u8]) -> StreamResult<Self> {
        let code = src.first_chunk::<CODE_LEN>().ok_or(TOO_SHORT)?;
        Ok(RangeDecoder { src, at: CODE_LEN, range: u32::MAX, code: u32::from_be_bytes(*code) })
    }

    /// Returns the bytes after the stream; to be called after [`RangeDecoder::end`].
    pub(super) fn rest(&self) -> &'a [u8] {
        self.src.get(self.at..).unwrap_or_default()
    }

    /// Takes in the byte that may be left of a finished stream. Returns true if the stream can end here.
    pub(super) fn end(&mut self) -> bool {
        self.normalize();
        self.code == 0 && !self.lacks_bytes()
    }

    fn lacks_bytes(&self) -> bool {
        self.at > self.src.len()
    }

    #[inline(always)]
    fn normalize(&mut self) {
        if self.range < TOP {
            self.range <<= 8;
            self.code = self.code << 8 | self.src.get(self.at).map_or(0, |byte| u32::from(*byte));
            self.at += 1;
        }
    }

    #[inline(always)]
    fn bit(&mut self, prob: &mut u16) -> u32 {
        self.normalize();
        let bound = (self.range >> PROB_BITS) * u32::from(*prob);
        if self.code < bound {
            self.range = bound;
            *prob += ((1 << PROB_BITS) - *prob) >> ADAPT_SHIFT;
            0
        } else {
            self.range -= bound;
            self.code -= bound;
            *prob -= *prob >> ADAPT_SHIFT;
            1
        }
    }

    /// Decodes `count` bits with even odds, the highest first. Without branches on the bits, which nobody can predict.
    #[inline(always)]
    fn even_bits(&mut self, count: u32) -> u32 {
        let mut value = 0;
        for _ in 0..count {
            self.normalize();
            self.range >>= 1;
            self.code = self.code.wrapping_sub(self.range);
            let borrow = self.code >> 31;
            self.code = self.code.wrapping_add(self.range & 0_u32.wrapping_sub(borrow));
            value = value << 1 | (borrow ^ 1);
        }
        value
    }

    /// Decodes a symbol below `SIZE`, a power of two, the highest bit first.
    #[inline(always)]
    fn tree<const SIZE: usize>(&mut self, probs: &mut [u16; SIZE]) -> u32 {
        let mut node = 1;
        while (node as usize) < SIZE {
            node = node << 1 | self.bit(&mut probs[node as usize]);
        }
        node ^ 1 << SIZE.ilog2()
    }

    /// Decodes a symbol of `bits` bits, the lowest first.
    #[inline(always)]
    fn reverse_tree(&mut self, probs: &mut [u16], bits: u32) -> u32 {
        let mut node = 1;
        let mut symbol = 0;
        for level in 0..bits {
            let bit = self.bit(&mut probs[node as usize]);
            node = node << 1 | bit;
            symbol |= bit << level;
        }
        symbol
    }
}

/// The destination, whose decoded part is the dictionary.
pub(super) struct OutputWindow<'a> {
    pub(super) dst: &'a mut [u8],
    /// Bytes decoded.
    pub(super) at: usize,
    /// Offset of the first byte that copies may reach.
    start: usize,
    /// Farthest that copies may reach back, in bytes.
    dict_len: usize,
}

impl<'a> OutputWindow<'a> {
    /// Begins at offset `at` of `dst`, with an empty dictionary.
    pub(super) fn new(dst: &'a mut [u8], at: usize, dict_len: u32) -> Self {
        OutputWindow { dst, at, start: at, dict_len: dict_len as usize }
    }

    /// Empties the dictionary.
    pub(super) fn reset(&mut self) {
        self.start = self.at;
    }

    /// Returns the byte at a distance (less one), or zero before the beginning.
    #[inline(always)]
    fn byte_back(&self, distance: u32) -> u8 {
        match (self.at - self.start).checked_sub(1).and_then(|last| last.checked_sub(distance as usize)) {
            Some(at) => self.dst[self.start + at],
            None => 0,
        }
    }

    /// Appends `len` bytes, for which there is room, from a distance (less one).
    #[inline(always)]
    fn copy(&mut self, distance: u32, len: usize) -> StreamResult<()> {
        let distance = distance as usize;
        if distance >= (self.at - self.start).min(self.dict_len) {
            return Err("a distance beyond the beginning or the dictionary");
        }
        let from = self.at - distance - 1;
        let end = self.at + len;
        // Each round copies all that is there from `from` on, so a short distance needs few rounds.
        while self.at < end {
            let part = (self.at - from).min(end - self.at);
            self.dst.copy_within(from..from + part, self.at);
            self.at += part;
        }
        Ok(())
    }

    /// Appends bytes as they are.
    pub(super) fn append(&mut self, bytes: &[u8]) -> StreamResult<()> {
        let to = self.dst.get_mut(self.at..self.at + bytes.len()).ok_or(TOO_LONG)?;
        to.copy_from_slice(bytes);
        self.at += bytes.len();
        Ok(())
    }
}

/// Bits of the literal and position models.
#[derive(Debug, Clone, Copy, Default)]
struct DecodedBits {
    lc: u8,
    lp: u8,
    pb: u8,
}

impl DecodedBits {
    /// Reads a properties byte.
    fn new(properties: u8) -> Option<Self> {
        let lc = properties % 9;
        let lp = properties / 9 % 5;
        let pb = properties / 45;
        (pb <= 4 && lc + lp <= LITERAL_BITS_MAX).then_some(DecodedBits { lc, lp, pb })
    }
}

/// Probabilities of lengths.
struct LengthProbs {
    not_low: u16,
    not_mid: u16,
    low: [[u16; LOW as usize]; POSITIONS],
    mid: [[u16; LOW as usize]; POSITIONS],
    high: [u16; 256],
}

impl LengthProbs {
    const START: LengthProbs = LengthProbs {
        not_low: EVEN,
        not_mid: EVEN,
        low: [[EVEN; LOW as usize]; POSITIONS],
        mid: [[EVEN; LOW as usize]; POSITIONS],
        high: [EVEN; 256],
    };

    #[inline(always)]
    fn decode(&mut self, range: &mut RangeDecoder<'_>, position: usize) -> u32 {
        if range.bit(&mut self.not_low) == 0 {
            LEN_MIN + range.tree(&mut self.low[position])
        } else if range.bit(&mut self.not_mid) == 0 {
            LEN_MIN + LOW + range.tree(&mut self.mid[position])
        } else {
            LEN_MIN + MID + range.tree(&mut self.high)
        }
    }
}

/// Probabilities of everything but literals.
struct OperationProbs {
    is_match: [[u16; POSITIONS]; STATES],
    is_repeat: [u16; STATES],
    /// A repeat is not of index 0, then not 1, then not 2.
    not_rep: [[u16; STATES]; 3],
    /// A repeat of index 0 is longer than one byte.
    is_long: [[u16; POSITIONS]; STATES],
    match_lengths: LengthProbs,
    repeat_lengths: LengthProbs,
    slots: [[u16; 64]; LEN_MODELS],
    footers: [u16; NEAR],
    align: [u16; 1 << ALIGN_BITS],
}

impl OperationProbs {
    const START: OperationProbs = OperationProbs {
        is_match: [[EVEN; POSITIONS]; STATES],
        is_repeat: [EVEN; STATES],
        not_rep: [[EVEN; STATES]; 3],
        is_long: [[EVEN; POSITIONS]; STATES],
        match_lengths: LengthProbs::START,
        repeat_lengths: LengthProbs::START,
        slots: [[EVEN; 64]; LEN_MODELS],
        footers: [EVEN; NEAR],
        align: [EVEN; 1 << ALIGN_BITS],
    };
}

/// An operation as it was decoded.
enum DecodedOperation {
    Literal(u8),
    /// A copy from a distance (less one); [`END_MARKER`] is the end of the stream.
    Copy {
        distance: u32,
        len: usize,
    },
}

/// Treatment of a copy that is longer than the room, by [`LzmaDecoder::decode`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OverlongCopy {
    /// The stream is damaged.
    Refuse,
    /// Only a beginning was asked for.
    Cut,
}

/// Reason why [`LzmaDecoder::decode`] stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodingStop {
    /// All bytes that were asked for are there.
    Full,
    /// The stream has an end marker.
    Marker,
}

/// The model of a stream; it is reused from stream to stream.
pub(super) struct LzmaDecoder {
    bits: DecodedBits,
    probs: Box<OperationProbs>,
    literals: Vec<[u16; LITERAL_PROBS]>,
    state: usize,
    /// The last distances (less one).
    reps: [u32; 4],
}

impl Default for LzmaDecoder {
    fn default() -> Self {
        let probs = Box::new(OperationProbs::START);
        LzmaDecoder { bits: DecodedBits::default(), probs, literals: Vec::new(), state: 0, reps: [0; 4] }
    }
}

impl LzmaDecoder {
    /// Begins a stream with this properties byte.
    pub(super) fn start(&mut self, properties: u8) -> StreamResult<()> {
        self.bits = DecodedBits::new(properties).ok_or("unsupported properties")?;
        self.restart();
        Ok(())
    }

    /// Begins a stream with the properties of the last one.
    pub(super) fn restart(&mut self) {
        *self.probs = OperationProbs::START;
        self.literals.clear();
        self.literals.resize(1 << (self.bits.lc + self.bits.lp), [EVEN; LITERAL_PROBS]);
        self.state = 0;
        self.reps = [0; 4];
    }

    /// Decodes until `end` bytes of the destination are filled, or to the end marker.
    pub(super) fn decode(
        &mut self,
        range: &mut RangeDecoder<'_>,
        out: &mut OutputWindow<'_>,
        end: usize,
        overlong: OverlongCopy,
    ) -> StreamResult<DecodingStop> {
        if end > out.dst.len() {
            return Err(TOO_LONG);
        }
        while out.at < end {
            let operation = self.operation(range, out);
            if range.lacks_bytes() {
                return Err(TOO_SHORT);
            }
            match operation {
                DecodedOperation::Literal(byte) => {
                    out.dst[out.at] = byte;
                    out.at += 1;
                }
                DecodedOperation::Copy { distance: END_MARKER, .. } => return Ok(DecodingStop::Marker),
                DecodedOperation::Copy { len, .. } if len > end - out.at && overlong == OverlongCopy::Refuse => {
                    return Err(TOO_LONG);
                }
                DecodedOperation::Copy { distance, len } => out.copy(distance, len.min(end - out.at))?,
            }
        }
        Ok(DecodingStop::Full)
    }

    /// Decodes one operation, which has to be the end marker.
    pub(super) fn expect_marker(&mut self, range: &mut RangeDecoder<'_>, out: &OutputWindow<'_>) -> StreamResult<()> {
        match self.operation(range, out) {
            _ if range.lacks_bytes() => Err(TOO_SHORT),
            DecodedOperation::Copy { distance: END_MARKER, .. } => Ok(()),
            _ => Err(TOO_LONG),
        }
    }

    #[inline(always)]
    fn operation(&mut self, range: &mut RangeDecoder<'_>, out: &OutputWindow<'_>) -> DecodedOperation {
        let position = (out.at - out.start) & ((1 << self.bits.pb) - 1);
        let state = self.state;
        let probs = &mut *self.probs;
        if range.bit(&mut probs.is_match[state][position]) == 0 {
            self.state = AFTER_LITERAL[state];
            return DecodedOperation::Literal(self.literal(range, out, state));
        }
        let after_literal = state < FIRST_AFTER_COPY;
        if range.bit(&mut probs.is_repeat[state]) == 0 {
            self.state = if after_literal { 7 } else { 10 };
            let len = probs.match_lengths.decode(range, position);
            let [a, b, c, _] = self.reps;
            let distance = probs.distance(range, len);
            self.reps = [distance, a, b, c];
            return DecodedOperation::Copy { distance, len: len as usize };
        }
        let mut index = 0;
        while index < 3 && range.bit(&mut probs.not_rep[index][state]) == 1 {
            index += 1;
        }
        if index == 0 && range.bit(&mut probs.is_long[state][position]) == 0 {
            self.state = if after_literal { 9 } else { 11 };
            return DecodedOperation::Copy { distance: self.reps[0], len: 1 };
        }
        self.reps[..=index].rotate_right(1);
        self.state = if after_literal { 8 } else { 11 };
        let len = probs.repeat_lengths.decode(range, position);
        DecodedOperation::Copy { distance: self.reps[0], len: len as usize }
    }

    #[inline(always)]
    fn literal(&mut self, range: &mut RangeDecoder<'_>, out: &OutputWindow<'_>, state: usize) -> u8 {
        let position = (out.at - out.start) & ((1 << self.bits.lp) - 1);
        let before = usize::from(out.byte_back(0)) >> (8 - self.bits.lc);
        let probs = &mut self.literals[position << self.bits.lc | before];
        let mut symbol = 1;
        if state < FIRST_AFTER_COPY {
            while symbol < 0x100 {
                symbol = symbol << 1 | range.bit(&mut probs[symbol as usize]);
            }
        } else {
            // As long as the bits are those of the byte at the last distance, the models are others than afterwards.
            let mut expected = u32::from(out.byte_back(self.reps[0]));
            let mut offset = 0x100;
            while symbol < 0x100 {
                expected <<= 1;
                let expected_bit = expected & offset;
                let bit = range.bit(&mut probs[(offset + expected_bit + symbol) as usize]);
                symbol = symbol << 1 | bit;
                offset &= !(expected_bit ^ bit << 8);
            }
        }
        let [byte, ..] = symbol.to_le_bytes();
        byte
    }
}

impl OperationProbs {
    /// Decodes the distance (less one) of a match of `len` bytes.
    #[inline(always)]
    fn distance(&mut self, range: &mut RangeDecoder<'_>, len: u32) -> u32 {
        let model = ((len - LEN_MIN) as usize).min(LEN_MODELS - 1);
        let slot = range.tree(&mut self.slots[model]);
        if slot < FIRST_FOOTER {
            return slot;
        }
        let bits = slot / 2 - 1;
        let base = (2 | slot & 1) << bits;
        if slot < FIRST_EVEN {
            // The models of all slots lie in one row, those of this one from here on.
            return base + range.reverse_tree(&mut self.footers[(base - slot) as usize..], bits);
        }
        let even = range.even_bits(bits - ALIGN_BITS) << ALIGN_BITS;
        base + even + range.reverse_tree(&mut self.align, ALIGN_BITS)
    }
}
