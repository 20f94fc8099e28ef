//! Calls into liblzma. One `lzma_stream` serves block after block: restarting it keeps its memory,
//! which the one-shot functions would allocate and free for every block.
#![allow(unsafe_code)]

use std::ptr;

use liblzma_sys as sys;

use crate::settings::BcjFilters;
use crate::{DecodedStream, EncodedPrefix, Error, Result};

/// Returns the library's version.
pub(crate) fn version() -> String {
    // SAFETY: the function returns a string constant of the library.
    unsafe { std::ffi::CStr::from_ptr(sys::lzma_version_string()) }.to_string_lossy().into_owned()
}

/// Returns the CRC32 of xz.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    // SAFETY: the pointer and the length are those of a slice.
    unsafe { sys::lzma_crc32(bytes.as_ptr(), bytes.len(), 0) }
}

/// Makes the targets of calls in `code` absolute, for one of the filters in [`FILTERS_ALONE`].
pub(super) fn filter_machine_code(filter: u16, code: &mut [u8]) {
    let run = match filter {
        BcjFilters::X86 => sys::lzma_bcj_x86_encode,
        BcjFilters::ARM64 => sys::lzma_bcj_arm64_encode,
        BcjFilters::RISCV => sys::lzma_bcj_riscv_encode,
        _ => return,
    };
    // SAFETY: the pointer and the length are those of a slice. What is left unfiltered at the end, a few bytes, is so
    // in streams of liblzma, too.
    unsafe { run(0, code.as_mut_ptr(), code.len()) };
}

/// Filters that liblzma offers without an encoder after them, and none.
pub(super) const FILTERS_ALONE: u16 = BcjFilters::X86 | BcjFilters::ARM64 | BcjFilters::RISCV;

/// Returns a filter's number in block headers.
pub(super) fn filter_number(filter: u16) -> Option<u8> {
    filter_id(filter).and_then(|id| u8::try_from(id).ok())
}

/// LZMA1 with a known length and no end marker; missing from the bindings.
const LZMA_FILTER_LZMA1EXT: sys::lzma_vli = 0x4000_0000_0000_0002;

/// Options of the LZMA coder.
#[derive(Clone, Copy)]
pub(super) struct LzmaOptions(sys::lzma_options_lzma);

// SAFETY: its only pointers are to a preset dictionary and reserved ones, all null.
unsafe impl Send for LzmaOptions {}

impl LzmaOptions {
    /// Returns the options of a preset, with another dictionary.
    pub(super) fn preset(level: u8, extreme: bool, dict: u32) -> Result<Self> {
        // SAFETY: all zeros is a value of this C struct of integers and pointers.
        let mut options: sys::lzma_options_lzma = unsafe { std::mem::zeroed() };
        let preset = u32::from(level) | if extreme { sys::LZMA_PRESET_EXTREME } else { 0 };
        // SAFETY: the pointer is to a live struct, which the call fills.
        if unsafe { sys::lzma_lzma_preset(&raw mut options, preset) } != 0 {
            return Err(Error::Library { codec: "xz", why: format!("no preset {level}") });
        }
        options.dict_size = dict;
        Ok(LzmaOptions(options))
    }

    pub(super) fn set_bits(&mut self, lc: u8, lp: u8, pb: u8) {
        (self.0.lc, self.0.lp, self.0.pb) = (u32::from(lc), u32::from(lp), u32::from(pb));
    }
}

/// An xz block's filters: at most one for machine code, then LZMA2.
pub(super) struct FilterChain {
    /// A bit of [`BcjFilters`], or 0.
    pub(super) bcj: u16,
    pub(super) lzma: LzmaOptions,
}

impl FilterChain {
    /// Calls `f` with the filters in liblzma's form; the pointers in them are valid only during the call.
    fn with<T>(&self, f: impl FnOnce(*const sys::lzma_filter) -> T) -> T {
        let mut lzma = self.lzma.0;
        let end = sys::lzma_filter { id: sys::lzma_vli::MAX, options: ptr::null_mut() };
        let lzma2 = sys::lzma_filter { id: sys::LZMA_FILTER_LZMA2, options: (&raw mut lzma).cast() };
        match filter_id(self.bcj) {
            Some(id) => f([sys::lzma_filter { id, options: ptr::null_mut() }, lzma2, end].as_ptr()),
            None => f([lzma2, end].as_ptr()),
        }
    }
}

