//! The file whose pieces are coming in, and files that are down. How a file is put down is decided before its first
//! piece comes; each way takes only what its layout can say, so that a hole goes nowhere but where one may be.

use super::Rules;
use crate::erofs::writer::keep::Kept;

/// Shorter files are compressed however many holes they have.
const SPARSE_MIN: u64 = 64 << 20;
/// Bytes of an entry of the full index, one of which each block of a compressed file has.
const ENTRY_LEN: u64 = 8;
/// What compressing is taken to make of so many bytes of data: one.
const RATIO: u64 = 2;

/// How a file is put down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// In blocks as it is, and shared with what is equal.
    Raw,
    /// In blocks as it is, holes nowhere: there is so little between them that an index would take more room.
    Sparse,
    /// Compressed, with an index of its own.
    Compressed,
    /// All of it in the packed inode.
    Fragment,
}

impl Way {
    /// The way of a file of `size` bytes, of which `data_len` are not in holes.
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

/// The file whose pieces are coming in.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) file: u32,
    /// Bytes that have come.
    pub(super) at: u64,
    pub(super) so_far: SoFar,
}

/// What there is of an open file.
#[derive(Debug)]
pub(super) enum SoFar {
    Raw(RawFile),
    Compressed(Vec<Part>),
    /// Where it began in the stream of small files, and how long it is.
    Fragment {
        offset: u64,
        len: u64,
    },
}

impl SoFar {
    pub(super) fn new(way: Way, small_len: u64) -> SoFar {
        match way {
            Way::Raw | Way::Sparse => SoFar::Raw(RawFile { sparse: way == Way::Sparse, ..RawFile::default() }),
            Way::Compressed => SoFar::Compressed(Vec::new()),
            Way::Fragment => SoFar::Fragment { offset: small_len, len: 0 },
        }
    }

    /// Adds so many bytes of zeros, but to no fragment, which has bytes in their place.
    pub(super) fn push_hole(&mut self, len: u64) {
        match self {
            SoFar::Raw(raw) => raw.push_hole(len),
            SoFar::Compressed(parts) => match parts.last_mut() {
                Some(Part::Hole(before)) => *before += len,
                _ => parts.push(Part::Hole(len)),
            },
            SoFar::Fragment { .. } => debug_assert!(false, "fragments have no holes"),
        }
    }

    /// Whether the last that came was a hole.
    pub(super) fn ends_with_hole(&self) -> bool {
        match self {
            SoFar::Raw(raw) => matches!(raw.stretches.last(), Some(Stretch::Hole(_))),
            SoFar::Compressed(parts) => matches!(parts.last(), Some(Part::Hole(_))),
            SoFar::Fragment { .. } => false,
        }
    }
}

/// A part of a compressed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The piece with this number.
    Piece(u32),
    /// So many bytes of zeros.
    Hole(u64),
}

/// A part of a file that is not compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stretch {
    /// A piece, or the file's end, from this byte of the image on.
    At(u64),
    /// So many bytes of zeros.
    Hole(u64),
}

/// A file that is not compressed.
#[derive(Debug, Clone, Default)]
pub(super) struct RawFile {
    pub(super) stretches: Vec<Stretch>,
    /// What follows the inode.
    pub(super) tail: Kept,
    pub(super) sparse: bool,
    /// Where the next piece has to lie for all of them to be in one row, which they are so far.
    next: Option<u64>,
}

impl RawFile {
    /// Whether the file is in one row if its next piece lies at `start`.
    pub(super) fn in_row(&self, start: u64) -> bool {
        self.stretches.is_empty() || self.next == Some(start)
    }

    /// Adds a piece of up to `piece` bytes.
    pub(super) fn push(&mut self, start: u64, piece: usize) {
        self.next = self.in_row(start).then_some(start + piece as u64);
        self.stretches.push(Stretch::At(start));
    }

    pub(super) fn push_hole(&mut self, len: u64) {
        self.next = None;
        match self.stretches.last_mut() {
            Some(Stretch::Hole(before)) => *before += len,
            _ => self.stretches.push(Stretch::Hole(len)),
        }
    }

    pub(super) fn has_data(&self) -> bool {
        self.stretches.iter().any(|stretch| matches!(stretch, Stretch::At(_)))
    }
}

/// A file as far as it is known before all is down.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) size: u64,
    pub(super) what: What,
}

/// Where the bytes of a file are.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// They have not come yet, or could not be read.
    Missing(Way),
    /// Nowhere: it is a hole.
    Hole,
    /// In blocks as they are, and behind the inode.
    Raw {
        stretches: Box<[Stretch]>,
        tail: Kept,
    },
    Compressed(Box<[Part]>),
    /// In the stream of small files.
    Fragment {
        offset: u64,
        len: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OnError;
    use crate::erofs::writer::index::Form;
    use crate::erofs::writer::pack::Ending;

    fn rules() -> Rules {
        Rules {
            form: Form { block_bits: 12, algorithm: 0, encoded: false, compact: true },
            piece: 2 << 20,
            fragment_max: 96 << 10,
            ending: Ending::Fragment,
            all_fragments: false,
            raw: false,
            chunks: false,
            scattered: true,
            sparse: true,
            inline_tails: true,
            dedup: true,
            chunk: None,
            on_error: OnError::Stop,
        }
    }

    #[test]
    fn holes_decide_how_a_file_is_put_down() {
        type Change = fn(&mut Rules);
        let (mib, gib) = (1u64 << 20, 1u64 << 30);
        let table: [(Change, u64, u64, Way); 12] = [
            (|_| {}, mib, 0, Way::Compressed),
            (|_| {}, 63 * mib, 0, Way::Compressed),
            (|_| {}, 64 * mib, 0, Way::Sparse),
            // An index of 2 MiB for less than 4 MiB of data.
            (|_| {}, gib, 4 * mib, Way::Sparse),
            (|_| {}, gib, 4 * mib + 2, Way::Compressed),
            (|rules| rules.sparse = false, gib, 0, Way::Compressed),
            (|rules| rules.form.encoded = true, gib, 0, Way::Compressed),
            (|rules| rules.scattered = false, gib, 0, Way::Compressed),
            (|rules| rules.raw = true, gib, 0, Way::Raw),
            (|rules| rules.all_fragments = true, gib, 0, Way::Sparse),
            (|rules| rules.all_fragments = true, 4 * mib, 2 * mib, Way::Compressed),
            (|rules| rules.all_fragments = true, 4 * mib, 2 * mib + 1, Way::Fragment),
        ];
        for (n, (change, size, data_len, want)) in table.into_iter().enumerate() {
            let mut rules = rules();
            change(&mut rules);
            assert_eq!(Way::of(&rules, size, &|| data_len), want, "{n}");
        }
    }

    #[test]
    fn a_row_ends_at_the_first_piece_elsewhere() {
        let mut raw = RawFile::default();
        assert!(raw.in_row(7 * 4096));
        raw.push(4096, 8192);
        assert!(raw.in_row(4096 + 8192) && !raw.in_row(8192));
        raw.push(4096 + 8192, 8192);
        assert!(raw.in_row(4096 + 2 * 8192));
        raw.push_hole(8192);
        assert!(!raw.in_row(4096 + 3 * 8192));
        raw.push(4096 + 3 * 8192, 8192);
        assert!(!raw.in_row(4096 + 4 * 8192));
    }
}
