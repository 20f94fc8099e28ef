//! Files in an uncompressed archive, read in place by any number of threads.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use packfs_blocks::ReadAt;

use super::input::StoredMember;
use super::seekable::SeekableInput;
use crate::{Contents, DataRun, FileReader, StayingData, unchanged};
use crate::{Error, Result};

/// An archive and its name.
#[derive(Debug, Clone)]
pub(crate) struct ArchiveFile {
    pub(crate) bytes: Arc<dyn ReadAt>,
    pub(crate) path: PathBuf,
    /// Name of a member, for messages.
    pub(crate) of: &'static str,
    /// Reads the name of the member whose first header is next.
    pub(crate) name_of: fn(SeekableInput) -> Option<Vec<u8>>,
}

impl ArchiveFile {
    /// Fails if the archive has changed since it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        unchanged(&*self.bytes, &self.path)
    }
}

/// The files of an archive, known once all its headers are read.
pub(crate) struct ArchiveContents {
    archive: ArchiveFile,
    files: OnceLock<Box<[LocatedFile]>>,
}

/// A file and the position of its data in the archive.
pub(crate) struct LocatedFile {
    size: u64,
    header: u64,
    pieces: FilePieces,
}

/// The pieces of a file. Most files have only one, and no list.
enum FilePieces {
    Whole(u64),
    Sparse(Box<[PlacedRegion]>),
}

#[derive(Clone, Copy)]
struct PlacedRegion {
    offset: u64,
    len: u64,
    /// Offset in the archive.
    at: u64,
}

impl LocatedFile {
    /// Locates `file`, whose data begins at `at`.
    pub(crate) fn new(file: StoredMember, mut at: u64) -> Self {
        let pieces = match file.map {
            None => FilePieces::Whole(at),
            Some(map) => FilePieces::Sparse(
                map.iter()
                    .map(|region| {
                        // Data regions follow each other in the archive, whatever lies between them in the
                        // file.
                        let piece = PlacedRegion { offset: region.offset, len: region.len, at };
                        at += region.len;
                        piece
                    })
                    .collect(),
            ),
        };
        LocatedFile { size: file.size, header: file.header, pieces }
    }

    /// Returns the first piece that ends after `offset`.
    fn piece(&self, offset: u64) -> Option<PlacedRegion> {
        match &self.pieces {
            FilePieces::Whole(at) => {
                Some(PlacedRegion { offset: 0, len: self.size, at: *at }).filter(|piece| piece.len > offset)
            }
            FilePieces::Sparse(pieces) => {
                let next = pieces.partition_point(|piece| piece.offset + piece.len <= offset);
                pieces.get(next).copied()
            }
        }
    }
}

impl ArchiveContents {
    pub(crate) fn new(archive: ArchiveFile) -> Self {
        ArchiveContents { archive, files: OnceLock::new() }
    }

    /// Sets the files, once.
    pub(crate) fn set(&self, files: Vec<LocatedFile>) {
        // Called once, when all headers are read.
        self.files.get_or_init(|| files.into());
    }

    fn file(&self, key: u64) -> Option<&LocatedFile> {
        self.files.get()?.get(usize::try_from(key).ok()?)
    }

    /// Reads the member's name again: only messages need it.
    fn member_name(&self, key: u64) -> Option<Vec<u8>> {
        // Instead of being kept for each file.
        let input = SeekableInput::new(self.archive.clone(), self.file(key)?.header);
        (self.archive.name_of)(input)
    }
}

impl Contents for ArchiveContents {
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
        let file = self.file(key).ok_or_else(|| Error::Misuse(format!("the archive has no file {key}")))?;
        Ok(Box::new(LocatedFileReader { contents: self, key, file }))
    }

    fn staying_data(&self, key: u64) -> Result<Option<StayingData>> {
        let Some(file) = self.file(key) else { return Ok(None) };
        let runs = match &file.pieces {
            FilePieces::Whole(at) => vec![DataRun { offset: 0, len: file.size, at: *at }],
            FilePieces::Sparse(pieces) => {
                let pieces = pieces.iter().filter(|piece| piece.len > 0);
                pieces.map(|PlacedRegion { offset, len, at }| DataRun { offset: *offset, len: *len, at: *at }).collect()
            }
        };
        Ok(Some(StayingData::Runs(runs)))
    }

    fn path(&self, key: u64) -> PathBuf {
        let mut text = self.archive.path.clone().into_os_string();
        if let Some(name) = self.member_name(key) {
            text.push(":");
            text.push(packfs_blocks::system::os_str(&name));
        }
        text.into()
    }
}

struct LocatedFileReader<'c> {
    contents: &'c ArchiveContents,
    key: u64,
    file: &'c LocatedFile,
}

impl LocatedFileReader<'_> {
    fn changed(&self, why: String) -> Error {
        Error::Changed { path: self.contents.path(self.key), why }
    }
}

impl FileReader for LocatedFileReader<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.file.size);
        let end = end.ok_or_else(|| self.changed(format!("a read goes beyond its {} bytes", self.file.size)))?;
        let mut at = offset;
        while at < end {
            // Zeros up to the next piece, then as much of it as is needed.
            // After the last piece there are zeros to the end.
            let piece = self.file.piece(at).unwrap_or(PlacedRegion { offset: end, len: 0, at: 0 });
            let data = piece.offset.clamp(at, end);
            let stop = (piece.offset + piece.len).clamp(data, end);
            part(buf, at - offset, data - offset).fill(0);
            let bytes = part(buf, data - offset, stop - offset);
            let archive = &self.contents.archive;
            let got = archive.bytes.read_at(bytes, piece.at + data.saturating_sub(piece.offset));
            // It was long enough when it was listed.
            if got.map_err(Error::io("cannot read", &archive.path))? < bytes.len() {
                return Err(self.changed("the archive became shorter while it was read".into()));
            }
            at = stop;
        }
        Ok(())
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        Ok(self.file.piece(offset).map(|piece| (piece.offset.max(offset), piece.offset + piece.len)))
    }

    fn finish(&mut self) -> Result<()> {
        self.contents.archive.check_unchanged()
    }
}

/// Returns bytes `from..to` of a buffer that holds them.
fn part(buf: &mut [u8], from: u64, to: u64) -> &mut [u8] {
    let len = buf.len();
    let at = |at: u64| usize::try_from(at).unwrap_or(len).min(len);
    &mut buf[at(from)..at(to)]
}
