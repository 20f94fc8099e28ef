//! `ReadAt`: positional reads from whatever holds an image or a dump.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of known length that any thread may read at any offset.
///
/// Contract: the same bytes each time, and a length that does not change; any number of threads read at once, in any
/// order, any range twice. A read that begins at or behind the end gives 0 bytes and is no error. After an error `buf` may
/// hold anything; the same read may be tried again. Interrupted and short reads of what lies below are continued here.
pub trait ReadAt: Send + Sync + fmt::Debug {
    /// Reads at `offset`; fewer bytes than `buf` holds only at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Length in bytes.
    fn len(&self) -> u64;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` or fails with [`io::ErrorKind::UnexpectedEof`].
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let got = self.read_at(buf, offset)?;
        if got == buf.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// A regular file or block device, from `start` on.
#[derive(Debug)]
pub struct FileAt {
    file: File,
    start: u64,
    len: u64,
}

impl FileAt {
    /// Opens a file or block device; offsets count from `start` (an image inside a larger file).
    pub fn open(path: &Path, start: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        // Seeking gives the size of block devices too, where metadata says 0.
        let end = io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        Ok(FileAt { file, start, len: end.saturating_sub(start) })
    }
}

impl ReadAt for FileAt {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut got = 0;
        while got < buf.len() {
            let Some(at) = self.start.checked_add(offset).and_then(|at| at.checked_add(got as u64)) else { break };
            match self.file.read_at(&mut buf[got..], at) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(got)
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.as_slice().len());
        let n = buf.len().min(self.as_slice().len() - from);
        buf[..n].copy_from_slice(&self[from..from + n]);
        Ok(n)
    }

    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }
}
