//! Tails of files that will follow their inodes: kept until the metadata is written, first in
//! memory, then in a file without a name.

use std::io;

use packfs_blocks::Storage;
use packfs_blocks::io::Scratch;

/// Maximum number of bytes kept in memory.
const MEMORY: usize = 16 << 20;
/// Number of bytes that are copied at once; fits [`Kept::LEN_BITS`].
const COPY_LEN: usize = 1 << 15;

/// Position of kept bytes, in 8 bytes: each of a million files may have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept(u64);

impl Kept {
    /// No bytes.
    pub(crate) const NONE: Kept = Kept(0);
    /// Number of bits of the length.
    const LEN_BITS: u32 = 16;

    /// Returns the position of `len` bytes from `start` on; `None` if they are too many or too far.
    pub(crate) fn new(start: u64, len: usize) -> Option<Kept> {
        let len = u16::try_from(len).ok()?;
        (start < 1 << (u64::BITS - Self::LEN_BITS)).then(|| Kept(start << Self::LEN_BITS | u64::from(len)))
    }

    pub(crate) fn start(self) -> u64 {
        self.0 >> Self::LEN_BITS
    }

    /// Returns the position of the same bytes behind `before` others; `None` if that is too far.
    pub(crate) fn moved(self, before: u64) -> Option<Kept> {
        if self == Kept::NONE { Some(self) } else { Kept::new(self.start().checked_add(before)?, self.len()) }
    }

    pub(crate) fn len(self) -> usize {
        usize::try_from(self.0 & ((1 << Self::LEN_BITS) - 1)).expect("16 bits")
    }
}

/// Kept bytes.
#[derive(Debug)]
pub(crate) struct Keep {
    /// Place for the file, if one is needed.
    scratch: Scratch,
    spilled: Option<Box<dyn Storage>>,
    /// Length of the file.
    spilled_len: u64,
    recent: Vec<u8>,
}

impl Keep {
    /// Makes a store that spills to a file in `scratch`.
    pub(crate) fn new(scratch: Scratch) -> Self {
        Keep { scratch, spilled: None, spilled_len: 0, recent: Vec::new() }
    }

    /// Keeps some bytes, at most a block.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<Kept> {
        if bytes.is_empty() {
            return Ok(Kept::NONE);
        }
        if self.recent.len() + bytes.len() > MEMORY {
            let file = match &self.spilled {
                Some(file) => file,
                None => self.spilled.insert(self.scratch.file()?),
            };
            file.write_all_at(&self.recent, self.spilled_len)?;
            self.spilled_len += self.recent.len() as u64;
            self.recent.clear();
        }
        let start = self.len();
        self.recent.extend_from_slice(bytes);
        Kept::new(start, bytes.len()).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }

    /// Returns the number of bytes kept.
    pub(crate) fn len(&self) -> u64 {
        self.spilled_len + self.recent.len() as u64
    }

    /// Keeps all that another store keeps; returns the number of bytes before that.
    pub(crate) fn append(&mut self, other: &Keep) -> io::Result<u64> {
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
        let (mut piece, mut at) = (vec![0; COPY_LEN], 0);
        while let Some(file) = self.spilled.as_ref().filter(|_| at < self.spilled_len) {
            let len = usize::try_from(self.spilled_len - at).unwrap_or(COPY_LEN).min(COPY_LEN);
            file.read_exact_at(&mut piece[..len], at)?;
            to(&piece[..len])?;
            at += len as u64;
        }
        self.recent.chunks(COPY_LEN).try_for_each(to)
    }

    /// Appends kept bytes to `out`.
    pub(crate) fn get(&self, kept: Kept, out: &mut Vec<u8>) -> io::Result<()> {
        let at = out.len();
        out.resize(at + kept.len(), 0);
        // Bytes of other stores were appended in pieces, so some may lie across the end of the file.
        let in_file = usize::try_from(self.spilled_len.saturating_sub(kept.start())).unwrap_or(usize::MAX);
        let (first, last) = out[at..].split_at_mut(in_file.min(kept.len()));
        if let Some(file) = self.spilled.as_ref().filter(|_| !first.is_empty()) {
            file.read_exact_at(first, kept.start())?;
        }
        if !last.is_empty() {
            let start = (kept.start() + first.len() as u64).saturating_sub(self.spilled_len);
            let start = usize::try_from(start).expect("in memory");
            last.copy_from_slice(&self.recent[start..start + last.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_holds_a_block_after_256_tebibytes() {
        let most = (1 << 48) - 1;
        let kept = Kept::new(most, 4096).unwrap();
        assert_eq!((kept.start(), kept.len()), (most, 4096));
        assert_eq!((Kept::new(most + 1, 1), Kept::new(0, 1 << 16)), (None, None));
    }

    #[test]
    fn kept_bytes_are_returned_from_memory_and_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut keep = Keep::new(Scratch::new(dir.path()));
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
        let store = || Keep::new(Scratch::new(dir.path()));
        let (mut keep, mut other) = (store(), store());
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
