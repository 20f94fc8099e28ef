//! Compression with libdeflate. Its safe wrapper panics if there is no memory for a compressor.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use libdeflate_sys as sys;

use crate::{Error, Result};

/// libdeflate's compressor.
pub(crate) struct LibdeflateCompressor(NonNull<sys::libdeflate_compressor>);

// SAFETY: the pointer is owned, and libdeflate's compressor is not bound to a thread.
unsafe impl Send for LibdeflateCompressor {}

impl Drop for LibdeflateCompressor {
    fn drop(&mut self) {
        // SAFETY: made by libdeflate_alloc_compressor and freed once.
        unsafe { sys::libdeflate_free_compressor(self.0.as_ptr()) }
    }
}

/// A function of libdeflate that compresses: `libdeflate_zlib_compress` or `libdeflate_deflate_compress`.
type CompressFn = unsafe extern "C" fn(
    *mut sys::libdeflate_compressor,
    *const std::ffi::c_void,
    usize,
    *mut std::ffi::c_void,
    usize,
) -> usize;

impl LibdeflateCompressor {
    /// Makes a compressor of a level from 0 to 12.
    ///
    /// # Errors
    /// If the level does not exist, or there is no memory. `codec` is named in the error.
    pub(crate) fn new(codec: &'static str, level: u8) -> Result<Self> {
        if level > 12 {
            return Err(Error::Library { codec, why: format!("no level {level}") });
        }
        // SAFETY: the function takes a number and returns a compressor, or null if there is no memory.
        let compressor = unsafe { sys::libdeflate_alloc_compressor(level.into()) };
        NonNull::new(compressor).map(LibdeflateCompressor).ok_or(Error::NoMemory { codec })
    }

    /// Compresses to a zlib stream; returns its length, or `None` if it does not fit.
    pub(crate) fn zlib(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        self.run(sys::libdeflate_zlib_compress, src, dst)
    }

    /// Compresses to a stream without a frame; returns its length, or `None` if it does not fit.
    pub(crate) fn deflate(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        self.run(sys::libdeflate_deflate_compress, src, dst)
    }

    fn run(&mut self, compress: CompressFn, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        // SAFETY: the pointers and lengths are those of live slices, and `self` is borrowed mutably.
        let len =
            unsafe { compress(self.0.as_ptr(), src.as_ptr().cast(), src.len(), dst.as_mut_ptr().cast(), dst.len()) };
        // It fails only if the result does not fit.
        (len > 0).then_some(len)
    }
}
