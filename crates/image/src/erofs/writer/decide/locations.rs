//! Finished pieces, and the locations of files that follow from them once all are written.

use super::layout::{BlockStretch, FilePart, PendingFile, PendingLocation, RareLocation};
use super::referred::ReferredChunks;
use super::rules::DataRules;
use crate::erofs::writer::stored::cluster::{ClusterRange, StoredCluster};
use crate::erofs::writer::stored::file::{DataLocation, FileTail, StoredFile};
use crate::erofs::writer::stored::tails::KeptTail;
use crate::{Error, Result};

/// A finished piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FinishedPiece {
    pub(super) part: ClusterRange,
    pub(super) tail: StoredTail,
}

/// The end of a piece, after its clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredTail {
    Nothing,
    /// In the stream of tails, from this offset on.
    Fragment(u64),
    /// A cluster after the inode.
    Inline {
        kept: KeptTail,
        raw: bool,
        algorithm: u8,
    },
    /// The clusters are consecutive blocks, and these bytes follow them after the inode.
    Plain(KeptTail),
}

/// Pieces by number; [`None`] while one is in flight.
#[derive(Debug, Default)]
pub(super) struct PieceTable(Vec<Option<FinishedPiece>>);

impl PieceTable {
    /// Returns the number of a new piece.
    pub(super) fn add(&mut self) -> Result<u32> {
        self.0.push(None);
        u32::try_from(self.0.len() - 1).map_err(|_| Error::TooMany { what: "pieces of files", max: 1 << 32 })
    }

    pub(super) fn put(&mut self, seq: u32, done: FinishedPiece) {
        self.0[seq as usize] = Some(done);
    }

    pub(super) fn get(&self, seq: u32) -> Option<FinishedPiece> {
        self.0[seq as usize]
    }

    /// Returns a piece once all are written.
    pub(super) fn done(&self, seq: u32) -> FinishedPiece {
        self.get(seq).expect("every piece is written")
    }
}

/// Turns files into the data of their inodes, once all pieces are written.
pub(super) struct LocationResolver<'d> {
    pub(super) rules: DataRules,
    pub(super) pieces: &'d PieceTable,
    /// Holes are appended as they occur.
    pub(super) clusters: Vec<StoredCluster>,
    /// Number of the first cluster of those on additional devices.
    pub(super) referred_first: u32,
    /// Offset of the stream of tails in the packed inode.
    pub(super) tails_start: u64,
}

impl LocationResolver<'_> {
    pub(super) fn resolve(&mut self, file: PendingFile) -> StoredFile {
        let size = file.size;
        let body = match file.location {
            // A file that could not be read is still `Missing`. It was left out of the tree, so nothing
            // refers to this.
            PendingLocation::Missing(_) | PendingLocation::Hole => {
                DataLocation::Plain { device: 0, start: None, tail: KeptTail::NONE }
            }
            PendingLocation::Row(start) => self.row(start, KeptTail::NONE),
            PendingLocation::Tail(tail) => DataLocation::Plain { device: 0, start: None, tail },
            PendingLocation::Fragment(offset) => {
                DataLocation::Compressed { parts: Box::new([]), tail: Some(FileTail::Fragment(offset)) }
            }
            PendingLocation::Piece(seq) => self.pieces(&[FilePart::Piece(seq)]),
            PendingLocation::Other(other) => match *other {
                RareLocation::Tailed { start, tail } => self.row(start, tail),
                RareLocation::Chunks(stretches) => self.chunks(&stretches),
                RareLocation::Elsewhere(device, ReferredChunks { bits, blocks }) => {
                    DataLocation::Chunks { device, bits, blocks }
                }
                RareLocation::RowElsewhere { device, start, tail } => {
                    DataLocation::Plain { device, start: Some(start >> self.rules.form.block_bits), tail }
                }
                RareLocation::Referred { first, count, tail } => {
                    let range = ClusterRange { first: self.referred_first + first, count };
                    let parts = if count > 0 { Box::new([range]) as Box<[_]> } else { Box::new([]) };
                    DataLocation::Compressed { parts, tail }
                }
                RareLocation::Pieces(parts) => self.pieces(&parts),
            },
        };
        StoredFile::new(size, body)
    }

    fn row(&self, start: u64, tail: KeptTail) -> DataLocation {
        DataLocation::Plain { device: 0, start: Some(start >> self.rules.form.block_bits), tail }
    }

    fn pieces(&mut self, parts: &[FilePart]) -> DataLocation {
        self.plain(parts).unwrap_or_else(|| self.compressed(parts))
    }

    fn chunks(&self, stretches: &[BlockStretch]) -> DataLocation {
        let bits = self.rules.form.block_bits;
        let piece = self.rules.piece as u64;
        let mut blocks = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            match *stretch {
                BlockStretch::At(start) => blocks.push(Some(start >> bits)),
                BlockStretch::Hole(len) => blocks.extend((0..len.div_ceil(piece)).map(|_| None)),
            }
        }
        let bits = u8::try_from((piece >> bits).ilog2()).expect("a few bits");
        DataLocation::Chunks { device: self.rules.device, bits, blocks: blocks.into() }
    }

    /// Returns the location of a file that was stored uncompressed because it got no shorter.
    fn plain(&self, parts: &[FilePart]) -> Option<DataLocation> {
        let [FilePart::Piece(seq)] = parts else { return None };
        let FinishedPiece { part, tail: StoredTail::Plain(tail) } = self.pieces.done(*seq) else { return None };
        let first = self.clusters[part.first as usize..].first().filter(|_| part.count > 0);
        let start = first.map(|first| first.start >> self.rules.form.block_bits);
        Some(DataLocation::Plain { device: 0, start, tail })
    }

    fn compressed(&mut self, parts: &[FilePart]) -> DataLocation {
        let mut found = Vec::<ClusterRange>::new();
        let mut tail = None;
        for part in parts {
            let part = match *part {
                FilePart::Piece(seq) => {
                    let done = self.pieces.done(seq);
                    // Only the last piece has a tail: those before are packed with `TailPolicy::More`.
                    tail = self.file_tail(done.tail);
                    done.part
                }
                FilePart::Hole(len) => self.hole(len),
            };
            // Pieces that were packed in a row become one range, so most files need one however long they
            // are.
            match found.last_mut() {
                Some(last) if last.first + last.count == part.first => last.count += part.count,
                _ if part.count > 0 => found.push(part),
                _ => {}
            }
        }
        DataLocation::Compressed { parts: found.into(), tail }
    }

    fn file_tail(&self, tail: StoredTail) -> Option<FileTail> {
        match tail {
            StoredTail::Nothing | StoredTail::Plain(_) => None,
            StoredTail::Fragment(offset) => Some(FileTail::Fragment(self.tails_start + offset)),
            StoredTail::Inline { kept, raw, algorithm } => Some(FileTail::Inline { kept, raw, algorithm }),
        }
    }

    /// Returns a hole as clusters without stored bytes, which encoded extents need.
    fn hole(&mut self, mut len: u64) -> ClusterRange {
        const MOST: u32 = 1 << 30;
        let first = u32::try_from(self.clusters.len()).expect("fewer than 2^32 clusters");
        while len > 0 {
            let logical = u32::try_from(len).unwrap_or(MOST).min(MOST);
            self.clusters.push(StoredCluster::hole(logical));
            len -= u64::from(logical);
        }
        let count = u32::try_from(self.clusters.len()).expect("fewer than 2^32 clusters") - first;
        ClusterRange { first, count }
    }
}
