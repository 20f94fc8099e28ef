//! `ReadAt`: positional reads from any source of an image or a dump.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::unchanged::FileWatch;
use crate::system::FileExt;

/// Bytes of known length that any thread may read at any offset.
///
/// Contract: the bytes and the length never change; a source that others can change fails instead, see
/// [`ReadAt::check_unchanged`]. Any number of threads may read at once, in any order, any range repeatedly. A read that
/// begins at or after the end returns 0 bytes and is no error. After an error `buf` may hold anything; the same read
/// may be retried. Interrupted and short reads of the underlying source are continued here.
///
/// Bytes in memory implement it (`Vec<u8>`, `Arc<[u8]>`), files do as [`FileAt`]. Other types that give access to bytes,
/// such as slices and memory maps, do in a [`Cursor`](io::Cursor).
pub trait ReadAt: Send + Sync + fmt::Debug {
    /// Reads at `offset`; returns fewer bytes than `buf` holds only at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Returns the length in bytes.
    fn len(&self) -> u64;

    /// Fails with [`SourceChanged`](super::SourceChanged) if the source has changed since it was opened. All reads then
    /// fail in the same way. Sources that cannot change always succeed.
    fn check_unchanged(&self) -> io::Result<()> {
        Ok(())
    }

    /// Announces that a range of any length will be read soon, from its beginning on. A source with a delay fetches what
    /// it has room for, then more as the range is read, and nothing beyond its end. Others do nothing.
    fn will_read(&self, _range: Range<u64>) {}

    /// Announces that several ranges will be read, in about this order. A source with a delay fetches them together, and
    /// does not take who reads them for one who reads on: it fetches nothing after a range because of it.
    fn will_read_ranges(&self, ranges: &[Range<u64>]) {
        for range in ranges {
            self.will_read(range.clone());
        }
    }

    /// Returns true if each read may wait for a network: then it is worth some work to announce reads.
    fn has_delay(&self) -> bool {
        false
    }

    /// Returns true if there are no bytes.
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
///
/// A read of a regular file that was written to since it was opened fails with [`SourceChanged`](super::SourceChanged).
/// Block devices are not watched.
#[derive(Debug)]
pub struct FileAt {
    file: File,
    start: u64,
    len: u64,
    watch: Option<FileWatch>,
}

impl FileAt {
    /// Opens a file or block device; offsets count from `start` (an image inside a larger file).
    pub fn open(path: &Path, start: u64) -> io::Result<Self> {
        FileAt::new(File::open(path)?, start)
    }

    /// Reads an open file or block device; offsets count from `start`. The file must be open for reading; its position is
    /// not used.
    ///
    /// # Errors
    /// [`io::ErrorKind::IsADirectory`]; what the system says of a file that has no length.
    pub fn new(mut file: File, start: u64) -> io::Result<Self> {
        // Some file systems, tmpfs among them, would fail below without saying why, and others only when it is read.
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let watch = FileWatch::start(&file)?;
        // Seeking gives the size of block devices too; their metadata says 0.
        let end = io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        Ok(FileAt { file, start, len: end.saturating_sub(start), watch })
    }

    /// Returns the open file, whose offsets count from its beginning.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl ReadAt for FileAt {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut got = 0;
        while got < buf.len() {
            let at = self.start.checked_add(offset).and_then(|at| at.checked_add(got as u64));
            // The system calls a greater offset an invalid argument. Damaged images have them, and no file reaches there.
            let Some(at) = at.filter(|at| i64::try_from(*at).is_ok()) else { break };
            match self.file.read_at(&mut buf[got..], at) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        // After the read: an earlier check would miss a write in between.
        self.check_unchanged()?;
        Ok(got)
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.check(&self.file))
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let n = buf.len().min(self.len() - from);
        buf[..n].copy_from_slice(&self[from..from + n]);
        Ok(n)
    }

    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.as_slice().read_at(buf, offset)
    }

    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }
}

/// The bytes of the cursor, whatever its position: of an image that was just written, a slice, a memory map.
impl<T: AsRef<[u8]> + Send + Sync + fmt::Debug> ReadAt for io::Cursor<T> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.get_ref().as_ref().read_at(buf, offset)
    }

    fn len(&self) -> u64 {
        self.get_ref().as_ref().len() as u64
    }
}

// References have no such implementation: `len` of a `&&[u8]` would become that of this trait wherever it is imported.
impl<R: ReadAt + ?Sized> ReadAt for Arc<R> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }

    fn len(&self) -> u64 {
        (**self).len()
    }

    fn check_unchanged(&self) -> io::Result<()> {
        (**self).check_unchanged()
    }

    fn will_read(&self, range: Range<u64>) {
        (**self).will_read(range);
    }

    fn will_read_ranges(&self, ranges: &[Range<u64>]) {
        (**self).will_read_ranges(ranges);
    }

    fn has_delay(&self) -> bool {
        (**self).has_delay()
    }

    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buf, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads past the end of `bytes`, from its second byte on.
    fn rest(bytes: impl ReadAt) -> (u64, Vec<u8>) {
        let mut buf = vec![0; 8];
        let got = bytes.read_at(&mut buf, 1).unwrap();
        buf.truncate(got);
        for offset in [5, 1 << 63, u64::MAX] {
            assert_eq!(bytes.read_at(&mut [0; 2], offset).unwrap(), 0, "at {offset}");
        }
        assert!(!bytes.is_empty() && bytes.read_exact_at(&mut [0; 8], 0).is_err());
        (bytes.len(), buf)
    }

    #[test]
    fn bytes_and_files_read_alike_however_they_are_owned() {
        const BYTES: &[u8] = b"bytes";
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), BYTES).unwrap();
        let shared: Arc<[u8]> = BYTES.into();
        let dynamic: Arc<dyn ReadAt> = Arc::new(BYTES.to_vec());
        let expected = (5, b"ytes".to_vec());
        assert_eq!(rest(io::Cursor::new(BYTES)), expected);
        assert_eq!(rest(BYTES.to_vec()), expected);
        assert_eq!(rest(shared), expected);
        assert_eq!(rest(dynamic), expected);
        assert_eq!(rest(FileAt::new(file.reopen().unwrap(), 0).unwrap()), expected);
        assert_eq!(rest(FileAt::open(file.path(), 0).unwrap()), expected);
    }

    #[test]
    fn a_directory_is_no_file_on_any_file_system() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path(), Path::new("/proc"), Path::new("/sys")] {
            assert_eq!(FileAt::open(path, 0).unwrap_err().kind(), io::ErrorKind::IsADirectory, "{path:?}");
        }
    }
}
