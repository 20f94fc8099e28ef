//! An encoder with a parser of our own. libzstd calls it for the sequences of each block and does all else: it splits
//! blocks where their statistics change, codes them, and writes the frame.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;

use zstd_safe::zstd_sys as sys;

use super::finder::SortedMatchFinder;
use super::levels::ZstdEffort;
use super::parser::{ZstdParser, ZstdSequence};
use super::{DOES_NOT_FIT, library, no_memory};
use crate::{Encoder, Result};

/// State of the parser during a call of libzstd.
#[derive(Debug)]
struct SequenceProducer {
    finder: SortedMatchFinder,
    parser: ZstdParser,
    /// Address of the input.
    src: usize,
    sequences: Vec<ZstdSequence>,
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
    producer.sequences.clear();
    producer.parser.block(&mut producer.finder, at, at + len, &mut producer.sequences);
    if producer.sequences.len() > room {
        return FAILED;
    }
    for (index, ZstdSequence { literals, len, offset }) in producer.sequences.iter().enumerate() {
        let sequence = sys::ZSTD_Sequence { offset: *offset, litLength: *literals, matchLength: *len, rep: 0 };
        // SAFETY: there is room for that many.
        unsafe { out.add(index).write(sequence) };
    }
    producer.sequences.len()
}

/// An encoder of blocks.
#[derive(Debug)]
pub(super) struct OwnZstdEncoder {
    context: CompressionContext,
    producer: Box<SequenceProducer>,
    window: usize,
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
        };
        Ok(OwnZstdEncoder { context, producer: Box::new(producer), window })
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let SequenceProducer { finder, parser, sequences, .. } = &*self.producer;
        let sequences = sequences.capacity() * size_of::<ZstdSequence>();
        // SAFETY: the pointer is that of a live context.
        let context = unsafe { sys::ZSTD_sizeof_CCtx(self.context.0.as_ptr()) };
        context + finder.allocated() + parser.allocated() + sequences
    }
}

impl Encoder for OwnZstdEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let context = self.context.0.as_ptr();
        let producer = &raw mut *self.producer;
        // SAFETY: the pointer is that of the box; the slices are valid, and libzstd calls `produce` during
        // ZSTD_compress2 only, when nothing else uses the producer.
        let result = unsafe {
            (*producer).finder.start(src, self.window);
            (*producer).src = src.as_ptr().addr();
            sys::ZSTD_registerSequenceProducer(context, producer.cast(), Some(produce));
            sys::ZSTD_compress2(context, dst.as_mut_ptr().cast(), dst.len(), src.as_ptr().cast(), src.len())
        };
        match check(result) {
            Ok(len) => Ok(Some(len)),
            Err(DOES_NOT_FIT) => Ok(None),
            Err(code) => Err(library(code)),
        }
    }
}