fn filter_id(bcj: u16) -> Option<sys::lzma_vli> {
    Some(match bcj {
        BcjFilters::X86 => sys::LZMA_FILTER_X86,
        BcjFilters::POWERPC => sys::LZMA_FILTER_POWERPC,
        BcjFilters::IA64 => sys::LZMA_FILTER_IA64,
        BcjFilters::ARM => sys::LZMA_FILTER_ARM,
        BcjFilters::ARMTHUMB => sys::LZMA_FILTER_ARMTHUMB,
        BcjFilters::SPARC => sys::LZMA_FILTER_SPARC,
        BcjFilters::ARM64 => sys::LZMA_FILTER_ARM64,
        BcjFilters::RISCV => sys::LZMA_FILTER_RISCV,
        _ => return None,
    })
}

/// An `lzma_stream`, restarted for every block.
pub(super) struct LzmaStream {
    raw: sys::lzma_stream,
    codec: &'static str,
}

// SAFETY: the stream owns what it points to, uses the default allocator, and is not bound to a thread.
unsafe impl Send for LzmaStream {}

impl Drop for LzmaStream {
    fn drop(&mut self) {
        // SAFETY: the stream is zeroed or was started; both are valid to end.
        unsafe { sys::lzma_end(&raw mut self.raw) }
    }
}

impl LzmaStream {
    pub(super) fn new(codec: &'static str) -> Self {
        // SAFETY: all zeros is LZMA_STREAM_INIT.
        LzmaStream { raw: unsafe { std::mem::zeroed() }, codec }
    }

    pub(super) fn start_xz_encoder(&mut self, chain: &FilterChain) -> Result<()> {
        let raw = &raw mut self.raw;
        // SAFETY: stream and filters are live; the call copies the filters it keeps.
        let ret = chain.with(|filters| unsafe { sys::lzma_stream_encoder(raw, filters, sys::LZMA_CHECK_CRC32) });
        self.started(ret)
    }

    pub(super) fn start_raw_lzma_encoder(&mut self, lzma: LzmaOptions, len: u64) -> Result<()> {
        let mut options = lzma.0;
        // Both halves of a 64-bit number.
        #[allow(clippy::cast_possible_truncation)]
        let low = len as u32;
        let high = (len >> 32) as u32;
        (options.ext_flags, options.ext_size_low, options.ext_size_high) = (0, low, high);
        let filters = [
            sys::lzma_filter { id: LZMA_FILTER_LZMA1EXT, options: (&raw mut options).cast() },
            sys::lzma_filter { id: sys::lzma_vli::MAX, options: ptr::null_mut() },
        ];
        // SAFETY: stream and filters are live; the call copies the options it keeps.
        let ret = unsafe { sys::lzma_raw_encoder(&raw mut self.raw, filters.as_ptr()) };
        self.started(ret)
    }

    pub(super) fn start_xz_decoder(&mut self, memory: u64) -> Result<()> {
        // SAFETY: the stream is live.
        let ret = unsafe { sys::lzma_stream_decoder(&raw mut self.raw, memory, 0) };
        self.started(ret)
    }

    pub(super) fn start_lzma_decoder(&mut self, memory: u64) -> Result<()> {
        // SAFETY: the stream is live.
        let ret = unsafe { sys::lzma_alone_decoder(&raw mut self.raw, memory) };
        self.started(ret)
    }

    pub(super) fn start_micro_encoder(&mut self, lzma: LzmaOptions) -> Result<()> {
        let options = lzma.0;
        // SAFETY: stream and options are live; the call copies the options it keeps.
        let ret = unsafe { sys::lzma_microlzma_encoder(&raw mut self.raw, &raw const options) };
        self.started(ret)
    }

    /// Starts decoding a stream of `packed` bytes that decodes to `plain` bytes, or to more unless `exact`.
    pub(super) fn start_micro_decoder(&mut self, packed: u64, plain: u64, exact: bool, dict: u32) -> Result<()> {
        // SAFETY: the stream is live.
        let ret =
            unsafe { sys::lzma_microlzma_decoder(&raw mut self.raw, packed, plain, sys::lzma_bool::from(exact), dict) };
        self.started(ret)
    }

    fn started(&self, ret: sys::lzma_ret) -> Result<()> {
        if ret == sys::LZMA_OK { Ok(()) } else { Err(self.library(ret)) }
    }

