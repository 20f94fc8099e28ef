//! Uncompressed file data. Its length is known in advance, so its position is too, and the workers
//! write it themselves.

use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::{Buffer, Digest};

use super::layout::RawBlocks;
use super::writer::DataWriter;
use crate::Result;
use crate::build::{BatchPart, FileSegment, UnreadFile};
use crate::erofs::writer::stored::tails::{KeptTail, tail_max};

/// Bytes of memory that a copy in flight counts as. It holds only ranges, but the number of copies needs a limit, too.
/// Not measured.
const COPY_WEIGHT: usize = 4096;

impl DataWriter<'_, '_> {
    /// Writes whole files shorter than a piece.
    pub(super) fn store_batch(&mut self, bytes: Buffer, fresh: &[(u32, BatchPart)]) -> Result<()> {
        let block = self.rules.block();
        if self.rules.align > block as u64 {
            return self.store_aligned(bytes, fresh);
        }
        let mut parts = Vec::with_capacity(fresh.len());
        let mut len = 0;
        for (file, (range, _)) in fresh {
            self.tally.packs(range.len());
            let whole = self.len_in_blocks(range.len());
            // The region is reserved below from this position on: nothing else is placed meanwhile.
            let start = self.zone.pos() + len as u64;
            let tail = self.keep_tail(&bytes[range.start + whole..range.end])?;
            let mut blocks = RawBlocks::new(&self.rules);
            blocks.add(start, tail);
            self.files.put(*file, blocks.finish());
            if whole > 0 {
                parts.push((range.start..range.start + whole, len));
                len += whole.next_multiple_of(block);
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        let mut region = self.regions.take(len);
        let reserved = self.zone.reserve(len);
        // Both the batch and the region are in memory until it is written.
        self.jobs.write(2 * len, move || {
            let mut done = 0;
            for (range, to) in parts {
                // Buffers are reused: what lies between files must be zeros, not what was there before.
                region[done..to].fill(0);
                done = to + range.len();
                region[to..done].copy_from_slice(&bytes[range]);
            }
            region[done..].fill(0);
            reserved.write(&region, 0)?;
            Ok(region.len() as u64)
        });
        self.make_room()
    }

    /// Writes whole files shorter than a piece, each from a multiple of the alignment on.
    fn store_aligned(&mut self, bytes: Buffer, fresh: &[(u32, BatchPart)]) -> Result<()> {
        // A buffer for each file would be as large as that of all of them.
        let bytes = Arc::new(bytes);
        for (file, (range, _)) in fresh {
            self.tally.packs(range.len());
            let whole = self.len_in_blocks(range.len());
            let tail = self.keep_tail(&bytes[range.start + whole..range.end])?;
            // A file that lies after its inode as a whole has no blocks to align.
            if whole > 0 {
                self.align_next()?;
            }
            let mut blocks = RawBlocks::new(&self.rules);
            blocks.add(self.zone.pos(), tail);
            self.files.put(*file, blocks.finish());
            self.write_blocks(&bytes, range.start..range.start + whole)?;
        }
        Ok(())
    }

    /// Writes zeros up to the next multiple of the alignment.
    pub(super) fn align_next(&mut self) -> Result<()> {
        let pos = self.zone.pos();
        let gap = usize::try_from(pos.next_multiple_of(self.rules.align) - pos).expect("at most the alignment");
        if gap == 0 {
            return Ok(());
        }
        let reserved = self.zone.reserve(gap);
        self.jobs.write(gap, move || {
            reserved.write(&vec![0; gap], 0)?;
            Ok(gap as u64)
        });
        self.make_room()
    }

    /// Writes whole files shorter than a piece that are to be stored among compressed ones.
    pub(super) fn store_among_compressed(&mut self, bytes: &[u8], mut files: Vec<(u32, BatchPart)>) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        // As in `store_sparse_piece`: the order of data must not depend on the progress of the workers.
        self.settle()?;
        // A copy, because `bytes` goes to the workers that compress the other files of the batch.
        let mut own = self.regions.take(files.iter().map(|(_, (range, _))| range.len()).sum());
        let mut at = 0;
        for (_, (range, _)) in &mut files {
            let to = at..at + range.len();
            own[to.clone()].copy_from_slice(&bytes[range.clone()]);
            at = to.end;
            *range = to;
        }
        self.store_batch(own, &files)
    }

    /// Writes the next piece of a file that may share pieces with others.
    pub(super) fn store_piece(
        &mut self,
        blocks: &mut RawBlocks,
        bytes: Buffer,
        digest: Digest,
        last: bool,
    ) -> Result<()> {
        let len = bytes.len();
        // Without chunk-based files, which older kernels lack, the blocks of a file are consecutive: only a
        // file of one piece can use those of another.
        if self.rules.scattered || (last && blocks.is_empty()) {
            // A tail after the inode requires all other blocks to be consecutive.
            let tailed = self.sharing.tailed(&digest).filter(|(start, _)| last && blocks.goes_on(*start));
            let found = tailed.or_else(|| self.sharing.blocks(&digest).map(|start| (start, KeptTail::NONE)));
            if let Some((start, tail)) = found {
                self.tally.saves(len);
                blocks.add(start, tail);
                return Ok(());
            }
        }
        self.tally.packs(len);
        let is_tail = last && !self.rules.chunks && self.len_in_blocks(len) == 0;
        if self.rules.align > self.rules.block() as u64 && !blocks.has_data() && !is_tail {
            self.align_next()?;
        }
        let start = self.zone.pos();
        let may_have_tail = last && !self.rules.chunks && blocks.goes_on(start);
        let whole = if may_have_tail { self.len_in_blocks(len) } else { len };
        let tail = self.keep_tail(&bytes[whole..])?;
        self.sharing.add_blocks(digest, start, tail);
        blocks.add(start, tail);
        self.write_raw(bytes, whole)
    }

    /// Writes the next piece of a file with holes.
    pub(super) fn store_sparse_piece(&mut self, blocks: &mut RawBlocks, bytes: Buffer) -> Result<()> {
        if !blocks.has_data() {
            // Clusters get their positions when they are done, these pieces immediately: the order
            // must not depend on the progress of the workers.
            self.settle()?;
        }
        self.tally.packs(bytes.len());
        blocks.push(self.zone.pos());
        let len = bytes.len();
        self.write_raw(bytes, len)
    }

    /// Returns how many of `len` bytes take blocks; the rest goes after the inode.
    pub(super) fn len_in_blocks(&self, len: usize) -> usize {
        let block = self.rules.block();
        // In the chunk-based layout, only the addresses of chunks follow the inode.
        let tail_follows = self.rules.inline_tails && !self.rules.chunks && len % block <= tail_max(block);
        if tail_follows { len / block * block } else { len }
    }

    /// Writes the first `len` bytes of a buffer.
    fn write_raw(&mut self, bytes: Buffer, len: usize) -> Result<()> {
        self.write_blocks(&Arc::new(bytes), 0..len)
    }

    /// Writes some bytes of a buffer as whole blocks.
    fn write_blocks(&mut self, bytes: &Arc<Buffer>, range: Range<usize>) -> Result<()> {
        let len = range.len();
        if len == 0 {
            return Ok(());
        }
        let padding = len.next_multiple_of(self.rules.block()) - len;
        let bytes = Arc::clone(bytes);
        let reserved = self.zone.reserve(len + padding);
        self.jobs.write(len, move || {
            reserved.write(&bytes[range], 0)?;
            if padding > 0 {
                reserved.write(&vec![0; padding], len as u64)?;
            }
            Ok((len + padding) as u64)
        });
        self.make_room()
    }

    /// Receives a whole file, which is stored even if another one is equal.
    pub(super) fn add_unread(&mut self, file: u32, unread: &UnreadFile) -> Result<()> {
        let mut blocks = RawBlocks::new(&self.rules);
        // Only the tail is read. Length, tail and holes stand for the contents in the digest.
        self.content.update(&self.files.size(file).to_le_bytes());
        self.content.update(&unread.tail);
        for (n, segment) in unread.segments.iter().enumerate() {
            if segment.hole {
                self.content.update(&[segment.offset, segment.len].map(u64::to_le_bytes).concat());
                blocks.push_hole(segment.len);
                self.tally.hole(segment.len);
            } else {
                self.copy_segment(file, &mut blocks, unread, *segment, n + 1 == unread.segments.len())?;
            }
        }
        self.files.put(file, blocks.finish());
        Ok(())
    }

    /// Has the next segment of an unread file copied; `last` says that no segment follows.
    fn copy_segment(
        &mut self,
        file: u32,
        blocks: &mut RawBlocks,
        unread: &UnreadFile,
        segment: FileSegment,
        last: bool,
    ) -> Result<()> {
        let piece = self.rules.piece as u64;
        let block = self.rules.block() as u64;
        if self.rules.align > block && !blocks.has_data() {
            self.align_next()?;
        }
        let start = self.zone.pos();
        let mut kept = KeptTail::NONE;
        for at in (0..segment.len).step_by(self.rules.piece) {
            let len = usize::try_from(piece.min(segment.len - at)).expect("at most a piece");
            let is_end = last && at + len as u64 == segment.len;
            if is_end && blocks.goes_on(start + at) && self.len_in_blocks(len) < len {
                kept = self.keep_tail(&unread.tail)?;
            }
            blocks.add(start + at, kept);
            self.tally.packs(len);
        }
        let stored = segment.len - kept.len() as u64;
        let whole = stored / block * block;
        // The kernel copies whole blocks. If the last one is shorter, its bytes are written with zeros after
        // them.
        let mut end = if whole < stored { unread.tail.clone() } else { Vec::new() };
        end.resize(end.len().next_multiple_of(self.rules.block()), 0);
        let reserved = self.zone.reserve(usize::try_from(whole).expect("at most a segment") + end.len());
        let range = unread.range(segment.offset, whole);
        self.jobs.copy(COPY_WEIGHT + end.len(), file, move || {
            let read = reserved.copy(&range)?;
            reserved.write(&end, whole)?;
            Ok(read.map(|()| whole + end.len() as u64))
        });
        self.make_room()
    }
}
