//! A storage that damages what is written to it.

use std::io;
use std::sync::Arc;

use packfs_blocks::io::{Memory, Storage};

/// Storage in memory that changes one byte as it is written.
#[derive(Debug)]
pub struct Flipped {
    /// The stored bytes.
    pub memory: Arc<Memory>,
    /// Offset of the changed byte.
    pub at: u64,
}

impl Storage for Flipped {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = bytes.to_vec();
        let hit = self.at.checked_sub(offset).and_then(|at| bytes.get_mut(usize::try_from(at).ok()?));
        if let Some(byte) = hit {
            *byte ^= 0x15;
        }
        self.memory.write_all_at(&bytes, offset)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.memory.read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Storage::len(&*self.memory)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.memory.set_len(len)
    }
}
