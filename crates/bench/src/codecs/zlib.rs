//! zlib streams by the original zlib in C, the baseline of all comparisons.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;

use libz_sys as sys;
use packfs_codec::{Decoder, Encoder, Error, Result};

const NAME: &str = "zlib";

/// Returns the version of the library.
pub(super) fn version() -> String {
    // SAFETY: a string constant of the library.
    unsafe { CStr::from_ptr(sys::zlibVersion()) }.to_string_lossy().into_owned()
}

/// A stream of either direction with its destructor. The library keeps its address, so it must not move.
struct ZlibStream {
    raw: Box<MaybeUninit<sys::z_stream>>,
    end: unsafe extern "C" fn(sys::z_streamp) -> c_int,
}

/// Where a call of the library ended.
struct StreamEnd {
    /// Status of the library.
    code: c_int,
    /// Bytes of the input that it did not read.
    unread: usize,
    written: usize,
}

// SAFETY: the stream is owned, and the library does not depend on threads.
unsafe impl Send for ZlibStream {}

impl Drop for ZlibStream {
    fn drop(&mut self) {
        // SAFETY: initialised by `ZlibStream::new`, and ended once.
        unsafe { (self.end)(self.raw.as_mut_ptr()) };
    }
}

impl ZlibStream {
    fn new(
        begin: impl FnOnce(sys::z_streamp) -> c_int,
        end: unsafe extern "C" fn(sys::z_streamp) -> c_int,
    ) -> Result<Self> {
        // All zeros selects the default allocator, no input and no output.
        let mut raw = Box::new(MaybeUninit::zeroed());
        match begin(raw.as_mut_ptr()) {
            sys::Z_OK => Ok(ZlibStream { raw, end }),
            code => Err(Error::Library { codec: NAME, why: format!("error {code}") }),
        }
    }

    /// Resets the stream and runs `step` on all of `src` into `dst`.
    fn run(
        &mut self,
        reset: unsafe extern "C" fn(sys::z_streamp) -> c_int,
        step: unsafe extern "C" fn(sys::z_streamp, c_int) -> c_int,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<StreamEnd> {
        let too_long = |_| Error::Library { codec: NAME, why: "a block of more than 4 GiB".into() };
        let room = sys::uInt::try_from(dst.len()).map_err(too_long)?;
        let len = sys::uInt::try_from(src.len()).map_err(too_long)?;
        let stream = self.raw.as_mut_ptr();
        // SAFETY: the stream is initialised, so all of its fields are; the pointers and lengths are those of live
        // slices, and the library does not write to its input.
        unsafe {
            reset(stream);
            (*stream).next_in = src.as_ptr().cast_mut();
            (*stream).avail_in = len;
            (*stream).next_out = dst.as_mut_ptr();
            (*stream).avail_out = room;
            // One call with the whole input and output, so that it ends or the room was too small.
            let code = step(stream, sys::Z_FINISH);
            Ok(StreamEnd {
                code,
                unread: (*stream).avail_in as usize,
                written: dst.len() - (*stream).avail_out as usize,
            })
        }
    }
}

/// Size of the stream structure, by which the library checks that the caller was compiled for it.
const STREAM_SIZE: c_int = {
    let size = size_of::<sys::z_stream>();
    // So that the conversion below cannot cut anything off.
    assert!(size < 1 << 10);
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "asserted above")]
    let size = size as c_int;
    size
};

/// zlib encoder.
pub(super) struct ZlibEncoder(ZlibStream);

impl ZlibEncoder {
    pub(super) fn new(level: u8) -> Result<Self> {
        // SAFETY: the stream is zeroed and does not move; version and size are the library's own.
        let begin = |raw| unsafe { sys::deflateInit_(raw, c_int::from(level), sys::zlibVersion(), STREAM_SIZE) };
        ZlibStream::new(begin, sys::deflateEnd).map(ZlibEncoder)
    }
}

impl Encoder for ZlibEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let end = self.0.run(sys::deflateReset, sys::deflate, src, dst)?;
        match end.code {
            sys::Z_STREAM_END => Ok(Some(end.written)),
            // The room is full: the block is stored as it is.
            sys::Z_OK | sys::Z_BUF_ERROR => Ok(None),
            code => Err(Error::Library { codec: NAME, why: format!("error {code}") }),
        }
    }
}

/// zlib decoder.
pub(super) struct ZlibDecoder(ZlibStream);

impl ZlibDecoder {
    pub(super) fn new() -> Result<Self> {
        // SAFETY: as for the encoder.
        let begin = |raw| unsafe { sys::inflateInit_(raw, sys::zlibVersion(), STREAM_SIZE) };
        ZlibStream::new(begin, sys::inflateEnd).map(ZlibDecoder)
    }
}

impl Decoder for ZlibDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let end = self.0.run(sys::inflateReset, sys::inflate, src, dst)?;
        let why = match end.code {
            sys::Z_STREAM_END if end.unread == 0 => return Ok(end.written),
            // A block is one stream: what follows it would be lost without a word.
            sys::Z_STREAM_END => "bytes after the stream",
            sys::Z_OK | sys::Z_BUF_ERROR => "longer than its block, or cut off",
            _ => "not such a stream, or a damaged one",
        };
        Err(Error::Corrupt { codec: NAME, why: why.into() })
    }
}
