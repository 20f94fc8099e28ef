//! Streams of LZMA: LZMA2 chunks, raw LZMA of a known length, and as much as fits a room.

use super::guess::BitsGuesser;
use super::model::LzmaModel;
use super::parser::LzmaParser;
use super::range::RangeEncoder;
use super::{LEN_MAX, LzmaEffort, LzmaOperation, ModelBits};
use crate::EncodedPrefix;
use crate::trees::TreeMatchFinder;

/// Sequences of three bytes of which the finder knows the last position, as a logarithm.
const THREE_BITS: u32 = 14;
/// Most bytes of a chunk, encoded and decoded, and of an uncompressed chunk.
const CHUNK_MAX: usize = 1 << 16;
const CHUNK_DATA_MAX: usize = 2 << 20;
const RAW_CHUNK_MAX: usize = 1 << 16;
/// Most bytes that one operation and the flush add: at most 48 bits, of at most eight bits each, and the flush.
const OP_MAX: usize = 64;

/// Input that usually fills an output, as a multiple of its length.
const FILL: usize = 3;

/// Headers of LZMA2 chunks: an uncompressed one that resets the dictionary, one that does not, and an encoded one.
const RAW_FIRST: u8 = 1;
const RAW: u8 = 2;
const ENCODED: u8 = 0x80;
/// Parts of an encoder's state that an encoded chunk resets.
const RESET_STATE: u8 = 1 << 5;
const RESET_BITS: u8 = 2 << 5;
const RESET_ALL: u8 = 3 << 5;
const END: u8 = 0;

/// An encoder of LZMA streams. Its memory is kept from one stream to the next.
pub(crate) struct LzmaEncoder {
    bits: ModelBits,
    /// Chooses the bits for each stream, if they are not fixed.
    guess: Option<BitsGuesser>,
    window: usize,
    finder: TreeMatchFinder,
    parser: LzmaParser,
    model: LzmaModel,
    range: RangeEncoder,
    /// Operations found but not yet encoded, the last first.
    ops: Vec<LzmaOperation>,
    /// Number of bytes encoded.
    at: usize,
}

impl LzmaEncoder {
    /// Makes an encoder whose distances reach `window` bytes back at most. Without `bits`, it chooses them for each stream.
    pub(crate) fn new(bits: Option<ModelBits>, effort: LzmaEffort, window: u32) -> Self {
        let guess = bits.is_none().then(BitsGuesser::new);
        let bits = bits.unwrap_or(ModelBits::USUAL);
        LzmaEncoder {
            bits,
            guess,
            window: window as usize,
            finder: TreeMatchFinder::new(effort.nice, effort.depth, THREE_BITS),
            parser: LzmaParser::new(effort),
            model: LzmaModel::new(bits, effort.nice),
            range: RangeEncoder::new(),
            ops: Vec::new(),
            at: 0,
        }
    }

    /// Returns the bits of the present stream.
    pub(crate) fn bits(&self) -> ModelBits {
        self.bits
    }

    /// Encodes `src` as LZMA2 and appends it to `out`; returns false if that gets longer than `room`.
    pub(crate) fn encode_lzma2(&mut self, src: &[u8], room: usize, out: &mut Vec<u8>) -> bool {
        self.start(src, src.len());
        std::mem::swap(&mut self.range.out, out);
        let begin = self.range.out.len();
        let mut reset = RESET_ALL;
        while self.at < src.len() && self.range.out.len() - begin <= room {
            reset = self.chunk(src, reset);
        }
        self.range.out.push(END);
        let fits = self.range.out.len() - begin <= room;
        std::mem::swap(&mut self.range.out, out);
        fits
    }

    /// Encodes `src` without an end marker and appends it to `out`; returns false if that gets longer than `room`.
    pub(crate) fn encode_raw(&mut self, src: &[u8], room: usize, out: &mut Vec<u8>) -> bool {
        self.start(src, src.len());
        std::mem::swap(&mut self.range.out, out);
        let begin = self.range.out.len();
        while self.at < src.len() && self.range.out.len() - begin <= room {
            let op = self.next_op();
            self.encode(op);
        }
        self.range.flush();
        let fits = self.range.out.len() - begin <= room;
        std::mem::swap(&mut self.range.out, out);
        fits
    }

