//! File data that is not compressed. Its length is known before anything is done, so its place is, and the
//! workers write it themselves.

use std::ops::Range;

use packfs_blocks::stages::Stage;
use packfs_blocks::{Buffer, Digest};

use super::open::{RawFile, Stretch};
use super::{Data, What, Work};
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
            let stretches = Box::new([Stretch::At(self.pos + len as u64)]);
            self.files[*file as usize].what = What::Raw { stretches, tail };
            if whole > 0 {
                parts.push((range.start..range.start + whole, len));
                len += whole.next_multiple_of(block);
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        let mut region = self.regions.take(len);
        let (output, stages, at) = (self.tools.output, &self.tools.progress.stages, self.base + self.pos);
        self.pos += len as u64;
        let ticket = self.tools.pool.submit(move |_| {
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
    pub(super) fn raw_block(&mut self, file: &mut RawFile, bytes: Buffer, digest: Digest, last: bool) -> Result<()> {
        let len = bytes.len();
        if file.sparse && !file.has_data() {
            self.settle()?;
        }
        let anywhere = self.rules.scattered || (last && file.stretches.is_empty());
        if self.rules.dedup && !file.sparse && anywhere {
            // A tail behind the inode needs all other blocks in one row.
            let tailed = self.raw_ends.get(&digest).filter(|(start, _)| last && file.in_row(*start));
            let whole = self.raw_pieces.get(&digest).map(|start| (*start, Kept::NONE));
            if let Some((start, tail)) = tailed.copied().or(whole) {
                self.counts.duplicate_bytes += len as u64;
                self.save(len as u64);
                file.push(start, self.rules.piece);
                file.tail = tail;
                return Ok(());
            }
        }
        self.packs(len);
        let in_row = last && !file.sparse && !self.rules.chunks && file.in_row(self.pos);
        let whole = if in_row { self.blocks_of(len) } else { len };
        let tail = self.keep(&bytes[whole..])?;
        if tail.len() > 0 {
            self.raw_ends.insert(digest, (self.pos, tail));
        } else if !file.sparse {
            self.raw_pieces.insert(digest, self.pos);
        }
        file.push(self.pos, self.rules.piece);
        file.tail = tail;
        self.write_raw(bytes, whole)
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
        let (output, stages, at) = (self.tools.output, &self.tools.progress.stages, self.base + self.pos);
        self.pos += (len + padding) as u64;
        let ticket = self.tools.pool.submit(move |_| {
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
