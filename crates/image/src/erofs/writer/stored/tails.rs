//! Tails of files that will follow their inodes: kept until the metadata is written, first in
//! memory, then in a file without a name.

use std::io;
use std::sync::{Arc, Mutex};

use packfs_blocks::Storage;
use packfs_blocks::io::Scratch;
use packfs_blocks::mutex;

/// Maximum number of bytes kept in memory before there is a file: a quarter of the 64 MiB that builds may take beside
/// their tree. Not measured.
const MEMORY: usize = 16 << 20;
/// Number of bytes that are written to the file at once, by a job of a worker. Not measured.
const SPILL_LEN: usize = 1 << 20;
/// Number of bytes that are read from the file at once: inodes mostly need them in the order in which they were kept. A
/// call for each tail took the conductor 6 µs a file, together with the writes. Other lengths were not measured.
const READ_LEN: usize = 1 << 16;
/// Number of bytes that are copied at once; fits [`KeptTail::LEN_BITS`].
const COPY_LEN: usize = 1 << 15;

/// Returns the maximum number of bytes that can follow an inode in one block of `block` bytes, whatever its xattrs.
pub(crate) const fn tail_max(block: usize) -> usize {
    block - 32
}

/// Position of kept bytes, in 8 bytes: each of a million files may have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptTail(u64);

impl KeptTail {
    /// No bytes.
    pub(crate) const NONE: KeptTail = KeptTail(0);
    /// Number of bits of the length.
    const LEN_BITS: u32 = 16;

    /// Returns the position of `len` bytes from `start` on; `None` if they are too many or too far.
    pub(crate) fn new(start: u64, len: usize) -> Option<KeptTail> {
        let len = u16::try_from(len).ok()?;
        (start < 1 << (u64::BITS - Self::LEN_BITS)).then(|| KeptTail(start << Self::LEN_BITS | u64::from(len)))
    }

    pub(crate) fn start(self) -> u64 {
        self.0 >> Self::LEN_BITS
    }

    /// Returns the position of the same bytes after `before` others; `None` if that is too far.
    pub(crate) fn moved(self, before: u64) -> Option<KeptTail> {
        if self == KeptTail::NONE { Some(self) } else { KeptTail::new(self.start().checked_add(before)?, self.len()) }
    }

    pub(crate) fn len(self) -> usize {
        usize::try_from(self.0 & ((1 << Self::LEN_BITS) - 1)).expect("16 bits")
    }
}

/// Kept bytes.
#[derive(Debug)]
pub(crate) struct TailStore {
    /// Place for the file, if one is needed.
    scratch: Scratch,
    spilled: Option<Arc<dyn Storage>>,
    /// Length of the file.
    spilled_len: u64,
    recent: Vec<u8>,
    /// Bytes of the file that were read last, and where they begin in it.
    read: Mutex<(u64, Vec<u8>)>,
}

/// Kept bytes on their way to the file.
#[derive(Debug)]
pub(crate) struct TailSpill {
    file: Arc<dyn Storage>,
    bytes: Vec<u8>,
    at: u64,
}

impl TailSpill {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the bytes.
    pub(crate) fn write(self) -> io::Result<()> {
        self.file.write_all_at(&self.bytes, self.at)
    }
}

impl TailStore {
    /// Makes a store that spills to a file in `scratch`.
    pub(crate) fn new(scratch: Scratch) -> Self {
        TailStore { scratch, spilled: None, spilled_len: 0, recent: Vec::new(), read: Mutex::default() }
    }

