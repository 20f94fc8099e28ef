//! Decoded blocks whose memory is used again: a full cache takes no new pages and leaves no gaps in the heap.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use crate::mutex;

/// Number of free buffers to keep: those of a few threads that decode at the same time.
const FREE: usize = 8;

/// A source of buffers of one length. Clones share it.
#[derive(Clone)]
pub struct BlockShelf {
    len: usize,
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl fmt::Debug for BlockShelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockShelf").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Decoded bytes; clones share them. Once the last is dropped, the memory is used for another block.
#[derive(Clone)]
pub struct SharedBlock(Arc<ShelvedBytes>);

struct ShelvedBytes {
    bytes: Vec<u8>,
    len: usize,
    home: BlockShelf,
}

impl BlockShelf {
    /// Makes a source of buffers for blocks of usually `len` bytes.
    pub fn new(len: usize) -> Self {
        BlockShelf { len, free: Arc::default() }
    }

    /// Makes a block of up to `most` bytes, with as many bytes as `fill` says it has written. The buffer for `fill` holds
    /// anything at first.
    pub fn block<E>(&self, most: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<SharedBlock, E> {
        let mut bytes = self.take(most);
        let filled = fill(bytes.get_mut(..most).unwrap_or_default());
        let len = match filled {
            Ok(len) => len.min(most),
            Err(error) => {
                self.give(bytes);
                return Err(error);
            }
        };
        if len <= self.len / 2 && bytes.len() > len {
            // A short one gets memory of its length.
            let short = bytes.get(..len).unwrap_or_default().to_vec();
            self.give(bytes);
            bytes = short;
        }
        Ok(SharedBlock(Arc::new(ShelvedBytes { bytes, len, home: self.clone() })))
    }

    /// Makes a block with a copy of `bytes`.
    pub fn copy(&self, bytes: &[u8]) -> SharedBlock {
        let filled = self.block::<std::convert::Infallible>(bytes.len(), |out| {
            out.copy_from_slice(bytes);
            Ok(bytes.len())
        });
        filled.unwrap_or_else(|never| match never {})
    }

    fn take(&self, most: usize) -> Vec<u8> {
        if most > self.len {
            return vec![0; most];
        }
        let free = mutex::lock(&self.free).pop();
        free.unwrap_or_else(|| vec![0; self.len])
    }

    fn give(&self, bytes: Vec<u8>) {
        // Other lengths are of no use for other blocks.
        if bytes.len() != self.len {
            return;
        }
        let mut free = mutex::lock(&self.free);
        if free.len() < FREE {
            free.push(bytes);
        }
    }
}

impl SharedBlock {
    /// Returns the number of bytes of memory that it takes.
    pub(crate) fn weight(&self) -> u64 {
        self.0.bytes.len() as u64
    }
}

impl Deref for SharedBlock {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes.get(..self.0.len).unwrap_or_default()
    }
}

impl fmt::Debug for SharedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBlock").field("len", &self.0.len).finish_non_exhaustive()
    }
}

impl Drop for ShelvedBytes {
    fn drop(&mut self) {
        self.home.give(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(shelf: &BlockShelf, most: usize, len: usize, with: u8) -> SharedBlock {
        let fill = |out: &mut [u8]| {
            assert_eq!(out.len(), most);
            out[..len].fill(with);
            Ok::<_, ()>(len)
        };
        shelf.block(most, fill).unwrap()
    }

    #[test]
    fn memory_is_used_again_once_nobody_holds_it() {
        let shelf = BlockShelf::new(4096);
        let one = filled(&shelf, 4096, 4096, 1);
        let at = one.as_ptr();
        let other = one.clone();
        drop(one);
        let two = filled(&shelf, 4096, 4000, 2);
        assert_ne!(two.as_ptr(), at, "still held by its clone");
        assert_eq!((other[4095], two.len(), two[3999]), (1, 4000, 2));
        drop(other);
        assert_eq!(filled(&shelf, 3000, 3000, 3).as_ptr(), at);
        assert!(shelf.block(4096, |_| Err("damaged")).is_err());
        assert_eq!(filled(&shelf, 4096, 4096, 4)[0], 4);
    }

    #[test]
    fn short_and_long_blocks_take_the_memory_of_their_length() {
        let shelf = BlockShelf::new(4096);
        assert_eq!(filled(&shelf, 4096, 100, 1).weight(), 100);
        assert_eq!(filled(&shelf, 4096, 2049, 1).weight(), 4096);
        assert_eq!(filled(&shelf, 10_000, 10_000, 1).weight(), 10_000);
        assert_eq!(shelf.copy(b"text").to_vec(), b"text");
        assert_eq!((shelf.copy(b"").len(), shelf.copy(&[7; 3000]).weight()), (0, 4096));
    }

    #[test]
    fn few_free_buffers_are_kept() {
        let shelf = BlockShelf::new(4096);
        let all: Vec<SharedBlock> = (0..100).map(|n| filled(&shelf, 4096, 4096, n)).collect();
        assert!(all.iter().zip(0..).all(|(block, n)| block.iter().all(|byte| *byte == n)));
        drop(all);
        assert_eq!(shelf.free.lock().unwrap().len(), FREE);
    }
}
