//! The file whose pieces are arriving, and finished files. The way a file is stored is decided
//! before its first piece arrives. Each way is a type that accepts only what its layout can
//! express: holes only where they are allowed, and bytes after the inode only after consecutive
//! blocks.

use super::referred::Chunks;
use super::rules::Rules;
use crate::erofs::writer::stored::tails::Kept;

/// Shorter files are compressed however many holes they have.
const SPARSE_MIN: u64 = 64 << 20;
/// Length of an entry of the full index, which each block of a compressed file has.
const ENTRY_LEN: u64 = 8;
/// Compression ratio assumed for data.
const RATIO: u64 = 2;

/// The way a file is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// In uncompressed blocks, shared with equal data.
    Raw,
    /// In uncompressed blocks, with holes: there is so little data between them that an index would take more room.
    Sparse,
    /// Compressed, with its own index.
    Compressed,
    /// Entirely in the packed inode.
    Fragment,
}

impl Way {
    /// Returns the way for a file that is to be stored.
    pub(super) fn stored(rules: &Rules) -> Way {
        if rules.raw { Way::Raw } else { Way::Sparse }
    }

    /// Chooses the way for a file of `size` bytes, of which `data_len` are not in holes.
    pub(super) fn of(rules: &Rules, size: u64, data_len: &dyn Fn() -> u64) -> Way {
        if rules.raw {
            return Way::Raw;
        }
        // Holes are cut in pieces.
        let may_have_holes = rules.sparse && size >= rules.piece as u64;
        let may_be_chunks = may_have_holes && rules.scattered && !rules.form.encoded && size >= SPARSE_MIN;
        if may_be_chunks || (may_have_holes && rules.all_fragments) {
            let data_len = data_len();
            let index_len = size / rules.block() as u64 * ENTRY_LEN;
            if may_be_chunks && data_len - data_len / RATIO <= index_len {
                return Way::Sparse;
            }
            if data_len.saturating_add(rules.piece as u64) <= size {
                // Fragments have no holes.
                return Way::Compressed;
            }
        }
        if rules.all_fragments { Way::Fragment } else { Way::Compressed }
    }
}

/// The file whose pieces are arriving.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) file: u32,
    /// Number of bytes received.
    pub(super) at: u64,
    pub(super) so_far: SoFar,
}

/// State of an open file.
#[derive(Debug)]
pub(super) enum SoFar {
    /// Uncompressed; its pieces may be shared with other files.
    Raw(Blocks),
    /// Uncompressed, with holes; its pieces are its own.
    Sparse(Blocks),
    Compressed(Parts),
    /// Entirely in the stream of small files, from this offset on, with zeros in place of holes.
    Fragment(u64),
}

impl SoFar {
    /// Makes the state of a file without data; `small_len` is the length of the stream of small files.
    pub(super) fn new(way: Way, rules: &Rules, small_len: u64) -> SoFar {
        match way {
            Way::Raw => SoFar::Raw(Blocks::new(rules)),
            Way::Sparse => SoFar::Sparse(Blocks::new(rules)),
            Way::Compressed => SoFar::Compressed(Parts::default()),
            Way::Fragment => SoFar::Fragment(small_len),
        }
    }