    /// Keeps some bytes, at most a block.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<KeptTail> {
        let (kept, spill) = self.put_later(bytes)?;
        spill.map_or(Ok(()), TailSpill::write)?;
        Ok(kept)
    }

    /// Keeps some bytes, at most a block. Earlier ones may have to be written before any are read.
    pub(crate) fn put_later(&mut self, bytes: &[u8]) -> io::Result<(KeptTail, Option<TailSpill>)> {
        if bytes.is_empty() {
            return Ok((KeptTail::NONE, None));
        }
        // Most builds never need the file, so much is kept before there is one.
        let most = if self.spilled.is_some() { SPILL_LEN } else { MEMORY };
        let spill = if self.recent.len() + bytes.len() > most { Some(self.spill()?) } else { None };
        let start = self.len();
        self.recent.extend_from_slice(bytes);
        let kept = KeptTail::new(start, bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok((kept, spill))
    }

    /// Makes room in memory.
    fn spill(&mut self) -> io::Result<TailSpill> {
        let file = match &self.spilled {
            Some(file) => file,
            None => self.spilled.insert(self.scratch.file()?.into()),
        };
        let file = Arc::clone(file);
        let bytes = std::mem::replace(&mut self.recent, Vec::with_capacity(SPILL_LEN));
        let at = self.spilled_len;
        self.spilled_len += bytes.len() as u64;
        Ok(TailSpill { file, bytes, at })
    }

    /// Returns the number of bytes kept.
    pub(crate) fn len(&self) -> u64 {
        self.spilled_len + self.recent.len() as u64
    }

    /// Keeps all that another store keeps; returns the number of bytes before that.
    pub(crate) fn append(&mut self, other: &TailStore) -> io::Result<u64> {
        let before = self.len();
        other.copy(|bytes| self.put_all(bytes))?;
        Ok(before)
    }

    /// Keeps any number of bytes.
    pub(crate) fn put_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(COPY_LEN).try_for_each(|piece| self.put(piece).map(drop))
    }

    /// Passes all kept bytes on, in pieces.
    pub(crate) fn copy(&self, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut piece = vec![0; COPY_LEN];
        let mut at = 0;
        while let Some(file) = self.spilled.as_ref().filter(|_| at < self.spilled_len) {
            let len = usize::try_from(self.spilled_len - at).unwrap_or(COPY_LEN).min(COPY_LEN);
            file.read_exact_at(&mut piece[..len], at)?;
            to(&piece[..len])?;
            at += len as u64;
        }
        self.recent.chunks(COPY_LEN).try_for_each(to)
    }

    /// Appends kept bytes to `out`.
    pub(crate) fn get(&self, kept: KeptTail, out: &mut Vec<u8>) -> io::Result<()> {
        let at = out.len();
        out.resize(at + kept.len(), 0);
        // Bytes of other stores were appended in pieces, so some may lie across the end of the file.
        let in_file = usize::try_from(self.spilled_len.saturating_sub(kept.start())).unwrap_or(usize::MAX);
        let (first, last) = out[at..].split_at_mut(in_file.min(kept.len()));
        if let Some(file) = self.spilled.as_ref().filter(|_| !first.is_empty()) {
            self.read(&**file, first, kept.start())?;
        }
        if !last.is_empty() {
            let start = (kept.start() + first.len() as u64).saturating_sub(self.spilled_len);
            let start = usize::try_from(start).expect("in memory");
            last.copy_from_slice(&self.recent[start..start + last.len()]);
        }
        Ok(())
    }

    /// Reads bytes of the file, and those after them for the next call.
    fn read(&self, file: &dyn Storage, bytes: &mut [u8], at: u64) -> io::Result<()> {
        // The lock guards a pair that is changed only when the read has succeeded, so a panic leaves it
        // whole.
        let mut read = mutex::lock(&self.read);
        let (start, ahead) = &mut *read;
        let end = at + bytes.len() as u64;
        if !(*start..=*start + ahead.len() as u64).contains(&end) || at < *start {
            let len = usize::try_from(self.spilled_len - at).unwrap_or(READ_LEN).min(READ_LEN);
            // An error leaves nothing that could be taken for these bytes.
            ahead.clear();
            let mut more = std::mem::take(ahead);
            more.resize(len, 0);
            file.read_exact_at(&mut more, at)?;
            *start = at;
            *ahead = more;
        }
        let from = usize::try_from(at - *start).expect("within what was read");
        bytes.copy_from_slice(&ahead[from..from + bytes.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_holds_a_block_after_256_tebibytes() {
        let most = (1 << 48) - 1;
        let kept = KeptTail::new(most, 4096).unwrap();
        assert_eq!((kept.start(), kept.len()), (most, 4096));
        assert_eq!((KeptTail::new(most + 1, 1), KeptTail::new(0, 1 << 16)), (None, None));
    }

    #[test]
    fn kept_bytes_are_returned_from_memory_and_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut keep = TailStore::new(Scratch::new(dir.path()));
        let bytes = |n: u32| n.to_le_bytes().repeat(1000);
        let kept: Vec<_> = (0..10_000).map(|n| keep.put(&bytes(n)).unwrap()).collect();
        assert!(keep.spilled.is_some() && keep.recent.len() <= MEMORY);
        for (n, kept) in (0..).zip(kept) {
            let mut out = vec![7];
            keep.get(kept, &mut out).unwrap();
            assert_eq!((out[0], &out[1..]), (7, &bytes(n)[..]), "{n}");
        }
    }

    #[test]
    fn kept_bytes_of_other_stores_are_returned_wherever_the_file_ends() {
        let dir = tempfile::tempdir().unwrap();
        let store = || TailStore::new(Scratch::new(dir.path()));
        let mut keep = store();
        let mut other = store();
        // No multiple of the pieces in which stores are copied: one tail lies across the end of the file.
        let bytes = |n: u32| n.to_le_bytes().repeat(999);
        let kept: Vec<_> = (0..5000).map(|n| other.put(&bytes(n)).unwrap()).collect();
        keep.put(&[1; 60_000]).unwrap();
        let before = keep.append(&other).unwrap();
        assert_eq!(before, 60_000);
        assert!(keep.spilled.is_some());
        for (n, kept) in (0..).zip(kept) {
            let mut out = Vec::new();
            keep.get(kept.moved(before).unwrap(), &mut out).unwrap();
            assert_eq!(out, bytes(n), "{n}");
        }
    }
}
