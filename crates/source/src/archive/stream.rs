//! An archive that can be read only once, forwards: a pipe, or a compressed file.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::ReadAt;

use super::contents::{ArchiveContents, ArchiveFile, LocatedFile};
use super::input::{ArchiveInput, StoredMember, add_up, truncated};
use super::seekable::SeekableInput;
use crate::tree::FileData;
use crate::{Error, Result};
use crate::{SourceDevice, Store, unchanged};

/// Reads an archive forwards.
pub(crate) struct StreamInput {
    from: Box<dyn Read + Send>,
    path: PathBuf,
    /// Name of a member, for messages.
    of: &'static str,
    at: u64,
    /// The underlying file, if there is one.
    file: Option<Arc<dyn ReadAt>>,
    /// Positions of the files, if their data is skipped.
    skipped: Option<SkippedFiles>,
}

/// Files of an archive that an image refers to.
struct SkippedFiles {
    contents: Arc<ArchiveContents>,
    files: Vec<LocatedFile>,
}

/// Bytes of a stream, which are gone.
#[derive(Debug)]
struct ConsumedBytes;

impl ReadAt for ConsumedBytes {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        let why =
            "the archive comes from a pipe, and an image that refers to it keeps none of its data: save it to a file";
        Err(io::Error::other(why))
    }

    fn len(&self) -> u64 {
        0
    }
}

impl StreamInput {
    /// Makes an input of bytes that can be read once; if they come from `file`, it must not change.
    pub(crate) fn new(
        from: Box<dyn Read + Send>,
        path: PathBuf,
        of: &'static str,
        file: Option<Arc<dyn ReadAt>>,
    ) -> Self {
        StreamInput { from, path, of, at: 0, file, skipped: None }
    }

    /// Skips data and keeps its positions, for an image that refers to it.
    pub(crate) fn referred_to(mut self, name_of: fn(SeekableInput) -> Option<Vec<u8>>) -> Self {
        let archive = ArchiveFile { bytes: Arc::new(ConsumedBytes), path: self.path.clone(), of: self.of, name_of };
        self.skipped = Some(SkippedFiles { contents: Arc::new(ArchiveContents::new(archive)), files: Vec::new() });
        self
    }

    /// Reads once; 0 at the end.
    fn read_some(&mut self, buf: &mut [u8]) -> Result<usize> {
        loop {
            match self.from.read(buf) {
                Ok(n) => {
                    self.at += n as u64;
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("cannot read", &self.path)(error)),
            }
        }
    }
}

impl ArchiveInput for StreamInput {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_some(&mut buf[done..])? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    fn offset(&self) -> u64 {
        self.at
    }

    fn skip_to(&mut self, to: u64) -> Result<bool> {
        // Small: what is skipped is padding, unless data is left out.
        let mut scratch = [0; 4096];
        while self.at < to {
            let want = usize::try_from(to - self.at).unwrap_or(usize::MAX).min(scratch.len());
            if self.read_some(&mut scratch[..want])? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn keep(&mut self, file: StoredMember, store: &mut dyn Store) -> Result<FileData> {
        if let Some(SkippedFiles { contents, files }) = &mut self.skipped {
            let key = files.len() as u64;
            files.push(LocatedFile::new(file, self.at));
            return Ok(FileData::Source { from: contents.clone(), key });
        }
        // Ranges that the store wants: the whole file, or its data.
        let whole = [(0, file.size)];
        // Of data only: the store reads nothing for holes.
        let ranges: Vec<_> = file.map.iter().flatten().map(|region| (region.offset, region.len)).collect();
        let ranges = if file.map.is_some() { &ranges } else { &whole[..] };
        let mut data = MemberData { left: file.len, from: self, file: &file, sum: 0, failed: None };
        let number = store.put(&mut data, file.size, ranges);
        // The store's error about a failed read says less than is known here.
        if let Some(error) = data.failed {
            return Err(error);
        }
        let number = number?;
        let sum = data.sum;
        file.check_sum(self.of, sum)?;
        Ok(FileData::Stored(number))
    }

    fn keeps_in_place(&self) -> bool {
        self.skipped.is_some()
    }

    fn device(&mut self) -> Result<Option<SourceDevice>> {
        // A program that writes to a pipe fails if not all of it is read.
        self.skip_to(u64::MAX)?;
        let Some(SkippedFiles { contents, files }) = self.skipped.take() else { return Ok(None) };
        contents.set(files);
        Ok(Some(SourceDevice { contents, len: self.at, tag: String::new(), clusters: None }))
    }

    fn name(&self) -> &Path {
        &self.path
    }

    fn rest(self, head: Vec<u8>) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(io::Cursor::new(head).chain(self.from)))
    }

    fn finish(self) -> Result<()> {
        self.file.map_or(Ok(()), |file| unchanged(&*file, &self.path))
    }
}

/// Data of one member.
struct MemberData<'s> {
    from: &'s mut StreamInput,
    file: &'s StoredMember,
    left: u64,
    /// Sum of the bytes so far, if one is to be checked.
    sum: u32,
    // Also shown to the store, which fails then.
    failed: Option<Error>,
}

impl Read for MemberData<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(buf.len());
        // The store may ask for more than there is of this member; the next one follows at once.
        if want == 0 {
            return Ok(0);
        }
        let failed = match self.from.read_some(&mut buf[..want]) {
            Ok(0) => truncated(self.from.of, self.file.header, self.file.len - self.left, self.file.len),
            Ok(n) => {
                self.left -= n as u64;
                if self.file.sum.is_some() {
                    self.sum = add_up(self.sum, &buf[..n]);
                }
                return Ok(n);
            }
            Err(error) => error,
        };
        self.failed = Some(failed);
        // Any kind: the caller takes the error itself.
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