    /// Returns true if a hole came last.
    pub(super) fn ends_with_hole(&self) -> bool {
        match self {
            SoFar::Raw(blocks) | SoFar::Sparse(blocks) => blocks.ends_with_hole(),
            SoFar::Compressed(parts) => matches!(parts.0.last(), Some(FilePart::Hole(_))),
            SoFar::Fragment(_) => false,
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
pub(super) struct Parts(Vec<FilePart>);

impl Parts {
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
pub(super) enum Stretch {
    /// A piece, or the file's end, from this offset of the image on.
    At(u64),
    /// Number of bytes of zeros.
    Hole(u64),
}

/// Positions of the bytes of an uncompressed file.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Length of a piece in bytes.
    piece: u64,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    /// No data yet.
    Empty,
    /// Consecutive pieces.
    Row { start: u64, pieces: u64 },
    /// Consecutive pieces, with the tail of the last one after the inode: no more can follow.
    Tailed { start: u64, tail: Kept },
    /// Pieces anywhere.
    Chunks(Vec<Stretch>),
}

impl Blocks {
    pub(super) fn new(rules: &Rules) -> Self {
        let shape = if rules.chunks { Shape::Chunks(Vec::new()) } else { Shape::Empty };
        Blocks { piece: rules.piece as u64, shape }
    }

    /// Returns true if nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        match &self.shape {
            Shape::Empty => true,
            Shape::Row { .. } | Shape::Tailed { .. } => false,
            Shape::Chunks(stretches) => stretches.is_empty(),
        }
    }

    /// Returns true if data other than holes was added.
    pub(super) fn has_data(&self) -> bool {
        match &self.shape {
            Shape::Empty => false,
            Shape::Row { .. } | Shape::Tailed { .. } => true,
            Shape::Chunks(stretches) => stretches.iter().any(|stretch| matches!(stretch, Stretch::At(_))),
        }
    }

    /// Returns true if everything stays consecutive once a piece at `start` follows.
    pub(super) fn goes_on(&self, start: u64) -> bool {
        match self.shape {
            Shape::Empty => true,
            Shape::Row { start: first, pieces } => first + pieces * self.piece == start,
            Shape::Tailed { .. } | Shape::Chunks(_) => false,
        }
    }

    /// Adds a piece.
    pub(super) fn push(&mut self, start: u64) {
        match &mut self.shape {
            Shape::Empty => self.shape = Shape::Row { start, pieces: 1 },
            Shape::Row { start: first, pieces } if *first + *pieces * self.piece == start => *pieces += 1,
            _ => self.stretches().push(Stretch::At(start)),
        }
    }

    /// Adds a piece; if there is a `tail`, it is the last one, in the row, and its tail follows the inode.
    pub(super) fn add(&mut self, start: u64, tail: Kept) {
        if tail == Kept::NONE {
            return self.push(start);
        }
        debug_assert!(self.goes_on(start), "only a row can end behind its inode");
        let start = if let Shape::Row { start, .. } = self.shape { start } else { start };
        self.shape = Shape::Tailed { start, tail };
    }

    /// Adds a hole of `len` bytes.
    pub(super) fn push_hole(&mut self, len: u64) {
        let stretches = self.stretches();
        match stretches.last_mut() {
            Some(Stretch::Hole(before)) => *before += len,
            _ => stretches.push(Stretch::Hole(len)),
        }
    }

    /// Returns the stretches, after which no row continues.
    fn stretches(&mut self) -> &mut Vec<Stretch> {
        let at = |start: u64, n: u64| Stretch::At(start + n * self.piece);
        let row = match self.shape {
            Shape::Row { start, pieces } => (0..pieces).map(|n| at(start, n)).collect(),
            _ => Vec::new(),
        };
        if !matches!(self.shape, Shape::Chunks(_)) {
            self.shape = Shape::Chunks(row);
        }
        match &mut self.shape {
            Shape::Chunks(stretches) => stretches,
            _ => unreachable!("made so above"),
        }
    }

    fn ends_with_hole(&self) -> bool {
        matches!(&self.shape, Shape::Chunks(stretches) if matches!(stretches.last(), Some(Stretch::Hole(_))))
    }

    /// Returns the whole file once all of it has arrived.
    pub(super) fn finish(self) -> What {
        if !self.has_data() {
            return What::Hole;
        }
        match self.shape {
            Shape::Empty => What::Hole,
            Shape::Row { start, .. } => What::Row(start),
            Shape::Tailed { start, tail } => Other::Tailed { start, tail }.into(),
            Shape::Chunks(stretches) => Other::Chunks(stretches.into()).into(),
        }
    }
}

/// A file as far as it is known before all data is written.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) size: u64,
    pub(super) what: What,
}

/// Location of the bytes of a file.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// They have not arrived yet, or could not be read.
    Missing(Way),
    /// Nowhere: the file is a hole.
    Hole,
    /// In consecutive blocks from this offset of the image on.
    Row(u64),
    /// After the inode.
    Tail(Kept),
    /// In the stream of small files, from this offset on.
    Fragment(u64),
    /// Compressed, in the piece with this number.
    Piece(u32),
    /// Elsewhere: few files of a large tree are.
    Other(Box<Other>),
}

const _: () = assert!(size_of::<File>() <= 24);

/// Location of the bytes of a file that is none of the small ones.
#[derive(Debug, Clone)]
pub(super) enum Other {
    /// In consecutive blocks from this offset of the image on, and after the inode.
    Tailed { start: u64, tail: Kept },
    /// In blocks anywhere.
    Chunks(Box<[Stretch]>),
    /// Compressed, in several parts.
    Pieces(Box<[FilePart]>),
    /// On the additional device of this number.
    Elsewhere(u16, Chunks),
}

impl From<Other> for What {
    fn from(other: Other) -> What {
        What::Other(Box::new(other))
    }
}

impl What {
    /// Returns a compressed file.
    pub(super) fn compressed(parts: Vec<FilePart>) -> What {
        match parts[..] {
            [FilePart::Piece(seq)] => What::Piece(seq),
            _ => Other::Pieces(parts.into()).into(),
        }
    }
}

#[cfg(test)]
mod tests;
