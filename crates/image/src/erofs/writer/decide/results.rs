//! Results of the workers: writes and records them, and stores the tails they leave over.

use packfs_blocks::Progress;

use super::jobs::JobResult;
use super::locations::{FinishedPiece, StoredTail};
use super::writer::DataWriter;
use crate::erofs::writer::encode::piece::{PackedPiece, PackedPieces, PieceTail};
use crate::erofs::writer::place::data_zone::ClustersOfPiece;
use crate::erofs::writer::stored::tails::KeptTail;
use crate::{Error, Result};

impl DataWriter<'_, '_> {
    /// Takes results until more jobs may be submitted.
    pub(super) fn make_room(&mut self) -> Result<()> {
        while self.jobs.is_full() {
            self.take_result()?;
        }
        Ok(())
    }

    /// Takes the results of all submitted jobs.
    pub(super) fn settle(&mut self) -> Result<()> {
        // In this order: pieces with chunks become jobs, their results fill the stream of tails, and all of
        // them may spill data that follows inodes.
        while self.plan_oldest()? {}
        while self.take_result()? {}
        while let Some(packed) = self.jobs.next_tails() {
            self.write_packed(packed?)?;
        }
        while self.jobs.wait_for_spill()? {}
        Ok(())
    }

    /// Takes the oldest job's result and those of tails that are due; returns false if there is none.
    pub(super) fn take_result(&mut self) -> Result<bool> {
        let Some(work) = self.jobs.take_result() else { return Ok(false) };
        match work? {
            JobResult::Packed(packed) => self.write_packed(packed)?,
            JobResult::Written(len) | JobResult::Copied(_, Ok(len)) => Progress::add(&self.progress.written, len),
            JobResult::Copied(file, Err(error)) => self.files.fail_late(file, error)?,
        }
        while let Some(packed) = self.jobs.due_tails() {
            self.write_packed(packed?)?;
        }
        Ok(true)
    }

    fn write_packed(&mut self, packed: PackedPieces) -> Result<()> {
        let PackedPieces { bytes, cuts, pieces } = packed;
        let parts = self.zone.write_pieces(bytes, &cuts, pieces.iter().map(ClustersOfPiece::from))?;
        for (PackedPiece { seq, len, algorithm, tail, noted, .. }, part) in pieces.into_iter().zip(parts) {
            if let (Some(noted), Some(number)) = (noted, tail.number()) {
                self.zone.note_piece(noted, len as u64, number, part);
            }
            let tail = self.store_tail(tail, algorithm)?;
            self.pieces.put(seq, FinishedPiece { part, tail });
        }
        Ok(())
    }

    fn store_tail(&mut self, tail: PieceTail, algorithm: u8) -> Result<StoredTail> {
        Ok(match tail {
            PieceTail::Nothing => StoredTail::Nothing,
            PieceTail::Inline { bytes, raw } => StoredTail::Inline { kept: self.keep_tail(&bytes)?, raw, algorithm },
            PieceTail::Plain(tail) => StoredTail::Plain(self.keep_tail(&tail)?),
            PieceTail::Fragment(bytes, digest) => {
                self.tally.fragment(bytes.len());
                if let Some(offset) = self.sharing.tail(&digest) {
                    self.tally.shares(bytes.len() as u64);
                    return Ok(StoredTail::Fragment(offset));
                }
                self.cut_tails_before(digest, bytes.len())?;
                let offset = self.put_tail(&bytes)?;
                self.sharing.add_tail(digest, offset);
                StoredTail::Fragment(offset)
            }
        })
    }

    /// Keeps bytes that will follow an inode.
    pub(super) fn keep_tail(&mut self, bytes: &[u8]) -> Result<KeptTail> {
        let kept = self.keep.put_later(bytes);
        let (kept, spill) = kept.map_err(Error::io("cannot write", "a temporary file"))?;
        spill.map_or(Ok(()), |spill| self.jobs.spill(spill))?;
        Ok(kept)
    }
}
