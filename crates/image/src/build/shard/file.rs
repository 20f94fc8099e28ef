//! Parts of plans and shards on disk: a section is written once, and found and proven by its place and digest.

use std::fs::File;
use std::path::{Path, PathBuf};

use packfs_blocks::system::FileExt;
use packfs_blocks::{Digest, Output};

use crate::{Error, Result};
use packfs_tree::encoding::{FieldDecoder, FieldEncoder};

/// Number of bytes that are hashed and written at once. Not measured.
const BUFFER: usize = 1 << 18;

/// Place of a section in its file, and the digest of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocatedSection {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) digest: Digest,
}

impl LocatedSection {
    /// Number of bytes of an encoded place.
    pub(super) const LEN: usize = 48;

    pub(super) fn put(&self, to: &mut dyn FieldEncoder) {
        to.u64(self.start);
        to.u64(self.len);
        to.put(self.digest.as_bytes());
    }

    pub(super) fn get(from: &mut FieldDecoder<'_>) -> Result<LocatedSection> {
        Ok(LocatedSection { start: from.u64()?, len: from.u64()?, digest: Digest::from(from.array()?) })
    }
}

/// A section being written.
#[derive(Debug)]
pub(super) struct SectionWriter<'o> {
    output: &'o Output,
    start: u64,
    written: u64,
    buffer: Vec<u8>,
    hasher: blake3::Hasher,
    /// The first error, kept until the end: a [`FieldEncoder`] cannot fail.
    failed: Option<std::io::Error>,
}

impl<'o> SectionWriter<'o> {
    pub(super) fn new(output: &'o Output, start: u64) -> Self {
        let buffer = Vec::with_capacity(BUFFER);
        let hasher = blake3::Hasher::new();
        SectionWriter { output, start, written: 0, buffer, hasher, failed: None }
    }

    fn flush(&mut self) {
        self.hasher.update(&self.buffer);
        if self.failed.is_none() {
            self.failed = self.output.write_all_at(&self.buffer, self.start + self.written).err();
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
    }

    /// Writes the rest; returns the place of the section.
    pub(super) fn finish(mut self) -> Result<LocatedSection> {
        self.flush();
        let digest = Digest::from(*self.hasher.finalize().as_bytes());
        let located = LocatedSection { start: self.start, len: self.written, digest };
        self.failed.map_or(Ok(located), |error| Err(Error::io("cannot write", self.output.target())(error)))
    }
}

impl FieldEncoder for SectionWriter<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }
}

/// A plan or shard that is read.
#[derive(Debug)]
pub(super) struct SectionedFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
}

impl SectionedFile {
    pub(super) fn open(path: &Path) -> Result<SectionedFile> {
        let file = File::open(path).map_err(Error::io("cannot open", path))?;
        Ok(SectionedFile { file, path: path.to_owned() })
    }

    /// Opens the same file again, under whatever name it has now.
    pub(super) fn again(&self) -> Result<SectionedFile> {
        let file = self.file.try_clone().map_err(Error::io("cannot open", &self.path))?;
        Ok(SectionedFile { file, path: self.path.clone() })
    }

    pub(super) fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(Error::io("cannot read the attributes", &self.path))?.len())
    }

    /// Reads bytes that have to be there.
    pub(super) fn read(&self, start: u64, len: u64) -> Result<Vec<u8>> {
        // Before memory is allocated: `len` comes from the file.
        if start.checked_add(len).is_none_or(|end| self.len().is_ok_and(|all| end > all)) {
            return Err(self.damaged(format!("ends before byte {}", start.saturating_add(len))));
        }
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| self.damaged("is too long".into()))?];
        self.file.read_exact_at(&mut bytes, start).map_err(Error::io("cannot read", &self.path))?;
        Ok(bytes)
    }

    /// Reads a section and proves it by its digest.
    pub(super) fn section(&self, at: &LocatedSection, name: &str) -> Result<Vec<u8>> {
        let bytes = self.read(at.start, at.len)?;
        let is_it = Digest::of(&bytes) == at.digest;
        if is_it { Ok(bytes) } else { Err(self.damaged(format!("{name} at byte {} is damaged", at.start))) }
    }

    /// Proves a section of byte strings by its digest, then returns a function that reads one after the other. It is
    /// read twice, as the tree of a large plan need not fit in memory.
    pub(super) fn groups(&self, at: &LocatedSection, name: &str) -> Result<impl FnMut() -> Result<Vec<u8>>> {
        let end = at.start.checked_add(at.len).ok_or_else(|| self.damaged("is too long".into()))?;
        let mut hasher = blake3::Hasher::new();
        let mut place = at.start;
        while place < end {
            let piece = self.read(place, (end - place).min(BUFFER as u64))?;
            hasher.update(&piece);
            place += piece.len() as u64;
        }
        if Digest::from(*hasher.finalize().as_bytes()) != at.digest {
            return Err(self.damaged(format!("{name} at byte {} is damaged", at.start)));
        }
        let mut place = at.start;
        let ends = || self.damaged("ends too early".into());
        Ok(move || {
            let len = u64::from_le_bytes(*self.read(place, 8)?.first_chunk().ok_or_else(ends)?);
            place += 8;
            if len > end.saturating_sub(place) {
                return Err(ends());
            }
            let group = self.read(place, len)?;
            place += len;
            Ok(group)
        })
    }

    pub(super) fn damaged(&self, why: String) -> Error {
        Error::Damaged { path: self.path.clone(), why }
    }
}
