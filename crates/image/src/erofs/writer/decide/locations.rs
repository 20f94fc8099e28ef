//! The result: finished pieces, and the data that every file's inode carries to locate its contents.

use super::layout::{File, FilePart, Other, Stretch, What};
use super::referred::Chunks;
use super::rules::Rules;
use crate::erofs::writer::stored::cluster::{Cluster, Part, StoredLen};
use crate::erofs::writer::stored::file::{Body, End, Stored};
use crate::erofs::writer::stored::tails::Kept;
use crate::{Error, Result};

/// A finished piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) part: Part,
    pub(super) end: PieceEnd,
}

/// The end of a piece, after its clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceEnd {
    Nothing,
    /// In the stream of tails, from this offset on.
    Fragment(u64),
    /// A cluster after the inode.
    Inline {
        kept: Kept,
        raw: bool,
        algorithm: u8,
    },
    /// The clusters are consecutive blocks, and these bytes follow them after the inode.
    Plain(Kept),
}

/// Pieces by number; [`None`] while one is in flight.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<Option<Done>>);

impl Pieces {
    /// Returns the number of a new piece.
    pub(super) fn add(&mut self) -> Result<u32> {
        self.0.push(None);
        u32::try_from(self.0.len() - 1).map_err(|_| Error::TooMany { what: "pieces of files", max: 1 << 32 })
    }

    pub(super) fn put(&mut self, seq: u32, done: Done) {
        self.0[seq as usize] = Some(done);
    }

    pub(super) fn get(&self, seq: u32) -> Option<Done> {
        self.0[seq as usize]
    }

    /// Returns a piece once all are written.
    pub(super) fn done(&self, seq: u32) -> Done {
        self.get(seq).expect("every piece is down")
    }
}

/// Turns files into the data of their inodes, once all pieces are written.
pub(super) struct Bodies<'d> {
    pub(super) rules: Rules,
    pub(super) pieces: &'d Pieces,
    /// Holes are appended as they occur.
    pub(super) clusters: Vec<Cluster>,
    /// Offset of the stream of tails in the packed inode.
    pub(super) ends: u64,
}

impl Bodies<'_> {
    pub(super) fn stored(&mut self, file: File) -> Stored {
        let size = file.size;
        let body = match file.what {
            What::Missing(_) | What::Hole => Body::Plain { start: None, tail: Kept::NONE },
            What::Row(start) => self.row(start, Kept::NONE),
            What::Tail(tail) => Body::Plain { start: None, tail },
            What::Fragment(offset) => Body::Compressed { parts: Box::new([]), end: Some(End::Fragment(offset)) },
            What::Piece(seq) => self.pieces(&[FilePart::Piece(seq)]),
            What::Other(other) => match *other {
                Other::Tailed { start, tail } => self.row(start, tail),
                Other::Chunks(stretches) => self.chunks(&stretches),
                Other::Elsewhere(device, Chunks { bits, blocks }) => Body::Chunks { device, bits, blocks },
                Other::Pieces(parts) => self.pieces(&parts),
            },
        };
        Stored::new(size, body)
    }

    fn row(&self, start: u64, tail: Kept) -> Body {
        Body::Plain { start: Some(start >> self.rules.form.block_bits), tail }
    }

    fn pieces(&mut self, parts: &[FilePart]) -> Body {
        self.plain(parts).unwrap_or_else(|| self.compressed(parts))
    }

    fn chunks(&self, stretches: &[Stretch]) -> Body {
        let (bits, piece) = (self.rules.form.block_bits, self.rules.piece as u64);
        let mut blocks = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            match *stretch {
                Stretch::At(start) => blocks.push(Some(start >> bits)),
                Stretch::Hole(len) => blocks.extend((0..len.div_ceil(piece)).map(|_| None)),
            }
        }
        let bits = u8::try_from((piece >> bits).ilog2()).expect("a few bits");
        Body::Chunks { device: self.rules.device, bits, blocks: blocks.into() }
    }

    /// Returns the body of a file that was not compressed after all.
    fn plain(&self, parts: &[FilePart]) -> Option<Body> {
        let [FilePart::Piece(seq)] = parts else { return None };
        let Done { part, end: PieceEnd::Plain(tail) } = self.pieces.done(*seq) else { return None };
        let first = self.clusters[part.first as usize..].first().filter(|_| part.count > 0);
        Some(Body::Plain { start: first.map(|first| first.start >> self.rules.form.block_bits), tail })
    }

    fn compressed(&mut self, parts: &[FilePart]) -> Body {
        let (mut found, mut end) = (Vec::<Part>::new(), None);
        for part in parts {
            let part = match *part {
                FilePart::Piece(seq) => {
                    let done = self.pieces.done(seq);
                    end = self.end(done.end);
                    done.part
                }
                FilePart::Hole(len) => self.hole(len),
            };
            match found.last_mut() {
                Some(last) if last.first + last.count == part.first => last.count += part.count,
                _ if part.count > 0 => found.push(part),
                _ => {}
            }
        }
        Body::Compressed { parts: found.into(), end }
    }

    fn end(&self, end: PieceEnd) -> Option<End> {
        match end {
            PieceEnd::Nothing | PieceEnd::Plain(_) => None,
            PieceEnd::Fragment(offset) => Some(End::Fragment(self.ends + offset)),
            PieceEnd::Inline { kept, raw, algorithm } => Some(End::Inline { kept, raw, algorithm }),
        }
    }

    /// Returns a hole as clusters of no bytes, as encoded extents need it.
    fn hole(&mut self, mut len: u64) -> Part {
        const MOST: u32 = 1 << 30;
        let first = u32::try_from(self.clusters.len()).expect("fewer than 2^32 clusters");
        while len > 0 {
            let logical = u32::try_from(len).unwrap_or(MOST).min(MOST);
            self.clusters.push(Cluster {
                start: 0,
                physical: StoredLen::HOLE,
                logical,
                raw: true,
                algorithm: 0,
                partial: false,
                page_offset: 0,
            });
            len -= u64::from(logical);
        }
        let count = u32::try_from(self.clusters.len()).expect("fewer than 2^32 clusters") - first;
        Part { first, count }
    }
}
