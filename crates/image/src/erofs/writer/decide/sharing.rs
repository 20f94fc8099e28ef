//! Dedup of whole items: finds equal data by digests before anything is compressed. Equal clusters are known only
//! afterwards: the [zone](crate::erofs::writer::place::data_zone) finds them. [`super::stretches`] finds stretches
//! within pieces.
//!
//! The tables are those of [`packfs_blocks::dedup`], except its runs: the pieces of a file may lie anywhere, so they
//! need not follow each other.

use std::collections::HashMap;

use packfs_blocks::Digest;
use packfs_blocks::dedup::PlaceIndex;

use crate::erofs::writer::stored::tails::KeptTail;

/// Tables of stored data. Without dedup nothing is remembered, except pieces of zeros.
#[derive(Debug, Default)]
pub(super) struct SharedData {
    is_on: bool,
    /// Whole files that arrived at once.
    files: PlaceIndex<u32>,
    /// Pieces from the middle of files, and last pieces.
    middles: PlaceIndex<u32>,
    lasts: PlaceIndex<u32>,
    /// Tails of files in the stream of tails.
    tails: PlaceIndex<u64>,
    /// Starts of uncompressed pieces that are all blocks.
    blocks: PlaceIndex<u64>,
    /// Starts of uncompressed last pieces, with their tails, which follow an inode.
    tailed: PlaceIndex<(u64, KeptTail)>,
    /// Pieces of zeros, by length, whether the file continues after them, and lane: they need no digest.
    zeros: HashMap<(u64, bool, u8), u32>,
}

impl SharedData {
    pub(super) fn new(is_on: bool) -> Self {
        SharedData { is_on, ..SharedData::default() }
    }

    /// Loads what [`SharedData::file`] needs for these files.
    pub(super) fn touch_files<'d>(&self, digests: impl Iterator<Item = &'d Digest>) {
        self.files.touch(digests);
    }

    /// Returns the number of an equal file; `None` if `file` is the first of its kind.
    pub(super) fn file(&mut self, digest: Digest, file: u32) -> Option<u32> {
        if !self.is_on {
            return None;
        }
        self.files.find_or_insert(digest, file)
    }

    /// Returns an equal piece of a compressed file. A piece from the middle of a file may end
    /// another one, but not the other way round.
    pub(super) fn piece(&self, digest: &Digest, last: bool) -> Option<u32> {
        // A last piece may have a tail apart from its clusters, so no data can follow it.
        self.middles.find(digest).or_else(|| self.lasts.find(digest).filter(|_| last))
    }

    pub(super) fn add_piece(&mut self, digest: Digest, last: bool, seq: u32) {
        if self.is_on {
            let pieces = if last { &mut self.lasts } else { &mut self.middles };
            pieces.insert(digest, seq);
        }
    }

    /// Returns the piece of `len` zeros, or `None` if there is none yet.
    pub(super) fn zeros(&self, len: u64, last: bool, lane: u8) -> Option<u32> {
        self.zeros.get(&(len, last, lane)).copied()
    }

    pub(super) fn add_zeros(&mut self, len: u64, last: bool, lane: u8, seq: u32) {
        self.zeros.insert((len, last, lane), seq);
    }

    /// Returns the offset of an equal tail in the stream of tails.
    pub(super) fn tail(&self, digest: &Digest) -> Option<u64> {
        self.tails.find(digest)
    }

    pub(super) fn add_tail(&mut self, digest: Digest, offset: u64) {
        if self.is_on {
            self.tails.insert(digest, offset);
        }
    }

    /// Returns the start of an equal uncompressed piece.
    pub(super) fn blocks(&self, digest: &Digest) -> Option<u64> {
        self.blocks.find(digest)
    }

    /// Returns the start of an equal last piece with a tail after an inode, and that tail.
    pub(super) fn tailed(&self, digest: &Digest) -> Option<(u64, KeptTail)> {
        self.tailed.find(digest)
    }

    pub(super) fn add_blocks(&mut self, digest: Digest, start: u64, tail: KeptTail) {
        match tail {
            _ if !self.is_on => {}
            KeptTail::NONE => self.blocks.insert(digest, start),
            tail => self.tailed.insert(digest, (start, tail)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_piece_may_end_other_files_but_not_the_other_way_round() {
        let mut sharing = SharedData::new(true);
        let middle = Digest::of(b"middle");
        let last = Digest::of(b"last");
        sharing.add_piece(middle, false, 1);
        sharing.add_piece(last, true, 2);
        assert_eq!((sharing.piece(&middle, false), sharing.piece(&middle, true)), (Some(1), Some(1)));
        assert_eq!((sharing.piece(&last, false), sharing.piece(&last, true)), (None, Some(2)));
    }

    #[test]
    fn without_dedup_only_zeros_are_shared() {
        let mut sharing = SharedData::new(false);
        let digest = Digest::of(b"x");
        sharing.add_piece(digest, false, 1);
        sharing.add_tail(digest, 1);
        sharing.add_blocks(digest, 1, KeptTail::NONE);
        assert_eq!((sharing.file(digest, 1), sharing.file(digest, 2)), (None, None));
        assert_eq!((sharing.piece(&digest, true), sharing.tail(&digest), sharing.blocks(&digest)), (None, None, None));
        sharing.add_zeros(4096, false, 0, 7);
        assert_eq!((sharing.zeros(4096, false, 0), sharing.zeros(4096, true, 0)), (Some(7), None));
        assert_eq!(sharing.zeros(4096, false, 1), None);
    }
}
