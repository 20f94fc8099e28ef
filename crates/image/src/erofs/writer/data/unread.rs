//! Files that a build does not read: their blocks are reserved, and workers have them copied.

use super::Data;
use super::open::Blocks;
use crate::Result;
use crate::build::{Segment, Unread};
use crate::erofs::writer::keep::Kept;

/// Bytes of memory that a copy in flight counts as.
const HELD: usize = 4096;

impl Data<'_, '_> {
    /// Receives a whole file, which is stored even if another one is equal.
    pub(super) fn unread(&mut self, file: u32, unread: &Unread) -> Result<()> {
        let mut blocks = Blocks::new(&self.rules);
        self.content.update(&self.files.size(file).to_le_bytes());
        self.content.update(&unread.tail);
        for (n, segment) in unread.segments.iter().enumerate() {
            if segment.hole {
                self.content.update(&[segment.offset, segment.len].map(u64::to_le_bytes).concat());
                blocks.push_hole(segment.len);
                self.tally.hole(segment.len);
            } else {
                self.copy(file, &mut blocks, unread, *segment, n + 1 == unread.segments.len())?;
            }
        }
        self.files.put(file, blocks.finish());
        Ok(())
    }

    /// Has the next data of an unread file copied.
    fn copy(&mut self, file: u32, blocks: &mut Blocks, unread: &Unread, segment: Segment, last: bool) -> Result<()> {
        let (piece, block) = (self.rules.piece as u64, self.rules.block() as u64);
        if self.rules.align > block && !blocks.has_data() {
            self.align()?;
        }
        let (start, mut kept) = (self.zone.pos(), Kept::NONE);
        for at in (0..segment.len).step_by(self.rules.piece) {
            let len = usize::try_from(piece.min(segment.len - at)).expect("at most a piece");
            let is_end = last && at + len as u64 == segment.len;
            if is_end && blocks.goes_on(start + at) && self.blocks_of(len) < len {
                kept = self.keep(&unread.tail)?;
            }
            blocks.add(start + at, kept);
            self.tally.packs(len);
        }
        let stored = segment.len - kept.len() as u64;
        let whole = stored / block * block;
        let mut end = if whole < stored { unread.tail.clone() } else { Vec::new() };
        end.resize(end.len().next_multiple_of(self.rules.block()), 0);
        let reserved = self.zone.reserve(usize::try_from(whole).expect("at most a segment") + end.len());
        let range = unread.range(segment.offset, whole);
        self.jobs.copy(HELD + end.len(), file, move || {
            let read = reserved.copy(&range)?;
            reserved.write(&end, whole)?;
            Ok(read.map(|()| whole + end.len() as u64))
        });
        self.make_room()
    }
}
