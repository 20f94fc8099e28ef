//! The flattened form: a file cut into records that each contain their offset, so that it can be
//! written to a pipe. Reading uses an index of the records; nothing is reassembled on disk.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use xxhash_rust::xxh3::Xxh3;
use zerocopy::{FromZeros, IntoBytes};

use super::format::{FLAT_END, FLAT_HEADER, FLAT_MAGIC, FlatHeader, FlatRecord};
use crate::input::hash_samples;
use crate::{Error, Result, Source};

/// Maximum number of records: enough for a terabyte written by makedumpfile, or 256 GB written by QEMU.
const RECORDS_MAX: usize = 1 << 24;

/// A flattened file, read as the original file.
#[derive(Debug)]
pub struct FlattenedFile {
    file: Arc<dyn ReadAt>,
    /// Pieces by `start`, disjoint.
    pieces: Vec<ByteRun>,
    len: u64,
}

/// Consecutive bytes of the flattened file.
#[derive(Debug, Clone, Copy)]
struct ByteRun {
    start: u64,
    end: u64,
    at: u64,
}

impl FlattenedFile {
    /// Returns true if these first bytes of a file are those of a flattened one.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&FLAT_MAGIC)
    }

    /// Reads the headers of all records; `path` is for errors.
    pub fn read(path: &Path, file: Arc<dyn ReadAt>) -> Result<FlattenedFile> {
        let mut header = FlatHeader::new_zeroed();
        read(path, &*file, header.as_mut_bytes(), 0)?;
        if header.magic != FLAT_MAGIC || header.kind.get() != 1 || header.version.get() != 1 {
            return Err(Error::corrupt(path, "flat header", 0, "not of type 1 and version 1"));
        }
        let mut pieces = BTreeMap::new();
        let mut at = FLAT_HEADER as u64;
        let mut count = 0;
        loop {
            let mut record = FlatRecord::new_zeroed();
            read(path, &*file, record.as_mut_bytes(), at)?;
            // Only both together end the file; either one alone is an invalid record.
            if record.offset.get() == FLAT_END && record.len.get() == FLAT_END {
                break;
            }
            let header_at = at;
            let corrupt = |why: &str| Error::corrupt(path, "flat record", header_at, why);
            let piece = (|| {
                let start = u64::try_from(record.offset.get()).ok()?;
                let len = u64::try_from(record.len.get()).ok().filter(|len| *len > 0)?;
                Some(ByteRun { start, end: start.checked_add(len)?, at: at + size_of::<FlatRecord>() as u64 })
            })();
            let piece = piece.ok_or_else(|| corrupt("its offset or length is invalid"))?;
            let len = piece.end - piece.start;
            // Before it is used: a length from the file must not lead beyond the file, or the loop would
            // never end early.
            if len > file.len().saturating_sub(piece.at) {
                return Err(corrupt("the file ends within it"));
            }
            at = piece.at + len;
            count += 1;
            if count > RECORDS_MAX {
                // Each record takes 24 bytes of memory and more.
                return Err(corrupt("too many records; convert the file with makedumpfile -R first"));
            }
            insert(&mut pieces, piece);
        }
        let pieces: Vec<ByteRun> = pieces.into_values().collect();
        let len = pieces.last().map_or(0, |piece| piece.end);
        Ok(FlattenedFile { file, pieces, len })
    }
}

/// Later records replace the bytes of earlier ones.
fn insert(pieces: &mut BTreeMap<u64, ByteRun>, new: ByteRun) {
    // Only pieces that begin before the end of the new one can overlap it.
    while let Some(old) = pieces.range(..new.end).next_back().map(|(_, old)| *old).filter(|old| old.end > new.start) {
        pieces.remove(&old.start);
        if old.end > new.end {
            // The old piece may reach beyond the new one at both ends, so it becomes up to two.
            pieces.insert(new.end, ByteRun { start: new.end, at: old.at + (new.end - old.start), ..old });
        }
        if old.start < new.start {
            pieces.insert(old.start, ByteRun { end: new.start, ..old });
        }
    }
    pieces.insert(new.start, new);
}

impl ReadAt for FlattenedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        let buf = &mut buf[..len];
        let mut done = 0;
        let mut next = self.pieces.partition_point(|piece| piece.end <= offset);
        while done < buf.len() {
            let from = offset + done as u64;
            // There is one: the gap ends where the next piece begins.
            let Some(piece) = self.pieces.get(next) else { break };
            let left = &mut buf[done..];
            if from < piece.start {
                let gap = usize::try_from(piece.start - from).unwrap_or(usize::MAX).min(left.len());
                left[..gap].fill(0);
                done += gap;
                continue;
            }
            let some = usize::try_from(piece.end - from).unwrap_or(usize::MAX).min(left.len());
            self.file.read_exact_at(&mut left[..some], piece.at + (from - piece.start))?;
            done += some;
            next += 1;
        }
        Ok(done)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.file.check_unchanged()
    }
}

