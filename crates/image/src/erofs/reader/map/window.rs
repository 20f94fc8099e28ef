//! A sliding window over an index: its bytes are read in small pieces, so that no size claimed by
//! an image determines memory use.

use crate::{Error, Result};

/// Number of bytes read at once: a few hundred entries.
const PIECE: u64 = 1024;

/// Source of the bytes of indexes: the image, or the metabox inside it.
pub(in crate::erofs::reader) trait IndexBytes {
    /// Fills `buf` from byte `at`; `structure` is for messages.
    fn read(&self, structure: &'static str, at: u64, buf: &mut [u8]) -> Result<()>;

    /// Makes an error about byte `at`.
    fn error(&self, structure: &'static str, at: u64, why: String) -> Error;
}

/// The bytes from `start` to `end` of a source, of which one piece is in memory.
pub(super) struct IndexWindow<'b> {
    source: &'b dyn IndexBytes,
    structure: &'static str,
    end: u64,
    piece: Vec<u8>,
    /// Offset of the piece.
    at: u64,
}

impl<'b> IndexWindow<'b> {
    /// Makes a window over bytes that end at `end`.
    pub(super) fn new(source: &'b dyn IndexBytes, structure: &'static str, end: u64) -> Self {
        IndexWindow { source, structure, end, piece: Vec::new(), at: 0 }
    }

    /// Returns the `N` bytes at `at`.
    pub(super) fn array<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.slice(at, N)?);
        Ok(out)
    }

    /// Returns the `len` bytes at `at`, at most a piece.
    pub(super) fn slice(&mut self, at: u64, len: usize) -> Result<&[u8]> {
        if self.held(at, len).is_none() {
            self.load(at, len)?;
        }
        self.held(at, len).ok_or_else(|| self.error(at, "an entry is outside of it"))
    }

    /// Makes an error about byte `at`.
    pub(super) fn error(&self, at: u64, why: impl Into<String>) -> Error {
        self.source.error(self.structure, at, why.into())
    }

    fn held(&self, at: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.at)?).ok()?;
        self.piece.get(from..from.checked_add(len)?)
    }

    fn load(&mut self, at: u64, len: usize) -> Result<()> {
        let most = self.end.saturating_sub(at).min(PIECE).max(len as u64);
        self.piece.clear();
        self.piece.resize(usize::try_from(most).unwrap_or(len), 0);
        self.at = at;
        self.source.read(self.structure, at, &mut self.piece).inspect_err(|_| self.piece.clear())
    }
}