    /// Encodes all of `src`; returns `None` if the result does not fit.
    pub(super) fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        match self.run(src, dst) {
            sys::LZMA_STREAM_END => Ok(Some(dst.len() - self.raw.avail_out)),
            sys::LZMA_BUF_ERROR => Ok(None),
            ret => Err(self.library(ret)),
        }
    }

    /// Encodes as much of `src` as fits, with an encoder that limits its output to the room.
    pub(super) fn encode_some(&mut self, src: &[u8], dst: &mut [u8]) -> Result<EncodedPrefix> {
        match self.run(src, dst) {
            sys::LZMA_STREAM_END => {
                Ok(EncodedPrefix { taken: src.len() - self.raw.avail_in, len: dst.len() - self.raw.avail_out })
            }
            ret => Err(self.library(ret)),
        }
    }

    /// Decodes the stream at the beginning of `src`.
    pub(super) fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        let why = match self.run(src, dst) {
            sys::LZMA_STREAM_END => {
                return Ok(DecodedStream { taken: src.len() - self.raw.avail_in, len: dst.len() - self.raw.avail_out });
            }
            sys::LZMA_BUF_ERROR if self.raw.avail_in > 0 => "decodes to more than the expected length",
            sys::LZMA_BUF_ERROR => "ends too early, or decodes to more than the expected length",
            sys::LZMA_FORMAT_ERROR => "the header is not of this format",
            sys::LZMA_OPTIONS_ERROR => "unsupported filters or options",
            sys::LZMA_MEMLIMIT_ERROR => "the dictionary is larger than 64 MiB",
            sys::LZMA_DATA_ERROR => "damaged data or checksum mismatch",
            ret => return Err(self.library(ret)),
        };
        Err(Error::corrupt(self.codec, why))
    }

    /// Fills `dst` from the beginning of a stream, with a decoder that stops there.
    pub(super) fn decode_some(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        match self.run(src, dst) {
            sys::LZMA_STREAM_END | sys::LZMA_OK | sys::LZMA_BUF_ERROR if self.raw.avail_out == 0 => Ok(()),
            sys::LZMA_MEM_ERROR => Err(self.library(sys::LZMA_MEM_ERROR)),
            _ => Err(Error::corrupt(self.codec, "the stream is damaged or ends too early")),
        }
    }

    /// Runs a started stream until it ends or cannot continue.
    fn run(&mut self, src: &[u8], dst: &mut [u8]) -> sys::lzma_ret {
        (self.raw.next_in, self.raw.avail_in) = (src.as_ptr(), src.len());
        (self.raw.next_out, self.raw.avail_out) = (dst.as_mut_ptr(), dst.len());
        let ret = loop {
            // SAFETY: the stream is started and its buffers are live slices of the given lengths.
            match unsafe { sys::lzma_code(&raw mut self.raw, sys::LZMA_FINISH) } {
                sys::LZMA_OK => {}
                ret => break ret,
            }
        };
        (self.raw.next_in, self.raw.next_out) = (ptr::null(), ptr::null_mut());
        ret
    }

    fn library(&self, ret: sys::lzma_ret) -> Error {
        let why = match ret {
            sys::LZMA_MEM_ERROR => return Error::NoMemory { codec: self.codec },
            sys::LZMA_OPTIONS_ERROR => "unsupported options".to_owned(),
            ret => format!("liblzma returned {ret}"),
        };
        Error::Library { codec: self.codec, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;

    /// Returns the memory that liblzma reports for a chain without a machine-code filter.
    fn usage(level: u8, extreme: bool, dict: u32) -> u64 {
        let chain = FilterChain { bcj: 0, lzma: LzmaOptions::preset(level, extreme, dict).unwrap() };
        // SAFETY: the filters are live while the calls run.
        chain.with(|filters| unsafe {
            sys::lzma_raw_encoder_memusage(filters) + sys::lzma_raw_decoder_memusage(filters)
        })
    }

    #[test]
    fn the_memory_bound_covers_the_use_of_the_library() {
        for block in [4096_u32, 8192, 1 << 17, 1 << 20] {
            for (text, level, extreme) in [("xz:0", 0, false), ("xz:6", 6, false), ("xz:9:extreme", 9, true)] {
                let promised = text.parse::<Choice>().unwrap().encoder_memory(block as usize) as u64;
                let taken = usage(level, extreme, block.max(8192));
                assert!(taken <= promised, "{text} at {block}: {taken} of {promised}");
            }
        }
    }

    #[test]
    fn the_memory_bound_for_clusters_covers_it_too() {
        for cluster in [4096, 1 << 17, 1 << 20] {
            for (text, level, extreme) in [("lzma:0", 0, false), ("lzma:6", 6, false), ("lzma:9:extreme", 9, true)] {
                let choice = text.parse::<Choice>().unwrap();
                let promised = choice.cluster_memory(cluster);
                let taken = usage(level, extreme, choice.cluster_window(cluster));
                assert!(taken <= promised as u64, "{text} at {cluster}: {taken} of {promised}");
            }
        }
    }

    #[test]
    fn every_filter_has_an_id() {
        assert!(BcjFilters::NAMES.iter().all(|(_, bit)| filter_id(*bit).is_some()));
        assert_eq!(filter_id(0), None);
    }
}
