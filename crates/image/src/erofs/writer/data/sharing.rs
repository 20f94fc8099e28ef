//! Sharing: what is down already and equal, told by digests before anything is compressed. (Equal clusters, which are
//! known only after it, are for the [zone](super::zone), and stretches within pieces for [`super::reuse`].)
//!
//! All tables are those of [`packfs_blocks::dedup`]. Its runs are not used: pieces of a file may lie anywhere, so
//! there is nothing to find in a row.

use std::collections::HashMap;

use packfs_blocks::Digest;
use packfs_blocks::dedup::Places;

use crate::erofs::writer::keep::Kept;

/// Tables of what is down. Without dedup nothing is remembered, but for pieces of zeros.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    on: bool,
    /// Whole files that came in one go.
    files: Places<u32>,
    /// Pieces behind which their files go on, and last pieces.
    middles: Places<u32>,
    lasts: Places<u32>,
    /// Ends of files in the stream of ends.
    ends: Places<u64>,
    /// Pieces that are not compressed, and of these such whose end follows an inode.
    blocks: Places<u64>,
    tailed: Places<(u64, Kept)>,
    /// Pieces of zeros by length and whether the file goes on behind them: they need no digest.
    zeros: HashMap<(u64, bool), u32>,
}

impl Sharing {
    pub(super) fn new(on: bool) -> Self {
        Sharing { on, ..Sharing::default() }
    }

    /// The number of an equal file, or `file` is the first of its kind.
    pub(super) fn file(&mut self, digest: Digest, file: u32) -> Option<u32> {
        if !self.on {
            return None;
        }
        let found = self.files.find(&digest);
        if found.is_none() {
            self.files.insert(digest, file);
        }
        found
    }

    /// An equal piece of a compressed file. One from the middle of a file may end another, but not the other way
    /// round.
    pub(super) fn piece(&self, digest: &Digest, last: bool) -> Option<u32> {
        self.middles.find(digest).or_else(|| self.lasts.find(digest).filter(|_| last))
    }

    pub(super) fn add_piece(&mut self, digest: Digest, last: bool, seq: u32) {
        if self.on {
            let pieces = if last { &mut self.lasts } else { &mut self.middles };
            pieces.insert(digest, seq);
        }
    }

    /// The piece of `len` zeros, or `None` if there is none yet.
    pub(super) fn zeros(&self, len: u64, last: bool) -> Option<u32> {
        self.zeros.get(&(len, last)).copied()
    }

    pub(super) fn add_zeros(&mut self, len: u64, last: bool, seq: u32) {
        self.zeros.insert((len, last), seq);
    }

    /// Where an equal end of a file lies in the stream of ends.
    pub(super) fn end(&self, digest: &Digest) -> Option<u64> {
        self.ends.find(digest)
    }

    pub(super) fn add_end(&mut self, digest: Digest, offset: u64) {
        if self.on {
            self.ends.insert(digest, offset);
        }
    }

    /// Where an equal piece that is not compressed begins.
    pub(super) fn blocks(&self, digest: &Digest) -> Option<u64> {
        self.blocks.find(digest)
    }

    /// The same of a last piece whose end follows an inode.
    pub(super) fn tailed(&self, digest: &Digest) -> Option<(u64, Kept)> {
        self.tailed.find(digest)
    }

    pub(super) fn add_blocks(&mut self, digest: Digest, start: u64, tail: Kept) {
        match tail {
            _ if !self.on => {}
            Kept::NONE => self.blocks.insert(digest, start),
            tail => self.tailed.insert(digest, (start, tail)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_other_files_if_its_own_goes_on_but_not_the_other_way_round() {
        let mut sharing = Sharing::new(true);
        let (middle, last) = (Digest::of(b"middle"), Digest::of(b"last"));
        sharing.add_piece(middle, false, 1);
        sharing.add_piece(last, true, 2);
        assert_eq!((sharing.piece(&middle, false), sharing.piece(&middle, true)), (Some(1), Some(1)));
        assert_eq!((sharing.piece(&last, false), sharing.piece(&last, true)), (None, Some(2)));
    }

    #[test]
    fn without_dedup_only_zeros_are_shared() {
        let mut sharing = Sharing::new(false);
        let digest = Digest::of(b"x");
        sharing.add_piece(digest, false, 1);
        sharing.add_end(digest, 1);
        sharing.add_blocks(digest, 1, Kept::NONE);
        assert_eq!((sharing.file(digest, 1), sharing.file(digest, 2)), (None, None));
        assert_eq!((sharing.piece(&digest, true), sharing.end(&digest), sharing.blocks(&digest)), (None, None, None));
        sharing.add_zeros(4096, false, 7);
        assert_eq!((sharing.zeros(4096, false), sharing.zeros(4096, true)), (Some(7), None));
    }
}
