//! An uncompressed archive in a file: headers are read, data is skipped and stays where it is.

use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::ReadAt;

use super::contents::{ArchiveContents, ArchiveFile, LocatedFile};
use super::input::{ArchiveInput, StoredMember, add_up, truncated};
use crate::tree::FileData;
use crate::{Error, Result};
use crate::{SourceDevice, Store};

/// Smallest and largest window; it grows while reading continues without skips.
const WINDOW: RangeInclusive<usize> = 4 << 10..=256 << 10;

/// Reads the headers of an archive through a window.
pub(crate) struct SeekableInput {
    archive: ArchiveFile,
    at: u64,
    window: Vec<u8>,
    /// Offset of the window in the archive, and its intended size.
    start: u64,
    width: usize,
    files: Vec<LocatedFile>,
    contents: Arc<ArchiveContents>,
}

impl SeekableInput {
    /// Starts reading at `at`.
    pub(crate) fn new(archive: ArchiveFile, at: u64) -> Self {
        let contents = Arc::new(ArchiveContents::new(archive.clone()));
        let width = *WINDOW.start();
        SeekableInput { archive, at, window: Vec::new(), start: at, width, files: Vec::new(), contents }
    }

    /// Returns the unread part of the window, refilling it if it is empty.
    fn rest(&mut self) -> Result<&[u8]> {
        let end = self.start + self.window.len() as u64;
        if !(self.start..end).contains(&self.at) {
            // Doubled while headers are read one after the other; small again after a skip, as most of the
            // window would be skipped too.
            self.width = if self.at == end { (self.width * 2).min(*WINDOW.end()) } else { *WINDOW.start() };
            self.window.resize(self.width, 0);
            let got = self.archive.bytes.read_at(&mut self.window, self.at);
            // Shorter at the end of the archive.
            self.window.truncate(got.map_err(Error::io("cannot read", &self.archive.path))?);
            self.start = self.at;
        }
        let from = usize::try_from(self.at - self.start).unwrap_or(usize::MAX);
        Ok(self.window.get(from..).unwrap_or_default())
    }
}

impl SeekableInput {
    /// Adds up the bytes of `file`, which come next, without consuming them.
    fn sum(&self, file: &StoredMember) -> Result<u32> {
        // The data stays where it is: who lists the archive reads on after it.
        let mut sum = 0;
        let mut at = self.at;
        let mut piece = vec![0; *WINDOW.end()];
        let end = self.at.saturating_add(file.len);
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(piece.len());
            let got = self.archive.bytes.read_at(&mut piece[..want], at);
            match got.map_err(Error::io("cannot read", &self.archive.path))? {
                0 => return Err(truncated(self.archive.of, file.header, at - self.at, file.len)),
                got => {
                    sum = add_up(sum, &piece[..got]);
                    at += got as u64;
                }
            }
        }
        Ok(sum)
    }
}

impl ArchiveInput for SeekableInput {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            let rest = self.rest()?;
            let n = rest.len().min(buf.len() - done);
            if n == 0 {
                break;
            }
            buf[done..done + n].copy_from_slice(&rest[..n]);
            done += n;
            self.at += n as u64;
        }
        Ok(done)
    }

    fn offset(&self) -> u64 {
        self.at
    }

    fn skip_to(&mut self, to: u64) -> Result<bool> {
        // A position beyond the end is not an error by itself: the caller knows how much should be there.
        self.at = to.min(self.archive.bytes.len());
        Ok(self.at == to)
    }

    fn keep(&mut self, file: StoredMember, _: &mut dyn Store) -> Result<FileData> {
        // Only formats with sums, which have to be read for it now: later nobody compares.
        if file.sum.is_some() {
            file.check_sum(self.archive.of, self.sum(&file)?)?;
        }
        let key = self.files.len() as u64;
        self.files.push(LocatedFile::new(file, self.at));
        Ok(FileData::Source { from: self.contents.clone(), key })
    }

    fn keeps_in_place(&self) -> bool {
        true
    }

    fn device(&mut self) -> Result<Option<SourceDevice>> {
        let contents = self.contents.clone();
        let len = self.archive.bytes.len();
        Ok(Some(SourceDevice { contents, len, tag: String::new(), clusters: None }))
    }

    fn name(&self) -> &Path {
        &self.archive.path
    }

    fn rest(self, head: Vec<u8>) -> Result<Box<dyn Read + Send>> {
        let from = RemainingBytes { bytes: Arc::clone(&self.archive.bytes), at: self.at };
        // It was not changed up to here; what follows is read as a stream.
        self.finish()?;
        Ok(Box::new(io::Cursor::new(head).chain(from)))
    }

    fn finish(self) -> Result<()> {
        // Before contents can be read: a changed archive has other data at these places.
        self.archive.check_unchanged()?;
        self.contents.set(self.files);
        Ok(())
    }
}

/// The bytes of an archive from an offset on.
pub(super) struct RemainingBytes {
    bytes: Arc<dyn ReadAt>,
    at: u64,
}

impl RemainingBytes {
    /// Returns all bytes.
    pub(super) fn new(bytes: Arc<dyn ReadAt>) -> Self {
        RemainingBytes { bytes, at: 0 }
    }
}

impl Read for RemainingBytes {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.bytes.read_at(buf, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}
