//! Page-aligned buffers that are reused: a build touches the same few megabytes over and over.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// Size of a page in bytes: the alignment that direct I/O requires.
const PAGE: usize = 4096;

/// An allocation whose bytes from `start` on are page-aligned. Freshly allocated pages take no
/// memory until they are written.
#[derive(Default)]
struct AlignedPages {
    bytes: Box<[u8]>,
    start: usize,
}

impl AlignedPages {
    fn new(len: usize) -> Self {
        let bytes = vec![0; len + PAGE].into_boxed_slice();
        let start = bytes.as_ptr().align_offset(PAGE);
        AlignedPages { bytes, start }
    }
}

/// A pool of buffers of equal size. Clones share it.
#[derive(Clone)]
pub struct Buffers {
    capacity: usize,
    free: Arc<Mutex<Vec<AlignedPages>>>,
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// A buffer that returns to its pool when dropped. Its bytes are zeros or left over from earlier use.
pub struct Buffer {
    pages: AlignedPages,
    len: usize,
    home: Buffers,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Buffers {
    /// Makes a pool of buffers of `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Buffers { capacity, free: Arc::default() }
    }

    /// Returns a buffer of `len` bytes, at most the capacity.
    ///
    /// # Panics
    /// If `len` exceeds the capacity.
    pub fn take(&self, len: usize) -> Buffer {
        assert!(len <= self.capacity, "a buffer of {len} bytes from a pool of {}", self.capacity);
        let reused = self.free.lock().expect("no panic under this lock").pop();
        let pages = reused.unwrap_or_else(|| AlignedPages::new(self.capacity));
        Buffer { pages, len, home: self.clone() }
    }
}

impl Buffer {
    /// Shortens the buffer to its first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pages.bytes[self.pages.start..][..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages.bytes[self.pages.start..][..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        // If another thread died under this lock, the pages are freed instead of kept.
        if let Ok(mut free) = self.home.free.lock() {
            free.push(pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_sized_and_reused() {
        let pool = Buffers::new(5000);
        let mut one = pool.take(5000);
        assert_eq!((one.len(), one.as_ptr() as usize % PAGE), (5000, 0));
        one[4999] = 9;
        let at = one.as_ptr();
        drop(one);
        let mut two = pool.take(10);
        assert_eq!((two.len(), two.as_ptr()), (10, at));
        two.truncate(20);
        assert_eq!(two.len(), 10);
        two.truncate(3);
        assert_eq!(two.len(), 3);
        assert_ne!(pool.take(1).as_ptr(), at, "a buffer in use is not handed out again");
    }

    #[test]
    #[should_panic(expected = "from a pool of")]
    fn more_than_the_capacity_is_refused() {
        Buffers::new(10).take(11);
    }
}
