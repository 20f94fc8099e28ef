//! The layout of each file, and what is known of a file until all of its data is written.
//!
//! The layout is decided before the first piece arrives. A file that is arriving is in a state with a type of its own for
//! each layout, which accepts only what that can express: holes only where they are allowed, and bytes after the inode only
//! after consecutive blocks.

use super::referred::ReferredChunks;
use super::rules::DataRules;
use crate::erofs::writer::stored::file::FileTail;
use crate::erofs::writer::stored::tails::KeptTail;

/// Shorter files are compressed however many holes they have: the index of one takes at most 128 KiB with blocks of 4
/// KiB, so there is little to win. Not measured.
const SPARSE_MIN: u64 = 64 << 20;
/// Length of an entry of the full index, which each block of a compressed file has.
const ENTRY_LEN: u64 = 8;
/// Compression ratio assumed for data, to compare the size of an uncompressed file with that of a compressed one and
/// its index. The layout is chosen before any data is compressed; a higher ratio prefers compression. Not measured.
const ASSUMED_RATIO: u64 = 2;

/// How a file is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorageLayout {
    /// In uncompressed blocks, shared with equal data.
    Raw,
    /// In uncompressed blocks, with holes: a rule asks for it, or the index of a compressed file would take more room
    /// than compression saves.
    Sparse,
    /// Compressed, with its own index.
    Compressed,
    /// Entirely in the packed inode.
    Fragment,
}

impl StorageLayout {
    /// Returns the layout of a file that a rule wants uncompressed.
    pub(super) fn uncompressed(rules: &DataRules) -> StorageLayout {
        if rules.raw { StorageLayout::Raw } else { StorageLayout::Sparse }
    }

    /// Chooses the layout of a file of `size` bytes, of which `data_len` are not in holes.
    pub(super) fn choose(rules: &DataRules, size: u64, data_len: &dyn Fn() -> u64) -> StorageLayout {
        if rules.raw {
            return StorageLayout::Raw;
        }
        // Holes are cut in pieces.
        let may_have_holes = rules.sparse && size >= rules.piece as u64;
        // With encoded extents a hole is one record whatever its length, so its index is never too long.
        let may_be_chunks = may_have_holes && rules.scattered && !rules.form.encoded && size >= SPARSE_MIN;
        if may_be_chunks || (may_have_holes && rules.all_fragments) {
            let data_len = data_len();
            let index_len = size / rules.block() as u64 * ENTRY_LEN;
            // Compression would save no more than its index costs.
            if may_be_chunks && data_len - data_len / ASSUMED_RATIO <= index_len {
                return StorageLayout::Sparse;
            }
            if data_len.saturating_add(rules.piece as u64) <= size {
                // Fragments have no holes.
                return StorageLayout::Compressed;
            }
        }
        if rules.all_fragments { StorageLayout::Fragment } else { StorageLayout::Compressed }
    }
}

/// The file whose pieces are arriving.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: u32,
    /// Number of bytes received.
    pub(super) at: u64,
    pub(super) state: OpenFileState,
}

/// State of an open file.
#[derive(Debug)]
pub(super) enum OpenFileState {
    /// Uncompressed; its pieces may be shared with other files.
    Raw(RawBlocks),
    /// Uncompressed, with holes; its pieces are its own.
    Sparse(RawBlocks),
    Compressed(CompressedParts),
    /// Entirely in the stream of small files, from this offset on, with zeros in place of holes.
    Fragment(u64),
}

impl OpenFileState {
    /// Makes the state of a file without data; `small_len` is the length of the stream of small files.
    pub(super) fn new(layout: StorageLayout, rules: &DataRules, small_len: u64) -> OpenFileState {
        match layout {
            StorageLayout::Raw => OpenFileState::Raw(RawBlocks::new(rules)),
            StorageLayout::Sparse => OpenFileState::Sparse(RawBlocks::new(rules)),
            StorageLayout::Compressed => OpenFileState::Compressed(CompressedParts::default()),
            StorageLayout::Fragment => OpenFileState::Fragment(small_len),
        }
    }

