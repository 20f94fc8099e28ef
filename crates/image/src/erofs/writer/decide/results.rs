//! Results of the workers: writes and records them, and stores the tails they leave over.

use packfs_blocks::Progress;

use super::jobs::Work;
use super::locations::{Done, PieceEnd};
use super::writer::Data;
use crate::erofs::writer::encode::piece::{Packed, PackedPiece, Rest};
use crate::erofs::writer::stored::tails::Kept;
use crate::{Error, Result};

impl Data<'_, '_> {
    /// Takes results until more jobs may be submitted.
    pub(super) fn make_room(&mut self) -> Result<()> {
        while self.jobs.is_full() {
            self.next()?;
        }
        Ok(())
    }

    /// Takes the results of all submitted jobs.
    pub(super) fn settle(&mut self) -> Result<()> {
        while self.plan()? {}
        while self.next()? {}
        while let Some(packed) = self.jobs.late() {
            self.write(packed?)?;
        }
        while self.jobs.spilled()? {}
        Ok(())
    }

    /// Takes the oldest job's result and those of tails that are due; returns false if there is none.
    pub(super) fn next(&mut self) -> Result<bool> {
        let Some(work) = self.jobs.next() else { return Ok(false) };
        match work? {
            Work::Packed(packed) => self.write(packed)?,
            Work::Written(len) | Work::Copied(_, Ok(len)) => Progress::add(&self.progress.written, len),
            Work::Copied(file, Err(error)) => self.files.fail_late(file, error)?,
        }
        while let Some(packed) = self.jobs.due() {
            self.write(packed?)?;
        }
        Ok(true)
    }

    fn write(&mut self, packed: Packed) -> Result<()> {
        let Packed { bytes, cuts, pieces } = packed;
        let parts = self.zone.write(bytes, &cuts, pieces.iter().map(|piece| (piece.cuts, piece.algorithm)))?;
        for (PackedPiece { seq, len, algorithm, rest, noted, .. }, part) in pieces.into_iter().zip(parts) {
            if let (Some(noted), Some(number)) = (noted, rest.number()) {
                self.zone.note(noted, len as u64, number, part);
            }
            let end = self.rest(rest, algorithm)?;
            self.pieces.put(seq, Done { part, end });
        }
        Ok(())
    }

    fn rest(&mut self, rest: Rest, algorithm: u8) -> Result<PieceEnd> {
        Ok(match rest {
            Rest::Nothing => PieceEnd::Nothing,
            Rest::Inline { bytes, raw } => PieceEnd::Inline { kept: self.keep(&bytes)?, raw, algorithm },
            Rest::Plain(tail) => PieceEnd::Plain(self.keep(&tail)?),
            Rest::Fragment(bytes, digest) => {
                self.tally.fragment(bytes.len());
                if let Some(offset) = self.sharing.end(&digest) {
                    self.tally.shares(bytes.len() as u64);
                    return Ok(PieceEnd::Fragment(offset));
                }
                let offset = self.put_end(&bytes)?;
                self.sharing.add_end(digest, offset);
                PieceEnd::Fragment(offset)
            }
        })
    }

    /// Keeps bytes that will follow an inode.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Result<Kept> {
        let kept = self.keep.put_later(bytes);
        let (kept, spill) = kept.map_err(Error::io("cannot write", "a temporary file"))?;
        spill.map_or(Ok(()), |spill| self.jobs.spill(spill))?;
        Ok(kept)
    }
}
