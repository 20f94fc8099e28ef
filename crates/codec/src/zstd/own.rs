//! An encoder with a parser of our own. libzstd calls it for the sequences of each block and does all else: it splits
//! blocks where their statistics change, codes them, and writes the frame.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;

use zstd_safe::zstd_sys as sys;

use super::finder::SortedMatchFinder;
use super::levels::ZstdEffort;
use super::parser::{ZstdParser, ZstdSequence};
use super::{DOES_NOT_FIT, ZstdEncoder, context, library, no_memory, parameters};
use crate::{Encoder, Result};

/// A block counts as a table if at least this many of 100 sequences repeat an offset. Tables of numbers that count up have
/// 98 or more. With 85, blocks of 128K of large files below `/usr` would take 5 % more time instead of 1 %, as many more
/// are encoded twice, to become 0.02 % smaller.
const TABLE_PERCENT: usize = 95;
/// A shorter table is not worth another encoder: it saves a few hundred bytes at most.
const TABLE_SEQUENCES_MIN: usize = 256;

/// State of the parser during a call of libzstd.
#[derive(Debug)]
struct SequenceProducer {
    finder: SortedMatchFinder,
    parser: ZstdParser,
    /// Address of the input.
    src: usize,
    sequences: Vec<ZstdSequence>,
    /// Number of sequences since the frame began, and of those that repeat an offset.
    total: usize,
    repeats: usize,
}

impl SequenceProducer {
    /// Begins a frame.
    fn start(&mut self, src: &[u8], window: usize) {
        self.finder.start(src, window);
        self.src = src.as_ptr().addr();
        self.total = 0;
        self.repeats = 0;
    }

    /// Parses a part of the input.
    fn parse(&mut self, at: usize, len: usize) {
        self.sequences.clear();
        self.parser.block(&mut self.finder, at, at + len, &mut self.sequences);
        self.total += self.sequences.len();
        self.repeats += self.sequences.iter().filter(|sequence| sequence.is_repeat).count();
    }

    /// Returns true if the input since the frame began is a table of records that hardly differ.
    fn is_table(&self) -> bool {
        self.total >= TABLE_SEQUENCES_MIN && self.repeats * 100 >= self.total * TABLE_PERCENT
    }
}

/// A context of libzstd.
#[derive(Debug)]
struct CompressionContext(NonNull<sys::ZSTD_CCtx>);

// SAFETY: a context is memory of its own and may be used by any thread, one at a time.
unsafe impl Send for CompressionContext {}

impl Drop for CompressionContext {
    fn drop(&mut self) {
        // SAFETY: the pointer is that of a context, which nothing uses any more.
        unsafe { sys::ZSTD_freeCCtx(self.0.as_ptr()) };
    }
}

impl CompressionContext {
    fn new(parameters: &[(sys::ZSTD_cParameter, i32)]) -> Result<Self> {
        // SAFETY: the function takes nothing and returns a context or null.
        let context = CompressionContext(NonNull::new(unsafe { sys::ZSTD_createCCtx() }).ok_or_else(no_memory)?);
        for (parameter, value) in parameters {
            // SAFETY: the pointer is that of a live context.
            check(unsafe { sys::ZSTD_CCtx_setParameter(context.0.as_ptr(), *parameter, *value) }).map_err(library)?;
        }
        Ok(context)
    }
}

/// Returns a length, or an error code.
fn check(code: usize) -> std::result::Result<usize, usize> {
    // SAFETY: the function looks at nothing but the number.
    if unsafe { sys::ZSTD_isError(code) } == 0 { Ok(code) } else { Err(code) }
}

/// Parses one block for libzstd.
///
/// # Safety
/// `state` is a [`SequenceProducer`] that nothing else uses, `out` has room for `room` sequences.
unsafe extern "C" fn produce(
    state: *mut c_void,
    out: *mut sys::ZSTD_Sequence,
    room: usize,
    src: *const c_void,
    len: usize,
    _dictionary: *const c_void,
    _dictionary_len: usize,
    _level: i32,
    _window: usize,
) -> usize {
    /// A number of sequences that libzstd takes for a failure.
    const FAILED: usize = usize::MAX;
    // SAFETY: the caller passes what `encode` registered, for the time of that call.
    let producer = unsafe { &mut *state.cast::<SequenceProducer>() };
    // Blocks lie in the input that the finder has a copy of, one after the other.
    let Some(at) = src.addr().checked_sub(producer.src).filter(|at| at + len <= producer.finder.len()) else {
        return FAILED;
    };
    producer.parse(at, len);
    if producer.sequences.len() > room {
        return FAILED;
    }
    for (index, ZstdSequence { literals, len, offset, .. }) in producer.sequences.iter().enumerate() {
        let sequence = sys::ZSTD_Sequence { offset: *offset, litLength: *literals, matchLength: *len, rep: 0 };
        // SAFETY: there is room for that many.
        unsafe { out.add(index).write(sequence) };
    }
    producer.sequences.len()
}

