//! Decompression with libdeflate, with and without zlib's frame. Its safe wrapper does not say
//! where the stream ended; this module must know, as no bytes may follow a stream.
#![allow(unsafe_code)]

use libdeflate_sys as sys;

use crate::{DecodedStream, Error, Result};

/// Framing of the deflate data.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DeflateFrame {
    /// A zlib header and checksum.
    Zlib,
    /// No framing.
    Raw,
}

/// libdeflate's decompressor.
pub(crate) struct LibdeflateDecompressor {
    raw: *mut sys::libdeflate_decompressor,
    frame: DeflateFrame,
    codec: &'static str,
}

// SAFETY: the pointer is owned, and libdeflate's decompressor is not bound to a thread.
unsafe impl Send for LibdeflateDecompressor {}

impl Drop for LibdeflateDecompressor {
    fn drop(&mut self) {
        // SAFETY: made by libdeflate_alloc_decompressor and freed once.
        unsafe { sys::libdeflate_free_decompressor(self.raw) }
    }
}

impl LibdeflateDecompressor {
    pub(crate) fn new(codec: &'static str, frame: DeflateFrame) -> Result<Self> {
        // SAFETY: no arguments; null is returned when memory runs out.
        let raw = unsafe { sys::libdeflate_alloc_decompressor() };
        if raw.is_null() {
            return Err(Error::NoMemory { codec });
        }
        Ok(LibdeflateDecompressor { raw, frame, codec })
    }

    /// Decodes the stream at the beginning of `src`.
    pub(crate) fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        let function = match self.frame {
            DeflateFrame::Zlib => sys::libdeflate_zlib_decompress_ex,
            DeflateFrame::Raw => sys::libdeflate_deflate_decompress_ex,
        };
        let mut read = 0;
        let mut written = 0;
        // SAFETY: the pointers and lengths are those of live slices, `self` is borrowed mutably, and both
        // results point at locals.
        let code = unsafe {
            function(
                self.raw,
                src.as_ptr().cast(),
                src.len(),
                dst.as_mut_ptr().cast(),
                dst.len(),
                &raw mut read,
                &raw mut written,
            )
        };
        let why = match code {
            sys::libdeflate_result_LIBDEFLATE_SUCCESS => return Ok(DecodedStream { taken: read, len: written }),
            sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => "decodes to more than the expected length",
            _ => "the stream is damaged or not of this format",
        };
        Err(Error::corrupt(self.codec, why))
    }
}
