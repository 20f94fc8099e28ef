//! `Storage`: the place that holds an output while it is written, behind positional writes.

use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};

use crate::mutex;
use crate::system::{self, FileExt};

/// Bytes that any thread may write, and read back, at any offset.
///
/// Threads never write overlapping ranges at the same time, and read only bytes that were written
/// before. After an error the contents are undefined and the writer gives up. All errors are passed
/// on to the user unchanged.
///
/// Implemented for files, block devices ([`BlockDevice`]), and a `Mutex` around any reader, writer and
/// seeker, such as a [`Cursor`] of bytes ([`Memory`]).
pub trait Storage: Send + Sync + fmt::Debug {
    /// Writes all of `bytes` at `offset`; a gap after the current end reads as zeros.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Fills `buf` with bytes written at `offset`.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Returns true if nothing was written.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts off everything after `len`, or appends zeros. Does nothing if the length is fixed.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns true if the length is fixed, as that of a block device.
    fn is_fixed(&self) -> bool {
        false
    }

    /// Makes a range read as zeros that has not been written since the output was begun.
    fn zero_at(&self, offset: u64, len: u64) -> io::Result<()> {
        write_zeros(self, offset, len)
    }

    /// Makes the bytes durable, but not necessarily times and other attributes.
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes bytes and attributes durable.
    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    /// Returns the underlying file, for operations that only files support.
    fn file(&self) -> Option<&File> {
        None
    }
}

/// A new regular file: ranges that are not written stay holes.
impl Storage for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn zero_at(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn file(&self) -> Option<&File> {
        Some(self)
    }
}

/// A block device: its length is fixed, and unwritten ranges hold old bytes.
#[derive(Debug)]
pub struct BlockDevice(pub File);

impl Storage for BlockDevice {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(&self.0, bytes, offset)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(&self.0, buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        (&self.0).seek(SeekFrom::End(0))
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn is_fixed(&self) -> bool {
        true
    }

    fn zero_at(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 || system::zero_range(&self.0, offset, len).is_ok() {
            return Ok(());
        }
        // A device that cannot be told to zero a range is overwritten.
        write_zeros(self, offset, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn file(&self) -> Option<&File> {
        Some(&self.0)
    }
}

/// An output in memory. Keep a clone of an `Arc` of it, and take the bytes once the output is committed.
pub type Memory = Mutex<Cursor<Vec<u8>>>;

/// A writer of the user's. Offsets count from its start, whatever its position.
impl<T: Read + Write + Seek + Send + fmt::Debug> Storage for Mutex<T> {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        work_at(self, offset, |inner| inner.write_all(bytes))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        work_at(self, offset, |inner| inner.read_exact(buf))
    }

    fn len(&self) -> io::Result<u64> {
        mutex::lock(self).seek(SeekFrom::End(0))
    }

    /// Only appends: the traits have no way to truncate.
    fn set_len(&self, len: u64) -> io::Result<()> {
        match Storage::len(self)? {
            now if now < len => write_zeros(self, now, len - now),
            now if now > len => Err(io::Error::new(io::ErrorKind::Unsupported, "a writer cannot be truncated")),
            _ => Ok(()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        mutex::lock(self).flush()
    }
}

/// Works at an offset of a locked reader and writer.
fn work_at<T: Seek>(locked: &Mutex<T>, offset: u64, work: impl FnOnce(&mut T) -> io::Result<()>) -> io::Result<()> {
    // If a thread panicked while holding the lock, only the position may be wrong, and it is set here.
    let mut inner = mutex::lock(locked);
    inner.seek(SeekFrom::Start(offset))?;
    work(&mut inner)
}

impl<S: Storage + ?Sized> Storage for Arc<S> {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_all_at(bytes, offset)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        (**self).set_len(len)
    }

    fn is_fixed(&self) -> bool {
        (**self).is_fixed()
    }

    fn zero_at(&self, offset: u64, len: u64) -> io::Result<()> {
        (**self).zero_at(offset, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        (**self).sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        (**self).sync_all()
    }

    fn file(&self) -> Option<&File> {
        (**self).file()
    }
}

fn write_zeros<S: Storage + ?Sized>(storage: &S, offset: u64, len: u64) -> io::Result<()> {
    let zeros = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(1 << 16)];
    let end = offset.saturating_add(len);
    let mut at = offset;
    while at < end {
        let piece = usize::try_from(end - at).unwrap_or(usize::MAX).min(zeros.len());
        storage.write_all_at(&zeros[..piece], at)?;
        at += piece as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the contract of every storage.
    fn exercise(storage: &dyn Storage) {
        assert!(storage.is_empty().unwrap());
        storage.write_all_at(b"behind a gap", 5).unwrap();
        storage.zero_at(20, 4).unwrap();
        storage.set_len(30).unwrap();
        storage.write_all_at(b"head", 0).unwrap();
        storage.sync_data().unwrap();
        storage.sync_all().unwrap();
        assert_eq!(storage.len().unwrap(), 30);
        let mut all = [1; 30];
        storage.read_exact_at(&mut all, 0).unwrap();
        assert_eq!(&all, b"head\0behind a gap\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert!(storage.read_exact_at(&mut all, 1).is_err(), "beyond the end");
    }

    #[test]
    fn files_memory_and_writers_of_any_kind_keep_the_written_bytes() {
        exercise(&tempfile::tempfile().unwrap());
        exercise(&Mutex::new(tempfile::tempfile().unwrap()));
        let memory = Arc::new(Memory::default());
        exercise(&memory);
        assert_eq!(Arc::into_inner(memory).unwrap().into_inner().unwrap().into_inner().len(), 30);
    }

    #[test]
    fn a_writer_cannot_be_truncated() {
        let memory = Memory::default();
        memory.write_all_at(b"12345", 0).unwrap();
        assert_eq!(memory.set_len(4).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
