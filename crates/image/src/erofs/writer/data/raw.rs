//! File data that is not compressed. Its length is known before anything is done, so its place is, and the
//! workers write it themselves.

use std::ops::Range;

use packfs_blocks::stages::Stage;
use packfs_blocks::{Buffer, Digest};

use super::{Data, Place, Work};
use crate::erofs::writer::keep::Kept;
use crate::erofs::writer::layout::tail_max;
use crate::{Error, Result};

impl Data<'_, '_> {
    /// Whole files shorter than a piece.
    pub(super) fn raw_batch(&mut self, bytes: Buffer, fresh: &[(u32, Range<usize>)]) -> Result<()> {
        let block = self.rules.block();
        let mut parts = Vec::with_capacity(fresh.len());
        let mut len = 0;
        for (file, range) in fresh {
            self.packs(range.len());
            let whole = self.blocks_of(range.len());
            let tail = self.keep(&bytes[range.start + whole..range.end])?;
            let file = &mut self.files[*file as usize];
            (file.places, file.tail) = (Box::new([Place::Raw(self.pos + len as u64)]), tail);
            if whole > 0 {
                parts.push((range.start..range.start + whole, len));
                len += whole.next_multiple_of(block);
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        let mut region = self.regions.take(len);
        let (output, stages, at) = (self.output, &self.progress.stages, self.base + self.pos);
        self.pos += len as u64;
        let ticket = self.pool.submit(move |_| {
            let mut done = 0;
            for (range, to) in parts {
                region[done..to].fill(0);
                done = to + range.len();
                region[to..done].copy_from_slice(&bytes[range]);
            }
            region[done..].fill(0);
            let written = stages.time(Stage::WriteApart, || output.write_all_at(&region, at));
            written.map_err(Error::io("cannot write", output.target()))?;
            Ok(Work::Written(region.len() as u64))
        });
        self.push(ticket, 2 * len)
    }

    /// The next piece of a larger file.
    pub(super) fn raw_block(&mut self, bytes: Buffer, digest: Digest, last: bool, sparse: bool) -> Result<()> {
        let len = bytes.len();
        if sparse && !self.open.iter().any(|place| matches!(place, Place::Raw(_))) {
            self.settle()?;
        }
        let goes_on = self.goes_on();
        let anywhere = self.rules.scattered || (last && self.open.is_empty());
        if self.rules.dedup && !sparse && anywhere {
            // A tail behind the inode needs all other blocks in one row.
            let in_row = |start| self.open.is_empty() || goes_on == Some(start);
            let tailed = self.raw_ends.get(&digest).filter(|(start, _)| last && in_row(*start));
            let whole = self.pieces.get(&(digest, false)).copied();
            if let Some((place, tail)) =
                tailed.map(|(at, tail)| (Place::Raw(*at), *tail)).or(whole.map(|p| (p, Kept::NONE)))
            {
                self.counts.duplicate_bytes += len as u64;
                self.save(len as u64);
                self.open_raw(place, tail, last);
                return Ok(());
            }
        }
        self.packs(len);
        let in_row = last && !sparse && !self.rules.chunks && (self.open.is_empty() || goes_on == Some(self.pos));
        let whole = if in_row { self.blocks_of(len) } else { len };
        let tail = self.keep(&bytes[whole..])?;
        let place = Place::Raw(self.pos);
        if tail.len() > 0 {
            self.raw_ends.insert(digest, (self.pos, tail));
        } else if !sparse {
            self.pieces.insert((digest, false), place);
        }
        self.open_raw(place, tail, last);
        self.write_raw(bytes, whole)
    }

    /// Where the next piece must lie for the open file to be in one row; nothing if it is not in one or just begins.
    fn goes_on(&self) -> Option<u64> {
        let Some(Place::Raw(start)) = self.open.first() else { return None };
        let in_row =
            (0u64..).zip(&self.open).all(|(n, place)| *place == Place::Raw(start + n * self.rules.piece as u64));
        in_row.then(|| start + (self.open.len() * self.rules.piece) as u64)
    }

    fn open_raw(&mut self, place: Place, tail: Kept, last: bool) {
        self.open.push(place);
        if last {
            self.open_tail = tail;
        }
    }

    /// Of so many bytes, those that take blocks; the rest goes behind the inode.
    fn blocks_of(&self, len: usize) -> usize {
        let block = self.rules.block();
        let follows = self.rules.inline_tails && !self.rules.chunks && len % block <= tail_max(block);
        if follows { len / block * block } else { len }
    }

    fn write_raw(&mut self, mut bytes: Buffer, len: usize) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        bytes.truncate(len);
        let padding = len.next_multiple_of(self.rules.block()) - len;
        let (output, stages, at) = (self.output, &self.progress.stages, self.base + self.pos);
        self.pos += (len + padding) as u64;
        let ticket = self.pool.submit(move |_| {
            let failed = || Error::io("cannot write", output.target());
            stages.time(Stage::WriteApart, || output.write_all_at(&bytes, at)).map_err(failed())?;
            if padding > 0 {
                output.write_all_at(&vec![0; padding], at + bytes.len() as u64).map_err(failed())?;
            }
            Ok(Work::Written((bytes.len() + padding) as u64))
        });
        self.push(ticket, len)
    }
}
