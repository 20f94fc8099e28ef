//! A FIFO or character device as the storage of a part: written once from front to back.

use std::fs::File;
use std::io::{self, Write};

use packfs_blocks::Storage;

/// A pipe. The part is written in order, so offsets carry no information.
#[derive(Debug)]
pub(super) struct PipeStorage(pub(super) File);

impl Storage for PipeStorage {
    fn write_all_at(&self, bytes: &[u8], _: u64) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }

    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::NotSeekable.into())
    }

    fn len(&self) -> io::Result<u64> {
        Err(io::ErrorKind::NotSeekable.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn file(&self) -> Option<&File> {
        Some(&self.0)
    }
}
