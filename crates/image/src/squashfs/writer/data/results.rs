//! Results of the workers, in order: places blocks, and has them written.

use packfs_blocks::dedup::BlockNumber;
use packfs_blocks::pipeline::JobTicket;
use packfs_blocks::stages::Stage;

use super::stored::BlockPlace;
use super::{ALIGNMENT, SquashfsData, WriteItem};
use crate::build::UnitStretch;
use crate::squashfs::format::DATA_RAW;
use crate::squashfs::writer::pack::PackedBlock;
use crate::{Error, Result};

impl SquashfsData<'_, '_> {
    /// Queues an item that holds `held` bytes, and writes those that are due.
    pub(super) fn push_item(&mut self, ticket: JobTicket<Result<WriteItem>>, held: usize) -> Result<()> {
        self.window.push(ticket, held);
        while self.window.is_full() {
            self.take_oldest().map_or(Ok(()), |item| self.write_item(item?))?;
        }
        while let Some(item) = self.window.pop_ready() {
            self.write_item(item?)?;
        }
        Ok(())
    }

    /// Waits for the oldest item.
    pub(super) fn take_oldest(&mut self) -> Option<Result<WriteItem>> {
        self.tools.progress.stages.time(Stage::Wait, || self.window.pop())
    }

    pub(super) fn write_item(&mut self, item: WriteItem) -> Result<()> {
        match item {
            WriteItem::Packed(block, content_len) => self.place_block(block, content_len),
            WriteItem::Gap => self.write_gap(),
            WriteItem::Copy(from) => {
                let block = self.read_copy(from)?;
                // Nothing is noted of a copy, so the length of its data does not matter.
                self.place_block(block, 0)
            }
        }
    }

    /// Writes zeros up to the next aligned position.
    fn write_gap(&mut self) -> Result<()> {
        let len = self.pos.next_multiple_of(ALIGNMENT) - self.pos;
        let mut zeros = self.buffers.take(usize::try_from(len).expect("less than a page"));
        zeros.fill(0);
        let at = self.base + self.pos;
        self.pos += len;
        if len > 0 { self.writes.write(zeros, at) } else { Ok(()) }
    }

    /// Reads a placed block back in its compressed form.
    fn read_copy(&mut self, from: BlockNumber) -> Result<PackedBlock> {
        let place = self.places[from as usize];
        let mut bytes = self.buffers.take(usize::try_from(place.len()).expect("at most a block"));
        let target = self.tools.output.target();
        let at = self.base + place.start;
        // The block may still be on its way to the output.
        self.writes.until(at + place.len())?;
        self.tools.output.read_exact_at(&mut bytes, at).map_err(Error::io("cannot read back", target))?;
        self.counts.copied_blocks += 1;
        Ok(PackedBlock { bytes, word: place.word, noted: None, older: self.ledger.older(place.start) })
    }

    /// Places a block at the next position, and has it written. `content_len` is the length of its data.
    fn place_block(&mut self, block: PackedBlock, content_len: usize) -> Result<()> {
        let PackedBlock { bytes, word, noted, older } = block;
        self.ledger.wrote(self.pos, bytes.len() as u64, older);
        if let Some(noted) = noted {
            let content = u32::try_from(content_len).expect("a block");
            let stored = word & !DATA_RAW;
            let stretch = UnitStretch { start: self.pos, stored, content, raw: word & DATA_RAW != 0 };
            self.ledger.note(noted, content_len as u64, 0, std::iter::once(stretch));
        }
        self.places.push(BlockPlace { start: self.pos, word });
        self.counts.blocks += 1;
        self.counts.raw_blocks += u64::from(word & DATA_RAW != 0);
        let at = self.base + self.pos;
        self.pos += bytes.len() as u64;
        self.writes.write(bytes, at)
    }
}