/// An encoder of blocks.
pub(super) struct OwnZstdEncoder {
    context: CompressionContext,
    producer: Box<SequenceProducer>,
    window: usize,
    level: i32,
    content_size: bool,
    /// The encoder of the library, and room for a block of it; made when the first table comes.
    preset: Option<PresetEncoder>,
}

/// The parser of libzstd, which wins on some tables.
struct PresetEncoder {
    encoder: ZstdEncoder,
    encoded: Vec<u8>,
}

impl OwnZstdEncoder {
    /// Makes an encoder whose frames need no window beyond `window` bytes. `level` sets the effort of libzstd.
    pub(super) fn new(effort: ZstdEffort, level: i32, content_size: bool, window: usize) -> Result<Self> {
        use sys::ZSTD_cParameter as P;
        let context = CompressionContext::new(&[
            (P::ZSTD_c_compressionLevel, level),
            (P::ZSTD_c_contentSizeFlag, i32::from(content_size)),
            // As for an optimal parser, but with tables as small as possible: they are never used.
            (P::ZSTD_c_strategy, sys::ZSTD_strategy::ZSTD_btultra as i32),
            (P::ZSTD_c_hashLog, 6),
            (P::ZSTD_c_chainLog, 6),
            (P::ZSTD_c_minMatch, 4),
            // The switches for splitting blocks and for using repeats, both on.
            (P::ZSTD_c_experimentalParam13, 1),
            (P::ZSTD_c_experimentalParam19, 1),
        ])?;
        let producer = SequenceProducer {
            finder: SortedMatchFinder::new(effort.nice, effort.depths, effort.large),
            parser: ZstdParser::new(effort),
            src: 0,
            sequences: Vec::new(),
            total: 0,
            repeats: 0,
        };
        Ok(OwnZstdEncoder { context, producer: Box::new(producer), window, level, content_size, preset: None })
    }

    /// Encodes a table, of which `dst` has the frame, by the parser of libzstd, too. Keeps the shorter frame, and returns
    /// its length.
    ///
    /// Records of a table repeat the one before but for the bytes that changed. The parser of libzstd sometimes happens
    /// to find a record far back that differs in bytes which hardly ever change. Ours stays with the one before, at up to
    /// 3.4 times the size.
    fn encode_table(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Result<usize> {
        let preset = match &mut self.preset {
            Some(preset) => preset,
            empty => {
                let context = context(&parameters(self.level, self.content_size, self.window))?;
                empty.insert(PresetEncoder { encoder: ZstdEncoder { context }, encoded: Vec::new() })
            }
        };
        preset.encoded.resize(len - 1, 0);
        let Some(shorter) = preset.encoder.encode(src, &mut preset.encoded)? else {
            return Ok(len);
        };
        dst[..shorter].copy_from_slice(&preset.encoded[..shorter]);
        Ok(shorter)
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let SequenceProducer { finder, parser, sequences, .. } = &*self.producer;
        let sequences = sequences.capacity() * size_of::<ZstdSequence>();
        // SAFETY: the pointer is that of a live context.
        let context = unsafe { sys::ZSTD_sizeof_CCtx(self.context.0.as_ptr()) };
        let preset = self.preset.as_ref();
        let preset = preset.map_or(0, |preset| preset.encoder.context.sizeof() + preset.encoded.capacity());
        context + preset + finder.allocated() + parser.allocated() + sequences
    }
}

impl Encoder for OwnZstdEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        self.producer.start(src, self.window);
        let context = self.context.0.as_ptr();
        let producer = &raw mut *self.producer;
        // SAFETY: the pointer is that of the box; the slices are valid, and libzstd calls `produce` during
        // ZSTD_compress2 only, when nothing else uses the producer.
        let result = unsafe {
            sys::ZSTD_registerSequenceProducer(context, producer.cast(), Some(produce));
            sys::ZSTD_compress2(context, dst.as_mut_ptr().cast(), dst.len(), src.as_ptr().cast(), src.len())
        };
        match check(result) {
            Ok(len) if self.producer.is_table() => self.encode_table(src, dst, len).map(Some),
            Ok(len) => Ok(Some(len)),
            Err(DOES_NOT_FIT) => Ok(None),
            Err(code) => Err(library(code)),
        }
    }
}