    /// Returns true if a hole came last.
    pub(super) fn ends_with_hole(&self) -> bool {
        match self {
            OpenFileState::Raw(blocks) | OpenFileState::Sparse(blocks) => blocks.ends_with_hole(),
            OpenFileState::Compressed(parts) => matches!(parts.0.last(), Some(FilePart::Hole(_))),
            OpenFileState::Fragment(_) => false,
        }
    }
}

/// A part of a compressed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilePart {
    /// The piece with this number.
    Piece(u32),
    /// Number of bytes of zeros.
    Hole(u64),
}

/// The parts of a compressed file, in order; no two holes are adjacent.
#[derive(Debug, Default)]
pub(super) struct CompressedParts(Vec<FilePart>);

impl CompressedParts {
    pub(super) fn push(&mut self, piece: u32) {
        self.0.push(FilePart::Piece(piece));
    }

    pub(super) fn push_hole(&mut self, len: u64) {
        match self.0.last_mut() {
            Some(FilePart::Hole(before)) => *before += len,
            _ => self.0.push(FilePart::Hole(len)),
        }
    }

    /// Returns the parts; `None` if they are one hole.
    pub(super) fn finish(self) -> Option<Vec<FilePart>> {
        if matches!(self.0[..], [FilePart::Hole(_)]) { None } else { Some(self.0) }
    }
}

/// A part of a chunk-based file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockStretch {
    /// A piece, or the file's end, from this offset of the image on.
    At(u64),
    /// Number of bytes of zeros.
    Hole(u64),
}

/// Positions of the bytes of an uncompressed file.
#[derive(Debug)]
pub(super) struct RawBlocks {
    /// Length of a piece in bytes.
    piece: u64,
    shape: BlockShape,
}

#[derive(Debug)]
enum BlockShape {
    /// No data yet.
    Empty,
    /// Consecutive pieces.
    Row { start: u64, pieces: u64 },
    /// Consecutive pieces, with the tail of the last one after the inode: no more can follow.
    Tailed { start: u64, tail: KeptTail },
    /// Pieces anywhere.
    Chunks(Vec<BlockStretch>),
}

impl RawBlocks {
    pub(super) fn new(rules: &DataRules) -> Self {
        let shape = if rules.chunks { BlockShape::Chunks(Vec::new()) } else { BlockShape::Empty };
        RawBlocks { piece: rules.piece as u64, shape }
    }

