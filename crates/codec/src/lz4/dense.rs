//! Calls into liblz4's dense encoder that fill a destination. The bindings' own function would
//! clear a quarter of a megabyte of tables for every cluster; resetting the state keeps the tables
//! and marks their entries as stale.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use crate::{EncodedPrefix, Error, Result};

unsafe extern "C" {
    fn LZ4_createStreamHC() -> *mut c_void;
    fn LZ4_freeStreamHC(state: *mut c_void) -> c_int;
    fn LZ4_resetStreamHC_fast(state: *mut c_void, level: c_int);
    fn LZ4_compress_HC_continue_destSize(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_len: *mut c_int,
        dst_len: c_int,
    ) -> c_int;
}

/// The encoder's tables.
pub(super) struct LibraryState(*mut c_void);

// SAFETY: the pointer is owned, and the state is not bound to a thread.
unsafe impl Send for LibraryState {}

impl Drop for LibraryState {
    fn drop(&mut self) {
        // SAFETY: made by LZ4_createStreamHC and freed once.
        unsafe { LZ4_freeStreamHC(self.0) };
    }
}

impl LibraryState {
    pub(super) fn new() -> Result<Self> {
        // SAFETY: no arguments; null is returned when memory runs out.
        let state = unsafe { LZ4_createStreamHC() };
        if state.is_null() {
            return Err(Error::NoMemory { codec: "lz4hc" });
        }
        Ok(LibraryState(state))
    }

    /// Compresses as much of `src` as fits in `dst`.
    pub(super) fn fill(&mut self, src: &[u8], dst: &mut [u8], level: i32) -> Option<EncodedPrefix> {
        // Clusters are far smaller than the library's limit, and so is a gigabyte.
        let src = &src[..src.len().min(1 << 30)];
        let mut taken = c_int::try_from(src.len()).ok()?;
        let room = c_int::try_from(dst.len().min(1 << 30)).ok()?;
        if taken == 0 || room == 0 {
            return None;
        }
        // SAFETY: the state is live and borrowed mutably, the pointers and lengths are those of
        // live slices. The reset makes the state forget the source of the previous call, which may
        // have been freed.
        let len = unsafe {
            LZ4_resetStreamHC_fast(self.0, level);
            let src = src.as_ptr().cast();
            let dst = dst.as_mut_ptr().cast();
            LZ4_compress_HC_continue_destSize(self.0, src, dst, &raw mut taken, room)
        };
        EncodedPrefix::if_useful(usize::try_from(taken).ok()?, usize::try_from(len).ok().filter(|len| *len > 0)?)
    }
}

#[cfg(test)]
mod tests {
    use lzzzz::lz4_hc;

    use super::*;

    /// A reused state gives the same result as a new one.
    #[test]
    fn a_reset_state_is_as_good_as_new() {
        let bytes: Vec<u8> = (0..300_000_u32).flat_map(|n| (n.wrapping_mul(n) >> 20).to_le_bytes()).collect();
        let mut state = LibraryState::new().unwrap();
        for level in [0, 1, 2, 3, 9, 10, 12] {
            for (from, room) in [(0, 4096), (1000, 100), (500_000, 65_536), (1000, 4096), (0, 4096), (1_199_000, 4096)]
            {
                let mut got = vec![0; room];
                let mut want = vec![0; room];
                let prefix = state.fill(&bytes[from..], &mut got, level);
                let (taken, len) = lz4_hc::compress_fill(&bytes[from..], &mut want, level).unwrap();
                assert_eq!(prefix, EncodedPrefix::if_useful(taken, len), "level {level} from {from}");
                assert!(got[..len] == want[..len], "level {level} from {from}");
            }
        }
    }
}