    /// Encodes as much of `src` as fits `dst` without an end marker. The first byte, always zero, is left to the caller.
    pub(crate) fn fill(&mut self, src: &[u8], dst: &mut [u8]) -> EncodedPrefix {
        self.start(src, dst.len().saturating_mul(FILL));
        self.range.out.clear();
        while self.at < src.len() {
            let op = self.next_op();
            let mark = self.range.mark();
            let at = self.at;
            self.encode(op);
            if self.range.flushed_len() > dst.len() {
                // The model stays as it is: nothing is encoded after this.
                self.range.back_to(mark);
                self.at = at;
                break;
            }
        }
        self.range.flush();
        let len = self.range.out.len();
        dst[..len].copy_from_slice(&self.range.out);
        EncodedPrefix { taken: self.at, len }
    }

    /// Returns the memory that grows with the input, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let guess = self.guess.as_ref().map_or(0, BitsGuesser::allocated);
        self.finder.allocated() + self.range.out.capacity() + guess
    }

    /// Begins a stream, whose bits suit the first `look` bytes of `src`.
    fn start(&mut self, src: &[u8], look: usize) {
        self.finder.start(src, self.window);
        if let Some(guess) = &mut self.guess {
            self.bits = guess.bits(self.finder.data(), look.min(src.len()));
            self.model.set_bits(self.bits);
        }
        self.parser.reset();
        self.ops.clear();
        self.at = 0;
        self.reset_model();
        self.range.restart();
    }

    fn reset_model(&mut self) {
        let farthest = self.window.min(self.finder.len()).min(u32::MAX as usize);
        self.model.reset(farthest as u32);
    }

    /// Returns the next operation; there must be data left.
    #[inline(always)]
    fn next_op(&mut self) -> LzmaOperation {
        if self.ops.is_empty() {
            std::mem::swap(&mut self.ops, self.parser.run(&self.model, &mut self.finder, self.at));
        }
        self.ops.pop().expect("a run has at least one operation")
    }

    #[inline(always)]
    fn encode(&mut self, op: LzmaOperation) {
        self.model.encode(&mut self.range, self.finder.data(), self.at, op);
        self.at += op.len as usize;
    }

    /// Writes the next chunk, which resets what `reset` says; returns what the one after it resets.
    fn chunk(&mut self, src: &[u8], reset: u8) -> u8 {
        let begin = self.at;
        let header = self.range.out.len();
        let properties = (reset >= RESET_BITS).then_some(self.bits.properties());
        self.range.out.extend([0; 5]);
        self.range.out.extend(properties);
        let body = self.range.out.len();
        self.range.restart();
        // As long as one more operation is sure to fit in the chunk.
        while self.at < src.len()
            && self.at - begin <= CHUNK_DATA_MAX - LEN_MAX
            && self.range.flushed_len() - body <= CHUNK_MAX - OP_MAX
        {
            let op = self.next_op();
            self.encode(op);
        }
        self.range.flush();
        let plain = self.at - begin;
        let encoded = self.range.out.len() - body;
        if encoded >= plain {
            self.range.out.truncate(header);
            return self.raw_chunks(src, begin, reset);
        }
        // Both lengths are kept less one and are below 2^21 and 2^16.
        let [_, high, mid, low] = ((plain - 1) as u32).to_be_bytes();
        let [encoded_high, encoded_low] = ((encoded - 1) as u16).to_be_bytes();
        self.range.out[header..][..5].copy_from_slice(&[ENCODED | reset | high, mid, low, encoded_high, encoded_low]);
        0
    }

    /// Writes what did not shrink, from `begin` on, as it is; returns what the next chunk resets.
    fn raw_chunks(&mut self, src: &[u8], begin: usize, reset: u8) -> u8 {
        // The operations found go by the distances that are about to be reset.
        self.at += self.ops.drain(..).map(|op| op.len as usize).sum::<usize>();
        let mut control = if reset == RESET_ALL { RAW_FIRST } else { RAW };
        for raw in src[begin..self.at].chunks(RAW_CHUNK_MAX) {
            let [high, low] = ((raw.len() - 1) as u16).to_be_bytes();
            self.range.out.extend([control, high, low]);
            self.range.out.extend_from_slice(raw);
            control = RAW;
        }
        self.reset_model();
        // After an uncompressed chunk, LZMA2 requires a reset of the state, and the properties unless they
        // were sent before.
        if reset >= RESET_BITS { RESET_BITS } else { RESET_STATE }
    }
}