    /// Returns true if nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        match &self.shape {
            BlockShape::Empty => true,
            BlockShape::Row { .. } | BlockShape::Tailed { .. } => false,
            BlockShape::Chunks(stretches) => stretches.is_empty(),
        }
    }

    /// Returns true if data other than holes was added.
    pub(super) fn has_data(&self) -> bool {
        match &self.shape {
            BlockShape::Empty => false,
            BlockShape::Row { .. } | BlockShape::Tailed { .. } => true,
            BlockShape::Chunks(stretches) => stretches.iter().any(|stretch| matches!(stretch, BlockStretch::At(_))),
        }
    }

    /// Returns true if all pieces are consecutive and one at `start` would continue them.
    pub(super) fn goes_on(&self, start: u64) -> bool {
        match self.shape {
            BlockShape::Empty => true,
            BlockShape::Row { start: first, pieces } => first + pieces * self.piece == start,
            BlockShape::Tailed { .. } | BlockShape::Chunks(_) => false,
        }
    }

    /// Adds a piece.
    pub(super) fn push(&mut self, start: u64) {
        match &mut self.shape {
            BlockShape::Empty => self.shape = BlockShape::Row { start, pieces: 1 },
            BlockShape::Row { start: first, pieces } if *first + *pieces * self.piece == start => *pieces += 1,
            _ => self.stretches().push(BlockStretch::At(start)),
        }
    }

    /// Adds a piece. Only the last piece may have a `tail`, which follows the inode, and only if it continues the row.
    pub(super) fn add(&mut self, start: u64, tail: KeptTail) {
        if tail == KeptTail::NONE {
            return self.push(start);
        }
        debug_assert!(self.goes_on(start), "only a row can end after its inode");
        let start = if let BlockShape::Row { start, .. } = self.shape { start } else { start };
        self.shape = BlockShape::Tailed { start, tail };
    }

    /// Adds a hole of `len` bytes.
    pub(super) fn push_hole(&mut self, len: u64) {
        let stretches = self.stretches();
        match stretches.last_mut() {
            Some(BlockStretch::Hole(before)) => *before += len,
            _ => stretches.push(BlockStretch::Hole(len)),
        }
    }

    /// Returns the stretches, for more to be added. A row becomes stretches first.
    fn stretches(&mut self) -> &mut Vec<BlockStretch> {
        let at = |start: u64, n: u64| BlockStretch::At(start + n * self.piece);
        let row = match self.shape {
            BlockShape::Row { start, pieces } => (0..pieces).map(|n| at(start, n)).collect(),
            _ => Vec::new(),
        };
        if !matches!(self.shape, BlockShape::Chunks(_)) {
            self.shape = BlockShape::Chunks(row);
        }
        match &mut self.shape {
            BlockShape::Chunks(stretches) => stretches,
            _ => unreachable!("set above"),
        }
    }

    fn ends_with_hole(&self) -> bool {
        matches!(&self.shape, BlockShape::Chunks(stretches) if matches!(stretches.last(), Some(BlockStretch::Hole(_))))
    }

    /// Returns the whole file once all of it has arrived.
    pub(super) fn finish(self) -> PendingLocation {
        if !self.has_data() {
            return PendingLocation::Hole;
        }
        match self.shape {
            BlockShape::Empty => PendingLocation::Hole,
            BlockShape::Row { start, .. } => PendingLocation::Row(start),
            BlockShape::Tailed { start, tail } => RareLocation::Tailed { start, tail }.into(),
            BlockShape::Chunks(stretches) => RareLocation::Chunks(stretches.into()).into(),
        }
    }
}

/// A file as far as it is known before all data is written.
#[derive(Debug, Clone)]
pub(super) struct PendingFile {
    pub(super) size: u64,
    pub(super) location: PendingLocation,
}

/// Location of the bytes of a file.
#[derive(Debug, Clone)]
pub(super) enum PendingLocation {
    /// They have not arrived yet, or could not be read.
    Missing(StorageLayout),
    /// Nowhere: the file is a hole.
    Hole,
    /// In consecutive blocks from this offset of the image on.
    Row(u64),
    /// After the inode.
    Tail(KeptTail),
    /// In the stream of small files, from this offset on.
    Fragment(u64),
    /// Compressed, in the piece with this number.
    Piece(u32),
    /// Anything else. It takes more memory, and few files of a large tree have it.
    Other(Box<RareLocation>),
}

// An array of these has an entry for every file until all data is written.
const _: () = assert!(size_of::<PendingFile>() <= 24);

/// A location that few files have, apart so that [`PendingFile`] stays small.
#[derive(Debug, Clone)]
pub(super) enum RareLocation {
    /// In consecutive blocks from this offset of the image on, and after the inode.
    Tailed { start: u64, tail: KeptTail },
    /// In blocks anywhere.
    Chunks(Box<[BlockStretch]>),
    /// Compressed, in several parts.
    Pieces(Box<[FilePart]>),
    /// In chunks on the additional device of this number.
    Elsewhere(u16, ReferredChunks),
    /// In consecutive blocks of an additional device from this offset on, and after the inode.
    RowElsewhere { device: u16, start: u64, tail: KeptTail },
    /// In clusters of additional devices, `count` from the number `first` among them on.
    Referred { first: u32, count: u32, tail: Option<FileTail> },
}

impl From<RareLocation> for PendingLocation {
    fn from(other: RareLocation) -> PendingLocation {
        PendingLocation::Other(Box::new(other))
    }
}

impl PendingLocation {
    /// Returns the location of a compressed file.
    pub(super) fn compressed(parts: Vec<FilePart>) -> PendingLocation {
        match parts[..] {
            [FilePart::Piece(seq)] => PendingLocation::Piece(seq),
            _ => RareLocation::Pieces(parts.into()).into(),
        }
    }
}

#[cfg(test)]
mod tests;