impl Source for FlattenedFile {
    fn data_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let next = self.pieces.partition_point(|piece| piece.end <= offset);
        Ok(self.pieces.get(next).map(|piece| offset.max(piece.start)..piece.end))
    }

    /// Computed from the first bytes, which for a core are its headers and notes, from the length, and from samples.
    fn fingerprint(&self) -> io::Result<u64> {
        // Hashing all would read the whole file before the split reads it again.
        let mut start = vec![0; 1 << 16];
        let got = self.read_at(&mut start, 0)?;
        let mut hasher = Xxh3::new();
        hasher.update(&start[..got]);
        hasher.update(&self.len.to_le_bytes());
        hash_samples(&mut hasher, self);
        Ok(hasher.digest().max(1))
    }
}

fn read(path: &Path, file: &dyn ReadAt, buf: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(buf, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::corrupt(path, "flat record", at, "the file ends before its last record: it is incomplete")
        }
        _ => Error::io("cannot read", path)(error),
    })
}

/// Target of a crash dump: bytes are written in any order, each at its offset.
pub trait WriteAt {
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

impl WriteAt for &packfs_blocks::Output {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        packfs_blocks::Output::write_all_at(self, bytes, offset)
    }
}

impl WriteAt for Vec<u8> {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start.checked_add(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        if self.len() < end {
            self.resize(end, 0);
        }
        self[start..end].copy_from_slice(bytes);
        Ok(())
    }
}

/// Writes the flattened form from front to back, as a pipe requires.
#[derive(Debug)]
pub struct Flattener<W: Write> {
    output: W,
}

impl<W: Write> Flattener<W> {
    /// Writes the header.
    pub fn new(mut output: W) -> io::Result<Self> {
        let header = FlatHeader { magic: FLAT_MAGIC, kind: 1.into(), version: 1.into() };
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(FLAT_HEADER, 0);
        output.write_all(&bytes)?;
        Ok(Flattener { output })
    }

    /// Writes the record that marks the end of the file, and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.write_all(FlatRecord { offset: FLAT_END.into(), len: FLAT_END.into() }.as_bytes())?;
        self.output.flush()?;
        Ok(self.output)
    }
}

impl<W: Write> WriteAt for Flattener<W> {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // The format has signed numbers, big-endian even on little-endian machines.
        let offset = i64::try_from(offset).map_err(io::Error::other)?;
        let len = i64::try_from(bytes.len()).map_err(io::Error::other)?;
        self.output.write_all(FlatRecord { offset: offset.into(), len: len.into() }.as_bytes())?;
        self.output.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flatten(writes: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut flattener = Flattener::new(Vec::new()).unwrap();
        for (offset, bytes) in writes {
            flattener.write_all_at(bytes, *offset).unwrap();
        }
        flattener.finish().unwrap()
    }

    proptest! {
        #[test]
        fn flattened_files_read_as_the_original(
            writes in prop::collection::vec((0u64..200, prop::collection::vec(any::<u8>(), 1..40)), 0..30),
            from in 0u64..260, len in 0usize..260,
        ) {
            let mut plain = Vec::new();
            for (offset, bytes) in &writes {
                (&mut plain as &mut dyn WriteAt).write_all_at(bytes, *offset).unwrap();
            }
            let flat = FlattenedFile::read(Path::new("flat"), Arc::new(flatten(&writes))).unwrap();
            prop_assert_eq!(ReadAt::len(&flat), plain.len() as u64);
            let mut want = vec![1; len];
            let mut got = vec![1; len];
            let n = plain.read_at(&mut want, from).unwrap();
            prop_assert_eq!(flat.read_at(&mut got, from).unwrap(), n);
            prop_assert_eq!(want, got);
        }
    }

    #[test]
    fn a_flattened_file_that_is_not_whole_is_refused() {
        let whole = flatten(&[(0, vec![1; 100]), (4096, vec![2; 10])]);
        for len in 0..whole.len() {
            let error = FlattenedFile::read(Path::new("flat"), Arc::new(whole[..len].to_vec())).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{len}: {error}");
        }
        for (offset, len) in [(-1, 5), (5, -1), (5, 0), (5, i64::MAX), (i64::MAX, i64::MAX)] {
            let mut bytes = whole.clone();
            bytes[FLAT_HEADER..][..16].copy_from_slice([offset, len].map(i64::to_be_bytes).as_flattened());
            assert!(FlattenedFile::read(Path::new("flat"), Arc::new(bytes)).is_err(), "{offset} {len}");
        }
    }
}
